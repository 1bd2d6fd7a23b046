//! Bytes from clients: whatever is in a batch with the right checksum, it is
//! refused, or makes a changelog that can be read again.

use bytes::Bytes;
use mainstem_env::SeededRng;
use mainstem_format::{KvBatch, KvBatchBuilder, LeaderStamp, LogBatch, Timestamp, Value};
use mainstem_types::{AggFunction, DataType, MergeEngine, RowField, Schema, TypeKind};

use super::bucket::{Bucket, FORMATS, engine};
use crate::replay::{Change, Replay};
use crate::{ChangelogSource, KvError, PutMode};

fn types() -> Vec<TypeKind> {
    let int = || Box::new(DataType::nullable(TypeKind::Int));
    let string = || Box::new(DataType::nullable(TypeKind::String));
    vec![
        TypeKind::Boolean,
        TypeKind::TinyInt,
        TypeKind::SmallInt,
        TypeKind::Int,
        TypeKind::BigInt,
        TypeKind::Float,
        TypeKind::Double,
        TypeKind::Char { length: 3 },
        TypeKind::String,
        TypeKind::Binary { length: 3 },
        TypeKind::Bytes,
        TypeKind::Decimal {
            precision: 5,
            scale: 2,
        },
        TypeKind::Decimal {
            precision: 30,
            scale: 2,
        },
        TypeKind::Date,
        TypeKind::Time { precision: 0 },
        TypeKind::Time { precision: 9 },
        TypeKind::Timestamp { precision: 0 },
        TypeKind::Timestamp { precision: 9 },
        TypeKind::TimestampLtz { precision: 6 },
        TypeKind::Array(int()),
        TypeKind::Map {
            key: Box::new(DataType::not_null(TypeKind::String)),
            value: string(),
        },
        TypeKind::Row(vec![
            RowField::new("x", *int()),
            RowField::new("y", *string()),
        ]),
    ]
}

fn wide(is_aggregating: bool) -> Schema {
    let mut builder = Schema::builder().column("k", DataType::not_null(TypeKind::Int));
    for (position, kind) in types().into_iter().enumerate() {
        let function = match &kind {
            TypeKind::Int | TypeKind::BigInt | TypeKind::Decimal { .. } => "sum",
            TypeKind::Double | TypeKind::Date | TypeKind::Timestamp { .. } => "max",
            TypeKind::String => "listagg",
            TypeKind::Bytes => "rbm32",
            TypeKind::Boolean => "bool_or",
            _ => "first_value",
        };
        builder = builder.column(format!("c{position}"), DataType::nullable(kind));
        if is_aggregating {
            builder = builder.aggregate(AggFunction::new(function));
        }
    }
    builder.primary_key(["k"]).build().unwrap()
}

fn row(rng: &mut SeededRng, schema: &Schema) -> Vec<Value<'static>> {
    let mut values: Vec<Value<'static>> = schema
        .columns
        .iter()
        .map(|column| match rng.chance(20) {
            true => Value::Null,
            false => value(rng, &column.data_type.kind),
        })
        .collect();
    values[0] = Value::Int(rng.below(5) as i32);
    values
}

fn value(rng: &mut SeededRng, kind: &TypeKind) -> Value<'static> {
    let number = rng.next_u64() >> rng.below(64);
    match kind {
        TypeKind::Boolean => Value::Boolean(number.is_multiple_of(2)),
        TypeKind::TinyInt => Value::TinyInt(number as i8),
        TypeKind::SmallInt => Value::SmallInt(number as i16),
        TypeKind::Int => Value::Int(number as i32),
        TypeKind::BigInt => Value::BigInt(number as i64),
        TypeKind::Float => Value::Float(f32::from_bits(number as u32)),
        TypeKind::Double => Value::Double(f64::from_bits(number)),
        TypeKind::Char { .. } | TypeKind::String => {
            Value::String(number.to_string()[..1].to_owned().into())
        }
        TypeKind::Binary { length } => Value::Bytes(vec![number as u8; *length as usize].into()),
        TypeKind::Bytes => Value::Bytes(
            number.to_le_bytes()[..(number % 9) as usize]
                .to_vec()
                .into(),
        ),
        TypeKind::Decimal { .. } => Value::Decimal(i128::from(number as i16)),
        TypeKind::Date => Value::Date(number as i32),
        TypeKind::Time { .. } => Value::Time((number % 86_400_000) as i32),
        TypeKind::Timestamp { .. } | TypeKind::TimestampLtz { .. } => {
            Value::Timestamp(Timestamp::from_millis(number as i32 as i64))
        }
        TypeKind::Array(_) => Value::Array(vec![Value::Int(number as i32), Value::Null]),
        TypeKind::Map { .. } => Value::Map(vec![(Value::String("k".into()), Value::Null)]),
        TypeKind::Row(_) => Value::Row(vec![Value::Int(number as i32), Value::Null]),
    }
}

/// A row as it should be, somewhat changed, or not a row at all.
fn bytes(rng: &mut SeededRng, bucket: &Bucket) -> Vec<u8> {
    let schema = bucket.table.latest_schema().clone();
    let mut bytes = Vec::new();
    let format = bucket.table.row_format();
    let row = row(rng, &schema);
    format
        .encode(&row, schema.columns.as_slice(), &mut bytes)
        .unwrap();
    match rng.below(4) {
        0 => {}
        1 => {
            let length = 1 + rng.index(60);
            bytes = vec![0; length];
            rng.fill(&mut bytes);
            // No nulls, so that all columns are read.
            bytes[..3.min(length)].fill(0);
        }
        2 => bytes.truncate(1 + rng.index(bytes.len())),
        _ => {
            for _ in 0..=rng.index(4) {
                let at = rng.index(bytes.len());
                bytes[at] = rng.next_u64() as u8;
            }
        }
    }
    bytes
}

fn batch(rng: &mut SeededRng, bucket: &Bucket) -> KvBatch {
    let mut builder = KvBatchBuilder::new(1, -1, -1);
    for _ in 0..1 + rng.index(4) {
        let mut key = vec![rng.below(3) as u8];
        if rng.chance(20) {
            key = vec![0; rng.index(9)];
            rng.fill(&mut key);
        }
        match rng.chance(15) {
            true => builder.append(&key, None).unwrap(),
            false => builder.append(&key, Some(&bytes(rng, bucket))).unwrap(),
        }
    }
    KvBatch::parse(builder.finish()).unwrap()
}

/// Reads a changelog batch as a replay does.
fn check_replay(bucket: &Bucket, changelog: &Bytes) {
    let mut changelog = changelog.to_vec();
    let stamp = LeaderStamp {
        base_offset: 0,
        commit_timestamp_ms: 0,
        leader_epoch: 0,
    };
    stamp.apply(&mut changelog).unwrap();
    let changelog = LogBatch::parse(&changelog.into()).unwrap();
    let mut apply = |change: Change<'_>| {
        if let Change::Put(_, schema_id, row) = change {
            bucket.table.decode(schema_id, row).unwrap();
        }
    };
    Replay::new(&bucket.table)
        .read(&changelog, 0, &mut None, &mut apply)
        .unwrap();
}

#[test]
fn batches_of_arbitrary_rows_are_refused_or_can_be_replayed() {
    let (mut accepted, mut refused) = (0, 0);
    for (number, (kv, log)) in FORMATS.into_iter().enumerate() {
        for is_aggregating in [false, true] {
            let mut options = vec![("table.kv.format", kv), ("table.log.format", log)];
            if is_aggregating {
                options.push(engine(MergeEngine::Aggregation));
            }
            let mut bucket = Bucket::new(wide(is_aggregating), &options);
            let mut rng = SeededRng::new(number as u64);
            for _ in 0..400 {
                let batch = batch(&mut rng, &bucket);
                let targets: &[i32] = match rng.below(3) {
                    0 => &[0, 4, 9],
                    _ => &[],
                };
                let mode = PutMode {
                    target_columns: targets,
                    overwrite: rng.chance(20),
                };
                bucket.open().unwrap();
                let mut writer = bucket.tablet.lock();
                let outcome = writer.prepare(&bucket.table, &batch, mode, &bucket.numbers);
                drop(writer);
                match outcome {
                    Ok(prepared) => {
                        accepted += 1;
                        check_replay(&bucket, &prepared.changelog);
                    }
                    Err(KvError::Corrupt(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                assert!(bucket.content().is_empty() && bucket.log.end_offset() == 0);
            }
            // Also over rows that are there.
            for _ in 0..200 {
                let batch = batch(&mut rng, &bucket);
                match bucket.put_batch(&batch, PutMode::default()) {
                    Ok(_) | Err(KvError::Corrupt(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            bucket.engine.crash(|_, _| 0);
            bucket.crash(|_| 0, mainstem_env::Survival::Nothing);
            bucket.open().unwrap();
        }
    }
    assert!(accepted > 500 && refused > 500, "{accepted} and {refused}");
}
