//! What tests of Arrow batches share: arrays of any type, messages as arrow-rs
//! writes and reads them, segments of a reference server.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteOptions, StreamWriter, write_message,
};
use arrow_ipc::{CompressionType, MetadataVersion, root_as_message};
use arrow_schema::{DataType as ArrowType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit};
use bytes::Bytes;
use mainstem_types::{Column, DataType, RowField, Schema, TypeKind};
use serde_json::Value as Json;

use crate::header::BatchHeader;
use crate::log_batch::LogBatch;
use crate::log_batch_builder::BatchSpec;

pub(crate) const CODECS: [Option<CompressionType>; 3] = [
    None,
    Some(CompressionType::LZ4_FRAME),
    Some(CompressionType::ZSTD),
];

pub(crate) fn arrow_schema(schema: &Schema) -> SchemaRef {
    let field = |column: &Column| arrow_field(&column.name, &column.data_type);
    Arc::new(ArrowSchema::new(
        schema.columns.iter().map(field).collect::<Vec<_>>(),
    ))
}

fn arrow_field(name: &str, data_type: &DataType) -> Field {
    Field::new(name, arrow_type(&data_type.kind), data_type.nullable)
}

/// formats.md §1.7.
fn arrow_type(kind: &TypeKind) -> ArrowType {
    let unit = |precision: u8| match precision {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    };
    match kind {
        TypeKind::Boolean => ArrowType::Boolean,
        TypeKind::TinyInt => ArrowType::Int8,
        TypeKind::SmallInt => ArrowType::Int16,
        TypeKind::Int => ArrowType::Int32,
        TypeKind::BigInt => ArrowType::Int64,
        TypeKind::Float => ArrowType::Float32,
        TypeKind::Double => ArrowType::Float64,
        TypeKind::Char { .. } | TypeKind::String => ArrowType::Utf8,
        TypeKind::Binary { length } => ArrowType::FixedSizeBinary(*length as i32),
        TypeKind::Bytes => ArrowType::Binary,
        TypeKind::Decimal { precision, scale } => ArrowType::Decimal128(*precision, *scale as i8),
        TypeKind::Date => ArrowType::Date32,
        TypeKind::Time { precision } if *precision <= 3 => ArrowType::Time32(unit(*precision)),
        TypeKind::Time { precision } => ArrowType::Time64(unit(*precision)),
        TypeKind::Timestamp { precision } | TypeKind::TimestampLtz { precision } => {
            ArrowType::Timestamp(unit(*precision), None)
        }
        TypeKind::Array(element) => ArrowType::List(Arc::new(arrow_field("element", element))),
        TypeKind::Map { key, value } => {
            let entries = vec![arrow_field("key", key), arrow_field("value", value)];
            let entries = Field::new("entries", ArrowType::Struct(entries.into()), false);
            ArrowType::Map(Arc::new(entries), false)
        }
        TypeKind::Row(fields) => {
            let field = |field: &RowField| arrow_field(&field.name, &field.data_type);
            ArrowType::Struct(fields.iter().map(field).collect())
        }
    }
}

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        // Few different bytes, so that compression has something to do.
        (0..len).map(|_| (self.below(4) as u8) * 21).collect()
    }
}

pub(crate) fn random_batch(schema: &Schema, rows: usize, random: &mut Random) -> RecordBatch {
    let columns: Vec<ArrayRef> = schema
        .columns
        .iter()
        .map(|column| make_array(random_array(&column.data_type, rows, random)))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(arrow_schema(schema), columns, &options).unwrap()
}

fn random_array(data_type: &DataType, len: usize, random: &mut Random) -> ArrayData {
    let nulls = data_type.nullable && random.below(4) > 0;
    let nulls = nulls.then(|| {
        let one_in = 1 + random.below(4);
        NullBuffer::new(BooleanBuffer::collect_bool(len, |_| {
            random.below(one_in) > 0
        }))
    });
    let builder = ArrayData::builder(arrow_type(&data_type.kind))
        .len(len)
        .nulls(nulls);
    let builder = match &data_type.kind {
        TypeKind::Boolean => {
            builder.add_buffer(Buffer::from_slice_ref(random.bytes(len.div_ceil(8))))
        }
        TypeKind::Char { .. } | TypeKind::String | TypeKind::Bytes => {
            let (offsets, total) = random_offsets(len, random);
            builder
                .add_buffer(Buffer::from_slice_ref(offsets))
                .add_buffer(Buffer::from_slice_ref(random.bytes(total)))
        }
        TypeKind::Array(element) => {
            let (offsets, total) = random_offsets(len, random);
            builder
                .add_buffer(Buffer::from_slice_ref(offsets))
                .add_child_data(random_array(element, total, random))
        }
        TypeKind::Map { key, value } => {
            let (offsets, total) = random_offsets(len, random);
            let ArrowType::Map(entries, _) = arrow_type(&data_type.kind) else {
                unreachable!()
            };
            let entries = ArrayData::builder(entries.data_type().clone())
                .len(total)
                .add_child_data(random_array(key, total, random))
                .add_child_data(random_array(value, total, random))
                .build()
                .unwrap();
            builder
                .add_buffer(Buffer::from_slice_ref(offsets))
                .add_child_data(entries)
        }
        TypeKind::Row(fields) => fields.iter().fold(builder, |builder, field| {
            builder.add_child_data(random_array(&field.data_type, len, random))
        }),
        kind => {
            let width = match arrow_type(kind) {
                ArrowType::FixedSizeBinary(width) => width as usize,
                fixed => fixed.primitive_width().unwrap(),
            };
            builder.add_buffer(Buffer::from_slice_ref(random.bytes(len * width)))
        }
    };
    builder.build().unwrap()
}

fn random_offsets(len: usize, random: &mut Random) -> (Vec<i32>, usize) {
    let mut offsets = vec![0];
    let mut end = 0;
    for _ in 0..len {
        end += random.below(5) as i32;
        offsets.push(end);
    }
    (offsets, end as usize)
}

/// The message of a batch as arrow-rs writes it.
pub(crate) fn ipc_message(
    batch: &RecordBatch,
    codec: Option<CompressionType>,
    alignment: usize,
) -> Vec<u8> {
    let options = IpcWriteOptions::try_new(alignment, false, MetadataVersion::V5)
        .unwrap()
        .try_with_compression(codec)
        .unwrap();
    let mut tracker = DictionaryTracker::new(false);
    let (_, encoded) = IpcDataGenerator::default()
        .encode(batch, &mut tracker, &options, &mut Default::default())
        .unwrap();
    let mut out = Vec::new();
    write_message(&mut out, encoded, &options).unwrap();
    out
}

/// What arrow-rs reads from a message.
pub(crate) fn read_message(message: &[u8], schema: SchemaRef) -> RecordBatch {
    let metadata_len = u32::from_le_bytes(message[4..8].try_into().unwrap()) as usize;
    let (metadata, body) = message[8..].split_at(metadata_len);
    let metadata = root_as_message(metadata).unwrap();
    assert_eq!(metadata.bodyLength() as usize, body.len());
    let batch = metadata.header_as_record_batch().unwrap();
    let body = Buffer::from_slice_ref(body);
    read_record_batch(
        &body,
        batch,
        schema,
        &HashMap::new(),
        None,
        &metadata.version(),
    )
    .unwrap()
}

/// A log batch of the rows. Change types count up if it is not append-only.
pub(crate) fn log_batch(spec: &BatchSpec, message: &[u8], rows: usize) -> Bytes {
    let change_types: Vec<u8> = match spec.append_only {
        true => Vec::new(),
        false => (0..rows).map(|row| (row % 5) as u8).collect(),
    };
    Bytes::from(
        spec.build(rows as i32, &[], &change_types, message)
            .unwrap(),
    )
}

/// The rows of a log batch, decoded with a schema that may be a projected one.
pub(crate) fn decode_batch(batch: &[u8], schema: SchemaRef) -> RecordBatch {
    let batch = LogBatch::parse(&Bytes::copy_from_slice(batch)).unwrap();
    if batch.header().record_count == 0 {
        return RecordBatch::new_empty(schema);
    }
    let decoded = read_message(&batch.arrow_message().unwrap(), schema);
    assert_eq!(decoded.num_rows() as i32, batch.header().record_count);
    decoded
}

/// The schema message of arrow-rs, which is no record batch.
pub(crate) fn schema_message(schema: &Schema) -> Vec<u8> {
    StreamWriter::try_new(Vec::new(), &arrow_schema(schema))
        .unwrap()
        .get_ref()
        .clone()
}

/// A segment file of a reference server with what it must decode to.
pub(crate) struct Segment {
    pub(crate) name: &'static str,
    pub(crate) bytes: Bytes,
    pub(crate) schemas: Vec<(i16, Schema)>,
    /// Expected header fields of every batch.
    pub(crate) batches: Vec<Json>,
}

macro_rules! segment {
    ($name:literal) => {
        Segment::new(
            $name,
            include_bytes!(concat!("../testdata/log/", $name, ".log")),
            include_str!(concat!("../testdata/log/", $name, ".json")),
        )
    };
}

pub(crate) fn segments() -> Vec<Segment> {
    vec![
        segment!("log_none"),
        segment!("log_lz4"),
        segment!("log_zstd"),
        segment!("log_small"),
        segment!("log_types"),
        segment!("log_stats"),
        segment!("kv_small"),
        segment!("kv_types"),
        segment!("kv_partial"),
    ]
}

impl Segment {
    fn new(name: &'static str, bytes: &'static [u8], json: &str) -> Self {
        let json: Json = serde_json::from_str(json).unwrap();
        let mut schemas: Vec<_> = json["schemas"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(id, schema)| (id.parse().unwrap(), parse_schema(schema)))
            .collect();
        schemas.sort_by_key(|(id, _)| *id);
        let batches = json["batches"].as_array().unwrap().clone();
        Self {
            name,
            bytes: Bytes::from_static(bytes),
            schemas,
            batches,
        }
    }

    pub(crate) fn schema(&self, id: i16) -> &Schema {
        &self
            .schemas
            .iter()
            .find(|(known, _)| *known == id)
            .unwrap()
            .1
    }
}

/// Compares a header with what the reference says about the batch.
pub(crate) fn check_header(header: &BatchHeader, expected: &Json) {
    let number = |field: &str| expected[field].as_i64().unwrap();
    assert_eq!(header.base_offset, number("base_offset"));
    assert_eq!(header.total_len as i64, number("size"));
    assert_eq!(header.magic as i64, number("magic"));
    assert_eq!(header.commit_timestamp_ms, number("commit_timestamp"));
    assert_eq!(i64::from(header.schema_id), number("schema_id"));
    assert_eq!(i64::from(header.attributes), number("attributes"));
    assert_eq!(
        i64::from(header.last_offset_delta),
        number("last_offset_delta")
    );
    assert_eq!(header.writer_id, number("writer_id"));
    assert_eq!(i64::from(header.batch_sequence), number("batch_sequence"));
    assert_eq!(i64::from(header.record_count), number("record_count"));
}

fn parse_schema(json: &Json) -> Schema {
    let column = |json: &Json| Column {
        name: json["name"].as_str().unwrap().into(),
        data_type: parse_type(&json["data_type"]),
        comment: None,
        agg_function: None,
        id: json["id"].as_i64().unwrap() as i32,
    };
    Schema {
        columns: json["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(column)
            .collect(),
        primary_key: Vec::new(),
        auto_increment: Vec::new(),
        highest_field_id: json["highest_field_id"].as_i64().unwrap() as i32,
    }
}

/// formats.md §8.1, as far as the segments use it.
fn parse_type(json: &Json) -> DataType {
    let number = |field: &str| json[field].as_u64().unwrap();
    let precision = || number("precision") as u8;
    let inner = |field: &str| Box::new(parse_type(&json[field]));
    let kind = match json["type"].as_str().unwrap() {
        "BOOLEAN" => TypeKind::Boolean,
        "TINYINT" => TypeKind::TinyInt,
        "SMALLINT" => TypeKind::SmallInt,
        "INTEGER" => TypeKind::Int,
        "BIGINT" => TypeKind::BigInt,
        "FLOAT" => TypeKind::Float,
        "DOUBLE" => TypeKind::Double,
        "DATE" => TypeKind::Date,
        "STRING" => TypeKind::String,
        "BYTES" => TypeKind::Bytes,
        "CHAR" => TypeKind::Char {
            length: number("length") as u32,
        },
        "BINARY" => TypeKind::Binary {
            length: number("length") as u32,
        },
        "DECIMAL" => TypeKind::Decimal {
            precision: precision(),
            scale: number("scale") as u8,
        },
        "TIME_WITHOUT_TIME_ZONE" => TypeKind::Time {
            precision: precision(),
        },
        "TIMESTAMP_WITHOUT_TIME_ZONE" => TypeKind::Timestamp {
            precision: precision(),
        },
        "TIMESTAMP_WITH_LOCAL_TIME_ZONE" => TypeKind::TimestampLtz {
            precision: precision(),
        },
        "ARRAY" => TypeKind::Array(inner("element_type")),
        "MAP" => TypeKind::Map {
            key: inner("key_type"),
            value: inner("value_type"),
        },
        "ROW" => {
            let field = |json: &Json| RowField {
                name: json["name"].as_str().unwrap().into(),
                data_type: parse_type(&json["field_type"]),
                description: None,
                field_id: json["field_id"].as_i64().unwrap() as i32,
            };
            TypeKind::Row(
                json["fields"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(field)
                    .collect(),
            )
        }
        other => panic!("type {other}"),
    };
    DataType {
        kind,
        nullable: json["nullable"].as_bool().unwrap_or(true),
    }
}
