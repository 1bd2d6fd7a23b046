//! The Fluss 1.0 wire protocol as a pure codec: frames, API keys and versions,
//! messages, error codes (wire.md §1–5).
//!
//! Main types: [`RequestHeader`] and the frame encoders of [`frame`],
//! [`ApiKey`], [`decode`], and the builders of [`records`], which frame record
//! bytes without copying them.
//!
//! **Invariants.**
//! - Nothing here reads a socket, a file or a clock.
//! - Any byte string decodes to a message or to a [`DecodeError`]; memory used
//!   for it is bounded by the length of the input and [`MAX_ELEMENTS`].
//! - A decoded message has all its required fields.
//! - Field numbers and error numbers stand in this crate only.
//!
//! This crate deliberately does not know which APIs a server offers, what
//! record bytes contain, or where they are kept.

pub mod api_key;
mod decode;
pub mod error;
pub mod frame;
pub mod generated;
pub mod records;
mod shape;
mod wire_format;

pub use api_key::{ApiKey, VersionRange};
pub use decode::{DecodeError, decode};
pub use error::ApiError;
pub use frame::{FrameError, RequestHeader, ResponseFrame};
pub use generated::Required;
pub use generated::messages;
pub use records::BodyPart;
pub use shape::{MAX_DEPTH, MAX_ELEMENTS, Shaped};
