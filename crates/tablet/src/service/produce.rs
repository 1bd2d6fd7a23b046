//! ProduceLog (wire.md §4.8, 6.3).

use std::sync::Arc;

use bytes::Bytes;
use mainstem_net::Reply;
use mainstem_protocol::messages as pb;
use mainstem_types::TableBucket;

use super::write::{Written, answer_when_committed, check_acks, last_of_each_bucket};
use super::{Refusal, TabletService, request, success, table_bucket};
use crate::replica::{AppendOutcome, Replica};

impl TabletService {
    pub(super) fn produce_log(self: &Arc<Self>, body: Bytes) -> Reply {
        let request: pb::ProduceLogRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        let acks = request.acks.unwrap_or_default();
        let table_id = request.table_id.unwrap_or_default();
        let timeout_ms = request.timeout_ms.unwrap_or_default();
        let mut entries = last_of_each_bucket(request.buckets_req, |entry| {
            table_bucket(
                table_id,
                entry.partition_id,
                entry.bucket_id.unwrap_or_default(),
            )
        });
        let written = entries
            .iter_mut()
            .map(|(bucket, entry)| Written::new(self.append(bucket, entry, acks), acks))
            .collect();
        answer_when_committed(written, timeout_ms, move |outcomes| {
            let buckets_resp = entries
                .iter()
                .zip(outcomes)
                .map(|((_, entry), outcome)| entry_answer(entry, outcome))
                .collect();
            success(&pb::ProduceLogResponse { buckets_resp })
        })
    }

    fn append(
        &self,
        bucket: &TableBucket,
        entry: &mut pb::PbProduceLogReqForBucket,
        acks: i32,
    ) -> Result<(AppendOutcome, Arc<Replica>), Refusal> {
        check_acks(acks)?;
        let replica = self.replica(bucket, entry.routing_bucket_count)?;
        // Taken, so that the request's memory is free while it waits.
        let records = entry.records.take().unwrap_or_default();
        let bytes = records.len() as u64;
        let outcome = replica.append(records, acks).inspect_err(|_| {
            self.metrics.produce_failed(replica.metrics());
        })?;
        if !outcome.duplicate {
            self.metrics
                .produced(replica.metrics(), outcome.records, bytes);
        }
        Ok((outcome, replica))
    }
}

fn entry_answer(
    entry: &pb::PbProduceLogReqForBucket,
    outcome: Result<AppendOutcome, Refusal>,
) -> pb::PbProduceLogRespForBucket {
    let mut response = pb::PbProduceLogRespForBucket {
        partition_id: entry.partition_id,
        bucket_id: entry.bucket_id,
        ..pb::PbProduceLogRespForBucket::default()
    };
    match outcome {
        Ok(outcome) => response.base_offset = Some(outcome.base_offset),
        Err(refusal) => {
            response.error_code = Some(refusal.code);
            response.error_message = Some(refusal.message);
        }
    }
    response
}
