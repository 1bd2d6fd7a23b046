//! Key bytes: columns of a row as one byte string (formats.md §4.7, §4.8).
//!
//! Primary keys index the KV store, bucket keys choose the bucket. Both sides
//! of the protocol must produce the same bytes: the server never recomputes a
//! client's key, and rebuilds keys from the changelog itself.

mod hudi;
mod iceberg;

use mainstem_types::{DataType, LakeFormat, Schema, TableDescriptor, TableError, TypeKind};

use crate::byte_reader::ByteReader;
use crate::row::RowFormat;
use crate::value::Value;
use crate::{FormatError, Result, aligned_row, compacted_row};

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

impl KeyEncoding {
    /// The encoding that a lake format prescribes for bucket keys.
    pub fn of_lake(lake: Option<LakeFormat>) -> Self {
        match lake {
            None | Some(LakeFormat::Lance) => Self::Compacted,
            Some(LakeFormat::Paimon) => Self::Paimon,
            Some(LakeFormat::Iceberg) => Self::Iceberg,
            Some(LakeFormat::Hudi) => Self::Hudi,
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
        let columns = table.physical_primary_key();
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
        let encoding = KeyEncoding::of_lake(lake_format(table)?);
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

/// Declared bucket columns, or those of the primary key.
fn bucket_key(table: &TableDescriptor) -> Vec<&str> {
    if table.bucket_keys.is_empty() {
        return table.physical_primary_key();
    }
    table.bucket_keys.iter().map(String::as_str).collect()
}

fn primary_key_encoding(table: &TableDescriptor) -> Result<KeyEncoding> {
    let lake = lake_format(table)?;
    if lake == Some(LakeFormat::Hudi) {
        return Ok(KeyEncoding::Compacted);
    }
    match table.kv_format_version().map_err(option_error)? {
        1 => Ok(KeyEncoding::of_lake(lake)),
        // A prefix of the key must be a byte prefix, for prefix lookups.
        2 if bucket_key(table) != table.physical_primary_key() => Ok(KeyEncoding::Compacted),
        2 => Ok(KeyEncoding::of_lake(lake)),
        version => Err(FormatError::invalid(format!(
            "unknown KV format version {version}"
        ))),
    }
}

/// The lake format that a table records, whether or not it is tiered.
pub(crate) fn lake_format(table: &TableDescriptor) -> Result<Option<LakeFormat>> {
    table.lake_format().map_err(option_error)
}

fn option_error(error: TableError) -> FormatError {
    FormatError::invalid(error.to_string())
}

#[cfg(test)]
mod tests;
