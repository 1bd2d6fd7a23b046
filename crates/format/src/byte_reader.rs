//! Reading little-endian values from a byte slice of unknown origin.

use crate::{FormatError, Result, varint};

/// A position in a byte slice. Every read checks the bytes that are left.
#[derive(Clone, Debug)]
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.position..];
        match rest.get(..length) {
            Some(taken) => {
                self.position += length;
                Ok(taken)
            }
            None => Err(FormatError::invalid(format!(
                "{length} bytes expected at {}, {} left",
                self.position,
                rest.len()
            ))),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn i16(&mut self) -> Result<i16> {
        self.array().map(i16::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn f32(&mut self) -> Result<f32> {
        self.array().map(f32::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64> {
        self.array().map(f64::from_le_bytes)
    }

    pub(crate) fn uvar32(&mut self) -> Result<u32> {
        let (value, length) = varint::read_u32(&self.bytes[self.position..])?;
        self.position += length;
        Ok(value)
    }

    pub(crate) fn uvar64(&mut self) -> Result<u64> {
        let (value, length) = varint::read_u64(&self.bytes[self.position..])?;
        self.position += length;
        Ok(value)
    }

    /// Bytes behind an i32 length.
    pub(crate) fn prefixed_i32(&mut self) -> Result<&'a [u8]> {
        let length = self.i32()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length),
            Err(_) => Err(FormatError::invalid(format!("length {length} is negative"))),
        }
    }

    /// Bytes behind a uvar32 length.
    pub(crate) fn prefixed_uvar32(&mut self) -> Result<&'a [u8]> {
        let length = self.uvar32()?;
        self.take(length as usize)
    }
}
