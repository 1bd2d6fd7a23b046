//! Lookup (wire.md §4.10, 6.7): the rows of keys, in the order of the keys.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_kv::Reach;
use mainstem_net::{Reply, Response, Segment};
use mainstem_protocol::messages as pb;
use mainstem_types::TableBucket;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use super::write::last_of_each_bucket;
use super::{
    Refusal, TabletService, blocking, check_key_version, check_not_historical, request,
    table_bucket,
};

/// Keys that the store is asked for at once: it holds on to all their values.
pub(super) const KEYS_AT_ONCE: usize = 512;
/// Keys of a request that is answered where it arrives.
const KEYS_INLINE_MAX: usize = 2_048;
/// Bytes of values of one bucket in an answer.
const BYTES_MAX: usize = 64 << 20;

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
        let entries = entries_of(request);
        // What is in memory is answered at once, unless it is very much.
        let keys: usize = entries.iter().map(|(_, entry)| entry.keys.len()).sum();
        if keys > KEYS_INLINE_MAX {
            let service = self.clone();
            return blocking(move || service.lookup_on_disk(&entries, api_version));
        }
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
    ) -> Result<Option<EncodedValues>, Refusal> {
        let replica = self.replica(bucket, entry.routing_bucket_count)?;
        check_not_historical(entry.original_partition_name.as_deref())?;
        check_key_version(&replica, api_version)?;
        let rows = match reach {
            Reach::Memory => replica.open_rows()?,
            Reach::Disk => Some(replica.opened_rows()?),
        };
        let Some(rows) = rows else {
            return Ok(None);
        };
        let mut values = EncodedValues::default();
        let mut budget = AnswerBudget::default();
        for keys in entry.keys.chunks(KEYS_AT_ONCE) {
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let mut fits = true;
            let complete = rows
                .multi_get(&keys, reach, &mut |_, value| {
                    fits &= budget.take(value);
                    values.push(value.filter(|_| fits));
                })
                .map_err(|error| {
                    self.metrics.lookup_failed(replica.metrics());
                    replica.read_failed(error)
                })?;
            if !complete {
                return Ok(None);
            }
            budget.check(fits)?;
        }
        self.metrics.looked_up(replica.metrics());
        Ok(Some(values))
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

/// Bytes that the values of an answered bucket may have, and a little for each.
#[derive(Debug)]
pub(super) struct AnswerBudget {
    left: usize,
}

impl Default for AnswerBudget {
    fn default() -> Self {
        Self { left: BYTES_MAX }
    }
}

impl AnswerBudget {
    /// Counts a value; false if it does not fit any more.
    pub fn take(&mut self, value: Option<&[u8]>) -> bool {
        let bytes = value.map_or(0, <[u8]>::len) + 16;
        let fits = bytes <= self.left;
        self.left = self.left.saturating_sub(bytes);
        fits
    }

    /// # Errors
    /// Not everything fitted.
    pub fn check(&self, fits: bool) -> Result<(), Refusal> {
        if fits {
            return Ok(());
        }
        let message = format!(
            "the rows of these keys are more than {} MiB: ask for fewer keys at once",
            BYTES_MAX >> 20
        );
        Err(Refusal::new(-1, message))
    }
}

/// A bucket with what is asked of it.
pub(super) type Entry = (TableBucket, pb::PbLookupReqForBucket);

/// One entry per bucket.
pub(super) fn entries_of(request: pb::LookupRequest) -> Vec<Entry> {
    let table_id = request.table_id.unwrap_or_default();
    last_of_each_bucket(request.buckets_req, |entry| {
        table_bucket(
            table_id,
            entry.partition_id,
            entry.bucket_id.unwrap_or_default(),
        )
    })
}

/// The `values` of an answer as they are on the wire: the only copy that is made of
/// what the store holds.
#[derive(Debug, Default)]
pub(super) struct EncodedValues {
    bytes: Vec<u8>,
}

impl EncodedValues {
    /// Adds the value of the next key.
    pub fn push(&mut self, value: Option<&[u8]>) {
        /// Field `values` of `PbLookupRespForBucket`, and of `PbValue`.
        const VALUES: u32 = 5;
        const VALUE: u32 = 1;
        encode_key(VALUES, WireType::LengthDelimited, &mut self.bytes);
        // No stored value is empty: it begins with its schema id.
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            encode_varint(0, &mut self.bytes);
            return;
        };
        let length = value.len() as u64;
        let inner = key_len(VALUE) + encoded_len_varint(length) + value.len();
        encode_varint(inner as u64, &mut self.bytes);
        encode_key(VALUE, WireType::LengthDelimited, &mut self.bytes);
        encode_varint(length, &mut self.bytes);
        self.bytes.extend_from_slice(value);
    }
}

/// One answer per entry.
pub(super) fn answer(entries: &[Entry], answers: Vec<Result<EncodedValues, Refusal>>) -> Response {
    /// Field `buckets_resp` of `LookupResponse`.
    const BUCKETS: u32 = 1;
    let mut segments = Vec::with_capacity(2 * entries.len());
    for ((_, entry), answer) in entries.iter().zip(answers) {
        let mut response = pb::PbLookupRespForBucket {
            partition_id: entry.partition_id,
            bucket_id: entry.bucket_id,
            original_partition_name: entry.original_partition_name.clone(),
            ..pb::PbLookupRespForBucket::default()
        };
        let values = answer.unwrap_or_else(|refusal| {
            response.error_code = Some(refusal.code);
            response.error_message = Some(refusal.message);
            EncodedValues::default()
        });
        // The fields of a message may come in any order: the values come last.
        let mut head = Vec::with_capacity(32);
        let length = response.encoded_len() + values.bytes.len();
        encode_key(BUCKETS, WireType::LengthDelimited, &mut head);
        encode_varint(length as u64, &mut head);
        response.encode_raw(&mut head);
        segments.push(Segment::Bytes(head.into()));
        if !values.bytes.is_empty() {
            segments.push(Segment::Bytes(values.bytes.into()));
        }
    }
    Response::Success(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_would_be_too_large_is_refused_and_says_what_to_do() {
        let mut budget = AnswerBudget::default();
        let half = vec![1; BYTES_MAX / 2 - 16];
        assert!(budget.take(Some(&half)) && budget.take(Some(&half)));
        assert!(budget.check(true).is_ok());
        assert!(!budget.take(None));
        let refusal = budget.check(false).unwrap_err();
        assert_eq!(refusal.code, -1);
        assert!(
            refusal.message.contains("fewer keys"),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn an_answer_is_what_the_message_types_would_write() {
        let entry = |bucket_id, name: Option<&str>| pb::PbLookupReqForBucket {
            partition_id: Some(1 << 40),
            bucket_id: Some(bucket_id),
            original_partition_name: name.map(str::to_owned),
            ..pb::PbLookupReqForBucket::default()
        };
        let bucket = |bucket_id| table_bucket(9, Some(1 << 40), bucket_id);
        let entries = [
            (bucket(0), entry(0, None)),
            (bucket(300), entry(300, Some("p"))),
            (bucket(2), entry(2, None)),
        ];
        let long = vec![7; 300];
        let mut values = EncodedValues::default();
        values.push(Some(&long));
        values.push(None);
        values.push(Some(&[1, 0]));
        let answers = vec![
            Ok(values),
            Err(Refusal::new(43, "why")),
            Ok(EncodedValues::default()),
        ];
        let Response::Success(segments) = answer(&entries, answers) else {
            panic!("an error");
        };
        let mut bytes = Vec::new();
        for segment in segments {
            match segment {
                Segment::Bytes(part) => bytes.extend_from_slice(&part),
                Segment::File { .. } => panic!("a file"),
            }
        }
        let answered = pb::LookupResponse::decode(bytes.as_slice()).unwrap();
        let [found, refused, nothing] = answered.buckets_resp.as_slice() else {
            panic!("{answered:?}");
        };
        let values: Vec<_> = found.values.iter().map(|v| v.values.as_deref()).collect();
        assert_eq!(values, [Some(long.as_slice()), None, Some(&[1, 0])]);
        assert_eq!(found.partition_id, Some(1 << 40));
        assert_eq!(
            (refused.bucket_id, refused.error_code),
            (Some(300), Some(43))
        );
        assert_eq!(refused.original_partition_name.as_deref(), Some("p"));
        assert_eq!((nothing.bucket_id, nothing.values.len()), (Some(2), 0));
    }
}
