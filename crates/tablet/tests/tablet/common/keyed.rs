//! Requests about the rows of primary-key tables, and their answers.

use bytes::Bytes;
use mainstem_format::arrow_batch::decode;
use mainstem_format::value_batch::split_stored_value;
use mainstem_format::{
    Batches, ColumnReader, KeyEncoder, KeyEncoding, KvBatchBuilder, RowFormat, Value, ValueBatch,
};
use mainstem_net::Response;
use mainstem_protocol::messages as pb;
use mainstem_types::Schema;
use prost::Message;

use super::bodies::FetchedBucket;
use super::call::{Call, body};
use super::server::Server;
use super::tables::keyed_schema;

/// A row by its key; `None` deletes it.
pub type Op = (i64, Option<String>);

/// A change with its offset: change type (1 +I, 2 -U, 3 +U, 4 -D), key, text.
pub type Change = (i64, u8, i64, String);

/// A batch of a changelog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeBatch {
    pub writer: i64,
    pub sequence: i32,
    pub next_offset: i64,
    pub changes: Vec<Change>,
}

fn row(key: i64, text: &str) -> Vec<Value<'_>> {
    vec![Value::BigInt(key), Value::from(text)]
}

/// The key of a row, as clients encode it.
pub fn key_bytes(key: i64) -> Vec<u8> {
    let schema = keyed_schema();
    let encoder = KeyEncoder::new(KeyEncoding::Compacted, &schema, &["a"]).unwrap();
    let mut bytes = Vec::new();
    encoder.encode(&[Value::BigInt(key)], &mut bytes).unwrap();
    bytes
}

/// A put batch.
pub fn put_batch(writer: i64, sequence: i32, ops: &[Op]) -> Bytes {
    let schema = keyed_schema();
    let mut batch = KvBatchBuilder::new(1, writer, sequence);
    for (key, text) in ops {
        let bytes = text.as_ref().map(|text| {
            let mut bytes = Vec::new();
            let columns = schema.columns.as_slice();
            RowFormat::Compacted
                .encode(&row(*key, text), columns, &mut bytes)
                .unwrap();
            bytes
        });
        batch.append(&key_bytes(*key), bytes.as_deref()).unwrap();
    }
    batch.finish()
}

/// The key and text of a stored value.
fn stored(value: &[u8]) -> (i64, String) {
    let (schema_id, row) = split_stored_value(value).unwrap();
    assert_eq!(schema_id, 1);
    let schema = keyed_schema();
    let values = RowFormat::Compacted.decode(row, schema.columns.as_slice());
    match values.unwrap().as_slice() {
        [Value::BigInt(key), Value::String(text)] => (*key, text.to_string()),
        other => panic!("{other:?}"),
    }
}

/// The batches of a changelog, checksums verified.
pub fn read_changes(fetched: &FetchedBucket) -> Vec<ChangeBatch> {
    assert_eq!(fetched.error, None);
    let schema = keyed_schema();
    let read = |one: mainstem_format::Result<mainstem_format::LogBatch>| {
        let one = one.expect("whole batches");
        one.verify_crc().expect("an undamaged batch");
        let header = *one.header();
        ChangeBatch {
            writer: header.writer_id,
            sequence: header.batch_sequence,
            next_offset: header.next_offset(),
            changes: match header.record_count {
                0 => Vec::new(),
                _ => changes(one.bytes(), &schema),
            },
        }
    };
    Batches::new(&fetched.records).map(read).collect()
}

fn changes(bytes: &Bytes, schema: &Schema) -> Vec<Change> {
    let decoded = decode(bytes, schema, None).expect("an undamaged batch");
    let reader = |at: usize| {
        let array = decoded.batch.column(at);
        ColumnReader::new(&**array, &schema.columns[at].data_type).unwrap()
    };
    let (keys, texts) = (reader(0), reader(1));
    let types = decoded.change_types.clone().expect("change types");
    (0..decoded.record_count)
        .map(
            |at| match (keys.value(at).unwrap(), texts.value(at).unwrap()) {
                (Value::BigInt(key), Value::String(text)) => {
                    let offset = decoded.base_offset + at as i64;
                    (offset, types[at], key, text.into_owned())
                }
                other => panic!("{other:?}"),
            },
        )
        .collect()
}

/// A PutKv request for one bucket.
pub fn put(table: i64, partition: Option<i64>, bucket: i32, acks: i32, records: Bytes) -> Bytes {
    pb::PutKvRequest {
        acks: Some(acks),
        table_id: Some(table),
        timeout_ms: Some(30_000),
        buckets_req: vec![pb::PbPutKvReqForBucket {
            partition_id: partition,
            bucket_id: Some(bucket),
            records: Some(records),
            ..Default::default()
        }],
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// End of the changelog, or the code.
pub fn put_outcome(response: Response) -> Result<i64, i32> {
    let response = pb::PutKvResponse::decode(&*body(response)).unwrap();
    let entry = &response.buckets_resp[0];
    entry
        .error_code
        .map_or(Ok(entry.log_end_offset.unwrap_or(-1)), Err)
}

/// A Lookup request for keys of one bucket.
pub fn lookup(table: i64, partition: Option<i64>, bucket: i32, keys: &[i64]) -> Bytes {
    pb::LookupRequest {
        table_id: Some(table),
        buckets_req: vec![pb::PbLookupReqForBucket {
            partition_id: partition,
            bucket_id: Some(bucket),
            keys: keys.iter().map(|key| key_bytes(*key).into()).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// The texts of the keys, or the code.
pub fn looked_up(response: Response, keys: &[i64]) -> Result<Vec<Option<String>>, i32> {
    let response = pb::LookupResponse::decode(Bytes::from(body(response))).unwrap();
    let entry = &response.buckets_resp[0];
    if let Some(code) = entry.error_code {
        return Err(code);
    }
    assert_eq!(entry.values.len(), keys.len());
    let text = |(key, value): (&i64, &pb::PbValue)| {
        let (found, text) = stored(value.values.as_ref()?);
        assert_eq!(found, *key, "the row of another key");
        Some(text)
    };
    Ok(keys.iter().zip(&entry.values).map(text).collect())
}

/// A ScanKv request that opens a scan.
pub fn open_scan(table: i64, partition: Option<i64>, bucket: i32, bytes: i32) -> Bytes {
    pb::ScanKvRequest {
        bucket_scan_req: Some(pb::PbScanReqForBucket {
            table_id: Some(table),
            partition_id: partition,
            bucket_id: Some(bucket),
            ..Default::default()
        }),
        call_seq_id: Some(0),
        batch_size_bytes: Some(bytes),
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// The next call of a scan.
pub fn go_on(id: &Bytes, call: i32) -> Bytes {
    pb::ScanKvRequest {
        scanner_id: Some(id.clone()),
        call_seq_id: Some(call),
        batch_size_bytes: Some(1 << 20),
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// An answer to a call of a scan.
#[derive(Clone, Debug, Default)]
pub struct Scanned {
    pub id: Option<Bytes>,
    pub rows: Vec<(i64, String)>,
    pub log_offset: Option<i64>,
}

/// The answer to a call of a scan, or the code.
pub fn scanned(response: Response) -> Result<Scanned, i32> {
    let response = pb::ScanKvResponse::decode(Bytes::from(body(response))).unwrap();
    if let Some(code) = response.error_code {
        return Err(code);
    }
    Ok(Scanned {
        id: response.scanner_id,
        rows: response.records.map_or_else(Vec::new, rows_of),
        log_offset: response.log_offset,
    })
}

/// A LimitScan request.
pub fn limit_scan(table: i64, partition: Option<i64>, bucket: i32) -> Bytes {
    pb::LimitScanRequest {
        table_id: Some(table),
        partition_id: partition,
        bucket_id: Some(bucket),
        limit: Some(1_000),
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// Rows of a limit scan, or the code.
pub fn limited(response: Response) -> Result<Vec<(i64, String)>, i32> {
    if let Response::Error { code, .. } = response {
        return Err(code);
    }
    let response = pb::LimitScanResponse::decode(Bytes::from(body(response))).unwrap();
    assert_eq!(
        (response.error_code, response.is_log_table),
        (None, Some(false))
    );
    Ok(rows_of(response.records.unwrap()))
}

/// Rows of a value batch, by key.
fn rows_of(records: Bytes) -> Vec<(i64, String)> {
    let batch = ValueBatch::parse(records).unwrap();
    let mut rows: Vec<_> = batch
        .records()
        .map(|(schema_id, row)| {
            let mut value = schema_id.to_le_bytes().to_vec();
            value.extend_from_slice(row);
            stored(&value)
        })
        .collect();
    rows.sort();
    rows
}

/// A GetTableStats request.
pub fn statistics(table: i64, partition: Option<i64>, bucket: i32) -> Bytes {
    pb::GetTableStatsRequest {
        table_id: Some(table),
        buckets_req: vec![pb::PbTableStatsReqForBucket {
            partition_id: partition,
            bucket_id: Some(bucket),
            ..Default::default()
        }],
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

/// The number of rows, or the code.
pub fn counted(response: Response) -> Result<i64, i32> {
    let response = pb::GetTableStatsResponse::decode(&*body(response)).unwrap();
    let entry = &response.buckets_resp[0];
    entry
        .error_code
        .map_or(Ok(entry.row_count.unwrap_or(-1)), Err)
}

impl Server {
    /// Hands over a put for a bucket of a plain table.
    pub fn put(&self, table: i64, bucket: i32, records: Bytes) -> Call {
        self.call(1016, put(table, None, bucket, -1, records))
    }

    /// Puts and syncs; the end of the changelog, or the code.
    pub fn put_synced(&self, table: i64, bucket: i32, ops: &[Op]) -> Result<i64, i32> {
        let mut call = self.put(table, bucket, put_batch(-1, -1, ops));
        self.sync();
        assert!(self.is_answered(&mut call), "the writer waits");
        put_outcome(call.answer())
    }

    /// Texts of keys of a bucket of a plain table, or the code. No time passes.
    pub fn look_up(
        &self,
        table: i64,
        bucket: i32,
        keys: &[i64],
    ) -> Result<Vec<Option<String>>, i32> {
        let answer = self.at_once(1017, lookup(table, None, bucket, keys));
        looked_up(answer, keys)
    }

    /// An answer for which no time has to pass. It may come from a thread that is
    /// allowed to wait for the disk.
    pub fn at_once(&self, api_key: i16, body: Bytes) -> Response {
        let started = self.now();
        let answer = self.call(api_key, body).wait(&self.runtime);
        assert_eq!(self.now(), started, "the request waits");
        answer
    }
}

/// An upsert.
pub fn upsert(key: i64, text: &str) -> Op {
    (key, Some(text.to_owned()))
}
