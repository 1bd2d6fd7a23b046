//! GetTableStats (wire.md §4.11).

use std::sync::Arc;

use bytes::Bytes;
use mainstem_net::Reply;
use mainstem_protocol::messages as pb;

use super::{Refusal, TabletService, request, success, table_bucket};

impl TabletService {
    pub(super) fn table_stats(self: &Arc<Self>, body: Bytes) -> Reply {
        let request: pb::GetTableStatsRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        let table_id = request.table_id.unwrap_or_default();
        let buckets_resp = request
            .buckets_req
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
        Reply::Now(success(&pb::GetTableStatsResponse { buckets_resp }))
    }

    fn row_count(
        &self,
        table_id: i64,
        asked: &pb::PbTableStatsReqForBucket,
    ) -> Result<i64, Refusal> {
        let bucket = table_bucket(
            table_id,
            asked.partition_id,
            asked.bucket_id.unwrap_or_default(),
        );
        let replica = self.replica(&bucket, asked.routing_bucket_count)?;
        replica.check_leader()?;
        // The rows of a primary-key table are not those of its log.
        if replica.table().has_primary_key && replica.high_watermark() > 0 {
            return Err(Refusal::new(
                15,
                "the row count of this table is not maintained",
            ));
        }
        Ok(replica.high_watermark() - replica.log_start_offset())
    }
}
