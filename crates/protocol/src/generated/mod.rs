//! Code generated from `proto/fluss.proto`; see `cargo xtask proto`.

#[allow(missing_docs, clippy::all, clippy::pedantic)]
#[rustfmt::skip]
pub mod messages;
#[rustfmt::skip]
#[allow(clippy::all)]
mod required;
#[rustfmt::skip]
#[allow(clippy::all)]
mod shapes;

/// Presence check of the fields that the protocol requires.
pub trait Required {
    /// `Message.field` of the first absent required field, nested messages
    /// included; `None` if all are there.
    fn missing(&self) -> Option<&'static str>;
}
