//! Reading one bucket within the budget of a fetch.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_format::projection::{Part, ProjectedBatch, Projection, SourceRange};
use mainstem_format::read_at::{ReadAt, ReadError, ReadWindow};
use mainstem_format::{BatchHeader, Filter, Predicate, ProjectionError};
use mainstem_log::{LogPart, LogSlice};
use mainstem_net::Segment;

use super::plan::{BucketPlan, FetchPlan, TablePlan};
use crate::metrics::TableMetrics;
use crate::replica::{Replica, file_segment, segments};
use crate::service::{Refusal, TabletService};
use crate::table_view::TableView;

/// The data is not in memory: try again where waiting for the disk is allowed.
pub(in crate::service) struct Cold;

/// `fetch_offset` that means the start of the log.
const EARLIEST: i64 = -2;
/// Stored bytes looked at per step of a projected or filtered read.
const STEP_BYTES: u64 = 16 << 20;
/// Batches that one fetch selects from or skips (wire.md §6.5 bounds it by 16
/// segments; this bounds the time as well: some 20 ms).
const MAX_BATCHES: u64 = 16_384;
/// As many as that on a thread that serves other requests.
const MAX_BATCHES_BESIDE: u64 = 2_048;
/// Ranges of files up to this size are read at once instead of being sent from
/// the file one by one.
const SMALL_RANGE: u64 = 8 << 10;

/// What was read of a bucket.
#[derive(Debug)]
pub(in crate::service) struct BucketRead {
    /// The records.
    pub segments: Vec<Segment>,
    /// Their bytes.
    pub bytes: u64,
    /// First offset behind what was read.
    pub next_offset: i64,
    /// Set when batches at the end were skipped.
    pub filtered_end_offset: Option<i64>,
    /// Whether more could be read than the limits allow.
    pub more: bool,
    /// Batches selected from or skipped.
    batches: u64,
    /// End of what clients may read.
    pub high_watermark: i64,
    /// First offset kept.
    pub log_start_offset: i64,
    /// Counters of the table.
    pub metrics: Arc<TableMetrics>,
}

/// Bytes that the request may still return. While nothing has been returned, the
/// first batch may exceed every limit.
#[derive(Debug)]
pub(in crate::service) struct Budget {
    left: Option<u64>,
    nothing_yet: bool,
    batches: u64,
}

impl Budget {
    /// `None` = the request gave a negative one.
    pub fn new(max_bytes: Option<u64>) -> Self {
        Self {
            left: max_bytes,
            nothing_yet: true,
            batches: MAX_BATCHES,
        }
    }

    fn spend(&mut self, read: &BucketRead) {
        self.batches = self.batches.saturating_sub(read.batches);
        if read.bytes > 0 {
            self.nothing_yet = false;
            self.left = self.left.map(|left| left.saturating_sub(read.bytes));
        }
    }
}

impl TabletService {
    pub(super) fn read_bucket(
        &self,
        plan: &FetchPlan,
        table: &TablePlan,
        bucket: &BucketPlan,
        budget: &mut Budget,
        may_block: bool,
    ) -> Result<Result<BucketRead, Refusal>, Cold> {
        let result = self.try_read(plan, table, bucket, budget, may_block);
        match result {
            Err(ReadFailure::Cold) => Err(Cold),
            Err(ReadFailure::Refused(refusal)) => Ok(Err(refusal)),
            Ok(read) => {
                budget.spend(&read);
                Ok(Ok(read))
            }
        }
    }

    fn try_read(
        &self,
        plan: &FetchPlan,
        table: &TablePlan,
        bucket: &BucketPlan,
        budget: &Budget,
        may_block: bool,
    ) -> Result<BucketRead, ReadFailure> {
        let Some(left) = budget.left else {
            return Err(Refusal::new(-1, "max_bytes is negative").into());
        };
        let replica = if plan.follower.is_some() {
            if plan.is_stranger {
                let message = "followers read on the listener for servers only";
                return Err(Refusal::new(12, message).into());
            }
            let replica = self.replica(&bucket.bucket, None)?;
            replica.check_follower(plan.follower)?;
            replica
        } else {
            self.replica(&bucket.bucket, bucket.routing_bucket_count)?
        };
        replica.check_leader()?;
        let view = replica.table();
        if let Some(fields) = &table.projection {
            Projection::check_format(view.log_format)?;
            Projection::check_fields(fields)?;
        }
        let mut read = BucketRead {
            segments: Vec::new(),
            bytes: 0,
            next_offset: 0,
            filtered_end_offset: None,
            more: false,
            batches: 0,
            high_watermark: replica.high_watermark(),
            log_start_offset: replica.log_start_offset(),
            metrics: replica.metrics().clone(),
        };
        let end = if plan.follower.is_some() {
            replica.log_end_offset()
        } else {
            read.high_watermark
        };
        let start = replica.resolve_fetch_offset(bucket.fetch_offset, EARLIEST)?;
        read.next_offset = start;
        let limit = bucket.max_bytes.min(left);
        read.more = start < end;
        if start >= end || budget.batches == 0 || (limit == 0 && !budget.nothing_yet) {
            return Ok(read);
        }
        let projection = match &table.projection {
            Some(fields) => Some(self.projections.get(&view, fields)?),
            None => None,
        };
        let filter = table.filter.as_ref().and_then(|f| compile_filter(&view, f));
        let mut reading = Reading {
            replica: &replica,
            projection,
            filter,
            limit,
            first_free: budget.nothing_yet,
            batches: budget.batches,
            end,
            may_block,
        };
        if reading.projection.is_none() && reading.filter.is_none() {
            reading.whole(&mut read)?;
        } else {
            reading.selected(&mut read)?;
        }
        read.more = read.next_offset < end;
        Ok(read)
    }
}

fn compile_filter(view: &TableView, (schema_id, predicate): &(i32, Predicate)) -> Option<Filter> {
    if view.log_format != mainstem_types::LogFormat::Arrow {
        return None;
    }
    let versions: Vec<_> = view
        .layouts()
        .iter()
        .map(|(id, layout)| (*id, layout.clone()))
        .collect();
    Filter::new(&versions, i16::try_from(*schema_id).ok()?, predicate)
}

struct Reading<'a> {
    replica: &'a Replica,
    projection: Option<Arc<Projection>>,
    filter: Option<Filter>,
    limit: u64,
    /// The first batch may exceed the limit.
    first_free: bool,
    /// Batches to look at.
    batches: u64,
    end: i64,
    may_block: bool,
}

impl Reading<'_> {
    fn slice(&self, start: i64, max_bytes: u64, first_free: bool) -> Result<LogSlice, ReadFailure> {
        let replica = self.replica;
        if self.may_block {
            return Ok(replica.slice(start, max_bytes, self.end, first_free)?);
        }
        let slice = replica.try_slice(start, max_bytes, self.end, first_free)?;
        slice.ok_or(ReadFailure::Cold)
    }

    /// Whole batches as they lie in the files.
    fn whole(&mut self, read: &mut BucketRead) -> Result<(), ReadFailure> {
        let slice = self.slice(read.next_offset, self.limit, self.first_free)?;
        read.next_offset = slice.end_offset.max(read.next_offset);
        read.bytes = slice.len;
        read.segments = segments(slice)?;
        Ok(())
    }

    /// Batch by batch: skipped by the filter, cut by the projection.
    fn selected(&mut self, read: &mut BucketRead) -> Result<(), ReadFailure> {
        let mut skipped_to = None;
        'steps: while read.next_offset < self.end && !self.is_full(read) {
            let step_start = read.next_offset;
            let slice = self.slice(read.next_offset, STEP_BYTES, true)?;
            if slice.is_empty() {
                break;
            }
            for part in &slice.parts {
                let source = PartSource {
                    part,
                    may_block: self.may_block,
                };
                let (mut position, range_end) = source.range();
                let mut window = ReadWindow::new(&source, range_end);
                while position < range_end && !self.is_full(read) {
                    let Some(header) = window.batch_header(position)? else {
                        break;
                    };
                    if read.batches == self.batches {
                        break 'steps;
                    }
                    if read.batches == MAX_BATCHES_BESIDE && !self.may_block {
                        return Err(ReadFailure::Cold);
                    }
                    read.batches += 1;
                    let batch_position = position;
                    position += header.total_len as u64;
                    if self.is_skipped(&mut window, batch_position, &header)? {
                        skipped_to = Some(header.next_offset());
                        read.next_offset = header.next_offset();
                        continue;
                    }
                    let batch = self.select(&mut window, batch_position, &header)?;
                    if !self.fits(read, &batch) {
                        break 'steps;
                    }
                    read.bytes += batch.len as u64;
                    push_parts(&source, batch, &mut read.segments)?;
                    read.next_offset = header.next_offset();
                    skipped_to = None;
                }
            }
            if read.next_offset == step_start {
                // Not a whole batch in all of it: never to be read in circles.
                let message = format!("no batch at offset {step_start} of the log");
                return Err(Refusal::new(10, message).into());
            }
        }
        // Capped by the high watermark: `end` bounds every slice.
        read.filtered_end_offset = skipped_to.map(|offset| offset.min(self.end));
        Ok(())
    }

    fn is_skipped(
        &self,
        window: &mut ReadWindow<'_, PartSource<'_>>,
        position: u64,
        header: &BatchHeader,
    ) -> Result<bool, ReadFailure> {
        let Some(filter) = &self.filter else {
            return Ok(false);
        };
        if header.is_header_only() {
            // Nothing in it can match; with a projection the reference drops it
            // as well (formats.md §2.3).
            return Ok(self.projection.is_some());
        }
        if header.statistics_len == 0 {
            return Ok(false);
        }
        let statistics = window.statistics(position, header)?;
        Ok(!filter.may_match(header, statistics))
    }

    fn select(
        &self,
        window: &mut ReadWindow<'_, PartSource<'_>>,
        position: u64,
        header: &BatchHeader,
    ) -> Result<ProjectedBatch, ReadFailure> {
        Ok(match &self.projection {
            Some(projection) => projection.project(window, position, header)?,
            None => stored(position, header),
        })
    }

    /// Whether no other batch can fit: to be found out before one is looked at.
    fn is_full(&self, read: &BucketRead) -> bool {
        read.bytes > 0 && read.bytes >= self.limit
    }

    /// The first batch of the answer always fits (known failure R07).
    fn fits(&self, read: &BucketRead, batch: &ProjectedBatch) -> bool {
        (read.bytes == 0 && self.first_free) || read.bytes + batch.len as u64 <= self.limit
    }
}

/// A batch as it is stored.
fn stored(position: u64, header: &BatchHeader) -> ProjectedBatch {
    let len = header.total_len;
    ProjectedBatch {
        parts: vec![Part::Source(SourceRange {
            position,
            len: len as u64,
        })],
        len,
    }
}

/// Appends the parts of a batch.
fn push_parts(
    source: &PartSource<'_>,
    batch: ProjectedBatch,
    segments: &mut Vec<Segment>,
) -> Result<(), ReadFailure> {
    for part in batch.parts {
        segments.push(match part {
            Part::Owned(bytes) => Segment::Bytes(bytes),
            Part::Source(range) => source.segment(range.position, range.len)?,
        });
    }
    Ok(())
}

/// A part of a log. Fails with `WouldBlock` instead of waiting for the disk,
/// unless that is allowed.
struct PartSource<'a> {
    part: &'a LogPart,
    may_block: bool,
}

impl PartSource<'_> {
    /// First byte and end.
    fn range(&self) -> (u64, u64) {
        match self.part {
            LogPart::Bytes(bytes) => (0, bytes.len() as u64),
            LogPart::File(range) => (range.position, range.position + range.len),
        }
    }

    fn segment(&self, position: u64, len: u64) -> io::Result<Segment> {
        match self.part {
            LogPart::Bytes(bytes) => {
                let start = usize::try_from(position).unwrap_or(usize::MAX);
                let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
                if end > bytes.len() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(Segment::Bytes(bytes.slice(start..end)))
            }
            LogPart::File(range) if len > SMALL_RANGE => file_segment(&range.file, position, len),
            LogPart::File(_) => {
                let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
                self.read_at(position, &mut bytes)?;
                Ok(Segment::Bytes(Bytes::from(bytes)))
            }
        }
    }
}

impl ReadAt for PartSource<'_> {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        let file = match self.part {
            LogPart::Bytes(bytes) => return bytes.read_at(position, buffer),
            LogPart::File(range) => &range.file,
        };
        if self.may_block {
            return file.read_exact_at(buffer, position);
        }
        let mut filled = 0;
        while filled < buffer.len() {
            let count = file.try_read_cached(&mut buffer[filled..], position + filled as u64)?;
            if count == 0 {
                // The end of the file, or of what is in memory: the blocking
                // read tells.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            filled += count;
        }
        Ok(())
    }
}

enum ReadFailure {
    Cold,
    Refused(Refusal),
}

impl From<Refusal> for ReadFailure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::WouldBlock {
            Self::Cold
        } else {
            Self::Refused(Refusal::new(10, format!("the log cannot be read: {error}")))
        }
    }
}

impl From<ReadError> for ReadFailure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error.into(),
            ReadError::Format(error) => Self::Refused(Refusal::new(10, error.to_string())),
        }
    }
}

impl From<ProjectionError> for ReadFailure {
    fn from(error: ProjectionError) -> Self {
        match error {
            ProjectionError::Read(error) => error.into(),
            other => Self::Refused(other.into()),
        }
    }
}
