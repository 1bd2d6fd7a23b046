//! Unsigned LEB128 of two's-complement bits (formats.md §0): 7 bits per byte,
//! low group first, no zig-zag. A negative `i32` takes 5 bytes, a negative
//! `i64` takes 10.

use crate::{FormatError, Result};

/// Appends the bits of a 32-bit number.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    put_u64(out, u64::from(value));
}

/// Appends the bits of a 64-bit number.
pub fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    let mut bytes = [0; 10];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    out.extend_from_slice(&bytes[..=length]);
}

/// Reads a 32-bit number at the start of `bytes`; returns it and how many bytes
/// it took.
pub fn read_u32(bytes: &[u8]) -> Result<(u32, usize)> {
    let (value, length) = read(bytes, 5)?;
    match u32::try_from(value) {
        Ok(value) => Ok((value, length)),
        Err(_) => Err(FormatError::invalid(
            "variable-length integer of more than 32 bits",
        )),
    }
}

/// Reads a 64-bit number at the start of `bytes`; returns it and how many bytes
/// it took.
pub fn read_u64(bytes: &[u8]) -> Result<(u64, usize)> {
    read(bytes, 10)
}

fn read(bytes: &[u8], bytes_max: usize) -> Result<(u64, usize)> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().take(bytes_max).enumerate() {
        let group = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if index == 9 && group > 1 {
            return Err(FormatError::invalid(
                "variable-length integer of more than 64 bits",
            ));
        }
        value |= group << (7 * index);
        if byte < 0x80 {
            return Ok((value, index + 1));
        }
    }
    Err(FormatError::invalid(
        "variable-length integer without an end",
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_u64(&mut out, value);
        out
    }

    #[test]
    fn negative_numbers_take_the_full_width() {
        let mut out = Vec::new();
        put_u32(&mut out, -5_i32 as u32);
        assert_eq!(out, [0xfb, 0xff, 0xff, 0xff, 0x0f]);
        let bytes = bytes_of(-1_i64 as u64);
        assert_eq!((bytes.len(), bytes[9]), (10, 1));
    }

    #[test]
    fn numbers_that_are_too_wide_or_cut_are_refused() {
        assert!(read_u32(&[0xff, 0xff, 0xff, 0xff, 0x1f]).is_err());
        assert!(read_u32(&[0x80; 5]).is_err());
        assert!(read_u64(&[0xff; 10]).is_err());
        assert!(read_u64(&[0x80, 0x80]).is_err());
        assert!(read_u64(&[]).is_err());
        let mut two = vec![0xff; 9];
        two.push(2);
        assert!(read_u64(&two).is_err());
    }

    proptest! {
        #[test]
        fn every_number_comes_back(value: u64, tail: Vec<u8>) {
            let mut bytes = bytes_of(value);
            let length = bytes.len();
            bytes.extend(tail);
            prop_assert_eq!(read_u64(&bytes).unwrap(), (value, length));
            let narrow = value as u32;
            let bytes = bytes_of(u64::from(narrow));
            prop_assert_eq!(read_u32(&bytes).unwrap(), (narrow, bytes.len()));
        }
    }
}
