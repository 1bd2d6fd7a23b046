//! Settings of log tablets.

/// When appended bytes count as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After a sync of the bytes and of the directory entries that lead to
    /// them: survives a power cut.
    #[default]
    Fsync,
    /// As soon as the operating system has them: survives `kill -9` only.
    Os,
}

/// Settings that all tablets of a server, or of a table, share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// When appended bytes count as durable.
    pub durability: Durability,
    /// A segment is sealed when the next append would make it larger. At most
    /// 2³¹ − 1; larger values count as that.
    pub segment_bytes: u64,
    /// Bytes between two entries of a segment's sparse index, at first. The
    /// interval doubles as often as needed to bound the index.
    pub index_interval_bytes: u32,
    /// A writer that has been silent for longer, in the time of the log, may
    /// continue with any sequence; after twice that time it is forgotten.
    pub writer_expiration_ms: i64,
    /// Writers remembered per bucket; beyond it the longest silent tenth is
    /// forgotten. A remembered writer takes about 200 bytes.
    pub max_writers: usize,
    /// A checkpoint is due after so many bytes …
    pub checkpoint_bytes: u64,
    /// … or so many new segments …
    pub checkpoint_segments: u64,
    /// … or so long after the first append that it does not cover …
    pub checkpoint_max_interval_ms: i64,
    /// … but not sooner after the last one than this.
    pub checkpoint_min_interval_ms: i64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            durability: Durability::Fsync,
            segment_bytes: 1 << 30,
            index_interval_bytes: 4096,
            writer_expiration_ms: 7 * 24 * 3600 * 1000,
            max_writers: 100_000,
            // What a start after a crash has to read again, per bucket: 32 MiB
            // take about 10 ms from the page cache.
            checkpoint_bytes: 32 << 20,
            checkpoint_segments: 1024,
            checkpoint_max_interval_ms: 60_000,
            checkpoint_min_interval_ms: 1_000,
        }
    }
}

impl LogConfig {
    /// The size limit of a segment, within what positions of 31 bits can say.
    pub(crate) fn segment_limit(&self) -> u64 {
        self.segment_bytes.min(i32::MAX as u64)
    }
}
