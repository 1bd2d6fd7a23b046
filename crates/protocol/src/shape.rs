//! The check of a message before it is decoded.
//!
//! The protobuf library builds a structure per element that a message claims to
//! have; two bytes of input can claim a structure of 150. So every body is
//! walked first along the shape of its message, which costs a few nanoseconds
//! per field, skips record bytes unseen, and allocates nothing. The walk
//! - bounds the number of elements and the depth;
//! - finds the few things that the protocol reads otherwise than the library
//!   (wire.md §1.6, behaviour.md §1). A message that has one is rewritten to the
//!   form that the library reads as the protocol means it.
//!
//! | In the message | The protocol | Rewritten to |
//! |---|---|---|
//! | known field, other wire type | skipped like an unknown field | left out |
//! | bool that is neither 0 nor 1 | false | 0 |
//! | text that is not UTF-8 | a strange name | text with U+FFFD |

use crate::decode::Malformed;
use crate::wire_format::{Cursor, WireType, put_varint};

/// Elements (sub-messages, texts, byte strings, repeated numbers) that one
/// message may have. A metadata update of 128,000 buckets with three replicas,
/// the largest legitimate message, has 900,000; a million structures of the
/// usual 150 bytes are 150 MB.
pub const MAX_ELEMENTS: usize = 1_000_000;

/// Nesting of messages. Only predicates nest without a bound of their own; the
/// library refuses more than 100 levels.
pub const MAX_DEPTH: usize = 64;

/// What the protocol knows about a message.
#[derive(Debug)]
pub struct Shape {
    /// Name of the message.
    pub(crate) message: &'static str,
    /// Ascending by number.
    pub(crate) fields: &'static [Field],
}

/// One field of a [`Shape`].
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) repeated: bool,
    pub(crate) kind: Kind,
}

/// Type of a [`Field`].
#[derive(Debug)]
pub(crate) enum Kind {
    Varint,
    Bool,
    Fixed32,
    Fixed64,
    Text,
    Bytes,
    Message(&'static Shape),
}

/// Messages whose shape is known: all of the protocol.
pub trait Shaped {
    /// The shape.
    fn shape() -> &'static Shape;
}

/// Result of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fitness {
    /// The library reads it as the protocol means it.
    Fit,
    /// It has something that must be rewritten.
    Unfit,
}

/// What a field of a message turned out to be.
enum Found<'a> {
    Keep,
    Drop,
    FalseBool,
    Inner(&'static Shape, &'a [u8]),
    LossyText(&'a [u8]),
}

/// Walks `bytes` as a message of `shape`; `elements` is what is still allowed.
pub(crate) fn check(
    shape: &Shape,
    bytes: &[u8],
    elements: &mut usize,
    depth: usize,
) -> Result<Fitness, Malformed> {
    let mut fitness = Fitness::Fit;
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_at_end() {
        match next(shape, &mut cursor, elements)? {
            Found::Keep => {}
            Found::Drop | Found::FalseBool | Found::LossyText(_) => fitness = Fitness::Unfit,
            Found::Inner(inner, content) => {
                if depth == 0 {
                    return Err(Malformed::Depth);
                }
                if check(inner, content, elements, depth - 1)? == Fitness::Unfit {
                    fitness = Fitness::Unfit;
                }
            }
        }
    }
    Ok(fitness)
}

/// The message in the form that the library reads as the protocol means it.
/// `bytes` has passed [`check`].
pub(crate) fn rewrite(shape: &Shape, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut cursor = Cursor::new(bytes);
    let mut elements = usize::MAX;
    while !cursor.is_at_end() {
        let start = cursor.position();
        let mut value = cursor;
        value.tag()?;
        let tag = &bytes[start..value.position()];
        match next(shape, &mut cursor, &mut elements)? {
            Found::Keep => out.extend_from_slice(&bytes[start..cursor.position()]),
            Found::Drop => {}
            Found::FalseBool => {
                out.extend_from_slice(tag);
                out.push(0);
            }
            Found::Inner(inner, content) => {
                put_delimited(&mut out, tag, &rewrite(inner, content)?);
            }
            Found::LossyText(text) => {
                put_delimited(&mut out, tag, String::from_utf8_lossy(text).as_bytes());
            }
        }
    }
    Ok(out)
}

fn put_delimited(out: &mut Vec<u8>, tag: &[u8], content: &[u8]) {
    out.extend_from_slice(tag);
    put_varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Reads one field.
fn next<'a>(
    shape: &Shape,
    cursor: &mut Cursor<'a>,
    elements: &mut usize,
) -> Result<Found<'a>, Malformed> {
    let (number, wire_type) = cursor.tag()?;
    let value = cursor.value(wire_type)?;
    let Some(field) = shape.fields.iter().find(|field| field.number == number) else {
        return Ok(Found::Keep);
    };
    // A list of numbers may come packed or one by one. Packed, its elements are
    // at most as many as its bytes.
    let packed = field.repeated && wire_type == WireType::Delimited;
    let found = match (&field.kind, wire_type) {
        (Kind::Varint | Kind::Fixed32 | Kind::Fixed64 | Kind::Bool, WireType::Delimited)
            if packed =>
        {
            Found::Keep
        }
        (Kind::Bool, WireType::Varint) if Cursor::new(value).varint()? > 1 => Found::FalseBool,
        (Kind::Varint | Kind::Bool, WireType::Varint)
        | (Kind::Fixed32, WireType::Fixed32)
        | (Kind::Fixed64, WireType::Fixed64)
        | (Kind::Bytes, WireType::Delimited) => Found::Keep,
        (Kind::Text, WireType::Delimited) => match std::str::from_utf8(value) {
            Ok(_) => Found::Keep,
            Err(_) => Found::LossyText(value),
        },
        (Kind::Message(inner), WireType::Delimited) => Found::Inner(inner, value),
        _ => Found::Drop,
    };
    let count = match (&found, &field.kind) {
        (Found::Drop, _) => 0,
        (_, Kind::Message(_) | Kind::Text | Kind::Bytes) => 1,
        _ if packed => value.len(),
        _ => usize::from(field.repeated),
    };
    *elements = elements.checked_sub(count).ok_or(Malformed::Elements)?;
    Ok(found)
}
