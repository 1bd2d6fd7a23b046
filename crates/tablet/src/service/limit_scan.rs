//! LimitScan (wire.md §4.11, tables.md §6): of a log table the batches that hold
//! the last `limit` committed offsets, of a primary-key table the first `limit` rows
//! in the order of their keys.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_format::ValueBatchBuilder;
use mainstem_log::LogSlice;
use mainstem_net::{Reply, Response, Segment};
use mainstem_protocol::messages as pb;
use mainstem_protocol::records::limit_scan_response;

use super::{Refusal, TabletService, blocking, request, table_bucket};
use crate::replica::{Replica, segments};

/// Bytes of one answer: of a log table it holds the newest rows that fit.
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
        blocking(move || match service.limited(&request) {
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

    fn limited(&self, request: &pb::LimitScanRequest) -> Result<(bool, Vec<Segment>), Refusal> {
        let bucket = table_bucket(
            request.table_id.unwrap_or_default(),
            request.partition_id,
            request.bucket_id.unwrap_or_default(),
        );
        let replica = self.replica(&bucket, request.routing_bucket_count)?;
        replica.check_leader()?;
        let limit = i64::from(request.limit.unwrap_or_default()).max(0);
        match replica.has_rows() {
            true => Ok((false, vec![first_rows(&replica, limit)?])),
            false => Ok((true, last_records(&replica, limit)?)),
        }
    }
}

fn first_rows(replica: &Replica, limit: i64) -> Result<Segment, Refusal> {
    let mut rows = ValueBatchBuilder::default();
    if limit > 0 {
        let mut snapshot = replica.row_snapshot()?;
        snapshot.seek(&[]);
        while let Some((_, value)) = snapshot.entry()
            && (rows.record_count() as u64) < limit.unsigned_abs()
        {
            let size = (rows.size_bytes() + value.len()) as u64;
            if size > MAX_BYTES && rows.record_count() > 0 {
                let message = format!(
                    "the first {limit} rows are more than {} MiB: ask for fewer, or scan the bucket",
                    MAX_BYTES >> 20
                );
                return Err(Refusal::new(-1, message));
            }
            rows.append(value)
                .map_err(|error| Refusal::new(-1, error.to_string()))?;
            snapshot.advance();
        }
        snapshot
            .check()
            .map_err(|error| replica.read_failed(error))?;
    }
    Ok(Segment::Bytes(rows.finish()))
}

fn last_records(replica: &Replica, limit: i64) -> Result<Vec<Segment>, Refusal> {
    let end = replica.high_watermark();
    let start = (end - limit).max(replica.log_start_offset());
    if limit == 0 || start >= end {
        return Ok(Vec::new());
    }
    let mut records = Vec::new();
    for slice in newest(replica, start, end)? {
        let parts = segments(slice)
            .map_err(|error| Refusal::new(10, format!("the log cannot be read: {error}")))?;
        records.extend(parts);
    }
    Ok(records)
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
