//! Lookup (wire.md §4.10, 6.7): the rows of keys, in the order of the keys.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_kv::{KvStore, Reach};
use mainstem_net::{Reply, Response};
use mainstem_protocol::messages as pb;
use mainstem_types::TableBucket;

use super::write::last_of_each_bucket;
use super::{
    Refusal, TabletService, blocking, check_key_version, check_not_historical, request, success,
    table_bucket,
};

impl TabletService {
    pub(super) fn lookup(self: &Arc<Self>, api_version: i16, body: Bytes) -> Reply {
        let request: pb::LookupRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        if let Err(refusal) = check_not_mixed(&request) {
            return Reply::Now(refusal.into());
        }
        if request.insert_if_not_exists == Some(true) {
            return self.lookup_or_insert(api_version, request);
        }
        let entries = entries_of(&request);
        // What is in memory is answered at once.
        let mut answers = Vec::with_capacity(entries.len());
        for (bucket, entry) in &entries {
            match self.values(bucket, entry, api_version, Reach::Memory) {
                Ok(Some(values)) => answers.push(Ok(values)),
                Err(refusal) => answers.push(Err(refusal)),
                Ok(None) => {
                    let service = self.clone();
                    return blocking(move || service.lookup_on_disk(&entries, api_version));
                }
            }
        }
        Reply::Now(answer(&entries, answers))
    }

    fn lookup_on_disk(&self, entries: &[Entry], api_version: i16) -> Response {
        let answers = entries
            .iter()
            .map(|(bucket, entry)| {
                let values = self.values(bucket, entry, api_version, Reach::Disk)?;
                Ok(values.unwrap_or_default())
            })
            .collect();
        answer(entries, answers)
    }

    /// `None` if the disk is needed and may not be.
    fn values(
        &self,
        bucket: &TableBucket,
        entry: &pb::PbLookupReqForBucket,
        api_version: i16,
        reach: Reach,
    ) -> Result<Option<Vec<pb::PbValue>>, Refusal> {
        let replica = self.replica(bucket, entry.routing_bucket_count)?;
        check_not_historical(entry.original_partition_name.as_deref())?;
        check_key_version(&replica, api_version)?;
        let store = match reach {
            Reach::Memory => replica.store()?,
            Reach::Disk => Some(replica.open_store()?),
        };
        let Some(store) = store else {
            return Ok(None);
        };
        let keys: Vec<&[u8]> = entry.keys.iter().map(|key| &key[..]).collect();
        let values = multi_get(&*store, &keys, reach)
            .inspect_err(|_| self.metrics.lookup_failed(replica.metrics()))?;
        if values.is_some() {
            self.metrics.looked_up(replica.metrics());
        }
        Ok(values)
    }
}

/// All entries are of partitions that have expired, or none is.
fn check_not_mixed(request: &pb::LookupRequest) -> Result<(), Refusal> {
    let named = |entry: &pb::PbLookupReqForBucket| entry.original_partition_name.is_some();
    let mut entries = request.buckets_req.iter().map(named);
    let first = entries.next();
    match entries.all(|named| Some(named) == first) {
        true => Ok(()),
        false => {
            let message = "either all entries or none may name an expired partition";
            Err(Refusal::new(-1, message))
        }
    }
}

/// A bucket with what is asked of it.
pub(super) type Entry = (TableBucket, pb::PbLookupReqForBucket);

/// One entry per bucket.
pub(super) fn entries_of(request: &pb::LookupRequest) -> Vec<Entry> {
    let table_id = request.table_id.unwrap_or_default();
    last_of_each_bucket(request.buckets_req.clone(), |entry| {
        table_bucket(
            table_id,
            entry.partition_id,
            entry.bucket_id.unwrap_or_default(),
        )
    })
}

/// Values in the order of the keys, all of them parts of one buffer.
fn multi_get(
    store: &dyn KvStore,
    keys: &[&[u8]],
    reach: Reach,
) -> Result<Option<Vec<pb::PbValue>>, Refusal> {
    let mut bytes = Vec::new();
    let mut ranges: Vec<Option<Range<usize>>> = vec![None; keys.len()];
    let complete = store.multi_get(keys, reach, &mut |index, value| {
        // No value is empty: it begins with its schema id.
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let start = bytes.len();
            bytes.extend_from_slice(value);
            ranges[index] = Some(start..bytes.len());
        }
    })?;
    if !complete {
        return Ok(None);
    }
    let bytes = Bytes::from(bytes);
    let value = |range: Option<Range<usize>>| pb::PbValue {
        values: range.map(|range| bytes.slice(range)),
    };
    Ok(Some(ranges.into_iter().map(value).collect()))
}

/// One answer per entry.
pub(super) fn answer(
    entries: &[Entry],
    answers: Vec<Result<Vec<pb::PbValue>, Refusal>>,
) -> Response {
    let buckets_resp = entries
        .iter()
        .zip(answers)
        .map(|((_, entry), answer)| {
            let mut response = pb::PbLookupRespForBucket {
                partition_id: entry.partition_id,
                bucket_id: entry.bucket_id,
                original_partition_name: entry.original_partition_name.clone(),
                ..pb::PbLookupRespForBucket::default()
            };
            match answer {
                Ok(values) => response.values = values,
                Err(refusal) => {
                    response.error_code = Some(refusal.code);
                    response.error_message = Some(refusal.message);
                }
            }
            response
        })
        .collect();
    success(&pb::LookupResponse { buckets_resp })
}
