//! Memory for frames: bounded in total, and reused.
//!
//! Every frame above [`CHARGED_BYTES`] is charged while any slice of it lives,
//! by what is allocated for it. A connection that needs more than is left
//! waits, which stops its reading; it goes on when frames are dropped. So that
//! connections which all hold half a frame do not wait for each other for ever,
//! one at a time may exceed the limit: the total stays below the limit plus one
//! frame.
//!
//! Fresh memory costs a page fault per 4 KiB, about as much as receiving the
//! bytes. Dropped buffers are therefore kept, the hottest on top, and freed when
//! they have not been needed for a while ([`FrameMemory::trim`]).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::{BufMut, Bytes};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Frames below are not charged: what they need is bounded by the number of
/// requests in flight.
pub(crate) const CHARGED_BYTES: usize = 4 * 1024;

/// Buffers from here are kept for reuse. Allocators reuse smaller ones well.
const POOLED_MIN_BYTES: usize = 64 * 1024;
/// Larger buffers are rare and not worth keeping.
const POOLED_MAX_BYTES: usize = 8 * 1024 * 1024;

/// A limit on frame bytes, and buffers to reuse.
#[derive(Debug)]
pub(crate) struct FrameMemory {
    limit: u64,
    used: AtomicU64,
    waiting: AtomicUsize,
    released: Notify,
    /// One permit: the right to exceed the limit.
    overdraft: Arc<Semaphore>,
    free: Mutex<FreeBuffers>,
}

#[derive(Debug)]
struct FreeBuffers {
    /// In order of last use, the latest at the end.
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    max_bytes: usize,
    /// Least number of buffers since the last trim: so many, from the front,
    /// nobody has needed.
    unused: usize,
}

impl FrameMemory {
    /// `limit` bounds the bytes of frames alive, `retained_bytes` those kept for
    /// reuse.
    pub(crate) fn new(limit: u64, retained_bytes: usize) -> Arc<Self> {
        Arc::new(FrameMemory {
            limit,
            used: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            released: Notify::new(),
            overdraft: Arc::new(Semaphore::new(1)),
            free: Mutex::new(FreeBuffers {
                buffers: Vec::new(),
                bytes: 0,
                max_bytes: retained_bytes,
                unused: 0,
            }),
        })
    }

    /// A buffer without room.
    pub(crate) fn buffer(self: &Arc<Self>) -> Buffer {
        Buffer {
            bytes: Vec::new(),
            charged: 0,
            overdraft: None,
            memory: Arc::clone(self),
        }
    }

    /// A frame that has arrived completely among others. It is charged even
    /// beyond the limit, by at most the few KiB that one read returns.
    pub(crate) fn copy(self: &Arc<Self>, frame: &[u8]) -> Bytes {
        if frame.len() < CHARGED_BYTES {
            return Bytes::copy_from_slice(frame);
        }
        let mut buffer = self.buffer();
        buffer.charge_beyond_limit(frame.len() as u64);
        buffer.bytes.extend_from_slice(frame);
        buffer.into_bytes()
    }

    /// Bytes charged.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether a connection waits for memory.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Frees the buffers that have not been needed since the last call.
    pub(crate) fn trim(&self) {
        let unused: Vec<Vec<u8>> = {
            let mut free = self.free.lock();
            let count = free.unused;
            let unused: Vec<Vec<u8>> = free.buffers.drain(..count).collect();
            free.bytes -= unused.iter().map(Vec::capacity).sum::<usize>();
            free.unused = free.buffers.len();
            unused
        };
        drop(unused);
    }

    fn try_charge(&self, bytes: u64) -> bool {
        self.used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |used| {
                used.checked_add(bytes).filter(|&sum| sum <= self.limit)
            })
            .is_ok()
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        if self.is_exhausted() {
            self.released.notify_waiters();
        }
    }

    /// An empty vector of at least `capacity`, a kept one if one fits.
    fn allocate(&self, capacity: usize) -> Vec<u8> {
        if capacity < POOLED_MIN_BYTES {
            return Vec::with_capacity(capacity);
        }
        let mut free = self.free.lock();
        let fits = |buffer: &Vec<u8>| (capacity..=capacity * 2).contains(&buffer.capacity());
        if let Some(index) = free.buffers.iter().rposition(fits) {
            let buffer = free.buffers.remove(index);
            free.bytes -= buffer.capacity();
            free.unused = free.unused.min(index);
            return buffer;
        }
        drop(free);
        // Rounded up to a quarter of a power of two, so that frames of about the
        // same length can use each other's buffers.
        let step = (capacity.next_power_of_two() / 8).max(1);
        Vec::with_capacity(capacity.div_ceil(step) * step)
    }

    fn retain(&self, mut buffer: Vec<u8>) {
        if !(POOLED_MIN_BYTES..=POOLED_MAX_BYTES).contains(&buffer.capacity()) {
            return;
        }
        buffer.clear();
        let mut free = self.free.lock();
        if free.bytes + buffer.capacity() <= free.max_bytes {
            free.bytes += buffer.capacity();
            free.buffers.push(buffer);
        }
    }
}

/// Memory of one frame, charged while it lives.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    charged: u64,
    /// Held until the buffer is gone, so that only one frame is in excess.
    overdraft: Option<OwnedSemaphorePermit>,
    memory: Arc<FrameMemory>,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Makes room for `capacity` bytes in total; waits for memory. Nothing has
    /// happened if it is cancelled.
    pub(crate) async fn reserve(&mut self, capacity: usize) {
        if capacity <= self.bytes.capacity() {
            return;
        }
        self.charge((capacity as u64).saturating_sub(self.charged))
            .await;
        if self.bytes.is_empty() {
            self.bytes = self.memory.allocate(capacity);
        } else {
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    /// Appends bytes for which there is room.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        debug_assert!(self.bytes.capacity() - self.bytes.len() >= bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Reads at most `limit` bytes, and no more than there is room for, from a
    /// socket.
    pub(crate) fn read_from(&mut self, stream: &TcpStream, limit: usize) -> io::Result<usize> {
        let room = self.bytes.capacity() - self.bytes.len();
        stream.try_read_buf(&mut (&mut self.bytes).limit(limit.min(room)))
    }

    /// The content; the memory is released with the last slice of it.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    async fn charge(&mut self, bytes: u64) {
        if self.overdraft.is_some() {
            return self.charge_beyond_limit(bytes);
        }
        if self.memory.try_charge(bytes) {
            self.charged += bytes;
            return;
        }
        let memory = Arc::clone(&self.memory);
        memory.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&memory.waiting);
        loop {
            let released = memory.released.notified();
            tokio::pin!(released);
            // Listening before looking: a release in between is not missed.
            released.as_mut().enable();
            if memory.try_charge(bytes) {
                self.charged += bytes;
                return;
            }
            tokio::select! {
                permit = Arc::clone(&memory.overdraft).acquire_owned() => {
                    self.overdraft = permit.ok();
                    return self.charge_beyond_limit(bytes);
                }
                () = released => {}
            }
        }
    }

    fn charge_beyond_limit(&mut self, bytes: u64) {
        self.memory.used.fetch_add(bytes, Ordering::SeqCst);
        self.charged += bytes;
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.memory.retain(std::mem::take(&mut self.bytes));
        // The permit first: whoever is woken by the release may need it.
        self.overdraft = None;
        if self.charged > 0 {
            self.memory.release(self.charged);
        }
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const MIB: usize = 1024 * 1024;

    fn filled(memory: &Arc<FrameMemory>, bytes: usize) -> Option<Buffer> {
        let mut buffer = memory.buffer();
        buffer.reserve(bytes).now_or_never().map(|()| buffer)
    }

    #[tokio::test]
    async fn one_buffer_may_exceed_the_limit_and_the_next_waits_for_it() {
        let memory = FrameMemory::new(2 * MIB as u64, 0);
        let first = filled(&memory, 2 * MIB).unwrap();
        let excess = filled(&memory, 5 * MIB).unwrap();
        assert!(filled(&memory, MIB).is_none());
        assert_eq!(memory.used_bytes(), 7 * MIB as u64);
        let waiting = tokio::spawn({
            let memory = Arc::clone(&memory);
            async move {
                let mut buffer = memory.buffer();
                buffer.reserve(MIB).await;
                buffer
            }
        });
        tokio::task::yield_now().await;
        assert!(memory.is_exhausted());
        drop(excess);
        drop(waiting.await.unwrap());
        assert!(!memory.is_exhausted());
        drop(first);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_no_trace() {
        let memory = FrameMemory::new(MIB as u64, 0);
        let first = filled(&memory, MIB).unwrap();
        let excess = filled(&memory, MIB).unwrap();
        assert!(filled(&memory, 1).is_none());
        assert!(!memory.is_exhausted());
        drop((first, excess));
        assert_eq!(memory.used_bytes(), 0);
    }

    #[tokio::test]
    async fn memory_is_held_while_any_slice_of_the_frame_lives() {
        let memory = FrameMemory::new(MIB as u64, 0);
        let mut buffer = filled(&memory, 8192).unwrap();
        buffer.extend(&[1; 8192]);
        let slice = buffer.into_bytes().slice(10..20);
        assert_eq!(memory.used_bytes(), 8192);
        drop(slice);
        assert_eq!(memory.used_bytes(), 0);
        let copy = memory.copy(&[2; CHARGED_BYTES]);
        assert_eq!(memory.used_bytes(), CHARGED_BYTES as u64);
        drop(copy);
        drop(memory.copy(&[2; CHARGED_BYTES - 1]));
        assert_eq!(memory.used_bytes(), 0);
    }

    #[tokio::test]
    async fn a_dropped_buffer_is_used_again_and_freed_when_nobody_needs_it() {
        let memory = FrameMemory::new(u64::MAX, 4 * MIB);
        let mut buffer = filled(&memory, MIB).unwrap();
        buffer.extend(&[1; 10]);
        let address = buffer.as_ref().as_ptr();
        drop(buffer);
        memory.trim();
        let again = filled(&memory, MIB - 1000).unwrap();
        assert_eq!(again.as_ref().as_ptr(), address);
        assert_eq!(again.len(), 0);
        drop(again);
        // Needed since the last trim: kept once more, then freed.
        memory.trim();
        assert_eq!(memory.free.lock().buffers.len(), 1);
        memory.trim();
        let free = memory.free.lock();
        assert_eq!((free.buffers.len(), free.bytes), (0, 0));
    }

    #[tokio::test]
    async fn what_is_kept_for_reuse_is_bounded() {
        let memory = FrameMemory::new(u64::MAX, 3 * MIB);
        let buffers: Vec<Buffer> = (0..8).map(|_| filled(&memory, MIB).unwrap()).collect();
        drop(buffers);
        let free = memory.free.lock();
        assert!(
            free.bytes <= 3 * MIB && free.buffers.len() == 3,
            "{}",
            free.bytes
        );
    }
}
