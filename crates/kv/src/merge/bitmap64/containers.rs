//! The containers of a set, in slots of a table with two levels.
//!
//! `u32` entries of the first level; of each `u8` mark, `u32` slots; of each slot
//! `u8 0`, or `u8 1` and a container; then `u64` containers and the `u32` first-level
//! and second-level index of the slot that was allocated last.

use super::Result;
use super::bytes::Bytes;
use super::container::Container;

/// Before the slots of a first-level entry: some may be free behind the last one
/// in use. The other mark says that there are none.
const NOT_TRIMMED: u8 = 0xfe;
const TRIMMED: u8 = 0xff;
const FREE: u8 = 0;
const IN_USE: u8 = 1;

/// Containers that were read, by slot. Free slots take no memory here, for they are
/// single bytes there.
pub(super) struct Slots(Vec<(u64, Option<Container>)>);

impl Slots {
    /// Takes a container out: two prefixes may not name the same.
    pub(super) fn take(&mut self, index: u64) -> Result<Container> {
        let at = self.0.binary_search_by_key(&index, |(index, _)| *index);
        at.ok()
            .and_then(|at| self.0[at].1.take())
            .ok_or_else(|| format!("no container in slot {index}, or a second use of it"))
    }
}

/// Reads all slots.
pub(super) fn read(bytes: &mut Bytes<'_>) -> Result<Slots> {
    let mut slots = Vec::new();
    for first_level in 0..bytes.u32()? {
        match bytes.u8()? {
            NOT_TRIMMED | TRIMMED => {}
            mark => return Err(format!("slots marked {mark}")),
        }
        for second_level in 0..bytes.u32()? {
            match bytes.u8()? {
                FREE => {}
                IN_USE => {
                    let index = u64::from(first_level) << 32 | u64::from(second_level);
                    slots.push((index, Some(Container::read(bytes)?)));
                }
                mark => return Err(format!("a slot marked {mark}")),
            }
        }
    }
    // The counters matter only to a bitmap that goes on growing in place.
    bytes.u64()?;
    bytes.u64()?;
    Ok(Slots(slots))
}

/// Writes at least one container, each in the slot of its number.
pub(super) fn write<'c>(
    containers: impl ExactSizeIterator<Item = &'c Container>,
    out: &mut Vec<u8>,
) {
    // A row cannot hold 2^32 containers.
    let count = containers.len() as u32;
    out.extend_from_slice(&1_u32.to_le_bytes());
    out.push(NOT_TRIMMED);
    out.extend_from_slice(&count.to_le_bytes());
    for container in containers {
        out.push(IN_USE);
        container.write(out);
    }
    out.extend_from_slice(&u64::from(count).to_le_bytes());
    out.extend_from_slice(&0_u32.to_le_bytes());
    out.extend_from_slice(&(count - 1).to_le_bytes());
}
