//! Rows of a primary-key table for measurements: BIGINT key, INT, DOUBLE and a
//! STRING of ten bytes, made from the key, and the batches that carry them.

use anyhow::Result;
use bytes::Bytes;
use mainstem_format::{KvBatchBuilder, RowFormat, Value};
use mainstem_protocol::{ApiKey, messages as pb};
use mainstem_types::{DataType, Schema, TableDescriptor, TypeKind};
use prost::Message;

use super::wire::Frame;

/// `acks` of all puts: when the high watermark has passed the changes.
const ACKS_ALL: i32 = -1;
const TIMEOUT_MS: i32 = 30_000;

/// Makes rows and batches.
pub struct KeyedRows {
    schema: Schema,
    name_bytes: usize,
}

impl KeyedRows {
    /// A maker.
    pub fn new() -> Result<Self> {
        let schema = Schema::builder()
            .column("id", DataType::not_null(TypeKind::BigInt))
            .column("quantity", DataType::nullable(TypeKind::Int))
            .column("price", DataType::nullable(TypeKind::Double))
            .column("name", DataType::nullable(TypeKind::String))
            .primary_key(["id"])
            .build()?;
        Ok(Self {
            schema,
            name_bytes: 10,
        })
    }

    /// The same with names of another length.
    pub fn with_names_of(mut self, bytes: usize) -> Self {
        self.name_bytes = bytes;
        self
    }

    /// The table, with the options that a user gets who sets none.
    pub fn table(&self, buckets: i32) -> TableDescriptor {
        TableDescriptor::new(self.schema.clone()).distributed_by(buckets, ["id"])
    }

    /// The encoded key.
    pub fn key(&self, id: u64, out: &mut Vec<u8>) {
        let mut rest = id;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    /// The encoded row; another one for every version.
    pub fn row(&self, id: u64, version: u64, out: &mut Vec<u8>) -> Result<()> {
        let mixed = (id ^ version.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut name = String::with_capacity(self.name_bytes + 16);
        let mut more = mixed;
        while name.len() < self.name_bytes {
            name.push_str(&format!("{more:016x}"));
            more = more.wrapping_mul(0xd134_2543_de82_ef95).rotate_left(29);
        }
        name.truncate(self.name_bytes);
        let values = [
            Value::BigInt(id as i64),
            Value::Int((mixed >> 40) as i32),
            Value::Double((mixed >> 11) as f64 / 1e6),
            Value::String(name.into()),
        ];
        RowFormat::Compacted.encode(&values, self.schema.columns.as_slice(), out)?;
        Ok(())
    }

    /// A KV batch of rows.
    pub fn batch(&self, ids: &[u64], version: u64) -> Result<Bytes> {
        let mut builder = KvBatchBuilder::new(1, -1, -1);
        let (mut key, mut row) = (Vec::new(), Vec::new());
        for id in ids {
            key.clear();
            row.clear();
            self.key(*id, &mut key);
            self.row(*id, version, &mut row)?;
            builder.append(&key, Some(&row))?;
        }
        Ok(builder.finish())
    }
}

/// A PutKv request with one batch.
pub fn put_request(table_id: i64, bucket: i32, batch: Bytes) -> Result<Frame> {
    let request = pb::PutKvRequest {
        acks: Some(ACKS_ALL),
        table_id: Some(table_id),
        timeout_ms: Some(TIMEOUT_MS),
        buckets_req: vec![pb::PbPutKvReqForBucket {
            bucket_id: Some(bucket),
            records: Some(batch),
            ..Default::default()
        }],
        ..Default::default()
    };
    Frame::new(ApiKey::PutKv, vec![request.encode_to_vec().into()])
}

/// A Lookup request for keys of one bucket.
pub fn lookup_request(table_id: i64, bucket: i32, keys: Vec<Bytes>) -> Result<Frame> {
    let request = pb::LookupRequest {
        table_id: Some(table_id),
        buckets_req: vec![pb::PbLookupReqForBucket {
            bucket_id: Some(bucket),
            keys,
            ..Default::default()
        }],
        ..Default::default()
    };
    Frame::new(ApiKey::Lookup, vec![request.encode_to_vec().into()])
}
