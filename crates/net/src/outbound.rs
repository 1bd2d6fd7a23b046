//! What a connection still has to send.
//!
//! Bytes and file ranges wait in a queue. A window of them is staged: small
//! pieces and file bytes are gathered in a scratch buffer, large pieces stay
//! where they are, and everything goes out in one vectored write. So a burst of
//! small responses costs one system call, and a large one is copied once, by
//! the kernel.
//!
//! File ranges are sent either through the scratch buffer (a copy that stays in
//! the processor's cache) or by `sendfile`. What is not in the page cache is
//! read on a thread that may block, by either method.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Duration, Instant};

use crate::Segment;
use crate::file_read::{Cached, read_cached, read_cold};

/// Size of the scratch buffer while there are file ranges: small enough for the
/// second-level cache, large enough that system calls do not matter.
const SCRATCH_BYTES: usize = 256 * 1024;
/// Size of the scratch buffer of a connection with small answers.
const SMALL_SCRATCH_BYTES: usize = 512;
/// Pieces up to here are cheaper to copy than to have in the vector.
const COPY_BYTES: usize = 2 * 1024;
/// Slices of one write; far below IOV_MAX (1024).
const MAX_SLICES: usize = 64;
/// Shorter file ranges are not worth a `sendfile` of their own.
const SENDFILE_MIN_BYTES: u64 = 32 * 1024;
/// One flush sends no more than about this before others get their turn.
const FLUSH_BYTES: u64 = 1024 * 1024;
/// Scratch buffers kept for reuse.
const RETAINED_SCRATCHES: usize = 8;

/// How file ranges are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendMethod {
    /// Read into memory and write.
    Copy,
    /// `sendfile`: the kernel hands its cached pages over, which costs 0.24
    /// instead of 0.44 CPU seconds per GB on loopback (Linux 6.18,
    /// `benches/throughput.rs`).
    #[default]
    Sendfile,
}

/// What all connections share for sending files.
#[derive(Debug)]
pub(crate) struct FileSender {
    method: SendMethod,
    cold_reads: Arc<Semaphore>,
    scratches: Mutex<Vec<Box<[u8]>>>,
}

impl FileSender {
    /// At most `cold_reads` reads block at the same time.
    pub(crate) fn new(method: SendMethod, cold_reads: usize) -> Arc<Self> {
        Arc::new(FileSender {
            method,
            cold_reads: Arc::new(Semaphore::new(cold_reads.max(1))),
            scratches: Mutex::new(Vec::new()),
        })
    }

    fn take_scratch(&self) -> Box<[u8]> {
        let kept = self.scratches.lock().pop();
        kept.unwrap_or_else(|| vec![0; SCRATCH_BYTES].into_boxed_slice())
    }

    fn return_scratch(&self, scratch: Box<[u8]>) {
        let mut kept = self.scratches.lock();
        if scratch.len() == SCRATCH_BYTES && kept.len() < RETAINED_SCRATCHES {
            kept.push(scratch);
        }
    }
}

/// A piece of the window, in the order of sending.
#[derive(Debug)]
enum Staged {
    Scratch(Range<usize>),
    Memory(Bytes),
    File {
        file: Arc<File>,
        position: u64,
        length: usize,
    },
}

impl Staged {
    fn len(&self) -> usize {
        match self {
            Staged::Scratch(range) => range.len(),
            Staged::Memory(bytes) => bytes.len(),
            Staged::File { length, .. } => *length,
        }
    }
}

/// The queue of one connection.
pub(crate) struct Outbound {
    sender: Arc<FileSender>,
    queue: VecDeque<Segment>,
    staged: VecDeque<Staged>,
    scratch: Box<[u8]>,
    /// Bytes of the scratch buffer that are in use.
    filled: usize,
    /// A read for the front of the queue, which has been taken off it.
    cold: Option<BoxFuture<'static, io::Result<Bytes>>>,
    memory_bytes: usize,
    queued: u64,
    written: u64,
    /// Since when the peer takes nothing.
    blocked_since: Option<Instant>,
}

impl Outbound {
    pub(crate) fn new(sender: Arc<FileSender>) -> Self {
        Outbound {
            sender,
            queue: VecDeque::new(),
            staged: VecDeque::new(),
            scratch: Box::default(),
            filled: 0,
            cold: None,
            memory_bytes: 0,
            queued: 0,
            written: 0,
            blocked_since: None,
        }
    }

    /// Appends a piece.
    pub(crate) fn push(&mut self, segment: Segment) {
        let length = segment.length();
        match segment {
            _ if length == 0 => {}
            Segment::Bytes(bytes) if bytes.len() <= COPY_BYTES => self.push_small(&bytes),
            Segment::Bytes(bytes) => self.enqueue(bytes),
            file => {
                self.queued += length;
                self.queue.push_back(file);
            }
        }
    }

    /// Appends a few bytes.
    pub(crate) fn push_small(&mut self, bytes: &[u8]) {
        // Straight into the window if nothing waits before it.
        if self.queue.is_empty() && self.cold.is_none() && self.room() >= bytes.len() {
            self.queued += bytes.len() as u64;
            self.append_to_scratch(bytes);
        } else {
            self.enqueue(Bytes::copy_from_slice(bytes));
        }
    }

    fn enqueue(&mut self, bytes: Bytes) {
        self.queued += bytes.len() as u64;
        self.memory_bytes += bytes.len();
        self.queue.push_back(Segment::Bytes(bytes));
    }

    /// Whether everything has been handed to the kernel.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued == self.written
    }

    /// Bytes that wait in memory, without file ranges.
    pub(crate) fn memory_bytes(&self) -> usize {
        if self.is_empty() {
            0
        } else {
            self.memory_bytes + self.scratch.len()
        }
    }

    /// For how long the peer has taken nothing of what waits.
    pub(crate) fn blocked(&self) -> Duration {
        self.blocked_since
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Bytes not handed to the kernel yet, file ranges included.
    pub(crate) fn unsent(&self) -> u64 {
        self.queued - self.written
    }

    /// All bytes ever appended.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// All bytes ever handed to the kernel.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Sends until all is sent, or for a while; waits for the socket and for
    /// cold reads. Cancelled, it loses nothing.
    ///
    /// # Errors
    ///
    /// The connection is broken, or a file range cannot be read: then the frame
    /// is cut, and the connection must be closed.
    pub(crate) async fn flush(&mut self, stream: &TcpStream) -> io::Result<()> {
        let until = self.written + FLUSH_BYTES;
        while !self.is_empty() && self.written < until {
            if let Some(cold) = &mut self.cold {
                let bytes = cold.await?;
                self.cold = None;
                self.memory_bytes += bytes.len();
                self.staged.push_back(Staged::Memory(bytes));
            }
            self.stage()?;
            if self.staged.is_empty() {
                continue;
            }
            match self.write(stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.blocked_since = None;
                    self.advance(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert_with(Instant::now);
                    stream.writable().await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.is_empty() && self.scratch.len() > SMALL_SCRATCH_BYTES {
            self.sender
                .return_scratch(std::mem::take(&mut self.scratch));
        }
        Ok(())
    }

    /// Fills the window from the queue. Leaves it empty only if a cold read has
    /// been started, or nothing is queued.
    fn stage(&mut self) -> io::Result<()> {
        while self.cold.is_none() && self.staged.len() < MAX_SLICES {
            let Some(segment) = self.queue.pop_front() else {
                break;
            };
            match segment {
                Segment::Bytes(bytes) if bytes.len() > COPY_BYTES => {
                    self.staged.push_back(Staged::Memory(bytes));
                }
                Segment::Bytes(bytes) => {
                    if self.room() < bytes.len() {
                        self.queue.push_front(Segment::Bytes(bytes));
                        break;
                    }
                    self.memory_bytes -= bytes.len();
                    self.append_to_scratch(&bytes);
                }
                Segment::File {
                    file,
                    position,
                    length,
                } => {
                    if !self.stage_file(file, position, length)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stages the beginning of a file range and puts the rest back. False if
    /// there is no room for more.
    fn stage_file(&mut self, file: Arc<File>, position: u64, length: u64) -> io::Result<bool> {
        let rest = |queue: &mut VecDeque<Segment>, file: Arc<File>, done: u64| {
            if done < length {
                let (position, length) = (position + done, length - done);
                queue.push_front(Segment::File {
                    file,
                    position,
                    length,
                });
            }
        };
        let wanted = length.min(SCRATCH_BYTES as u64) as usize;
        if self.sender.method == SendMethod::Sendfile && length >= SENDFILE_MIN_BYTES {
            if ends_are_cached(&file, position, wanted)? {
                let staged = Staged::File {
                    file: Arc::clone(&file),
                    position,
                    length: wanted,
                };
                self.staged.push_back(staged);
                rest(&mut self.queue, file, wanted as u64);
                return Ok(true);
            }
            return Ok(self.stage_cold(file, position, length));
        }
        if self.scratch.len() < SCRATCH_BYTES {
            self.grow_scratch(SCRATCH_BYTES);
        }
        let room = wanted.min(self.scratch.len() - self.filled);
        if room == 0 {
            rest(&mut self.queue, file, 0);
            return Ok(false);
        }
        let into = &mut self.scratch[self.filled..self.filled + room];
        match read_cached(&file, position, into)? {
            Cached::Read(read) => {
                self.extend_scratch(read);
                rest(&mut self.queue, file, read as u64);
                Ok(true)
            }
            Cached::Cold => Ok(self.stage_cold(file, position, length)),
        }
    }

    /// Starts a cold read if it is the next to be sent; otherwise what is staged
    /// goes first.
    fn stage_cold(&mut self, file: Arc<File>, position: u64, length: u64) -> bool {
        if !self.staged.is_empty() {
            self.queue.push_front(Segment::File {
                file,
                position,
                length,
            });
            return false;
        }
        let wanted = length.min(SCRATCH_BYTES as u64);
        if wanted < length {
            let file = Arc::clone(&file);
            let (position, length) = (position + wanted, length - wanted);
            self.queue.push_front(Segment::File {
                file,
                position,
                length,
            });
        }
        let permits = Arc::clone(&self.sender.cold_reads);
        self.cold = Some(Box::pin(read_cold(
            file,
            position,
            wanted as usize,
            permits,
        )));
        false
    }

    /// Bytes that still fit the scratch buffer, once grown.
    fn room(&self) -> usize {
        SCRATCH_BYTES - self.filled
    }

    fn append_to_scratch(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        if end > self.scratch.len() {
            self.grow_scratch(end);
        }
        self.scratch[self.filled..end].copy_from_slice(bytes);
        self.extend_scratch(bytes.len());
    }

    fn grow_scratch(&mut self, needed: usize) {
        let length = needed.next_power_of_two().max(SMALL_SCRATCH_BYTES);
        let mut grown = if length < SCRATCH_BYTES / 4 {
            vec![0; length].into_boxed_slice()
        } else {
            self.sender.take_scratch()
        };
        grown[..self.filled].copy_from_slice(&self.scratch[..self.filled]);
        self.scratch = grown;
    }

    /// Counts `added` bytes behind the filled part of the scratch buffer as
    /// staged.
    fn extend_scratch(&mut self, added: usize) {
        let start = self.filled;
        self.filled += added;
        match self.staged.back_mut() {
            Some(Staged::Scratch(range)) if range.end == start => range.end = self.filled,
            _ => self.staged.push_back(Staged::Scratch(start..self.filled)),
        }
    }

    fn write(&self, stream: &TcpStream) -> io::Result<usize> {
        if let Some(Staged::File {
            file,
            position,
            length,
        }) = self.staged.front()
        {
            let mut position = *position;
            return stream.try_io(Interest::WRITABLE, || {
                Ok(rustix::fs::sendfile(
                    stream,
                    file,
                    Some(&mut position),
                    *length,
                )?)
            });
        }
        let mut slices = [io::IoSlice::new(&[]); MAX_SLICES];
        let mut count = 0;
        let mut file_follows = false;
        for (slice, staged) in slices.iter_mut().zip(&self.staged) {
            *slice = match staged {
                Staged::Scratch(range) => io::IoSlice::new(&self.scratch[range.clone()]),
                Staged::Memory(bytes) => io::IoSlice::new(bytes),
                Staged::File { .. } => {
                    file_follows = true;
                    break;
                }
            };
            count += 1;
        }
        if file_follows {
            // Without this hint the few bytes of a header would be a packet of
            // their own.
            use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
            return stream.try_io(Interest::WRITABLE, || {
                let mut control = SendAncillaryBuffer::default();
                Ok(sendmsg(
                    stream,
                    &slices[..count],
                    &mut control,
                    SendFlags::MORE | SendFlags::NOSIGNAL,
                )?)
            });
        }
        stream.try_write_vectored(&slices[..count])
    }

    fn advance(&mut self, mut written: usize) {
        self.written += written as u64;
        while written > 0 {
            let Some(front) = self.staged.front_mut() else {
                break;
            };
            let length = front.len();
            if written >= length {
                written -= length;
                if let Some(Staged::Memory(bytes)) = self.staged.pop_front() {
                    self.memory_bytes -= bytes.len();
                }
                continue;
            }
            match front {
                Staged::Scratch(range) => range.start += written,
                Staged::Memory(bytes) => {
                    // Still held as a whole, but on its way out.
                    self.memory_bytes -= written;
                    *bytes = bytes.slice(written..);
                }
                Staged::File {
                    position, length, ..
                } => {
                    *position += written as u64;
                    *length -= written;
                }
            }
            written = 0;
        }
        if self.staged.is_empty() {
            self.filled = 0;
        }
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        self.sender
            .return_scratch(std::mem::take(&mut self.scratch));
    }
}

/// Whether the first and the last byte are in the page cache: what a `sendfile`
/// that must not wait for the disk can know at a reasonable price. Should a page
/// between them be missing, the read of it blocks.
fn ends_are_cached(file: &File, position: u64, length: usize) -> io::Result<bool> {
    let mut byte = [0];
    for probe in [position, position + length as u64 - 1] {
        if matches!(read_cached(file, probe, &mut byte)?, Cached::Cold) {
            return Ok(false);
        }
    }
    Ok(true)
}
