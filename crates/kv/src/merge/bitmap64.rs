//! Sets of 64-bit integers in the format of Java's `Roaring64Bitmap` (tables.md
//! §4.7), which is not the portable one.
//!
//! A value is split: its high 48 bits name a container, which holds the low 16. The
//! bytes are `u8 1`, the number of containers, a tree of their prefixes, and the
//! containers themselves; or only `u8 0` for the empty set.

mod bytes;
mod container;
mod containers;
mod prefix_tree;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use bytes::Bytes;
use container::Container;

const EMPTY: u8 = 0;
const NOT_EMPTY: u8 = 1;

/// What is wrong with bytes.
type Result<T> = std::result::Result<T, String>;

/// The union of two sets. An error says what is wrong with the bytes.
pub(super) fn union(a: &[u8], b: &[u8]) -> Result<Vec<u8>> {
    let damaged = |error| format!("damaged 64-bit bitmap: {error}");
    let a = Bitmap64::read(a).map_err(damaged)?;
    let b = Bitmap64::read(b).map_err(damaged)?;
    Ok(a.union(b).write())
}

/// The high 48 bits of values, as the lower bits of this.
type Prefix = u64;

/// A set.
///
/// **Invariant.** Prefixes ascend, no container is empty, and each has the form
/// that takes the fewest bytes: equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bitmap64 {
    containers: Vec<(Prefix, Container)>,
}

impl Bitmap64 {
    /// Reads bytes that may come from anyone. What follows the set is ignored, as
    /// Java does. Takes memory in proportion to the bytes that are there.
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut bytes = Bytes(bytes);
        match bytes.u8()? {
            EMPTY => return Ok(Self::default()),
            NOT_EMPTY => {}
            head => return Err(format!("it begins with {head}")),
        }
        let count = bytes.u64()?;
        let leaves = prefix_tree::read(&mut bytes)?;
        if leaves.len() as u64 != count {
            return Err(format!("{} prefixes instead of {count}", leaves.len()));
        }
        let mut slots = containers::read(&mut bytes)?;
        let mut containers = Vec::with_capacity(leaves.len());
        for (prefix, index) in leaves {
            let container = slots.take(index)?;
            if !container.is_empty() {
                containers.push((prefix, container));
            }
        }
        Ok(Self { containers })
    }

    /// The bytes of the set: prefixes and containers in ascending order.
    fn write(&self) -> Vec<u8> {
        if self.containers.is_empty() {
            return vec![EMPTY];
        }
        let prefixes: Vec<_> = self.containers.iter().map(|(prefix, _)| *prefix).collect();
        let mut out = vec![NOT_EMPTY];
        out.extend_from_slice(&(prefixes.len() as u64).to_le_bytes());
        prefix_tree::write(&prefixes, &mut out);
        containers::write(
            self.containers.iter().map(|(_, container)| container),
            &mut out,
        );
        out
    }

    fn union(self, other: Self) -> Self {
        let mut containers = Vec::with_capacity(self.containers.len() + other.containers.len());
        let (mut left, mut right) = (
            self.containers.into_iter().peekable(),
            other.containers.into_iter().peekable(),
        );
        while let (Some((a, _)), Some((b, _))) = (left.peek(), right.peek()) {
            let order = a.cmp(b);
            let next_left = if order.is_le() { left.next() } else { None };
            let next_right = if order.is_ge() { right.next() } else { None };
            containers.extend(match (order, next_left, next_right) {
                (Ordering::Equal, Some((prefix, a)), Some((_, b))) => Some((prefix, a.union(&b))),
                (_, left, right) => left.or(right),
            });
        }
        containers.extend(left);
        containers.extend(right);
        Self { containers }
    }
}
