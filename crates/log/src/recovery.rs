//! Opening a log: what a crash can leave, and what becomes of it.
//!
//! Below the recovery point of the checkpoint everything is durable and is not
//! read; that no segment is missing or too short shows in the list of files.
//! From there on every batch is read whole and must be valid and continue the
//! offsets. Where that ends, the log ends, and two cases are told apart by what
//! was promised: the recovery point and the durable mark.
//!
//! | Found | Meaning | Done |
//! |---|---|---|
//! | valid batches up to the end of the last file | all was written | nothing |
//! | damage at or beyond what was promised | torn tail of a crash | cut off, durably; later segments removed |
//! | damage below, or a missing or short segment | acknowledged data is damaged | quarantine: the readable prefix is served, nothing is cut, later segments are renamed, no writes |
//! | damage, and it is not known what was promised (no mark) | most likely a torn tail | cut off; what might be more than that is set aside, and the report says so |
//! | damaged checkpoint | | the previous one, else everything is read |
//! | `*.tmp`, index without segment, segments below the log start | leftovers | removed |
//!
//! What was recovered beyond the promise is whole and valid but perhaps not
//! synced; it counts as written, and as durable after the next sync. That sync
//! must not be fooled: after a failed one the kernel may still show bytes that
//! it will never write, and a later sync succeeds without them. So what lies
//! beyond the promise is written again while it is read. Where that cannot be
//! done the log is opened, but takes no writes until it is opened anew.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use mainstem_env::OpenMode;
use mainstem_types::LeaderEpoch;

use crate::bucket_dir::{BucketDir, base_offset_of, segment_name};
use crate::checkpoint::{self, Checkpoint, CheckpointUsed, RecoveryPoint};
use crate::config::{Durability, LogConfig};
use crate::durable_mark;
use crate::epochs::EpochTable;
use crate::error::LogError;
use crate::scan::{BatchScanner, Damage, Scanned};
use crate::segment::Segment;
use crate::sparse_index::Boundary;
use crate::tablet::{Unsynced, UnsyncedDirs, UnsyncedSegment};
use crate::writers::WriterStates;

/// Ending of files that recovery sets aside.
const SET_ASIDE: &str = "quarantined";
/// Of a torn segment at most this much is kept when it is not known whether it
/// was more than a torn tail.
const MAX_SET_ASIDE_BYTES: u64 = 64 << 20;

/// What opening a log found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// First readable offset.
    pub log_start_offset: i64,
    /// End (exclusive) of what was recovered: the high watermark of a single
    /// replica, once it is durable.
    pub log_end_offset: i64,
    /// End (exclusive) of what is known to be durable.
    pub durable_end_offset: i64,
    /// Number of segments.
    pub segments: usize,
    /// Number of idempotent writers known.
    pub writers: usize,
    /// The checkpoint that was used.
    pub checkpoint: CheckpointUsed,
    /// Batches that were read and verified.
    pub scanned_batches: u64,
    /// Bytes that were read and verified.
    pub scanned_bytes: u64,
    /// Bytes that were cut off as a torn tail, removed segments included.
    pub cut_bytes: u64,
    /// Files that were kept under another name instead of being deleted.
    pub set_aside: Vec<String>,
    /// Acknowledged data is damaged or missing. A person must act.
    pub quarantine: Option<Quarantine>,
}

impl RecoveryReport {
    /// Whether there was nothing to repair.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.cut_bytes == 0 && self.quarantine.is_none() && self.set_aside.is_empty()
    }
}

/// Why a log takes no writes after it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// Acknowledged data from here on is not readable …
    pub readable_end: i64,
    /// … up to here at least.
    pub promised_end: i64,
    /// What is wrong, and where.
    pub reason: String,
}

pub(crate) struct Recovered {
    pub segments: VecDeque<Arc<Segment>>,
    pub writers: WriterStates,
    pub epochs: EpochTable,
    pub max_timestamp_ms: i64,
    /// End of what is known to be synced.
    pub synced_end: i64,
    pub unsynced: Unsynced,
    /// A checkpoint now would say more than the one that was used.
    pub checkpoint_is_behind: bool,
    /// The last segment is complete by what the checkpoint says: appends go into
    /// a new one.
    pub last_is_sealed: bool,
    /// Why the next sync could not be trusted.
    pub write_back_error: Option<LogError>,
    pub report: RecoveryReport,
}

/// A segment file.
#[derive(Clone, Copy, Debug)]
struct Found {
    base_offset: i64,
    len: u64,
}

/// Where the valid batches end, before the end of the files.
#[derive(Debug)]
struct Stop {
    /// The segment that is wrong, in the list of files.
    index: usize,
    /// Whether nothing of it belongs to the log.
    drop_segment: bool,
    /// Where the valid batches end: in this segment, or with the one before.
    end: Boundary,
    damage: Damage,
}

impl Stop {
    /// How many segments stay.
    fn kept_segments(&self) -> usize {
        self.index + usize::from(!self.drop_segment)
    }
}

/// Opens the log in `dir`.
///
/// # Errors
/// [`LogError::Storage`] when the disk cannot be read or a cut not be made.
pub(crate) fn recover(dir: &BucketDir, config: &LogConfig) -> Result<Recovered, LogError> {
    let mut files = match dir.fs().list(dir.path()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(nothing()),
        Err(error) => return Err(LogError::io("list", dir.path(), error)),
    };
    files.retain(|entry| !entry.is_dir);
    let (checkpoint, used) = checkpoint::load(dir)?;
    let mark = durable_mark::load(dir)?;
    let first_base = checkpoint
        .as_ref()
        .map_or(0, |checkpoint| checkpoint.first_segment_base);

    let mut found: Vec<Found> = files
        .iter()
        .filter_map(|entry| {
            let base_offset = base_offset_of(&entry.name, ".log")?;
            Some(Found {
                base_offset,
                len: entry.len,
            })
        })
        .collect();
    found.sort_unstable_by_key(|segment| segment.base_offset);
    let bases: BTreeSet<i64> = found.iter().map(|segment| segment.base_offset).collect();
    // The checkpoint that says so may be there and not durable, when its sync
    // failed or was cut short. If it went and the files had gone, they would
    // seem to be lost.
    let may_delete = first_base <= found.first().map_or(first_base, |first| first.base_offset)
        || dir
            .sync()
            .inspect_err(|error| tracing::warn!(%error, "leftovers stay"))
            .is_ok();
    for entry in &files {
        let deleted =
            may_delete && base_offset_of(&entry.name, ".log").is_some_and(|base| base < first_base);
        let orphan = base_offset_of(&entry.name, ".index")
            .is_some_and(|base| base < first_base || !bases.contains(&base));
        if deleted || orphan || entry.name.ends_with(".tmp") {
            remove_leftover(dir, &entry.name);
        }
    }
    found.retain(|segment| segment.base_offset >= first_base);
    Recovery::new(dir, config, checkpoint, used, mark, found).run()
}

/// A log without a directory.
fn nothing() -> Recovered {
    Recovered {
        segments: VecDeque::new(),
        writers: WriterStates::default(),
        epochs: EpochTable::default(),
        max_timestamp_ms: i64::MIN,
        synced_end: 0,
        unsynced: Unsynced::default(),
        checkpoint_is_behind: false,
        last_is_sealed: false,
        write_back_error: None,
        report: RecoveryReport::default(),
    }
}

/// Leftovers do no harm: one that cannot be removed stays for the next time.
fn remove_leftover(dir: &BucketDir, name: &str) {
    if let Err(error) = dir.remove(name) {
        tracing::warn!(%error, "leftover was not removed");
    }
}

struct Recovery<'a> {
    dir: &'a BucketDir,
    config: &'a LogConfig,
    checkpoint: Checkpoint,
    mark: Option<i64>,
    found: Vec<Found>,
    write_back_error: Option<LogError>,
    report: RecoveryReport,
}

impl<'a> Recovery<'a> {
    fn new(
        dir: &'a BucketDir,
        config: &'a LogConfig,
        checkpoint: Option<Checkpoint>,
        used: CheckpointUsed,
        mark: Option<i64>,
        found: Vec<Found>,
    ) -> Self {
        // Nothing moves the start of a log before it has a checkpoint; one that
        // is lost leaves only the files to tell.
        let first_base = match (used, found.first()) {
            (CheckpointUsed::Unreadable, Some(first)) => first.base_offset,
            _ => 0,
        };
        let checkpoint = checkpoint.unwrap_or_else(|| Checkpoint::empty_at(first_base));
        let report = RecoveryReport {
            checkpoint: used,
            ..RecoveryReport::default()
        };
        Self {
            dir,
            config,
            checkpoint,
            mark,
            found,
            write_back_error: None,
            report,
        }
    }

    /// End of what was promised to be durable.
    fn promised_end(&self) -> i64 {
        self.mark
            .unwrap_or(i64::MIN)
            .max(self.checkpoint.recovery.offset)
    }

    fn run(mut self) -> Result<Recovered, LogError> {
        self.report.log_start_offset = self.checkpoint.log_start_offset;
        let mut end = Boundary {
            offset: self.checkpoint.log_start_offset,
            position: 0,
        };
        let mut head_lost = None;
        let mut stop = None;
        if let Some(first) = self.found.first().map(|first| first.base_offset)
            && first > self.checkpoint.first_segment_base
        {
            (head_lost, stop) = self.without_head(first);
        }
        if stop.is_none() && !self.found.is_empty() {
            let point = self.checkpoint.recovery;
            end = Boundary {
                offset: point.offset,
                position: point.position,
            };
            stop = match self.check_promised_files()? {
                Some(stop) => Some(stop),
                None => self.scan(&mut end)?,
            };
        }
        if let Some(stop) = &stop {
            end = stop.end;
        }
        let promised_end = self.promised_end();
        if end.offset < promised_end || head_lost.is_some() {
            let reason = match (&stop, head_lost) {
                (Some(stop), _) => self.describe(stop),
                (None, Some(reason)) => reason,
                (None, None) => "there is nothing behind".to_owned(),
            };
            self.report.quarantine = Some(Quarantine {
                readable_end: end.offset,
                promised_end,
                reason,
            });
        }
        if let Some(stop) = stop {
            if self.report.quarantine.is_some() {
                self.set_later_segments_aside(&stop)?;
            } else {
                self.cut(&stop)?;
            }
            self.found.truncate(stop.kept_segments());
        }
        Ok(self.finish(end))
    }

    /// What it means that the log should begin with a segment before `first`,
    /// which is the first there is.
    fn without_head(&mut self, first: i64) -> (Option<String>, Option<Stop>) {
        let expected = self.checkpoint.first_segment_base;
        let reason = format!("the segments from offset {expected} to {first} are missing");
        let fell_back = self.report.checkpoint == CheckpointUsed::Previous;
        if !fell_back && self.promised_end() <= expected {
            // They were never durable, so what follows was not either.
            let end = Boundary {
                offset: expected,
                position: 0,
            };
            let damage = Damage {
                reason,
                batch_len: None,
            };
            return (
                None,
                Some(Stop {
                    index: 0,
                    drop_segment: true,
                    end,
                    damage,
                }),
            );
        }
        self.report.log_start_offset = self.report.log_start_offset.max(first);
        if self.checkpoint.recovery.segment_base < first {
            // The recovery point is gone as well: read everything there is.
            self.checkpoint.recovery = RecoveryPoint {
                offset: first,
                segment_base: first,
                position: 0,
            };
        }
        // After a fall-back it is retention that has deleted them since.
        ((!fell_back).then_some(reason), None)
    }

    /// Checks by names and lengths that the segments up to the recovery point
    /// are all there; looks into them only if they are not.
    fn check_promised_files(&mut self) -> Result<Option<Stop>, LogError> {
        let point = self.checkpoint.recovery;
        let sealed = self
            .found
            .partition_point(|segment| segment.base_offset < point.segment_base);
        let bytes: u64 = self.found[..sealed].iter().map(|segment| segment.len).sum();
        let complete =
            sealed as u64 == self.checkpoint.sealed_count && bytes == self.checkpoint.sealed_bytes;
        // After a fall-back, retention may have deleted some since.
        if !complete && self.report.checkpoint == CheckpointUsed::Latest {
            for index in 0..sealed {
                let next = self.found[..sealed].get(index + 1);
                let expected_end = next.map_or(point.segment_base, |next| next.base_offset);
                if let Some(stop) = self.scan_sealed(index, expected_end)? {
                    return Ok(Some(stop));
                }
            }
        }
        let reason = match self.found.get(sealed) {
            Some(segment) if segment.base_offset == point.segment_base => {
                if segment.len >= point.position {
                    return Ok(None);
                }
                let stop = self.scan_sealed(sealed, point.offset)?;
                // It is too short, so it cannot end where it should.
                return Ok(stop);
            }
            _ if point.position == 0 => return Ok(None),
            _ => format!("segment {} is missing", segment_name(point.segment_base)),
        };
        let damage = Damage {
            reason,
            batch_len: None,
        };
        let end = Boundary {
            offset: point.segment_base,
            position: 0,
        };
        Ok(Some(Stop {
            index: sealed,
            drop_segment: true,
            end,
            damage,
        }))
    }

    /// Reads a segment whole that should end at `expected_end`.
    fn scan_sealed(&mut self, index: usize, expected_end: i64) -> Result<Option<Stop>, LogError> {
        let segment = self.found[index];
        let start = Boundary {
            offset: segment.base_offset,
            position: 0,
        };
        let path = self.dir.segment_path(segment.base_offset);
        let file = self
            .dir
            .fs()
            .open(&path, OpenMode::Read)
            .map_err(|error| LogError::io("open", &path, error))?;
        let mut scanner = BatchScanner::new(&*file, start, segment.len);
        let damage = loop {
            match scanner
                .step()
                .map_err(|error| LogError::io("read", &path, error))?
            {
                Scanned::Batch(header) if header.next_offset() <= expected_end => {}
                Scanned::End if scanner.at().offset == expected_end => return Ok(None),
                Scanned::Damage(damage) => break damage,
                Scanned::Batch(_) | Scanned::End => {
                    break Damage {
                        reason: format!(
                            "it ends at offset {} instead of {expected_end}",
                            scanner.at().offset
                        ),
                        batch_len: None,
                    };
                }
            }
        };
        let end = scanner.at();
        Ok(Some(Stop {
            index,
            drop_segment: false,
            end,
            damage,
        }))
    }

    /// Reads everything from the recovery point on. Moves `end` to where the
    /// valid batches end.
    fn scan(&mut self, end: &mut Boundary) -> Result<Option<Stop>, LogError> {
        let point = self.checkpoint.recovery;
        let first = self
            .found
            .partition_point(|segment| segment.base_offset < point.segment_base);
        for index in first..self.found.len() {
            let segment = self.found[index];
            if segment.base_offset != point.segment_base {
                if segment.base_offset != end.offset {
                    let reason = format!("it follows a segment that ends at {}", end.offset);
                    *end = Boundary {
                        offset: end.offset,
                        position: 0,
                    };
                    let damage = Damage {
                        reason,
                        batch_len: None,
                    };
                    return Ok(Some(Stop {
                        index,
                        drop_segment: true,
                        end: *end,
                        damage,
                    }));
                }
                *end = Boundary {
                    offset: segment.base_offset,
                    position: 0,
                };
            }
            if let Some(damage) = self.scan_segment(segment, end)? {
                // Without a valid batch it stays as an empty file: a checkpoint
                // may say that the log goes on here, not in the one before.
                return Ok(Some(Stop {
                    index,
                    drop_segment: false,
                    end: *end,
                    damage,
                }));
            }
        }
        Ok(None)
    }

    fn scan_segment(
        &mut self,
        segment: Found,
        end: &mut Boundary,
    ) -> Result<Option<Damage>, LogError> {
        if segment.len == end.position {
            return Ok(None);
        }
        let path = self.dir.segment_path(segment.base_offset);
        let file = self
            .dir
            .fs()
            .open(&path, OpenMode::Read)
            .map_err(|error| LogError::io("open", &path, error))?;
        let mut scanner = BatchScanner::new(&*file, *end, segment.len);
        let promised_end = self.promised_end();
        let mut writes_back = self.config.durability == Durability::Os;
        let damage = loop {
            if !writes_back && end.offset >= promised_end {
                let file = self
                    .dir
                    .fs()
                    .open(&path, OpenMode::ReadWrite)
                    .map_err(|error| LogError::io("open", &path, error))?;
                scanner.write_back_to(file);
                writes_back = true;
            }
            let scanned = scanner
                .step()
                .map_err(|error| LogError::io("read", &path, error))?;
            let header = match scanned {
                Scanned::Batch(header) => header,
                Scanned::End => break None,
                Scanned::Damage(damage) => break Some(damage),
            };
            *end = scanner.at();
            let checkpoint = &mut self.checkpoint;
            checkpoint.max_timestamp_ms =
                checkpoint.max_timestamp_ms.max(header.commit_timestamp_ms);
            checkpoint.writers.record(&header, self.config.max_writers);
            if let Some(epoch) = header.leader_epoch.filter(|epoch| *epoch >= 0) {
                checkpoint
                    .epochs
                    .assign(LeaderEpoch(epoch), header.base_offset);
            }
            self.report.scanned_batches += 1;
            self.report.scanned_bytes += header.total_len as u64;
        };
        if let Some(error) = scanner.write_back_error() {
            self.write_back_error = Some(LogError::io("write back", &path, error));
        }
        Ok(damage)
    }

    fn describe(&self, stop: &Stop) -> String {
        match self.found.get(stop.index) {
            Some(segment) => format!(
                "{} at byte {}: {}",
                segment_name(segment.base_offset),
                stop.end.position,
                stop.damage.reason
            ),
            None => stop.damage.reason.clone(),
        }
    }

    /// Removes what is behind the valid batches, durably.
    fn cut(&mut self, stop: &Stop) -> Result<(), LogError> {
        let segment = self.found[stop.index];
        let later = &self.found[stop.index + 1..];
        let path = self.dir.segment_path(segment.base_offset);
        // A segment that is dropped for a gap in front of it has no valid part.
        let position = if stop.drop_segment {
            0
        } else {
            stop.end.position
        };
        let torn_bytes = segment.len - position;
        self.report.cut_bytes = torn_bytes + later.iter().map(|segment| segment.len).sum::<u64>();
        tracing::info!(
            log = ?self.dir.path(), end = stop.end.offset, bytes = self.report.cut_bytes,
            reason = %stop.damage.reason, "torn tail is cut off"
        );
        let more_than_torn = stop.damage.batch_len.is_some_and(|len| len < torn_bytes);
        let in_doubt = self.mark.is_none() && (more_than_torn || !later.is_empty());
        let mut names = Vec::new();
        if in_doubt {
            if let Some(name) = self.copy_torn_bytes(segment, position) {
                self.report.set_aside.push(name);
            }
            for segment in later {
                let name = segment_name(segment.base_offset);
                let kept = format!("{name}.{SET_ASIDE}");
                let from = self.dir.file(&name);
                self.dir
                    .fs()
                    .rename(&from, &self.dir.file(&kept))
                    .map_err(|error| LogError::io("rename", &from, error))?;
                self.report.set_aside.push(kept);
            }
            tracing::warn!(
                log = ?self.dir.path(), files = ?self.report.set_aside,
                "what was cut off may be more than a torn tail, it is set aside"
            );
        } else {
            // Newest first, so that what a crash leaves is a prefix again.
            names.extend(
                later
                    .iter()
                    .rev()
                    .map(|segment| segment_name(segment.base_offset)),
            );
        }
        if stop.drop_segment {
            names.push(segment_name(segment.base_offset));
        }
        for name in &names {
            self.dir.remove(name)?;
        }
        if stop.drop_segment || !later.is_empty() {
            self.dir.sync()?;
        }
        if !stop.drop_segment {
            let file = self
                .dir
                .fs()
                .open(&path, OpenMode::ReadWrite)
                .map_err(|error| LogError::io("open", &path, error))?;
            file.set_len(position)
                .map_err(|error| LogError::io("cut", &path, error))?;
            file.sync_data()
                .map_err(|error| LogError::io("sync", &path, error))?;
        }
        Ok(())
    }

    /// Keeps a copy of what is behind a position. As good as it goes: on a full
    /// disk there is none.
    fn copy_torn_bytes(&self, segment: Found, position: u64) -> Option<String> {
        let copy = || -> Result<String, LogError> {
            let path = self.dir.segment_path(segment.base_offset);
            let file = self
                .dir
                .fs()
                .open(&path, OpenMode::Read)
                .map_err(|error| LogError::io("open", &path, error))?;
            let len = (segment.len - position).min(MAX_SET_ASIDE_BYTES);
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, position)
                .map_err(|error| LogError::io("read", &path, error))?;
            let name = format!(
                "{}.{position}.{SET_ASIDE}",
                segment_name(segment.base_offset)
            );
            self.dir.write_small(&name, &bytes)?;
            Ok(name)
        };
        copy()
            .inspect_err(|error| tracing::warn!(%error, "torn bytes were not set aside"))
            .ok()
    }

    /// Renames the segments behind damage to promised data. The damaged one
    /// itself stays as it is: nothing will be written to it.
    fn set_later_segments_aside(&mut self, stop: &Stop) -> Result<(), LogError> {
        for segment in self.found.iter().skip(stop.kept_segments()) {
            let name = segment_name(segment.base_offset);
            let kept = format!("{name}.{SET_ASIDE}");
            let from = self.dir.file(&name);
            self.dir
                .fs()
                .rename(&from, &self.dir.file(&kept))
                .map_err(|error| LogError::io("rename", &from, error))?;
            self.report.set_aside.push(kept);
        }
        if !self.report.set_aside.is_empty() {
            self.dir.sync()?;
        }
        Ok(())
    }

    fn finish(mut self, end: Boundary) -> Recovered {
        let promised_end = self.promised_end();
        let report = &mut self.report;
        report.log_start_offset = report.log_start_offset.min(end.offset.max(0));
        report.log_end_offset = end.offset;
        report.segments = self.found.len();
        report.writers = self.checkpoint.writers.len();
        let synced_end = promised_end.min(end.offset).max(report.log_start_offset);
        report.durable_end_offset = match self.config.durability {
            Durability::Fsync => synced_end,
            Durability::Os => end.offset,
        };
        if let Some(quarantine) = &report.quarantine {
            tracing::error!(
                log = ?self.dir.path(), readable_end = quarantine.readable_end,
                promised_end = quarantine.promised_end, reason = %quarantine.reason,
                "acknowledged data is damaged or missing: the log takes no writes"
            );
        }
        self.checkpoint.epochs.truncate_to(end.offset);

        let mut segments = VecDeque::with_capacity(self.found.len());
        for (index, segment) in self.found.iter().enumerate() {
            let is_last = index + 1 == self.found.len();
            let segment_end = match self.found.get(index + 1) {
                Some(next) => Boundary {
                    offset: next.base_offset,
                    position: segment.len,
                },
                None => self.end_in(segment, end),
            };
            let id = self.dir.resources.new_segment_id();
            let interval = self.config.index_interval_bytes;
            let segment = Segment::found(id, segment_end, segment.base_offset, interval);
            if !is_last {
                segment.mark_sealed();
            }
            segments.push_back(Arc::new(segment));
        }
        // The entry of the last segment may be unsynced even when it is empty.
        // Once something was durable, so were the directories above.
        let dirs = match segments.len() {
            0 => UnsyncedDirs::None,
            _ if synced_end > self.report.log_start_offset => UnsyncedDirs::Bucket,
            _ => UnsyncedDirs::Lineage,
        };
        let unsynced = Unsynced {
            // The last one also when its batches are synced: bytes of a failed
            // append may have been cut off behind them, and could come back.
            segments: segments
                .iter()
                .enumerate()
                .filter(|(index, segment)| {
                    index + 1 == segments.len() || segment.end().offset > synced_end
                })
                .map(|(_, segment)| segment)
                .map(|segment| UnsyncedSegment {
                    segment: Arc::clone(segment),
                    file: None,
                })
                .collect(),
            dirs,
        };
        Recovered {
            segments,
            checkpoint_is_behind: self.checkpoint.recovery.offset != end.offset
                || self.report.checkpoint != CheckpointUsed::Latest && !self.found.is_empty(),
            writers: self.checkpoint.writers,
            epochs: self.checkpoint.epochs,
            max_timestamp_ms: self.checkpoint.max_timestamp_ms,
            synced_end,
            unsynced,
            last_is_sealed: self
                .found
                .last()
                .is_some_and(|last| last.base_offset < self.checkpoint.recovery.segment_base),
            write_back_error: self.write_back_error,
            report: self.report,
        }
    }

    /// The end of the last segment.
    fn end_in(&self, segment: &Found, end: Boundary) -> Boundary {
        // The last segment was dropped whole, or never had a batch.
        if end.position == 0 && end.offset > segment.base_offset {
            return Boundary {
                offset: end.offset,
                position: segment.len,
            };
        }
        end
    }
}
