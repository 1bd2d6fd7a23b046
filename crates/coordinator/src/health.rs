//! Health of the cluster (cluster.md §8.5, wire.md §4.14).

use mainstem_meta::BucketState;
use mainstem_protocol::messages::{GetClusterHealthRequest, GetClusterHealthResponse};

use crate::{ApiError, Coordinator};

const GREEN: i32 = 0;
const YELLOW: i32 = 1;
const RED: i32 = 2;

/// Replicas and buckets, counted.
#[derive(Default)]
struct Count {
    replicas: i32,
    in_sync: i32,
    buckets: i32,
    led: i32,
}

impl Count {
    fn add(&mut self, buckets: &[BucketState], coordinator: &Coordinator) {
        let add = |sum: &mut i32, count: usize| {
            *sum = sum.saturating_add(i32::try_from(count).unwrap_or(i32::MAX));
        };
        for bucket in buckets {
            add(&mut self.replicas, bucket.replicas.len());
            add(&mut self.in_sync, bucket.isr.len());
            add(&mut self.buckets, 1);
            let led = bucket
                .leader
                .is_some_and(|leader| coordinator.servers.is_live(leader));
            add(&mut self.led, usize::from(led));
        }
    }

    fn status(&self) -> i32 {
        if self.led < self.buckets {
            RED
        } else if self.in_sync < self.replicas {
            YELLOW
        } else {
            GREEN
        }
    }
}

impl Coordinator {
    pub(crate) fn get_cluster_health(
        &self,
        _request: GetClusterHealthRequest,
    ) -> Result<GetClusterHealthResponse, ApiError> {
        let mut count = Count::default();
        for table in self.catalog.tables() {
            count.add(&table.buckets, self);
        }
        for partition in self.catalog.partitions() {
            count.add(&partition.buckets, self);
        }
        Ok(GetClusterHealthResponse {
            num_replicas: Some(count.replicas),
            in_sync_replicas: Some(count.in_sync),
            num_leader_replicas: Some(count.buckets),
            active_leader_replicas: Some(count.led),
            status: Some(count.status()),
        })
    }
}
