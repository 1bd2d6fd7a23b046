//! Reading stored batches again to find what the disk has lost meanwhile.

use crate::error::LogError;
use crate::scan::{BatchScanner, Scanned};
use crate::sparse_index::Boundary;
use crate::tablet::LogTablet;

/// Damage in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// First offset that cannot be read.
    pub start_offset: i64,
    /// End (exclusive) of the offsets in doubt: that of the segment, as nothing
    /// behind damage can be trusted.
    pub end_offset: i64,
    /// Base offset of the segment.
    pub segment_base_offset: i64,
    /// First damaged byte in it.
    pub position: u64,
    /// What is wrong.
    pub reason: String,
}

/// Result of verifying a stretch of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Where to go on; the log end when everything was verified.
    pub next_offset: i64,
    /// Batches found whole and valid.
    pub batches: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Damage found, ascending.
    pub damaged: Vec<DamagedRange>,
}

impl LogTablet {
    /// Verifies length, offsets and checksum of the batches from `start_offset`
    /// on, until `max_bytes` are read (and at least one batch), so that a
    /// background scrub can pace itself. Behind damage it goes on with the next
    /// segment.
    ///
    /// # Errors
    /// [`LogError::OffsetOutOfRange`], or [`LogError::Storage`] when the disk
    /// refuses to read.
    pub fn verify(&self, start_offset: i64, max_bytes: u64) -> Result<Verified, LogError> {
        self.check_in_range(start_offset)?;
        let log_end = self.end_offset();
        let mut verified = Verified {
            next_offset: start_offset,
            ..Verified::default()
        };
        while verified.next_offset < log_end && (verified.bytes < max_bytes || verified.bytes == 0)
        {
            let Some(segment) = self.segments_from(verified.next_offset).into_iter().next() else {
                self.check_in_range(verified.next_offset)?;
                break;
            };
            let base_offset = segment.base_offset();
            let end = segment.end();
            // From the start of the segment when the way to the offset is damaged.
            let start = match segment.batch_containing(&self.dir, verified.next_offset) {
                Ok(start) => start,
                Err(LogError::Damaged { .. }) => Boundary {
                    offset: base_offset,
                    position: 0,
                },
                Err(error) => return Err(error),
            };
            let file = segment.open(&self.dir)?;
            let mut scanner = BatchScanner::new(&*file, start, end.position);
            let reason = loop {
                let path = || self.dir.segment_path(base_offset);
                match scanner.step() {
                    Ok(Scanned::Batch(header)) => {
                        verified.batches += 1;
                        verified.bytes += header.total_len as u64;
                        verified.next_offset = verified.next_offset.max(scanner.at().offset);
                        if verified.bytes >= max_bytes {
                            break None;
                        }
                    }
                    Ok(Scanned::End) if scanner.at() == end => break None,
                    Ok(Scanned::End) => {
                        break Some(format!(
                            "it ends at offset {} instead of {}",
                            scanner.at().offset,
                            end.offset
                        ));
                    }
                    Ok(Scanned::Damage(damage)) => break Some(damage.reason),
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                        break Some(error.to_string());
                    }
                    Err(error) => return Err(LogError::io("read", &path(), error)),
                }
            };
            if let Some(reason) = reason {
                let at = scanner.at();
                tracing::error!(
                    segment = ?self.dir.segment_path(base_offset), position = at.position, %reason,
                    "stored batch is damaged"
                );
                verified.damaged.push(DamagedRange {
                    start_offset: at.offset,
                    end_offset: end.offset,
                    segment_base_offset: base_offset,
                    position: at.position,
                    reason,
                });
                verified.next_offset = end.offset;
                // Progress also when the first batch is damaged.
                verified.bytes = verified.bytes.max(1);
            }
        }
        Ok(verified)
    }
}
