//! The tree of prefixes: an adaptive radix tree over their six bytes.
//!
//! Nodes in pre-order: `u8` kind, `u16` children, `u8` bytes that all prefixes below
//! share, these bytes, a body by kind, the children in ascending order of the byte
//! that tells them apart.

use super::bytes::Bytes;
use super::{Prefix, Result};

/// Bytes of a prefix, and so the number of levels at most.
const PREFIX_BYTES: usize = 6;

const NODE4: u8 = 0;
const NODE16: u8 = 1;
const NODE48: u8 = 2;
const NODE256: u8 = 3;
const LEAF: u8 = 4;

/// In the body of a [`NODE48`]: no child for the byte.
const NO_CHILD: u8 = 0xff;

/// A prefix and the slot of its container.
pub(super) type Leaf = (Prefix, u64);

/// The big-endian bytes.
fn bytes_of(prefix: Prefix) -> [u8; PREFIX_BYTES] {
    let [_, _, bytes @ ..] = prefix.to_be_bytes();
    bytes
}

/// Reads all leaves. Their prefixes ascend.
pub(super) fn read(bytes: &mut Bytes<'_>) -> Result<Vec<Leaf>> {
    let mut leaves = Vec::new();
    read_node(bytes, &mut Path::default(), &mut leaves)?;
    Ok(leaves)
}

/// The bytes that lead to a node.
#[derive(Default)]
struct Path {
    bytes: [u8; PREFIX_BYTES],
    length: usize,
}

impl Path {
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.length + bytes.len();
        let free = self.bytes.get_mut(self.length..end);
        free.ok_or("a path of more than 6 bytes")?
            .copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }
}

/// Bounded by the path: every level takes a byte of it.
fn read_node(bytes: &mut Bytes<'_>, path: &mut Path, leaves: &mut Vec<Leaf>) -> Result<()> {
    let kind = bytes.u8()?;
    let children = usize::from(bytes.u16()?);
    let shared = usize::from(bytes.u8()?);
    let shared = bytes.take(shared)?;
    if kind == LEAF {
        let prefix = bytes.take(PREFIX_BYTES)?;
        if prefix[..path.length] != path.bytes[..path.length] {
            return Err("a prefix in another's place".to_owned());
        }
        let prefix = prefix
            .iter()
            .fold(0, |value, &byte| value << 8 | u64::from(byte));
        if leaves.last().is_some_and(|(before, _)| *before >= prefix) {
            return Err("prefixes do not ascend".to_owned());
        }
        leaves.push((prefix, bytes.u64()?));
        return Ok(());
    }
    let above = path.length;
    path.push(shared)?;
    let own = path.length;
    for byte in read_body(bytes, kind, children)? {
        path.push(&[byte])?;
        read_node(bytes, path, leaves)?;
        path.length = own;
    }
    path.length = above;
    Ok(())
}

/// The bytes that tell the children apart.
fn read_body(bytes: &mut Bytes<'_>, kind: u8, children: usize) -> Result<Vec<u8>> {
    let mut keys: Vec<u8> = match kind {
        NODE4 => swapped(bytes.take(4)?, 4).collect(),
        NODE16 => swapped(bytes.take(16)?, 8).collect(),
        NODE48 => {
            let table = swapped(bytes.take(256)?, 8);
            let used = (0..=u8::MAX)
                .zip(table)
                .filter(|(_, child)| *child != NO_CHILD);
            used.map(|(key, _)| key).collect()
        }
        NODE256 => {
            let bits = bytes.take(32)?;
            let is_there = |key: &u8| bits[usize::from(key / 8)] >> (key % 8) & 1 == 1;
            (0..=u8::MAX).filter(is_there).collect()
        }
        _ => return Err(format!("a node of kind {kind}")),
    };
    if matches!(kind, NODE4 | NODE16) && children < keys.len() {
        keys.truncate(children);
    }
    if children == 0 || keys.len() != children {
        return Err(format!("a node of kind {kind} with {children} children"));
    }
    Ok(keys)
}

/// Bytes in the opposite order within each word: Java packs them big-endian into
/// integers, and writes these little-endian.
fn swapped(bytes: &[u8], word: usize) -> impl Iterator<Item = u8> {
    bytes
        .chunks_exact(word)
        .flat_map(|word| word.iter().rev().copied())
}

/// Writes the tree of prefixes, which ascend; there is at least one. The slot of a
/// prefix is its number.
pub(super) fn write(prefixes: &[Prefix], out: &mut Vec<u8>) {
    write_node(prefixes, 0, 0, out);
}

/// Writes the node of some prefixes that share their first `depth` bytes; the first
/// of them has the number `number`.
fn write_node(prefixes: &[Prefix], number: usize, depth: usize, out: &mut Vec<u8>) {
    let first = bytes_of(prefixes[0]);
    let last = bytes_of(prefixes[prefixes.len() - 1]);
    if first == last {
        out.extend_from_slice(&[LEAF, 0, 0, 0]);
        out.extend_from_slice(&first);
        out.extend_from_slice(&(number as u64).to_le_bytes());
        return;
    }
    // They ascend: what the first and the last share, all do.
    let differs = |at: &usize| first[*at] != last[*at];
    let at = (depth..PREFIX_BYTES).find(differs).unwrap_or(depth);
    let key = |prefix: &Prefix| bytes_of(*prefix)[at];
    let groups: Vec<_> = prefixes.chunk_by(|a, b| key(a) == key(b)).collect();
    let keys: Vec<u8> = groups.iter().map(|group| key(&group[0])).collect();
    let kind = match keys.len() {
        0..=4 => NODE4,
        5..=16 => NODE16,
        17..=48 => NODE48,
        _ => NODE256,
    };
    out.push(kind);
    // At most 256.
    out.extend_from_slice(&(keys.len() as u16).to_le_bytes());
    out.push((at - depth) as u8);
    out.extend_from_slice(&first[depth..at]);
    write_body(kind, &keys, out);
    let mut number = number;
    for group in groups {
        write_node(group, number, at + 1, out);
        number += group.len();
    }
}

fn write_body(kind: u8, keys: &[u8], out: &mut Vec<u8>) {
    match kind {
        NODE4 => {
            let mut packed = [0; 4];
            packed[..keys.len()].copy_from_slice(keys);
            out.extend(swapped(&packed, 4));
        }
        NODE16 => {
            let mut packed = [0; 16];
            packed[..keys.len()].copy_from_slice(keys);
            out.extend(swapped(&packed, 8));
        }
        NODE48 => {
            let mut table = [NO_CHILD; 256];
            for (child, &key) in (0..).zip(keys) {
                table[usize::from(key)] = child;
            }
            out.extend(swapped(&table, 8));
        }
        _ => {
            let mut bits = [0; 32];
            for &key in keys {
                bits[usize::from(key / 8)] |= 1_u8 << (key % 8);
            }
            out.extend_from_slice(&bits);
        }
    }
}
