//! The body of a projected message, as parts.

use bytes::Bytes;

/// A part of a projected batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes made for this batch.
    Owned(Bytes),
    /// Bytes to take from where the batch is stored.
    Source(SourceRange),
}

/// A range of the bytes that a batch was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRange {
    /// Where it begins.
    pub position: u64,
    /// Its bytes.
    pub len: u64,
}

/// Zeros that stand for nulls are shared by all batches.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
/// Up to so many zeros are copied instead of being a part of their own.
const SMALL: usize = 1024;

/// Collects the parts of a body; the first part is left free for header and
/// metadata, which are known last.
pub(super) struct BodyParts {
    parts: Vec<Part>,
    /// Bytes that come behind the last part.
    pending: Vec<u8>,
    len: i64,
}

impl BodyParts {
    pub(super) fn new() -> Self {
        Self {
            parts: vec![Part::Owned(Bytes::new())],
            pending: Vec::new(),
            len: 0,
        }
    }

    /// Bytes so far: where the next buffer begins.
    pub(super) fn len(&self) -> i64 {
        self.len
    }

    pub(super) fn push_source(&mut self, position: u64, len: u64) {
        if len == 0 {
            return;
        }
        self.flush();
        self.len += len as i64;
        if let Some(Part::Source(last)) = self.parts.last_mut()
            && last.position + last.len == position
        {
            last.len += len;
            return;
        }
        self.parts.push(Part::Source(SourceRange { position, len }));
    }

    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        self.len += bytes.len() as i64;
    }

    pub(super) fn push_zeros(&mut self, len: usize) {
        self.len += len as i64;
        if len <= SMALL {
            self.pending.resize(self.pending.len() + len, 0);
            return;
        }
        self.flush();
        let mut rest = len;
        while rest > 0 {
            let page = rest.min(ZEROS.len());
            self.parts
                .push(Part::Owned(Bytes::from_static(&ZEROS[..page])));
            rest -= page;
        }
    }

    /// Zeros up to the next multiple of 8, where the next buffer begins.
    pub(super) fn align(&mut self) {
        let padding = (self.len as u64).next_multiple_of(8) - self.len as u64;
        self.push_bytes(&ZEROS[..padding as usize]);
    }

    /// The parts, of which the first is still to be replaced, and the bytes of
    /// the body.
    pub(super) fn finish(mut self) -> (Vec<Part>, i64) {
        self.flush();
        (self.parts, self.len)
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.parts
                .push(Part::Owned(Bytes::from(std::mem::take(&mut self.pending))));
        }
    }
}
