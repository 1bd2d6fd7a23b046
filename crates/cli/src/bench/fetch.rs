//! Fetches, and what their answers hold.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use mainstem_format::BatchHeader;
use mainstem_protocol::{ApiKey, decode, messages as pb};
use prost::Message;

use super::table::BenchTable;
use super::wire::{Frame, WireConnection};

/// Defaults of the official clients: bytes of a response and of a bucket in it.
const RESPONSE_BYTES: i32 = 16 << 20;
pub const BUCKET_BYTES: i32 = 1 << 20;

/// What a reader asks for in every fetch.
#[derive(Clone, Debug)]
pub struct FetchShape {
    /// Table.
    pub table_id: i64,
    /// Positions of the wanted columns; `None` = all.
    pub projection: Option<Vec<i32>>,
    /// Most bytes of a bucket.
    pub bucket_bytes: i32,
    /// How long the server may wait for data.
    pub wait_ms: i32,
}

/// Batches of a bucket.
#[derive(Clone, Debug)]
pub struct FetchedBucket {
    /// Its id.
    pub bucket: i32,
    /// Whole batches, and perhaps a cut one.
    pub records: Bytes,
}

/// Whole batches at the start of fetched records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walked {
    /// Rows of them.
    pub rows: u64,
    /// Offset behind them; `None` if there is none.
    pub next_offset: Option<i64>,
}

/// What was read in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTotals {
    /// Rows.
    pub rows: u64,
    /// Bytes of the responses.
    pub wire_bytes: u64,
}

impl FetchShape {
    /// Whole batches, as much as official clients ask for, without waiting.
    pub fn whole(table_id: i64) -> Self {
        Self {
            table_id,
            projection: None,
            bucket_bytes: BUCKET_BYTES,
            wait_ms: 0,
        }
    }

    /// A FetchLog request of buckets from their offsets.
    pub fn request(&self, buckets: impl IntoIterator<Item = (i32, i64)>) -> Result<Frame> {
        let buckets_req = buckets
            .into_iter()
            .map(|(bucket, offset)| pb::PbFetchLogReqForBucket {
                partition_id: None,
                bucket_id: Some(bucket),
                fetch_offset: Some(offset),
                max_fetch_bytes: Some(self.bucket_bytes),
                routing_bucket_count: None,
            })
            .collect();
        let table = pb::PbFetchLogReqForTable {
            table_id: Some(self.table_id),
            projection_pushdown_enabled: Some(self.projection.is_some()),
            projected_fields: self.projection.clone().unwrap_or_default(),
            buckets_req,
            ..Default::default()
        };
        let request = pb::FetchLogRequest {
            follower_server_id: Some(-1),
            max_bytes: Some(RESPONSE_BYTES),
            tables_req: vec![table],
            max_wait_ms: Some(self.wait_ms),
            min_bytes: Some(1),
            ..Default::default()
        };
        Frame::new(ApiKey::FetchLog, vec![request.encode_to_vec().into()])
    }
}

/// The buckets of an answer.
pub fn buckets(body: Bytes) -> Result<Vec<FetchedBucket>> {
    let answer: pb::FetchLogResponse = decode(body)?;
    let [table] = <[_; 1]>::try_from(answer.tables_resp)
        .map_err(|tables| anyhow::anyhow!("{} tables in the answer", tables.len()))?;
    table
        .buckets_resp
        .into_iter()
        .map(|entry| {
            let bucket = entry.bucket_id.context("bucket id")?;
            if let Some(code) = entry.error_code {
                bail!(
                    "bucket {bucket}: error {code}: {}",
                    entry.error_message.unwrap_or_default()
                );
            }
            Ok(FetchedBucket {
                bucket,
                records: entry.records.unwrap_or_default(),
            })
        })
        .collect()
}

/// Length of the batch that `records` begin with; `None` if it is cut.
pub fn first_batch(records: &[u8]) -> Result<Option<BatchHeader>> {
    match BatchHeader::parse(records) {
        Ok(header) if header.total_len <= records.len() => Ok(Some(header)),
        Ok(_) => Ok(None),
        // A header that is cut cannot be told from a damaged one, but never
        // begins an answer.
        Err(_) if records.len() < mainstem_format::header::MAX_HEADER_LEN => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Counts rows by the headers.
pub fn walk(records: &[u8]) -> Result<Walked> {
    let mut walked = Walked::default();
    let mut rest = records;
    while let Some(header) = first_batch(rest)? {
        walked.rows += u64::try_from(header.record_count)?;
        walked.next_offset = Some(header.next_offset());
        rest = &rest[header.total_len..];
    }
    Ok(walked)
}

/// Reads a table from the start to `ends`, by bucket id, with as many fetches in
/// flight as `groups`, each for its share of the buckets.
pub fn read_all(
    connection: &mut WireConnection,
    shape: &FetchShape,
    ends: &[i64],
    groups: usize,
) -> Result<ReadTotals> {
    let mut offsets = vec![0_i64; ends.len()];
    let mut totals = ReadTotals::default();
    let mut in_flight: HashMap<i32, usize> = HashMap::new();
    let ask = |connection: &mut WireConnection, offsets: &[i64], group: usize| {
        let unread: Vec<(i32, i64)> = (group..ends.len())
            .step_by(groups)
            .filter(|bucket| offsets[*bucket] < ends[*bucket])
            .map(|bucket| (bucket as i32, offsets[bucket]))
            .collect();
        if unread.is_empty() {
            Ok(None)
        } else {
            connection.send(&shape.request(unread)?).map(Some)
        }
    };
    for group in 0..groups {
        if let Some(id) = ask(connection, &offsets, group)? {
            in_flight.insert(id, group);
        }
    }
    while !in_flight.is_empty() {
        let (id, body) = connection.receive()?;
        let group = in_flight.remove(&id).context("an answer to no request")?;
        totals.wire_bytes += body.len() as u64;
        let mut moved = false;
        for fetched in buckets(body)? {
            let walked = walk(&fetched.records)?;
            totals.rows += walked.rows;
            if let Some(next) = walked.next_offset {
                offsets[usize::try_from(fetched.bucket)?] = next;
                moved = true;
            }
        }
        ensure!(moved, "a fetch below the end returned nothing");
        if let Some(id) = ask(connection, &offsets, group)? {
            in_flight.insert(id, group);
        }
    }
    Ok(totals)
}

/// Reads everything once, compares every checksum, and returns the rows and the
/// bytes of the batches.
pub fn verify(connection: &mut WireConnection, table: &BenchTable) -> Result<(u64, u64)> {
    let shape = FetchShape::whole(table.table_id);
    let (mut rows, mut bytes) = (0, 0);
    for (bucket, end) in table.end_offsets(connection)?.into_iter().enumerate() {
        let mut offset = 0;
        while offset < end {
            connection.send(&shape.request([(i32::try_from(bucket)?, offset)])?)?;
            for fetched in buckets(connection.receive()?.1)? {
                let mut rest = &fetched.records[..];
                while let Some(header) = first_batch(rest)? {
                    header.verify_crc(&rest[..header.total_len])?;
                    rows += u64::try_from(header.record_count)?;
                    bytes += header.total_len as u64;
                    offset = header.next_offset();
                    rest = &rest[header.total_len..];
                }
            }
        }
    }
    Ok((rows, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::batches::BatchSource;

    #[test]
    fn a_walk_counts_whole_batches_and_stops_before_a_cut_one() {
        let mut source = BatchSource::events().unwrap();
        let (one, other) = (source.batch(3).unwrap(), source.batch(5).unwrap());
        let mut records = one.bytes.to_vec();
        let walked = walk(&records).unwrap();
        assert_eq!((walked.rows, walked.next_offset), (3, Some(3)));
        for length in [0, 1, 30, other.bytes.len() - 1] {
            records.truncate(one.bytes.len());
            records.extend_from_slice(&other.bytes[..length]);
            assert_eq!(
                walk(&records).unwrap().rows,
                3,
                "{length} bytes of the second batch"
            );
        }
        assert!(walk(&[0xff; 100]).is_err());
        assert_eq!(walk(&[]).unwrap().next_offset, None);
    }
}
