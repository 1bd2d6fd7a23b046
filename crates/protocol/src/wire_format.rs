//! The protobuf encoding below messages: tags and varints.

use crate::decode::Malformed;

/// How the value of a field is laid out. Groups are not part of the protocol
/// (wire.md §1.6) and are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint,
    Fixed64,
    Delimited,
    Fixed32,
}

/// Reads tags and values from the front of a slice.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, position: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position == self.bytes.len()
    }

    /// A varint of at most ten bytes whose value fits 64 bits.
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (index, &byte) in self.bytes[self.position..].iter().take(10).enumerate() {
            if index == 9 && byte > 1 {
                return Err(Malformed::Varint);
            }
            value |= u64::from(byte & 0x7F) << (7 * index);
            if byte < 0x80 {
                self.position += index + 1;
                return Ok(value);
            }
        }
        Err(if self.bytes.len() - self.position < 10 {
            Malformed::Cut
        } else {
            Malformed::Varint
        })
    }

    /// Field number and wire type.
    pub(crate) fn tag(&mut self) -> Result<(u32, WireType), Malformed> {
        let key = u32::try_from(self.varint()?).map_err(|_| Malformed::Tag)?;
        let wire_type = match key & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Delimited,
            5 => WireType::Fixed32,
            _ => return Err(Malformed::Tag),
        };
        let number = key >> 3;
        if number == 0 {
            return Err(Malformed::Tag);
        }
        Ok((number, wire_type))
    }

    /// Steps over a value; the content, without its length, if it is delimited.
    pub(crate) fn value(&mut self, wire_type: WireType) -> Result<&'a [u8], Malformed> {
        let length = match wire_type {
            WireType::Varint => {
                let start = self.position;
                self.varint()?;
                return Ok(&self.bytes[start..self.position]);
            }
            WireType::Fixed64 => 8,
            WireType::Fixed32 => 4,
            WireType::Delimited => usize::try_from(self.varint()?).map_err(|_| Malformed::Cut)?,
        };
        let end = self.position.checked_add(length).ok_or(Malformed::Cut)?;
        let value = self.bytes.get(self.position..end).ok_or(Malformed::Cut)?;
        self.position = end;
        Ok(value)
    }
}

/// Appends the shortest varint of `value`.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7F) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Length of the shortest varint of `value`.
pub(crate) fn varint_length(value: u64) -> usize {
    // 1 + number of further groups of seven bits.
    1 + (63 - (value | 1).leading_zeros() as usize) / 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_with_the_announced_length() {
        for shift in 0..64 {
            for value in [
                1u64 << shift,
                (1u64 << shift) - 1,
                (1u64 << shift) + 1,
                u64::MAX,
            ] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert_eq!(bytes.len(), varint_length(value), "{value}");
                let mut cursor = Cursor::new(&bytes);
                assert_eq!(cursor.varint(), Ok(value));
                assert!(cursor.is_at_end());
            }
        }
    }

    #[test]
    fn a_varint_that_ends_early_or_overflows_is_refused() {
        assert_eq!(Cursor::new(&[0x80]).varint(), Err(Malformed::Cut));
        assert_eq!(Cursor::new(&[]).varint(), Err(Malformed::Cut));
        assert_eq!(Cursor::new(&[0xFF; 11]).varint(), Err(Malformed::Varint));
        let mut too_large = [0xFF; 10];
        too_large[9] = 2;
        assert_eq!(Cursor::new(&too_large).varint(), Err(Malformed::Varint));
    }

    #[test]
    fn groups_and_field_zero_are_refused() {
        for tag in [0x0B, 0x0C, 0x0E, 0x0F, 0x00, 0x02] {
            assert_eq!(Cursor::new(&[tag]).tag(), Err(Malformed::Tag), "{tag:#x}");
        }
    }
}
