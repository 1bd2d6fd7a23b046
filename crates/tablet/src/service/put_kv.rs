//! PutKv (wire.md §4.8, 6.6).

use std::sync::Arc;

use bytes::Bytes;
use mainstem_kv::PutMode;
use mainstem_net::Reply;
use mainstem_protocol::messages as pb;
use mainstem_types::TableBucket;

use super::write::{Written, answer_when_committed, check_acks, last_of_each_bucket};
use super::{
    Refusal, TabletService, check_key_version, check_not_historical, off_the_runtime, request,
    success, table_bucket,
};
use crate::replica::{AppendOutcome, Replica};

/// `agg_mode` that puts the merge engine aside.
const OVERWRITE: i32 = 1;
/// Version from which on clients know 72.
const KNOWS_BACK_PRESSURE: i16 = 2;
/// Requests up to this size are worked on where they arrive, if nothing has to be
/// opened: handing them to another thread would take longer.
const SMALL_REQUEST_BYTES: usize = 32 << 10;

/// What all entries of a request have in common.
struct Put {
    acks: i32,
    target_columns: Vec<i32>,
    overwrite: bool,
    api_version: i16,
}

impl TabletService {
    pub(super) fn put_kv(self: &Arc<Self>, api_version: i16, body: Bytes) -> Reply {
        let size = body.len();
        let request: pb::PutKvRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        let table_id = request.table_id.unwrap_or_default();
        let timeout_ms = request.timeout_ms.unwrap_or_default();
        let put = Put {
            acks: request.acks.unwrap_or_default(),
            target_columns: request.target_columns,
            overwrite: request.agg_mode == Some(OVERWRITE),
            api_version,
        };
        let mut entries = last_of_each_bucket(request.buckets_req, |entry| {
            table_bucket(
                table_id,
                entry.partition_id,
                entry.bucket_id.unwrap_or_default(),
            )
        });
        let open = entries.iter().all(|(bucket, _)| {
            let replica = self.replicas.get(bucket);
            replica.is_none_or(|replica| replica.rows_are_ready())
        });
        let mut write = || -> Vec<Written> {
            entries
                .iter_mut()
                .map(|(bucket, entry)| Written::new(self.put(bucket, entry, &put), put.acks))
                .collect()
        };
        let written = match open && size <= SMALL_REQUEST_BYTES {
            true => write(),
            false => off_the_runtime(write),
        };
        let service = self.clone();
        answer_when_committed(written, timeout_ms, move |outcomes| {
            let buckets_resp = entries
                .iter()
                .zip(outcomes)
                .map(|((bucket, entry), outcome)| service.put_answer(bucket, entry, outcome))
                .collect();
            success(&pb::PutKvResponse { buckets_resp })
        })
    }

    fn put(
        &self,
        bucket: &TableBucket,
        entry: &mut pb::PbPutKvReqForBucket,
        put: &Put,
    ) -> Result<(AppendOutcome, Arc<Replica>), Refusal> {
        check_acks(put.acks)?;
        let replica = self.replica(bucket, entry.routing_bucket_count)?;
        check_not_historical(entry.original_partition_name.as_deref())?;
        check_key_version(&replica, put.api_version)?;
        // Taken, so that the request's memory is free while it waits.
        let records = entry.records.take().unwrap_or_default();
        let bytes = records.len() as u64;
        let mode = PutMode {
            target_columns: &put.target_columns,
            overwrite: put.overwrite,
        };
        let outcome = replica.put(records, mode, put.acks).map_err(|refusal| {
            self.metrics.put_failed(replica.metrics());
            for_version(refusal, put.api_version)
        })?;
        if !outcome.duplicate {
            self.metrics.put(replica.metrics(), outcome.records, bytes);
        }
        Ok((outcome, replica))
    }

    fn put_answer(
        &self,
        bucket: &TableBucket,
        entry: &pb::PbPutKvReqForBucket,
        outcome: Result<AppendOutcome, Refusal>,
    ) -> pb::PbPutKvRespForBucket {
        let pressure = self.replicas.get(bucket).map(|replica| replica.pressure());
        let mut response = pb::PbPutKvRespForBucket {
            partition_id: entry.partition_id,
            bucket_id: entry.bucket_id,
            pressure: pressure.filter(|pressure| *pressure > 0.0),
            original_partition_name: entry.original_partition_name.clone(),
            ..pb::PbPutKvRespForBucket::default()
        };
        match outcome {
            Ok(outcome) => response.log_end_offset = Some(outcome.end_offset),
            Err(refusal) => {
                response.error_code = Some(refusal.code);
                response.error_message = Some(refusal.message);
            }
        }
        response
    }
}

/// Older clients take 72 for an error that no retry helps against.
fn for_version(mut refusal: Refusal, api_version: i16) -> Refusal {
    if refusal.code == 72 && api_version < KNOWS_BACK_PRESSURE {
        refusal.code = 11;
    }
    refusal
}
