//! Key bytes: columns of a row as one byte string (formats.md §4.7, §4.8).
//!
//! Primary keys index the KV store, bucket keys choose the bucket. Both sides
//! of the protocol must produce the same bytes: the server never recomputes a
//! client's key, and rebuilds keys from the changelog itself.

mod hudi;
mod iceberg;

use mainstem_types::{DataType, Schema, TableDescriptor, TypeKind};

use crate::byte_reader::ByteReader;
use crate::row::RowFormat;
use crate::value::Value;
use crate::{FormatError, Result, aligned_row, compacted_row};

/// Table option that names the lake format, which decides encodings and hashes.
const LAKE_FORMAT_OPTION: &str = "table.datalake.format";
/// Table option of the rules by which primary keys are encoded; absent = 1.
const KV_FORMAT_VERSION_OPTION: &str = "table.kv.format-version";

/// How key columns become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEncoding {
    /// Values of the compacted row without null bits: the default.
    Compacted,
    /// The aligned row.
    Paimon,
    /// The bytes that Iceberg hashes; one column only.
    Iceberg,
    /// The hash of Hudi's record key, four bytes; bucket keys only.
    Hudi,
}

/// The lake format recorded in a table, whether or not it is tiered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LakeFormat {
    Paimon,
    Lance,
    Iceberg,
    Hudi,
}

impl LakeFormat {
    /// The lake format that a table records; `None` = no lake.
    pub fn of_table(table: &TableDescriptor) -> Result<Option<Self>> {
        let Some(name) = table.properties.get(LAKE_FORMAT_OPTION) else {
            return Ok(None);
        };
        match name.to_ascii_lowercase().as_str() {
            "paimon" => Ok(Some(Self::Paimon)),
            "lance" => Ok(Some(Self::Lance)),
            "iceberg" => Ok(Some(Self::Iceberg)),
            "hudi" => Ok(Some(Self::Hudi)),
            _ => Err(FormatError::invalid(format!(
                "unknown {LAKE_FORMAT_OPTION} `{name}`"
            ))),
        }
    }

    fn key_encoding(lake: Option<Self>) -> KeyEncoding {
        match lake {
            None | Some(Self::Lance) => KeyEncoding::Compacted,
            Some(Self::Paimon) => KeyEncoding::Paimon,
            Some(Self::Iceberg) => KeyEncoding::Iceberg,
            Some(Self::Hudi) => KeyEncoding::Hudi,
        }
    }
}

/// Encodes and decodes the key of certain columns of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEncoder {
    encoding: KeyEncoding,
    /// Positions in the schema, in key order.
    columns: Vec<usize>,
    types: Vec<DataType>,
}

impl KeyEncoder {
    /// An encoder of the named columns.
    ///
    /// Errors: an unknown column, no column at all, or columns that the
    /// encoding does not take.
    pub fn new<S: AsRef<str>>(
        encoding: KeyEncoding,
        schema: &Schema,
        column_names: &[S],
    ) -> Result<Self> {
        let mut columns = Vec::with_capacity(column_names.len());
        let mut types = Vec::with_capacity(column_names.len());
        for name in column_names {
            let name = name.as_ref();
            let Some((index, column)) = schema.column(name) else {
                return Err(FormatError::invalid(format!(
                    "key column `{name}` does not exist"
                )));
            };
            columns.push(index);
            types.push(column.data_type.clone());
        }
        check_types(encoding, &types)?;
        Ok(Self {
            encoding,
            columns,
            types,
        })
    }

    /// The encoder of a table's primary key. Partition columns are not part of
    /// it.
    pub fn primary_key(table: &TableDescriptor) -> Result<Self> {
        let columns = physical_primary_key(table);
        Self::new(primary_key_encoding(table)?, &table.schema, &columns)
    }

    /// The encoder of the prefix that prefix lookups search for: the bucket
    /// columns, encoded as the primary key is.
    pub fn prefix(table: &TableDescriptor) -> Result<Self> {
        Self::new(
            primary_key_encoding(table)?,
            &table.schema,
            &bucket_key(table),
        )
    }

    /// The encoder of a table's bucket key; `None` when any bucket will do.
    pub fn bucket_key(table: &TableDescriptor) -> Result<Option<Self>> {
        let columns = bucket_key(table);
        if columns.is_empty() {
            return Ok(None);
        }
        let encoding = LakeFormat::key_encoding(LakeFormat::of_table(table)?);
        Self::new(encoding, &table.schema, &columns).map(Some)
    }

    /// How the columns are encoded.
    pub fn encoding(&self) -> KeyEncoding {
        self.encoding
    }

    /// Positions of the key columns in the schema, in key order.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Types of the key columns, in key order.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Appends the key of a row of the whole schema.
    pub fn encode_row(&self, row: &[Value<'_>], out: &mut Vec<u8>) -> Result<()> {
        if let Some(column) = self.columns.iter().find(|&&column| column >= row.len()) {
            return Err(FormatError::invalid(format!(
                "key column {column} in a row of {} columns",
                row.len()
            )));
        }
        self.encode_values(self.columns.iter().map(|&column| &row[column]), out)
    }

    /// Appends the key of values in key order.
    pub fn encode(&self, values: &[Value<'_>], out: &mut Vec<u8>) -> Result<()> {
        if values.len() != self.types.len() {
            return Err(FormatError::invalid(format!(
                "{} values for a key of {} columns",
                values.len(),
                self.types.len()
            )));
        }
        self.encode_values(values.iter(), out)
    }

    /// `values` are as many as there are types.
    fn encode_values<'v, 'd: 'v>(
        &self,
        values: impl ExactSizeIterator<Item = &'v Value<'d>>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self.encoding {
            KeyEncoding::Compacted => {
                for (value, data_type) in values.zip(&self.types) {
                    refuse_null(value)?;
                    compacted_row::put_value(value, data_type, out)?;
                }
                Ok(())
            }
            KeyEncoding::Paimon => aligned_row::encode_values(values, self.types.as_slice(), out),
            KeyEncoding::Iceberg => {
                for (value, data_type) in values.zip(&self.types) {
                    refuse_null(value)?;
                    iceberg::put_value(value, data_type, out)?;
                }
                Ok(())
            }
            KeyEncoding::Hudi => hudi::put_hash(values.zip(&self.types), out),
        }
    }

    /// Reads the values of a key, in key order.
    ///
    /// Errors: bytes that no encoder writes, trailing ones included;
    /// [`FormatError::Unsupported`] for Hudi, whose keys are hashes.
    pub fn decode<'a>(&self, key: &'a [u8]) -> Result<Vec<Value<'a>>> {
        match self.encoding {
            KeyEncoding::Compacted => {
                let mut reader = ByteReader::new(key);
                let values = self
                    .types
                    .iter()
                    .map(|data_type| compacted_row::read_value(&mut reader, data_type))
                    .collect::<Result<Vec<_>>>()?;
                match reader.remaining() {
                    0 => Ok(values),
                    left => Err(FormatError::invalid(format!("{left} bytes behind a key"))),
                }
            }
            KeyEncoding::Paimon => RowFormat::Aligned.decode(key, self.types.as_slice()),
            KeyEncoding::Iceberg => Ok(vec![iceberg::read_value(key, &self.types[0])?]),
            KeyEncoding::Hudi => Err(FormatError::unsupported(
                "reading values from a Hudi bucket key",
            )),
        }
    }
}

fn refuse_null(value: &Value<'_>) -> Result<()> {
    match value.is_null() {
        true => Err(FormatError::invalid("null in a key")),
        false => Ok(()),
    }
}

fn check_types(encoding: KeyEncoding, types: &[DataType]) -> Result<()> {
    if types.is_empty() {
        return Err(FormatError::invalid("a key without columns"));
    }
    if encoding == KeyEncoding::Iceberg && types.len() != 1 {
        return Err(FormatError::invalid(format!(
            "an Iceberg key has one column, this one {}",
            types.len()
        )));
    }
    for data_type in types {
        let kind = &data_type.kind;
        let supported = match encoding {
            KeyEncoding::Compacted | KeyEncoding::Paimon => true,
            KeyEncoding::Iceberg => iceberg::is_supported(kind),
            KeyEncoding::Hudi => !matches!(
                kind,
                TypeKind::Binary { .. }
                    | TypeKind::Bytes
                    | TypeKind::Array(_)
                    | TypeKind::Map { .. }
                    | TypeKind::Row(_)
            ),
        };
        if !supported {
            return Err(FormatError::unsupported(format!(
                "{encoding:?} key of type {kind:?}"
            )));
        }
    }
    Ok(())
}

/// Primary key columns without the partition columns, in primary-key order.
pub fn physical_primary_key(table: &TableDescriptor) -> Vec<&str> {
    let is_partition = |name: &&String| table.partition_keys.contains(name);
    let names = table
        .schema
        .primary_key
        .iter()
        .filter(|name| !is_partition(name));
    names.map(String::as_str).collect()
}

/// Declared bucket columns, or those of the primary key.
fn bucket_key(table: &TableDescriptor) -> Vec<&str> {
    if table.bucket_keys.is_empty() {
        return physical_primary_key(table);
    }
    table.bucket_keys.iter().map(String::as_str).collect()
}

fn primary_key_encoding(table: &TableDescriptor) -> Result<KeyEncoding> {
    let lake = LakeFormat::of_table(table)?;
    if lake == Some(LakeFormat::Hudi) {
        return Ok(KeyEncoding::Compacted);
    }
    let encoding = LakeFormat::key_encoding(lake);
    match table
        .properties
        .get(KV_FORMAT_VERSION_OPTION)
        .map(String::as_str)
    {
        None | Some("1") => Ok(encoding),
        // A prefix of the key must be a byte prefix, for prefix lookups.
        Some("2") if bucket_key(table) != physical_primary_key(table) => Ok(KeyEncoding::Compacted),
        Some("2") => Ok(encoding),
        Some(version) => Err(FormatError::invalid(format!(
            "unknown {KV_FORMAT_VERSION_OPTION} `{version}`"
        ))),
    }
}

#[cfg(test)]
mod tests;
