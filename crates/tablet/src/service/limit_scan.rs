//! LimitScan of log tables (wire.md §4.11, tables.md §6): the batches that hold
//! the last `limit` committed offsets.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_net::{Reply, Response, Segment};
use mainstem_protocol::messages as pb;
use mainstem_protocol::records::limit_scan_response;

use crate::replica::segments;

use super::{Refusal, TabletService, request, table_bucket};

/// Bytes of one answer: the scan gives the newest rows that fit.
const MAX_BYTES: u64 = 64 << 20;

impl TabletService {
    pub(super) fn limit_scan(self: &Arc<Self>, body: Bytes) -> Reply {
        let request: pb::LimitScanRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        Reply::Now(match self.last_records(&request) {
            Ok((is_log_table, records)) => {
                let fields = pb::LimitScanResponse {
                    is_log_table: Some(is_log_table),
                    ..pb::LimitScanResponse::default()
                };
                Response::Success(limit_scan_response(fields, Some(records)))
            }
            // In the body the Java client would not look at it (wire.md §5.3).
            Err(refusal) => refusal.into(),
        })
    }

    fn last_records(
        &self,
        request: &pb::LimitScanRequest,
    ) -> Result<(bool, Vec<Segment>), Refusal> {
        let bucket = table_bucket(
            request.table_id.unwrap_or_default(),
            request.partition_id,
            request.bucket_id.unwrap_or_default(),
        );
        let replica = self.replica(&bucket, request.routing_bucket_count)?;
        replica.check_leader()?;
        if replica.table().has_primary_key {
            return Err(Refusal::new(
                2,
                "limit scans of primary-key tables are not served yet",
            ));
        }
        let limit = i64::from(request.limit.unwrap_or_default()).max(0);
        let end = replica.high_watermark();
        let start = (end - limit).max(replica.log_start_offset());
        if limit == 0 || start >= end {
            return Ok((true, Vec::new()));
        }
        let slice = replica.slice(start, MAX_BYTES, end, true)?;
        let records = segments(slice)
            .map_err(|error| Refusal::new(10, format!("the log cannot be read: {error}")))?;
        Ok((true, records))
    }
}
