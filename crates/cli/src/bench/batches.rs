//! Rows for measurements, encoded before anything is timed.

use std::sync::Arc;

use anyhow::Result;
use arrow_array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use bytes::Bytes;
use mainstem_format::arrow_type::arrow_schema;
use mainstem_format::{ArrowBatchEncoder, Compression, EncodeOptions};
use mainstem_types::{DataType, Schema, TypeKind};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// An encoded batch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Whole log batch.
    pub bytes: Bytes,
    /// Rows in it.
    pub rows: u64,
}

/// Encodes batches of one schema; the same seed gives the same rows.
pub struct BatchSource {
    schema: Schema,
    encoder: ArrowBatchEncoder,
    random: StdRng,
    /// Length of the texts, by column; the other types have fixed lengths.
    text_bytes: Vec<usize>,
}

impl BatchSource {
    /// Rows of 100 bytes: BIGINT, INT, TIMESTAMP(6), STRING of 20 and of 50.
    pub fn events() -> Result<Self> {
        let columns = [
            ("id", TypeKind::BigInt, 0),
            ("kind", TypeKind::Int, 0),
            ("at", TypeKind::Timestamp { precision: 6 }, 0),
            ("source", TypeKind::String, 20),
            ("message", TypeKind::String, 50),
        ];
        Self::new(
            columns.map(|(name, kind, text)| (name.to_owned(), kind, text)),
            Compression::None,
        )
    }

    /// Columns of texts of the same length.
    pub fn texts(columns: usize, text_bytes: usize) -> Result<Self> {
        let columns = (0..columns).map(|i| (format!("c{i}"), TypeKind::String, text_bytes));
        Self::new(columns, Compression::None)
    }

    /// BIGINT columns.
    pub fn integers(columns: usize) -> Result<Self> {
        let columns = (0..columns).map(|i| (format!("c{i}"), TypeKind::BigInt, 0));
        Self::new(columns, Compression::None)
    }

    /// Half of the columns BIGINT, a quarter DOUBLE, a quarter STRING of 15 bytes.
    pub fn mixed(columns: usize, compression: Compression) -> Result<Self> {
        let columns = (0..columns).map(|i| {
            let (kind, text) = match i % 4 {
                0 | 1 => (TypeKind::BigInt, 0),
                2 => (TypeKind::Double, 0),
                _ => (TypeKind::String, 15),
            };
            (format!("c{i}"), kind, text)
        });
        Self::new(columns, compression)
    }

    fn new(
        columns: impl IntoIterator<Item = (String, TypeKind, usize)>,
        compression: Compression,
    ) -> Result<Self> {
        let mut named = Vec::new();
        let mut text_bytes = Vec::new();
        for (name, kind, text) in columns {
            named.push((name, DataType::nullable(kind)));
            text_bytes.push(text);
        }
        let schema = Schema::of(named)?;
        let encoder = ArrowBatchEncoder::new(&schema, compression)?;
        Ok(Self {
            schema,
            encoder,
            random: StdRng::seed_from_u64(1),
            text_bytes,
        })
    }

    /// Schema of the rows.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// A batch of new rows.
    pub fn batch(&mut self, rows: usize) -> Result<Batch> {
        let kinds: Vec<TypeKind> = self
            .schema
            .columns
            .iter()
            .map(|column| column.data_type.kind.clone())
            .collect();
        let columns = kinds
            .iter()
            .zip(self.text_bytes.clone())
            .map(|(kind, text_bytes)| self.column(kind, rows, text_bytes))
            .collect();
        let batch = RecordBatch::try_new(arrow_schema(&self.schema), columns)?;
        let bytes = self
            .encoder
            .encode(&batch, None, EncodeOptions::default())?;
        Ok(Batch {
            bytes,
            rows: rows as u64,
        })
    }

    fn column(&mut self, kind: &TypeKind, rows: usize, text_bytes: usize) -> ArrayRef {
        let random = &mut self.random;
        match kind {
            TypeKind::Int => Arc::new(Int32Array::from_iter_values(
                (0..rows).map(|_| random.random_range(0..100)),
            )),
            TypeKind::Timestamp { .. } => Arc::new(TimestampMicrosecondArray::from_iter_values(
                (0..rows as i64).map(|row| 1_700_000_000_000_000 + row),
            )),
            TypeKind::Double => Arc::new(Float64Array::from_iter_values(
                (0..rows).map(|_| random.random::<f64>()),
            )),
            TypeKind::String => Arc::new(StringArray::from_iter_values(
                (0..rows).map(|_| text(random, text_bytes)),
            )),
            _ => Arc::new(Int64Array::from_iter_values(
                (0..rows).map(|_| random.random_range(0..1_000_000_000)),
            )),
        }
    }
}

fn text(random: &mut StdRng, bytes: usize) -> String {
    (0..bytes)
        .map(|_| char::from(random.random_range(b'a'..=b'z')))
        .collect()
}

#[cfg(test)]
mod tests {
    use mainstem_format::LogBatch;

    use super::*;

    #[test]
    fn an_event_has_about_100_bytes_and_all_batches_the_same_length() {
        let mut source = BatchSource::events().unwrap();
        let (one, other) = (source.batch(10_000).unwrap(), source.batch(10_000).unwrap());
        assert!(
            (98..101).contains(&(one.bytes.len() / 10_000)),
            "{}",
            one.bytes.len()
        );
        assert_eq!(one.bytes.len(), other.bytes.len());
        assert_ne!(one.bytes, other.bytes);
        let batch = LogBatch::parse(&one.bytes).unwrap();
        batch.verify_crc().unwrap();
        assert_eq!(batch.header().record_count, 10_000);
    }
}
