//! Vectors of tables.md §9.2 and §9.3, on a table that applies merged rows and
//! says what its changelog would say (§4.2).

mod aggregation;
mod engines;
mod partial_update;
mod targets;

use std::collections::BTreeMap;

use mainstem_format::Value;
use mainstem_types::{
    AggFunction, DataType, DeleteBehavior, MergeEngine, Schema, TableDescriptor, TypeKind,
};

use super::{MergeRules, Merged};
use crate::{KvError, Result};

/// Rows by key. Rows are written as text: `1,v11,null`.
struct Table {
    descriptor: TableDescriptor,
    rows: BTreeMap<String, Vec<Value<'static>>>,
}

/// What a request does beside rows.
#[derive(Clone, Copy)]
enum Write<'t> {
    /// All columns.
    Full,
    /// Some columns.
    Target(&'t [i32]),
    /// All columns, past the merge engine.
    Overwrite,
    /// Some columns, past the merge engine.
    OverwriteTarget(&'t [i32]),
}
use Write::{Full, Overwrite, OverwriteTarget, Target};

impl Table {
    fn new(schema: Schema, options: &[(&str, &str)]) -> Self {
        let table = TableDescriptor::new(schema);
        Self {
            descriptor: options.iter().fold(table, |table, (key, value)| {
                table.with_property(*key, *value)
            }),
            rows: BTreeMap::new(),
        }
    }

    /// The same rows in a table with another schema, whose columns are those of the
    /// old one by id, or null.
    fn altered(self, schema: Schema) -> Self {
        let old = self.descriptor.schema.columns;
        let mut rows = self.rows;
        for row in rows.values_mut() {
            let value = |id: i32| {
                let at = old.iter().position(|column| column.id == id);
                at.map_or(Value::Null, |at| row[at].clone())
            };
            *row = schema
                .columns
                .iter()
                .map(|column| value(column.id))
                .collect();
        }
        let descriptor = TableDescriptor {
            schema,
            ..self.descriptor
        };
        Self { descriptor, rows }
    }

    fn row(&self, text: &str) -> Vec<Value<'static>> {
        let columns = self.descriptor.schema.columns.iter();
        // Columns that the sender's schema does not have are null.
        let fields = text.split(',').chain(std::iter::repeat("null"));
        columns
            .zip(fields)
            .map(|(column, text)| value(&column.data_type.kind, text))
            .collect()
    }

    fn text(&self, row: &[Value<'_>]) -> String {
        let texts: Vec<String> = row.iter().map(text).collect();
        texts.join(",")
    }

    fn key(&self, row: &[Value<'_>]) -> String {
        let schema = &self.descriptor.schema;
        let key = schema.positions(&schema.primary_key).unwrap();
        let texts: Vec<String> = key.into_iter().map(|at| text(&row[at])).collect();
        texts.join(",")
    }

    /// Applies a batch of rows, `-` before one being the delete of its key, and
    /// returns the changelog.
    fn try_put(&mut self, write: Write<'_>, batch: &[&str]) -> Result<String> {
        let (target, overwrite) = match write {
            Full => (&[][..], false),
            Target(target) => (target, false),
            Overwrite => (&[][..], true),
            OverwriteTarget(target) => (target, true),
        };
        let rules = MergeRules::new(&self.descriptor, &self.descriptor.schema);
        let merger = rules.merger(target, overwrite)?;
        let mut changes = Vec::new();
        for record in batch {
            let new = self.row(record.trim_start_matches('-'));
            let key = self.key(&new);
            let old = self.rows.get(&key).map(Vec::as_slice);
            let is_delete = record.starts_with('-');
            let merged = match (is_delete, old) {
                (false, old) => merger.upsert(old, &new)?,
                (true, Some(old)) if overwrite || self.takes_deletes() => merger.delete(old)?,
                (true, _) => Merged::Unchanged,
            };
            let kept = match merged {
                Merged::Unchanged => continue,
                Merged::AsSent => Some(new),
                Merged::Row(row) => Some(row.into_iter().map(Value::into_owned).collect()),
                Merged::Removed => None,
            };
            match (old, &kept) {
                (None, Some(new)) => changes.push(format!("+I[{}]", self.text(new))),
                (Some(old), Some(new)) => {
                    changes.push(format!("-U[{}]", self.text(old)));
                    changes.push(format!("+U[{}]", self.text(new)));
                }
                (Some(old), None) => changes.push(format!("-D[{}]", self.text(old))),
                (None, None) => unreachable!("a delete of a row that is not there"),
            }
            match kept {
                Some(row) => self.rows.insert(key, row),
                None => self.rows.remove(&key),
            };
        }
        Ok(changes.join(" "))
    }

    #[track_caller]
    fn put(&mut self, write: Write<'_>, batch: &[&str]) -> String {
        self.try_put(write, batch).unwrap()
    }

    #[track_caller]
    fn refused(&mut self, write: Write<'_>) -> String {
        match self.try_put(write, &[]) {
            Err(KvError::InvalidTarget(text)) => text,
            other => panic!("{other:?} instead of a refused target"),
        }
    }

    fn lookup(&self, key: &str) -> String {
        self.rows
            .get(key)
            .map_or("none".to_owned(), |row| self.text(row))
    }

    /// The put path's rule, with the server's default for merge engines.
    fn takes_deletes(&self) -> bool {
        let is_set = self
            .descriptor
            .properties
            .contains_key("table.delete.behavior");
        match self.descriptor.merge_engine().unwrap() {
            Some(_) if !is_set => false,
            _ => self.descriptor.delete_behavior().unwrap() == DeleteBehavior::Allow,
        }
    }
}

fn value(kind: &TypeKind, text: &str) -> Value<'static> {
    if text == "null" {
        return Value::Null;
    }
    match kind {
        TypeKind::Int => Value::Int(text.parse().unwrap()),
        TypeKind::BigInt => Value::BigInt(text.parse().unwrap()),
        TypeKind::Double => Value::Double(text.parse().unwrap()),
        TypeKind::Boolean => Value::Boolean(text.parse().unwrap()),
        TypeKind::Decimal { .. } => Value::Decimal(text.parse().unwrap()),
        TypeKind::String => Value::String(text.to_owned().into()),
        other => panic!("no values of type {other:?} in these tests"),
    }
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::BigInt(value) => value.to_string(),
        Value::Double(value) => format!("{value:?}"),
        Value::Boolean(value) => value.to_string(),
        Value::Decimal(value) => value.to_string(),
        Value::String(value) => value.to_string(),
        other => panic!("no value {other:?} in these tests"),
    }
}

const INT: DataType = DataType::nullable(TypeKind::Int);
const BIGINT: DataType = DataType::nullable(TypeKind::BigInt);
const DOUBLE: DataType = DataType::nullable(TypeKind::Double);
const STRING: DataType = DataType::nullable(TypeKind::String);

/// Schema A of tables.md §9.1.
fn schema_a() -> Schema {
    let columns = [("a", INT), ("b", STRING)];
    Schema::builder()
        .columns(columns)
        .primary_key(["a"])
        .build()
        .unwrap()
}

/// Schema B of tables.md §9.2; it is A with one more column.
fn schema_b() -> Schema {
    let columns = [("a", INT), ("b", STRING), ("c", STRING)];
    Schema::builder()
        .columns(columns)
        .primary_key(["a"])
        .build()
        .unwrap()
}

/// Columns with functions, keyed by the first.
fn aggregating(columns: &[(&str, DataType, Option<&str>)]) -> Schema {
    let builder = columns
        .iter()
        .fold(Schema::builder(), |builder, (name, data_type, function)| {
            let builder = builder.column(*name, data_type.clone());
            match function {
                Some(function) => builder.aggregate(AggFunction::new(function)),
                None => builder,
            }
        });
    builder.primary_key([columns[0].0]).build().unwrap()
}

fn engine(engine: MergeEngine) -> (&'static str, &'static str) {
    ("table.merge-engine", engine.text())
}
