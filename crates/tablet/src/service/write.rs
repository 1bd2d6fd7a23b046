//! What ProduceLog and PutKv share: entries are written one after the other, then
//! the request waits until all that need it are committed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainstem_net::{Reply, Response};
use mainstem_types::TableBucket;

use super::Refusal;
use crate::produce_wait::{Committed, ProduceWait};
use crate::replica::{AppendOutcome, Replica};

/// Clients give the time for replication in `timeout_ms`, some of them zero. The
/// sync of the local disk is waited for at least this long: answering 25 earlier
/// would only make them send again what is about to be durable.
const MIN_WAIT: Duration = Duration::from_secs(5);
/// No answer is held longer than this, whatever the client asks for.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// What became of an entry.
pub(super) enum Written {
    /// Nothing was stored.
    Refused(Refusal),
    /// That is the answer.
    Done(AppendOutcome),
    /// The answer is due when it is committed.
    Waits(AppendOutcome, Arc<Replica>),
}

/// What a client may ask for.
pub(super) fn check_acks(acks: i32) -> Result<(), Refusal> {
    if matches!(acks, -1..=1) {
        return Ok(());
    }
    let message = format!("acks is {acks}; it must be -1, 0 or 1");
    Err(Refusal::new(18, message))
}

impl Written {
    /// The outcome of a write that was asked for with these `acks`.
    pub fn new(written: Result<(AppendOutcome, Arc<Replica>), Refusal>, acks: i32) -> Self {
        match written {
            Err(refusal) => Self::Refused(refusal),
            Ok((outcome, _)) if acks == 0 || outcome.committed => Self::Done(outcome),
            Ok((outcome, replica)) => Self::Waits(outcome, replica),
        }
    }
}

/// Answers when every entry is refused, committed, or late.
pub(super) fn answer_when_committed(
    written: Vec<Written>,
    timeout_ms: i32,
    answer: impl FnOnce(Vec<Result<AppendOutcome, Refusal>>) -> Response + Send + 'static,
) -> Reply {
    let waits: Vec<bool> = written
        .iter()
        .map(|outcome| matches!(outcome, Written::Waits(..)))
        .collect();
    if !waits.contains(&true) {
        let outcomes = written
            .into_iter()
            .map(|w| outcome(w, Some(Committed::Yes)));
        return Reply::Now(answer(outcomes.collect()));
    }
    let (wait, finished) = ProduceWait::new(&waits);
    for (position, outcome) in written.iter().enumerate() {
        if let Written::Waits(outcome, replica) = outcome {
            replica.notify_committed(outcome, &wait, position);
        }
    }
    let requested = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
    let limit = requested.clamp(MIN_WAIT, MAX_WAIT);
    Reply::Later(Box::pin(async move {
        // Either way the outcomes so far tell each bucket's state.
        let _ = tokio::time::timeout(limit, finished).await;
        let committed = wait.outcomes();
        let outcomes = written.into_iter().zip(committed);
        answer(
            outcomes
                .map(|(w, committed)| outcome(w, committed))
                .collect(),
        )
    }))
}

fn outcome(written: Written, committed: Option<Committed>) -> Result<AppendOutcome, Refusal> {
    let (outcome, replica) = match written {
        Written::Refused(refusal) => return Err(refusal),
        Written::Done(outcome) => return Ok(outcome),
        Written::Waits(outcome, replica) => (outcome, replica),
    };
    let bucket = replica.bucket();
    match committed {
        Some(Committed::Yes) => Ok(outcome),
        Some(Committed::LostLeadership) => Err(Refusal::new(
            12,
            format!("this server no longer leads {bucket}"),
        )),
        Some(Committed::StorageFailed) => Err(Refusal::new(
            replica.storage_code(),
            format!("the disk failed while {bucket} was written"),
        )),
        None => Err(Refusal::new(
            25,
            format!("{bucket} was not committed in time; it may be later"),
        )),
    }
}

/// One entry per bucket, the last one if a bucket comes twice: as the reference
/// does, and exactly one answer per bucket.
pub(super) fn last_of_each_bucket<R>(
    requests: Vec<R>,
    bucket_of: impl Fn(&R) -> TableBucket,
) -> Vec<(TableBucket, R)> {
    let mut entries = Vec::with_capacity(requests.len());
    let mut positions = HashMap::with_capacity(requests.len());
    for request in requests {
        let bucket = bucket_of(&request);
        if let Some(position) = positions.get(&bucket) {
            let entry: &mut (TableBucket, R) = &mut entries[*position];
            entry.1 = request;
        } else {
            positions.insert(bucket, entries.len());
            entries.push((bucket, request));
        }
    }
    entries
}
