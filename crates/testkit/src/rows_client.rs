//! Calls about the rows of primary-key tables.

use bytes::Bytes;
use mainstem_format::{Value, ValueBatch};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use prost::Message;

use crate::client::read_answer;
use crate::{Client, PutSource, Refused, Table};

/// What a lookup of one bucket answers: a value or none per key, or a code.
pub type Values = Result<Vec<Option<Bytes>>, i32>;

impl Table {
    /// Encodes rows and keys of a primary-key table.
    ///
    /// # Panics
    /// If it has none.
    pub fn puts(&self) -> PutSource {
        PutSource::new(self)
    }

    /// A put with acks = all: partition, bucket and records per entry.
    pub fn put<'r>(
        &self,
        entries: impl IntoIterator<Item = (Option<i64>, i32, &'r [u8])>,
    ) -> pb::PutKvRequest {
        let entry = |(partition_id, bucket_id, records): (Option<i64>, i32, &[u8])| {
            pb::PbPutKvReqForBucket {
                partition_id,
                bucket_id: Some(bucket_id),
                records: Some(records.to_vec().into()),
                ..pb::PbPutKvReqForBucket::default()
            }
        };
        pb::PutKvRequest {
            acks: Some(-1),
            table_id: Some(self.id),
            timeout_ms: Some(10_000),
            buckets_req: entries.into_iter().map(entry).collect(),
            ..pb::PutKvRequest::default()
        }
    }

    /// A lookup: partition, bucket and keys per entry.
    pub fn lookup<'k, K: AsRef<[u8]> + 'k>(
        &self,
        entries: impl IntoIterator<Item = (Option<i64>, i32, &'k [K])>,
    ) -> pb::LookupRequest {
        let entry = |(partition_id, bucket_id, keys): (Option<i64>, i32, &[K])| {
            let keys = keys.iter().map(|key| Bytes::copy_from_slice(key.as_ref()));
            pb::PbLookupReqForBucket {
                partition_id,
                bucket_id: Some(bucket_id),
                keys: keys.collect(),
                ..pb::PbLookupReqForBucket::default()
            }
        };
        pb::LookupRequest {
            table_id: Some(self.id),
            buckets_req: entries.into_iter().map(entry).collect(),
            ..pb::LookupRequest::default()
        }
    }

    /// A request that opens a scan of a bucket of a plain table.
    pub fn open_scan(&self, bucket: i32, batch_bytes: i32) -> pb::ScanKvRequest {
        pb::ScanKvRequest {
            bucket_scan_req: Some(pb::PbScanReqForBucket {
                table_id: Some(self.id),
                bucket_id: Some(bucket),
                ..pb::PbScanReqForBucket::default()
            }),
            call_seq_id: Some(0),
            batch_size_bytes: Some(batch_bytes),
            ..pb::ScanKvRequest::default()
        }
    }
}

impl Client {
    /// Puts, in the newest version of the API.
    pub fn put(&mut self, request: &pb::PutKvRequest) -> Vec<pb::PbPutKvRespForBucket> {
        let answer = self
            .wire()
            .call(ApiKey::PutKv.code(), 2, &request.encode_to_vec());
        let answer: Result<pb::PutKvResponse, Refused> = read_answer(answer);
        answer.expect("a success").buckets_resp
    }

    /// Puts records into one bucket; the end of the changelog, or the code.
    ///
    /// # Errors
    /// The code of the bucket.
    ///
    /// # Panics
    /// If the answer is not about this one bucket.
    pub fn put_records(&mut self, table: &Table, bucket: i32, records: &[u8]) -> Result<i64, i32> {
        self.put_one(&table.put([(None, bucket, records)]))
    }

    /// Puts into one bucket; the end of the changelog, or the code.
    ///
    /// # Errors
    /// The code of the bucket.
    ///
    /// # Panics
    /// If the answer is not about this one bucket.
    pub fn put_one(&mut self, request: &pb::PutKvRequest) -> Result<i64, i32> {
        let answers = self.put(request);
        let [answer] = &answers[..] else {
            panic!("one answer was expected: {answers:?}")
        };
        let bucket = request.buckets_req.last().and_then(|entry| entry.bucket_id);
        assert_eq!(answer.bucket_id, bucket);
        put_outcome(answer)
    }

    /// Looks up, in the newest version of the API.
    ///
    /// # Errors
    /// An ERROR frame.
    pub fn try_lookup(
        &mut self,
        request: &pb::LookupRequest,
    ) -> Result<Vec<pb::PbLookupRespForBucket>, Refused> {
        let answer = self
            .wire()
            .call(ApiKey::Lookup.code(), 1, &request.encode_to_vec());
        let answer: pb::LookupResponse = read_answer(answer)?;
        Ok(answer.buckets_resp)
    }

    /// Values of the keys of one bucket.
    ///
    /// # Errors
    /// The code of the bucket.
    ///
    /// # Panics
    /// If the answer is not about this one bucket, or has not a value per key.
    pub fn look_up<K: AsRef<[u8]>>(&mut self, table: &Table, bucket: i32, keys: &[K]) -> Values {
        self.look_up_one(&table.lookup([(None, bucket, keys)]))
    }

    /// As [`Client::look_up`], with a request of one's own.
    ///
    /// # Errors
    /// The code of the bucket.
    ///
    /// # Panics
    /// If the answer is not about this one bucket, or has not a value per key.
    pub fn look_up_one(&mut self, request: &pb::LookupRequest) -> Values {
        let mut answers = self.try_lookup(request).expect("a success");
        assert_eq!(answers.len(), 1, "{answers:?}");
        let answer = answers.remove(0);
        let asked = request.buckets_req.last().expect("an entry");
        assert_eq!(answer.bucket_id, asked.bucket_id);
        assert_eq!(answer.partition_id, asked.partition_id);
        lookup_outcome(answer, asked.keys.len())
    }

    /// The row of a key of bucket 0 of a plain table.
    ///
    /// # Panics
    /// If it cannot be looked up.
    pub fn row(&mut self, table: &Table, row_of_key: &[Value<'_>]) -> Option<Vec<Value<'static>>> {
        let source = table.puts();
        let mut values = self
            .look_up(table, 0, &[source.key(row_of_key)])
            .expect("a lookup");
        let value = values.remove(0)?;
        Some(source.decode(&value))
    }

    /// A call of a scan.
    pub fn scan_kv(&mut self, request: &pb::ScanKvRequest) -> pb::ScanKvResponse {
        let answer: pb::ScanKvResponse = self.call(ApiKey::ScanKv, request);
        match answer.error_code {
            None | Some(0) => assert!(answer.has_more_results.is_some(), "{answer:?}"),
            Some(_) => assert!(
                answer.records.is_none() && answer.scanner_id.is_none(),
                "{answer:?}"
            ),
        }
        answer
    }

    /// All rows of a bucket of a plain table as stored values, in the order of
    /// their keys, and the offset of the changelog that they correspond to.
    ///
    /// # Panics
    /// If the bucket cannot be scanned.
    pub fn scan_all(&mut self, table: &Table, bucket: i32) -> (Vec<Bytes>, i64) {
        let mut answer = self.scan_kv(&table.open_scan(bucket, 1_000));
        assert_eq!(answer.error_code, None, "{answer:?}");
        let log_offset = answer.log_offset.expect("an offset");
        let mut rows = scanned(&answer);
        let mut call = 0;
        while answer.has_more_results == Some(true) {
            call += 1;
            let next = pb::ScanKvRequest {
                scanner_id: answer.scanner_id.clone(),
                call_seq_id: Some(call),
                batch_size_bytes: Some(1_000),
                ..pb::ScanKvRequest::default()
            };
            answer = self.scan_kv(&next);
            assert_eq!(
                (answer.error_code, answer.log_offset),
                (None, None),
                "{answer:?}"
            );
            rows.extend(scanned(&answer));
        }
        (rows, log_offset)
    }
}

/// End of the changelog, or the code.
///
/// # Errors
/// The code of the bucket.
///
/// # Panics
/// If it is neither a success nor a failure.
pub fn put_outcome(answer: &pb::PbPutKvRespForBucket) -> Result<i64, i32> {
    match (answer.log_end_offset, answer.error_code) {
        (Some(offset), None) => Ok(offset),
        (None, Some(code)) if code != 0 => Err(code),
        _ => panic!("neither a success nor a failure: {answer:?}"),
    }
}

/// A value or none per key, or the code.
///
/// # Errors
/// The code of the bucket.
///
/// # Panics
/// If it is neither a success nor a failure.
pub fn lookup_outcome(answer: pb::PbLookupRespForBucket, keys: usize) -> Values {
    match answer.error_code {
        None => {
            assert_eq!(answer.values.len(), keys, "values: {answer:?}");
            Ok(answer
                .values
                .into_iter()
                .map(|value| value.values)
                .collect())
        }
        Some(code) => {
            assert!(code != 0 && answer.values.is_empty(), "{answer:?}");
            Err(code)
        }
    }
}

/// Stored values of an answer.
///
/// # Panics
/// If its records are no value batch.
pub fn scanned(answer: &pb::ScanKvResponse) -> Vec<Bytes> {
    answer.records.clone().map_or_else(Vec::new, stored_values)
}

/// Stored values of a value batch.
///
/// # Panics
/// If it is none.
pub fn stored_values(records: Bytes) -> Vec<Bytes> {
    let batch = ValueBatch::parse(records).expect("a value batch");
    let value = |(schema_id, row): (i16, &[u8])| {
        let mut value = schema_id.to_le_bytes().to_vec();
        value.extend_from_slice(row);
        Bytes::from(value)
    };
    batch.records().map(value).collect()
}
