//! Lookup with `insert_if_not_exists` (tables.md §4.10): keys that are missing get
//! a row of nulls, with numbers in an auto-increment column.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_format::{KvBatchBuilder, Timestamp, Value};
use mainstem_kv::{KvTable, PutMode, Reach};
use mainstem_net::Reply;
use mainstem_protocol::messages as pb;
use mainstem_types::partition::{PartitionValue, values_of_name};
use mainstem_types::{PartitionId, TableBucket, TypeKind};

use super::lookup::{AnswerBudget, EncodedValues, KEYS_AT_ONCE, answer, entries_of};
use super::write::{Written, answer_when_committed, check_acks};
use super::{Refusal, TabletService, check_key_version, check_not_historical, off_the_runtime};
use crate::replica::{AppendOutcome, Replica};

/// What became of an entry before its insert is committed.
enum Found {
    /// Nothing was inserted.
    All(Vec<Option<Vec<u8>>>),
    /// These keys are looked up again when the insert is committed.
    Inserted(Arc<Replica>),
}

impl TabletService {
    pub(super) fn lookup_or_insert(
        self: &Arc<Self>,
        api_version: i16,
        request: pb::LookupRequest,
    ) -> Reply {
        let (Some(acks), Some(timeout_ms)) = (request.acks, request.timeout_ms) else {
            let message = "a lookup that inserts needs acks and timeout_ms";
            return Reply::Now(Refusal::new(-1, message).into());
        };
        if let Err(refusal) = check_acks(acks) {
            return Reply::Now(refusal.into());
        }
        let entries = entries_of(request);
        let mut found: Vec<Option<Found>> = Vec::with_capacity(entries.len());
        let written = off_the_runtime(|| {
            let insert = |(bucket, entry): &(_, _)| {
                let inserted = self.insert(bucket, entry, acks, api_version);
                let (written, values) = match inserted {
                    Ok((outcome, replica, values)) => (Ok((outcome, replica)), Some(values)),
                    Err(refusal) => (Err(refusal), None),
                };
                found.push(values);
                Written::new(written, acks)
            };
            entries.iter().map(insert).collect()
        });
        answer_when_committed(written, timeout_ms, move |outcomes| {
            let answers = outcomes
                .into_iter()
                .zip(&entries)
                .zip(found)
                .map(|((outcome, (_, entry)), found)| {
                    outcome?;
                    match found {
                        Some(Found::All(values)) => Ok(encoded(&values)),
                        Some(Found::Inserted(replica)) => {
                            let values = off_the_runtime(|| match acks {
                                0 => with_pending(&replica, entry),
                                _ => committed(&replica, entry),
                            });
                            Ok(encoded(&values?))
                        }
                        None => Err(Refusal::new(-1, "the outcome of an entry got lost")),
                    }
                })
                .collect();
            answer(&entries, answers)
        })
    }

    fn insert(
        &self,
        bucket: &TableBucket,
        entry: &pb::PbLookupReqForBucket,
        acks: i32,
        api_version: i16,
    ) -> Result<(AppendOutcome, Arc<Replica>, Found), Refusal> {
        let replica = self.replica(bucket, entry.routing_bucket_count)?;
        check_not_historical(entry.original_partition_name.as_deref())?;
        check_key_version(&replica, api_version)?;
        // Rows that are not committed yet are not told to anybody: a number in them may
        // be given out anew after a crash. The put finds them, and waits for them.
        let values = committed(&replica, entry)?;
        let (_, table) = replica.rows()?;
        let mut seen = HashSet::new();
        let missing: Vec<&Bytes> = entry
            .keys
            .iter()
            .zip(&values)
            .filter(|(key, value)| value.is_none() && seen.insert(*key))
            .map(|(key, _)| key)
            .collect();
        if missing.is_empty() {
            let found = Found::All(values);
            return Ok((AppendOutcome::nothing(), replica, found));
        }
        let target = key_columns(&table);
        let batch = self.rows_of_keys(&table, bucket.partition_id, &missing)?;
        let mode = PutMode {
            target_columns: &target,
            overwrite: false,
        };
        let outcome = replica.put(batch, mode, acks)?;
        let inserted = Found::Inserted(replica.clone());
        Ok((outcome, replica, inserted))
    }

    /// A KV batch of rows that have nothing but their keys.
    fn rows_of_keys(
        &self,
        table: &KvTable,
        partition: Option<PartitionId>,
        keys: &[&Bytes],
    ) -> Result<Bytes, Refusal> {
        let undecodable = |error: &dyn std::fmt::Display| Refusal::new(-1, error.to_string());
        let schema = table.latest_schema();
        let partition_values = match partition {
            Some(partition) => self.partition_values(table, partition)?,
            None => Vec::new(),
        };
        let mut builder = KvBatchBuilder::new(table.latest_schema_id(), -1, -1);
        let mut bytes = Vec::new();
        for key in keys {
            let mut row: Vec<Value<'_>> = vec![Value::Null; schema.columns.len()];
            let values = table.key().decode(key).map_err(|e| undecodable(&e))?;
            // The reference also takes a key with bytes behind it, or with numbers in
            // more bytes than they need; the row would have another key once it is
            // built from the changelog.
            bytes.clear();
            let encoded = table.key().encode(&values, &mut bytes);
            encoded.map_err(|e| undecodable(&e))?;
            if bytes != key[..] {
                return Err(undecodable(&"the key is not as its values are encoded"));
            }
            for (column, value) in table.key().columns().iter().zip(values) {
                row[*column] = value;
            }
            for (column, value) in &partition_values {
                row[*column] = value.clone();
            }
            bytes.clear();
            table.encode(&row, &mut bytes)?;
            builder
                .append(key, Some(&bytes))
                .map_err(|e| undecodable(&e))?;
        }
        Ok(builder.finish())
    }

    /// Positions and values of the partition columns.
    fn partition_values(
        &self,
        table: &KvTable,
        partition: PartitionId,
    ) -> Result<Vec<(usize, Value<'static>)>, Refusal> {
        let unknown = || Refusal::new(21, format!("partition {partition} is not known here"));
        let (keys, name) = self.replicas.partition(partition).ok_or_else(unknown)?;
        let texts = values_of_name(&name);
        keys.iter()
            .zip(texts)
            .map(|(key, text)| {
                let (position, column) = table.latest_schema().column(key)?;
                Some((position, value(&column.data_type.kind, text)?))
            })
            .collect::<Option<_>>()
            .ok_or_else(|| {
                let message = format!("partition `{name}` has no values of its columns' types");
                Refusal::new(43, message)
            })
    }
}

/// The value of a partition column; `None` if the text is of another type.
fn value(kind: &TypeKind, text: &str) -> Option<Value<'static>> {
    Some(match PartitionValue::parse(kind, text)? {
        PartitionValue::Text(text) => Value::String(text.into()),
        PartitionValue::Bool(value) => Value::Boolean(value),
        PartitionValue::Bytes(bytes) => Value::Bytes(bytes.into()),
        PartitionValue::Integer(value) => match kind {
            TypeKind::TinyInt => Value::TinyInt(value.try_into().ok()?),
            TypeKind::SmallInt => Value::SmallInt(value.try_into().ok()?),
            TypeKind::Int => Value::Int(value.try_into().ok()?),
            _ => Value::BigInt(value),
        },
        PartitionValue::Float(value) => Value::Float(value),
        PartitionValue::Double(value) => Value::Double(value),
        PartitionValue::Date(days) => Value::Date(days),
        PartitionValue::Time(millis) => Value::Time(millis),
        PartitionValue::Timestamp {
            millis,
            nanos_of_milli,
        } => Value::Timestamp(Timestamp {
            millis,
            nanos_of_milli: nanos_of_milli.try_into().ok()?,
        }),
    })
}

/// Positions of the primary key.
fn key_columns(table: &KvTable) -> Vec<i32> {
    let schema = table.latest_schema();
    let positions = schema.columns.iter().enumerate();
    positions
        .filter(|(_, column)| schema.is_primary_key_column(&column.name))
        .filter_map(|(position, _)| i32::try_from(position).ok())
        .collect()
}

/// Values of keys as far as committed.
fn committed(
    replica: &Replica,
    entry: &pb::PbLookupReqForBucket,
) -> Result<Vec<Option<Vec<u8>>>, Refusal> {
    let rows = replica.opened_rows()?;
    let mut values = Vec::with_capacity(entry.keys.len());
    let mut budget = AnswerBudget::default();
    for keys in entry.keys.chunks(KEYS_AT_ONCE) {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut fits = true;
        let read = rows.multi_get(&keys, Reach::Disk, &mut |_, value| {
            fits &= budget.take(value);
            values.push(value.filter(|_| fits).map(<[u8]>::to_vec));
        });
        read.map_err(|error| replica.read_failed(error))?;
        budget.check(fits)?;
    }
    Ok(values)
}

/// Values of keys with what is pending included, for a client that does not want to
/// wait.
fn with_pending(
    replica: &Replica,
    entry: &pb::PbLookupReqForBucket,
) -> Result<Vec<Option<Vec<u8>>>, Refusal> {
    let mut values = Vec::with_capacity(entry.keys.len());
    let mut budget = AnswerBudget::default();
    for keys in entry.keys.chunks(KEYS_AT_ONCE) {
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for value in replica.lock_rows()?.0.look_up(&keys)? {
            let fits = budget.take(value.as_deref());
            budget.check(fits)?;
            values.push(value);
        }
    }
    Ok(values)
}

fn encoded(values: &[Option<Vec<u8>>]) -> EncodedValues {
    let mut encoded = EncodedValues::default();
    for value in values {
        encoded.push(value.as_deref());
    }
    encoded
}
