//! Where the buckets of a table and its partitions are.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_types::{BucketId, PartitionId, ServerId, TableBucket};

use crate::backoff::Attempts;
use crate::cluster::{Buckets, Client, TableInfo};
use crate::error::{ClientError, Result};

/// Answer for a partition that does not exist (wire.md §5.1).
const PARTITION_NOT_EXISTS: i32 = 36;
/// No leader now; the client's own answer.
const LEADER_NOT_AVAILABLE: i32 = 44;

/// The known buckets of one table. A missing partition is not remembered: it may
/// appear.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    client: Client,
    table: Arc<TableInfo>,
    known: HashMap<Option<String>, Buckets>,
}

impl Places {
    pub(crate) fn new(client: Client, table: Arc<TableInfo>) -> Self {
        Self {
            client,
            table,
            known: HashMap::new(),
        }
    }

    /// Number of buckets of a known partition, else that of new partitions.
    pub(crate) fn bucket_count(&self, partition: Option<&str>) -> i32 {
        let known = self.known.get(&partition.map(str::to_owned));
        let default = self.table.descriptor.bucket_count.unwrap_or(1);
        known.map_or(default, Buckets::count)
    }

    /// The buckets of a partition; `None` if there is no such partition. One
    /// attempt.
    pub(crate) async fn find(&mut self, partition: Option<&str>) -> Result<Option<Buckets>> {
        let key = partition.map(str::to_owned);
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(known.clone()));
        }
        match locate(&self.client, &self.table, partition).await {
            Ok(buckets) => {
                self.known.insert(key, buckets.clone());
                Ok(Some(buckets))
            }
            Err(ClientError::Api {
                code: PARTITION_NOT_EXISTS,
                ..
            }) if partition.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The buckets of a partition, which is created if it is missing. Waits for
    /// a server that restarts.
    pub(crate) async fn find_or_create(&mut self, partition: Option<&str>) -> Result<Buckets> {
        let client = self.client.clone();
        let mut attempts = Attempts::new(&client);
        loop {
            match self.try_find_or_create(partition).await {
                Err(error) => attempts.after(error).await?,
                found => return found,
            }
        }
    }

    async fn try_find_or_create(&mut self, partition: Option<&str>) -> Result<Buckets> {
        if let Some(found) = self.find(partition).await? {
            return Ok(found);
        }
        let name = partition.unwrap_or_default();
        let keys = self.table.descriptor.partition_keys.iter().cloned();
        let spec: Vec<_> = keys.zip(name.split('$').map(str::to_owned)).collect();
        self.client
            .create_partition(&self.table.path, &spec)
            .await?;
        let created = self.find(partition).await?;
        // Dropped again in the meantime, or not yet known to the server asked.
        created.ok_or_else(|| no_leader(format!("partition '{name}' of '{}'", self.table.path)))
    }

    /// Forgets a partition that has moved or is gone.
    pub(crate) fn forget(&mut self, partition: Option<&str>) {
        self.known.remove(&partition.map(str::to_owned));
    }

    /// All buckets of the table: of every partition it has now.
    pub(crate) async fn all(&mut self) -> Result<Vec<Place>> {
        let client = self.client.clone();
        let mut attempts = Attempts::new(&client);
        loop {
            match self.try_all().await {
                Err(error) => attempts.after(error).await?,
                found => return found,
            }
        }
    }

    async fn try_all(&mut self) -> Result<Vec<Place>> {
        let mut partitions = vec![None];
        if !self.table.descriptor.partition_keys.is_empty() {
            let listed = self.client.partitions(&self.table).await?;
            partitions = listed.into_iter().map(|p| Some(p.name)).collect();
        }
        let mut places = Vec::new();
        for partition in partitions {
            // One that was dropped since the list was made has no rows.
            let Some(buckets) = self.find(partition.as_deref()).await? else {
                continue;
            };
            for bucket in 0..buckets.count() {
                places.push(Place::new(&self.table, partition.clone(), &buckets, bucket));
            }
        }
        Ok(places)
    }
}

/// A bucket, and what a request to it needs.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Name of the partition; `None` without partitions.
    pub(crate) partition: Option<String>,
    /// The bucket.
    pub(crate) bucket: TableBucket,
    /// Buckets of the table or partition, with which keys were hashed.
    pub(crate) bucket_count: i32,
    /// Who led it when it was found.
    pub(crate) leader: Option<ServerId>,
}

impl Place {
    pub(crate) fn new(
        table: &TableInfo,
        partition: Option<String>,
        buckets: &Buckets,
        bucket: i32,
    ) -> Self {
        Self {
            partition,
            bucket: TableBucket {
                table_id: table.table_id,
                partition_id: buckets.partition_id,
                bucket_id: BucketId(bucket),
            },
            bucket_count: buckets.count(),
            leader: buckets.leader_of(bucket),
        }
    }

    /// Id of the partition as requests carry it.
    pub(crate) fn partition_id(&self) -> Option<i64> {
        self.bucket.partition_id.map(|PartitionId(id)| id)
    }
}

impl Buckets {
    /// Number of buckets.
    pub(crate) fn count(&self) -> i32 {
        i32::try_from(self.leaders.len()).unwrap_or(i32::MAX)
    }

    /// Leader of a bucket; an error that passes if it has none now.
    pub(crate) fn leader(&self, table: &TableInfo, bucket: i32) -> Result<ServerId> {
        let leader = self.leader_of(bucket);
        leader.ok_or_else(|| no_leader(format!("bucket {bucket} of '{}'", table.path)))
    }

    fn leader_of(&self, bucket: i32) -> Option<ServerId> {
        let index = usize::try_from(bucket).ok()?;
        self.leaders.get(index).copied().flatten()
    }
}

/// Asks where a partition's buckets are now.
pub(crate) async fn locate(
    client: &Client,
    table: &TableInfo,
    partition: Option<&str>,
) -> Result<Buckets> {
    match partition {
        Some(name) => client.partition_buckets(&table.path, name).await,
        None => client.table_buckets(&table.path).await,
    }
}

fn no_leader(what: String) -> ClientError {
    ClientError::Api {
        code: LEADER_NOT_AVAILABLE,
        message: format!("{what} has no leader now"),
    }
}
