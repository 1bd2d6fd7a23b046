//! From bytes to a complete message.

use bytes::Bytes;
use prost::Message;

use crate::generated::Required;
use crate::shape::{Fitness, MAX_DEPTH, MAX_ELEMENTS, Shaped, check, rewrite};

/// Why bytes are not a message. A request that fails so is answered with error
/// 2, which no client retries (wire.md §1.5).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not the encoding of a message.
    #[error("{message} cannot be decoded: {reason}")]
    Malformed {
        /// Name of the message.
        message: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A field that the protocol requires is absent.
    #[error("required field {field} is missing")]
    Missing {
        /// `Message.field`; of a nested message if the field is in one.
        field: &'static str,
    },
}

/// What the check before decoding finds wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it ends inside a field")]
    Cut,
    #[error("a varint is longer than ten bytes or larger than 64 bits")]
    Varint,
    #[error("a tag has no field number or an unknown wire type")]
    Tag,
    #[error("it has more than {MAX_ELEMENTS} elements")]
    Elements,
    #[error("messages are nested deeper than {MAX_DEPTH} levels")]
    Depth,
}

/// Decodes a whole body. `bytes` fields are slices of it, not copies.
///
/// # Errors
///
/// [`DecodeError::Malformed`] if the bytes are no encoding of `M` or exceed
/// [`MAX_ELEMENTS`] or [`MAX_DEPTH`]; [`DecodeError::Missing`] names the first
/// absent required field, nested messages included.
pub fn decode<M: Message + Default + Required + Shaped>(body: Bytes) -> Result<M, DecodeError> {
    let shape = M::shape();
    let malformed = |reason: String| DecodeError::Malformed {
        message: shape.message,
        reason,
    };
    let mut elements = MAX_ELEMENTS;
    let fitness = check(shape, &body, &mut elements, MAX_DEPTH)
        .map_err(|error| malformed(error.to_string()))?;
    let body = match fitness {
        Fitness::Fit => body,
        Fitness::Unfit => {
            Bytes::from(rewrite(shape, &body).map_err(|error| malformed(error.to_string()))?)
        }
    };
    let message = M::decode(body).map_err(|error| malformed(error.to_string()))?;
    match message.missing() {
        Some(field) => Err(DecodeError::Missing { field }),
        None => Ok(message),
    }
}

#[cfg(test)]
mod tests;
