//! What is known of a primary-key table: how its rows and keys are laid out, and
//! by which rules they change.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstem_format::{Compression, KeyEncoder, RowFormat, Value};
use mainstem_types::{
    ChangelogImage, DeleteBehavior, KvFormat, LogFormat, Schema, TableDescriptor, TypeKind,
};
use parking_lot::Mutex;

use crate::changelog::ChangelogBuilder;
use crate::merge::MergeRules;
use crate::{KvError, Result};

/// Changelog builders kept between puts.
const BUILDERS_MAX: usize = 4;

/// A primary-key table as of one version of its schema.
#[derive(Debug)]
pub struct KvTable {
    latest: i16,
    schemas: BTreeMap<i16, RowSchema>,
    row_format: RowFormat,
    log_format: LogFormat,
    compression: Compression,
    image: ChangelogImage,
    deletes: DeleteBehavior,
    rules: MergeRules,
    key: KeyEncoder,
    auto_increment: Option<AutoIncrementColumn>,
    builders: Mutex<Vec<ChangelogBuilder>>,
}

/// The auto-increment column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoIncrementColumn {
    /// Name.
    pub name: String,
    /// Position in the latest schema.
    pub position: usize,
    /// Id that stays with the column.
    pub column_id: i32,
    /// Largest number that its type holds.
    pub max: i64,
    /// Numbers that a bucket takes at once.
    pub cache_size: i64,
}

impl AutoIncrementColumn {
    /// A number as a value of the column.
    pub fn value(&self, number: i64) -> Value<'static> {
        match i32::try_from(number) {
            Ok(number) if self.max == i64::from(i32::MAX) => Value::Int(number),
            _ => Value::BigInt(number),
        }
    }

    /// The number that a value of the column holds.
    pub fn number(value: &Value<'_>) -> Option<i64> {
        match value {
            Value::Int(number) => Some(i64::from(*number)),
            Value::BigInt(number) => Some(*number),
            _ => None,
        }
    }
}

/// One version of the schema, and where its columns are in the latest.
#[derive(Debug)]
struct RowSchema {
    schema: Arc<Schema>,
    /// For every column of the latest schema the position here; `None` if the
    /// columns here are the first ones of the latest, in the same order.
    positions: Option<Vec<Option<usize>>>,
}

impl KvTable {
    /// A table of a descriptor, whose schema is the latest of `schemas`.
    ///
    /// # Errors
    /// A descriptor that no table could be created with.
    pub fn new(
        descriptor: &TableDescriptor,
        schemas: impl IntoIterator<Item = (i16, Arc<Schema>)>,
    ) -> Result<Self> {
        let all: BTreeMap<i16, Arc<Schema>> = schemas.into_iter().collect();
        let invalid = |reason: &dyn std::fmt::Display| KvError::Corrupt(format!("table: {reason}"));
        let (&latest, newest) = all.last_key_value().ok_or_else(|| invalid(&"no schema"))?;
        let newest = newest.clone();
        let schemas = all
            .into_iter()
            .map(|(id, schema)| {
                let positions = positions(&schema, &newest);
                (id, RowSchema { schema, positions })
            })
            .collect();
        let compression = descriptor.arrow_compression().map_err(|e| invalid(&e))?;
        let cache_size = descriptor
            .auto_increment_cache_size()
            .map_err(|e| invalid(&e))?;
        Ok(Self {
            latest,
            row_format: match descriptor.kv_format().map_err(|e| invalid(&e))? {
                KvFormat::Compacted => RowFormat::Compacted,
                KvFormat::Indexed => RowFormat::Indexed,
            },
            log_format: descriptor.log_format().map_err(|e| invalid(&e))?,
            compression: Compression::from(compression),
            image: descriptor.changelog_image().map_err(|e| invalid(&e))?,
            deletes: descriptor.delete_behavior().map_err(|e| invalid(&e))?,
            rules: MergeRules::new(descriptor, &newest),
            key: KeyEncoder::primary_key(descriptor)?,
            auto_increment: auto_increment(&newest, cache_size),
            builders: Mutex::default(),
            schemas,
        })
    }

    /// Id of the latest schema.
    pub fn latest_schema_id(&self) -> i16 {
        self.latest
    }

    /// A version of the schema.
    ///
    /// # Errors
    /// [`KvError::UnknownSchema`].
    pub fn schema(&self, schema_id: i16) -> Result<&Arc<Schema>> {
        self.version(schema_id).map(|version| &version.schema)
    }

    /// The latest schema.
    pub fn latest_schema(&self) -> &Arc<Schema> {
        &self.schemas[&self.latest].schema
    }

    fn version(&self, schema_id: i16) -> Result<&RowSchema> {
        self.schemas.get(&schema_id).ok_or(KvError::UnknownSchema {
            schema_id,
            latest: self.latest,
        })
    }

    /// Layout of rows in puts and in the store.
    pub fn row_format(&self) -> RowFormat {
        self.row_format
    }

    /// Layout of the changelog.
    pub fn log_format(&self) -> LogFormat {
        self.log_format
    }

    /// Compression of an Arrow changelog.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// What the changelog says of an update.
    pub fn image(&self) -> ChangelogImage {
        self.image
    }

    /// What a delete does.
    pub fn deletes(&self) -> DeleteBehavior {
        self.deletes
    }

    /// By which rule rows are merged.
    pub fn rules(&self) -> &MergeRules {
        &self.rules
    }

    /// Encoder of the keys.
    pub fn key(&self) -> &KeyEncoder {
        &self.key
    }

    /// The auto-increment column.
    pub fn auto_increment(&self) -> Option<&AutoIncrementColumn> {
        self.auto_increment.as_ref()
    }

    /// Whether the number of rows is known: not if a first row looks like an
    /// update (tables.md §4.8).
    pub fn counts_rows(&self) -> bool {
        self.image == ChangelogImage::Full
    }

    /// Reads a row of a schema as one of the latest schema.
    ///
    /// # Errors
    /// Bytes that are no row of that schema.
    pub fn decode<'a>(&self, schema_id: i16, row: &'a [u8]) -> Result<Vec<Value<'a>>> {
        let mut values = Vec::new();
        self.decode_into(schema_id, row, &mut values)?;
        Ok(values)
    }

    /// As [`decode`](Self::decode), into a list that is emptied first.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_into<'a>(
        &self,
        schema_id: i16,
        row: &'a [u8],
        values: &mut Vec<Value<'a>>,
    ) -> Result<()> {
        let version = self.version(schema_id)?;
        let columns = version.schema.columns.as_slice();
        self.row_format.decode_into(row, columns, values)?;
        match &version.positions {
            None => values.resize(self.latest_schema().columns.len(), Value::Null),
            Some(positions) => {
                *values = positions
                    .iter()
                    .map(|position| position.map_or(Value::Null, |at| values[at].clone()))
                    .collect();
            }
        }
        Ok(())
    }

    /// Writes a row of the latest schema.
    ///
    /// # Errors
    /// Values that their columns cannot hold.
    pub fn encode(&self, values: &[Value<'_>], out: &mut Vec<u8>) -> Result<()> {
        let columns = self.latest_schema().columns.as_slice();
        Ok(self.row_format.encode(values, columns, out)?)
    }

    /// A builder for the next changelog batch, new or used before.
    pub(crate) fn builder(&self, writer_id: i64, batch_sequence: i32) -> Result<ChangelogBuilder> {
        match self.builders.lock().pop() {
            Some(builder) => Ok(builder),
            None => ChangelogBuilder::new(self, writer_id, batch_sequence),
        }
    }

    /// Keeps a builder, which has nothing in it, for a later put.
    pub(crate) fn keep_builder(&self, builder: ChangelogBuilder) {
        let mut builders = self.builders.lock();
        if builder.is_reusable() && builders.len() < BUILDERS_MAX {
            builders.push(builder);
        }
    }
}

fn auto_increment(schema: &Schema, cache_size: i64) -> Option<AutoIncrementColumn> {
    let name = schema.auto_increment.first()?;
    let (position, column) = schema.column(name)?;
    Some(AutoIncrementColumn {
        name: name.clone(),
        position,
        column_id: column.id,
        max: match column.data_type.kind {
            TypeKind::Int => i64::from(i32::MAX),
            _ => i64::MAX,
        },
        cache_size: cache_size.max(1),
    })
}

/// See [`RowSchema::positions`].
fn positions(schema: &Schema, newest: &Schema) -> Option<Vec<Option<usize>>> {
    let mut pairs = schema.columns.iter().zip(&newest.columns);
    if schema.columns.len() <= newest.columns.len() && pairs.all(|(one, other)| one.id == other.id)
    {
        return None;
    }
    let position = |id: i32| schema.columns.iter().position(|column| column.id == id);
    Some(newest.columns.iter().map(|c| position(c.id)).collect())
}
