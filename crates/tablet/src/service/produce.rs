//! ProduceLog (wire.md §4.8, 6.3).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_net::{Reply, Response};
use mainstem_protocol::messages as pb;
use mainstem_types::TableBucket;

use super::{Refusal, TabletService, request, success, table_bucket};
use crate::produce_wait::{Committed, ProduceWait};
use crate::replica::{AppendOutcome, Replica};

/// Clients give the time for replication in `timeout_ms`, some of them zero. The
/// sync of the local disk is waited for at least this long: answering 25 earlier
/// would only make them send again what is about to be durable.
const MIN_WAIT: Duration = Duration::from_secs(5);
/// No answer is held longer than this, whatever the client asks for.
const MAX_WAIT: Duration = Duration::from_secs(600);

struct Entry {
    bucket: TableBucket,
    request: pb::PbProduceLogReqForBucket,
}

enum Appended {
    Refused(Refusal),
    Done(AppendOutcome),
    Waits(AppendOutcome, Arc<Replica>),
}

impl TabletService {
    pub(super) fn produce_log(self: &Arc<Self>, body: Bytes) -> Reply {
        let request: pb::ProduceLogRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        let acks = request.acks.unwrap_or_default();
        let table_id = request.table_id.unwrap_or_default();
        let timeout_ms = request.timeout_ms.unwrap_or_default();
        let mut entries = last_of_each_bucket(table_id, request.buckets_req);
        let appended: Vec<Appended> = entries
            .iter_mut()
            .map(|entry| self.append(entry, acks))
            .collect();

        let waits: Vec<bool> = appended
            .iter()
            .map(|outcome| matches!(outcome, Appended::Waits(..)))
            .collect();
        if !waits.contains(&true) {
            return Reply::Now(answer(&entries, &appended, &[]));
        }
        let (wait, finished) = ProduceWait::new(&waits);
        for (position, outcome) in appended.iter().enumerate() {
            if let Appended::Waits(outcome, replica) = outcome {
                replica.notify_committed(outcome, &wait, position);
            }
        }
        let requested = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let limit = requested.clamp(MIN_WAIT, MAX_WAIT);
        Reply::Later(Box::pin(async move {
            // Either way the outcomes so far tell each bucket's state.
            let _ = tokio::time::timeout(limit, finished).await;
            answer(&entries, &appended, &wait.outcomes())
        }))
    }

    fn append(&self, entry: &mut Entry, acks: i32) -> Appended {
        match self.try_append(entry, acks) {
            Ok(appended) => appended,
            Err(refusal) => Appended::Refused(refusal),
        }
    }

    fn try_append(&self, entry: &mut Entry, acks: i32) -> Result<Appended, Refusal> {
        if !matches!(acks, -1..=1) {
            return Err(Refusal::new(
                18,
                format!("acks is {acks}; it must be -1, 0 or 1"),
            ));
        }
        let replica = self.replica(&entry.bucket, entry.request.routing_bucket_count)?;
        // Taken, so that the request's memory is free while it waits.
        let records = entry.request.records.take().unwrap_or_default();
        let bytes = records.len() as u64;
        let outcome: AppendOutcome = replica.append(records, acks).inspect_err(|_| {
            self.metrics.produce_failed(replica.metrics());
        })?;
        if !outcome.duplicate {
            self.metrics
                .produced(replica.metrics(), outcome.records, bytes);
        }
        Ok(if acks == 0 || outcome.committed {
            Appended::Done(outcome)
        } else {
            Appended::Waits(outcome, replica)
        })
    }
}

/// One entry per bucket, the last one if a bucket comes twice: as the reference
/// does, and exactly one answer per bucket.
fn last_of_each_bucket(table_id: i64, requests: Vec<pb::PbProduceLogReqForBucket>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(requests.len());
    let mut positions: HashMap<TableBucket, usize> = HashMap::with_capacity(requests.len());
    for request in requests {
        let bucket = table_bucket(
            table_id,
            request.partition_id,
            request.bucket_id.unwrap_or_default(),
        );
        if let Some(position) = positions.get(&bucket) {
            entries[*position].request = request;
        } else {
            positions.insert(bucket, entries.len());
            entries.push(Entry { bucket, request });
        }
    }
    entries
}

fn answer(entries: &[Entry], appended: &[Appended], outcomes: &[Option<Committed>]) -> Response {
    let buckets_resp = entries
        .iter()
        .zip(appended)
        .enumerate()
        .map(|(position, (entry, appended))| {
            let committed = outcomes
                .get(position)
                .copied()
                .unwrap_or(Some(Committed::Yes));
            let result = match appended {
                Appended::Refused(refusal) => Err(refusal.clone()),
                Appended::Done(outcome) => Ok(outcome.base_offset),
                Appended::Waits(outcome, _) => match committed {
                    Some(Committed::Yes) => Ok(outcome.base_offset),
                    Some(Committed::LostLeadership) => Err(Refusal::new(
                        12,
                        format!("this server no longer leads {}", entry.bucket),
                    )),
                    Some(Committed::StorageFailed) => Err(Refusal::new(
                        10,
                        format!("the disk failed while {} was written", entry.bucket),
                    )),
                    None => Err(Refusal::new(
                        25,
                        format!(
                            "{} was not committed in time; it may be later",
                            entry.bucket
                        ),
                    )),
                },
            };
            entry_answer(entry, result)
        })
        .collect();
    success(&pb::ProduceLogResponse { buckets_resp })
}

fn entry_answer(entry: &Entry, result: Result<i64, Refusal>) -> pb::PbProduceLogRespForBucket {
    let mut response = pb::PbProduceLogRespForBucket {
        partition_id: entry.request.partition_id,
        bucket_id: entry.request.bucket_id,
        ..pb::PbProduceLogRespForBucket::default()
    };
    match result {
        Ok(base_offset) => response.base_offset = Some(base_offset),
        Err(refusal) => {
            response.error_code = Some(refusal.code);
            response.error_message = Some(refusal.message);
        }
    }
    response
}
