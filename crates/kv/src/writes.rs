//! Changes of a store, in order.

use std::ops::Range;

/// Bytes before the first change: sequence number (8), number of changes (4).
const HEADER: usize = 12;
const DELETE: u8 = 0;
const PUT: u8 = 1;

/// Puts and deletes in the order in which they are to be applied.
///
/// The bytes are those of a RocksDB write batch, so that this engine takes them as
/// they are: `u64 0 · u32 count · changes`, a change being `u8 1 · uvar32 length ·
/// key · uvar32 length · value` or `u8 0 · uvar32 length · key`, all little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvWrites {
    bytes: Vec<u8>,
    count: u32,
}

/// Where in a [`KvWrites`] a change has its key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueAt {
    /// Range of the key.
    pub key: Range<usize>,
    /// Range of the value; `None` for a delete.
    pub value: Option<Range<usize>>,
}

impl Default for KvWrites {
    fn default() -> Self {
        Self {
            bytes: vec![0; HEADER],
            count: 0,
        }
    }
}

impl KvWrites {
    /// No changes, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut writes = Vec::with_capacity(bytes.max(HEADER));
        writes.resize(HEADER, 0);
        Self {
            bytes: writes,
            count: 0,
        }
    }

    /// Adds a change of other writes.
    pub fn copy(&mut self, other: &Self, at: &ValueAt) {
        let value = at.value.as_ref().map(|value| other.slice(value));
        self.change(other.slice(&at.key), value);
    }

    /// Puts a stored value, or deletes the key if there is none.
    pub fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            None => drop(self.begin(DELETE, key)),
            Some(value) => {
                self.begin(PUT, key);
                self.length(value.len());
                self.bytes.extend_from_slice(value);
            }
        }
    }

    /// Puts the stored value `schema_id · row` (formats.md §5.1).
    pub fn put(&mut self, key: &[u8], schema_id: i16, row: &[u8]) -> ValueAt {
        let key = self.begin(PUT, key);
        self.length(row.len() + 2);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&schema_id.to_le_bytes());
        self.bytes.extend_from_slice(row);
        ValueAt {
            key,
            value: Some(start..self.bytes.len()),
        }
    }

    /// Deletes the key.
    pub fn delete(&mut self, key: &[u8]) -> ValueAt {
        ValueAt {
            key: self.begin(DELETE, key),
            value: None,
        }
    }

    fn begin(&mut self, tag: u8, key: &[u8]) -> Range<usize> {
        self.count += 1;
        self.bytes[8..HEADER].copy_from_slice(&self.count.to_le_bytes());
        self.bytes.push(tag);
        self.length(key.len());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        start..self.bytes.len()
    }

    fn length(&mut self, length: usize) {
        let mut rest = length;
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    /// The bytes of a range that [`put`](Self::put) or [`delete`](Self::delete)
    /// gave for these writes.
    pub fn slice(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes held.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes all changes out; the memory stays.
    pub fn clear(&mut self) {
        self.bytes.truncate(HEADER);
        self.bytes.fill(0);
        self.count = 0;
    }

    /// All changes as a RocksDB write batch.
    pub fn as_write_batch(&self) -> &[u8] {
        &self.bytes
    }

    /// Keys with their values, `None` for a delete, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let mut rest = &self.bytes[HEADER..];
        (0..self.count).map(move |_| {
            let tag = rest[0];
            rest = &rest[1..];
            let key = take(&mut rest);
            (key, (tag == PUT).then(|| take(&mut rest)))
        })
    }
}

/// Things in the order of their keys.
pub fn in_key_order<'k, T>(
    things: impl Iterator<Item = T>,
    key: impl Fn(&T) -> &'k [u8],
) -> Vec<T> {
    let mut order: Vec<(u64, T)> = things
        .map(|thing| (leading_bytes(key(&thing)), thing))
        .collect();
    order.sort_unstable_by(|(one_leads, one), (other_leads, other)| {
        one_leads
            .cmp(other_leads)
            .then_with(|| key(one).cmp(key(other)))
    });
    order.into_iter().map(|(_, thing)| thing).collect()
}

/// The first bytes of a key as a number that sorts as they do; shorter keys before
/// longer ones with the same bytes, or equal.
fn leading_bytes(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

/// Takes a length and so many bytes; they were written here.
fn take<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (mut length, mut shift) = (0_usize, 0);
    loop {
        let byte = rest[0];
        *rest = &rest[1..];
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_in_order() {
        let mut writes = KvWrites::default();
        let long = vec![7; 300];
        let at = writes.put(b"k1", 3, b"row");
        writes.delete(b"");
        writes.put(&long, -1, &long);
        assert_eq!(writes.slice(&at.key), b"k1");
        assert_eq!(writes.slice(&at.value.unwrap()), b"\x03\x00row");
        let mut stored = vec![0xff, 0xff];
        stored.extend_from_slice(&long);
        let all: Vec<_> = writes.iter().collect();
        assert_eq!(
            all,
            [
                (b"k1".as_slice(), Some(b"\x03\x00row".as_slice())),
                (b"".as_slice(), None),
                (long.as_slice(), Some(stored.as_slice())),
            ]
        );
        writes.clear();
        assert!(writes.is_empty());
        assert_eq!(writes.iter().count(), 0);
    }

    #[test]
    fn the_bytes_are_those_of_a_write_batch() {
        let mut writes = KvWrites::default();
        writes.put(b"a", 1, b"x");
        writes.delete(b"b");
        assert_eq!(
            writes.as_write_batch(),
            b"\0\0\0\0\0\0\0\0\x02\0\0\0\x01\x01a\x03\x01\0x\0\x01b"
        );
    }
}
