//! GetTableStats (wire.md §4.11).

use std::sync::Arc;

use bytes::Bytes;
use mainstem_net::{Reply, Response};
use mainstem_protocol::messages as pb;
use mainstem_types::TableBucket;

use super::{Refusal, TabletService, blocking, request, success, table_bucket};

impl TabletService {
    pub(super) fn table_stats(self: &Arc<Self>, body: Bytes) -> Reply {
        let request: pb::GetTableStatsRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        let table_id = request.table_id.unwrap_or_default();
        // Rows that are closed have to be opened to be counted.
        let open = request.buckets_req.iter().all(|asked| {
            let replica = self.replicas.get(&bucket_of(table_id, asked));
            replica.is_none_or(|replica| !replica.has_rows() || replica.rows_are_ready())
        });
        let service = self.clone();
        let answer = move || service.row_counts(table_id, &request.buckets_req);
        match open {
            true => Reply::Now(answer()),
            false => blocking(answer),
        }
    }

    fn row_counts(&self, table_id: i64, buckets: &[pb::PbTableStatsReqForBucket]) -> Response {
        let buckets_resp = buckets
            .iter()
            .map(|asked| {
                let mut entry = pb::PbTableStatsRespForBucket {
                    partition_id: asked.partition_id,
                    bucket_id: asked.bucket_id,
                    ..pb::PbTableStatsRespForBucket::default()
                };
                match self.row_count(table_id, asked) {
                    Ok(rows) => entry.row_count = Some(rows),
                    Err(refusal) => {
                        entry.error_code = Some(refusal.code);
                        entry.error_message = Some(refusal.message);
                    }
                }
                entry
            })
            .collect();
        success(&pb::GetTableStatsResponse { buckets_resp })
    }

    fn row_count(
        &self,
        table_id: i64,
        asked: &pb::PbTableStatsReqForBucket,
    ) -> Result<i64, Refusal> {
        let replica = self.replica(&bucket_of(table_id, asked), asked.routing_bucket_count)?;
        replica.check_leader()?;
        if replica.has_rows() {
            return replica.row_count();
        }
        Ok(replica.high_watermark() - replica.log_start_offset())
    }
}

fn bucket_of(table_id: i64, asked: &pb::PbTableStatsReqForBucket) -> TableBucket {
    table_bucket(
        table_id,
        asked.partition_id,
        asked.bucket_id.unwrap_or_default(),
    )
}
