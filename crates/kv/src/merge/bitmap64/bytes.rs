//! Reading little-endian numbers from bytes that may end early.

use super::Result;

/// What is left to read.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next so many bytes.
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let missing = || format!("{length} bytes expected, {} are left", self.0.len());
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(missing)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let missing = || format!("{N} bytes expected, {} are left", self.0.len());
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(missing)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// So many numbers of 16 bits.
    pub(super) fn u16s(&mut self, count: usize) -> Result<impl Iterator<Item = u16> + use<'a>> {
        let bytes = self.take(count * 2)?;
        let pairs = bytes.chunks_exact(2);
        Ok(pairs.map(|pair| u16::from_le_bytes([pair[0], pair[1]])))
    }
}
