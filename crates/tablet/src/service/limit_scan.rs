//! LimitScan of log tables (wire.md §4.11, tables.md §6): the batches that hold
//! the last `limit` committed offsets.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_log::LogSlice;
use mainstem_net::{Reply, Response, Segment};
use mainstem_protocol::messages as pb;
use mainstem_protocol::records::limit_scan_response;

use super::{Refusal, TabletService, blocking, request, table_bucket};
use crate::replica::{Replica, segments};

/// Bytes of one answer, which holds the newest rows that fit.
const MAX_BYTES: u64 = 64 << 20;
/// Ranges of files in one answer, each of which keeps a descriptor open.
const MAX_RANGES: usize = 1_024;

impl TabletService {
    pub(super) fn limit_scan(self: &Arc<Self>, body: Bytes) -> Reply {
        let request: pb::LimitScanRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        // The rows may lie anywhere in the log, and on the disk only.
        let service = self.clone();
        blocking(move || match service.last_records(&request) {
            Ok(records) => {
                let fields = pb::LimitScanResponse {
                    is_log_table: Some(true),
                    ..pb::LimitScanResponse::default()
                };
                Response::Success(limit_scan_response(fields, Some(records)))
            }
            // In the body the Java client would not look at it (wire.md §5.3).
            Err(refusal) => refusal.into(),
        })
    }

    fn last_records(&self, request: &pb::LimitScanRequest) -> Result<Vec<Segment>, Refusal> {
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
            return Ok(Vec::new());
        }
        let mut records = Vec::new();
        for slice in newest(&replica, start, end)? {
            let parts = segments(slice)
                .map_err(|error| Refusal::new(10, format!("the log cannot be read: {error}")))?;
            records.extend(parts);
        }
        Ok(records)
    }
}

/// The batches from the one that holds `start` to `end`; if they are too many
/// for an answer, the newest that are not.
fn newest(replica: &Replica, start: i64, end: i64) -> Result<Vec<LogSlice>, Refusal> {
    if let Some(slices) = between(replica, start, end)? {
        return Ok(slices);
    }
    let (mut too_old, mut first) = (start, end - 1);
    let mut found = between(replica, first, end)?.unwrap_or_default();
    while first - too_old > 1 {
        let middle = too_old + (first - too_old) / 2;
        match between(replica, middle, end)? {
            Some(slices) => (first, found) = (middle, slices),
            None => too_old = middle,
        }
    }
    Ok(found)
}

/// The batches of a range of offsets; `None` if they are too many for an answer.
/// A single one never is.
fn between(replica: &Replica, start: i64, end: i64) -> Result<Option<Vec<LogSlice>>, Refusal> {
    let mut slices: Vec<LogSlice> = Vec::new();
    let (mut next, mut bytes, mut ranges) = (start, 0, 0);
    while next < end {
        let slice = replica.slice(
            next,
            MAX_BYTES.saturating_sub(bytes),
            end,
            slices.is_empty(),
        )?;
        bytes += slice.len;
        ranges += slice.parts.len();
        if slice.is_empty() || ranges > MAX_RANGES {
            return Ok(None);
        }
        next = slice.end_offset;
        slices.push(slice);
    }
    Ok(Some(slices))
}
