//! Frames out of a byte stream.
//!
//! Small frames are read many at a time into a chunk and copied out of it. As
//! soon as the length of a larger one is known, its bytes are read straight to
//! where they stay. Memory grows with the bytes that arrive and with what the
//! connection has sent before, never with what a length claims.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_protocol::FrameError;
use mainstem_protocol::frame::LENGTH_BYTES;
use tokio::net::TcpStream;

use crate::frame_memory::{Buffer, CHARGED_BYTES, FrameMemory};

/// One read of small frames: a hundred usual requests, and the largest size
/// that allocators hand out without a lock. An idle connection has none.
const CHUNK_BYTES: usize = 32 * 1024;

/// First allocation for a frame of a connection that has not sent one as large.
const FIRST_BYTES: usize = 64 * 1024;

/// The most that is allocated because an earlier frame was that large.
const EXPECTED_MAX_BYTES: usize = 4 * 1024 * 1024;

/// How long half a frame may keep its memory without any byte arriving while
/// others wait for memory.
const STALL: Duration = Duration::from_secs(10);

/// Why there are no more frames.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The peer does not speak the protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The connection is broken.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Half a frame kept memory that others need.
    #[error("half a frame without progress while memory is short")]
    Stalled,
}

type CheckLength = fn([u8; LENGTH_BYTES], u64) -> Result<usize, FrameError>;

/// Reads the frames of one connection.
#[derive(Debug)]
pub(crate) struct FrameReader {
    memory: Arc<FrameMemory>,
    check_length: CheckLength,
    limit: u64,
    /// Bytes from `start` are not used yet.
    chunk: Vec<u8>,
    start: usize,
    partial: Option<Partial>,
    /// Length of the largest frame so far.
    largest: usize,
    /// All bytes ever read.
    received: u64,
}

/// A frame of known length whose bytes go straight to their place.
#[derive(Debug)]
struct Partial {
    buffer: Buffer,
    length: usize,
}

impl FrameReader {
    pub(crate) fn new(memory: Arc<FrameMemory>, check_length: CheckLength, limit: u64) -> Self {
        FrameReader {
            memory,
            check_length,
            limit,
            chunk: Vec::new(),
            start: 0,
            partial: None,
            largest: 0,
            received: 0,
        }
    }

    /// Changes the largest frame accepted, from the next one on.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// All bytes ever read.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// A frame, without its length field, that has arrived completely.
    pub(crate) fn buffered(&mut self) -> Result<Option<Bytes>, FrameError> {
        if let Some(partial) = self
            .partial
            .take_if(|partial| partial.buffer.len() == partial.length)
        {
            self.largest = self.largest.max(partial.length);
            return Ok(Some(partial.buffer.into_bytes()));
        }
        if self.partial.is_some() {
            return Ok(None);
        }
        let Some((field, rest)) = self.chunk[self.start..].split_first_chunk::<LENGTH_BYTES>()
        else {
            return Ok(None);
        };
        let length = (self.check_length)(*field, self.limit)?;
        if let Some(frame) = rest.get(..length) {
            let frame = self.memory.copy(frame);
            self.start += LENGTH_BYTES + length;
            return Ok(Some(frame));
        }
        if length >= CHARGED_BYTES {
            self.start += LENGTH_BYTES;
            self.partial = Some(Partial {
                buffer: self.memory.buffer(),
                length,
            });
        }
        Ok(None)
    }

    /// The next frame, without its length field; `None` at the end of the
    /// stream. Cancelled, it loses nothing.
    pub(crate) async fn next(&mut self, stream: &TcpStream) -> Result<Option<Bytes>, ReadError> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(Some(frame));
            }
            let read = if self.partial.is_some() {
                self.read_partial(stream).await
            } else {
                self.read_chunk(stream)
            };
            match read {
                Ok(0) => return Ok(None),
                Ok(read) => self.received += read as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(stream).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn wait(&mut self, stream: &TcpStream) -> Result<(), ReadError> {
        if self.partial.is_none() {
            if self.start == self.chunk.len() {
                self.chunk = Vec::new();
                self.start = 0;
            }
            stream.readable().await?;
            return Ok(());
        }
        loop {
            if let Ok(ready) = tokio::time::timeout(STALL, stream.readable()).await {
                return Ok(ready?);
            }
            if self.memory.is_exhausted() {
                return Err(ReadError::Stalled);
            }
        }
    }

    async fn read_partial(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let Some(Partial { buffer, length }) = &mut self.partial else {
            return Ok(0);
        };
        let have = buffer.len();
        if have == buffer.capacity() {
            let expected = self.largest.clamp(FIRST_BYTES, EXPECTED_MAX_BYTES);
            buffer.reserve(expected.max(have * 2).min(*length)).await;
            let early = &self.chunk[self.start..];
            if !early.is_empty() {
                // The frame is incomplete, so everything in the chunk is of it.
                buffer.extend(early);
                self.chunk = Vec::new();
                self.start = 0;
            }
        }
        buffer.read_from(stream, *length - buffer.len())
    }

    fn read_chunk(&mut self, stream: &TcpStream) -> io::Result<usize> {
        if self.chunk.capacity() == 0 {
            self.chunk = Vec::with_capacity(CHUNK_BYTES);
        }
        // What is left is the beginning of a small frame.
        self.chunk.drain(..self.start);
        self.start = 0;
        stream.try_read_buf(&mut self.chunk)
    }
}
