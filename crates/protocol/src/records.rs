//! Messages that carry record bytes, framed around them without a copy
//! (wire.md §1.6 "Zero copy").
//!
//! A `records` field is an ordinary delimited field in the middle of its
//! message. The builders write everything else with the protobuf library and
//! the tags and lengths around `records` by hand, so that records stay what
//! they are: slices of memory, or ranges of a file that nobody reads before the
//! frame goes out. The result is a list of parts whose total length is known.

use bytes::{Bytes, BytesMut};
use prost::Message;

use crate::messages::{
    LimitScanResponse, PbFetchLogRespForBucket, PbProduceLogReqForBucket, PbPutKvReqForBucket,
    ProduceLogRequest, PutKvRequest, ScanKvResponse,
};
use crate::wire_format::{put_varint, varint_length};

/// A part of a message: bytes of its own, or records kept elsewhere.
pub trait BodyPart: From<Bytes> {
    /// Length in bytes.
    fn length(&self) -> u64;
}

impl BodyPart for Bytes {
    fn length(&self) -> u64 {
        self.len() as u64
    }
}

/// One table of a FetchLog response.
#[derive(Clone, Debug)]
pub struct FetchedTable<P> {
    /// Id of the table.
    pub table_id: i64,
    /// Its buckets.
    pub buckets: Vec<FetchedBucket<P>>,
}

/// One bucket of a FetchLog response.
#[derive(Clone, Debug)]
pub struct FetchedBucket<P> {
    /// Every field but `records`, which is ignored.
    pub fields: PbFetchLogRespForBucket,
    /// The records; `None` leaves the field out, which is right only with an
    /// error or remote segments. Without records to return: `Some` of nothing.
    pub records: Option<Vec<P>>,
}

/// The parts of a FetchLogResponse.
pub fn fetch_log_response<P: BodyPart>(tables: Vec<FetchedTable<P>>) -> Vec<P> {
    const TABLES: u32 = 1;
    const TABLE_ID: u32 = 1;
    const BUCKETS: u32 = 2;
    let mut out = Parts::default();
    for table in tables {
        let buckets: Vec<Framed<P>> = table.buckets.into_iter().map(fetched_bucket).collect();
        let length = (tag_length(TABLE_ID) + varint_length(table.table_id as u64)) as u64
            + buckets
                .iter()
                .map(|bucket| bucket.field_length(BUCKETS))
                .sum::<u64>();
        out.put_delimited(TABLES, length);
        out.put_int(TABLE_ID, table.table_id);
        for bucket in buckets {
            out.put_message(BUCKETS, bucket);
        }
    }
    out.finish()
}

fn fetched_bucket<P: BodyPart>(bucket: FetchedBucket<P>) -> Framed<P> {
    const RECORDS: u32 = 8;
    let FetchedBucket {
        mut fields,
        records,
    } = bucket;
    fields.records = None;
    let after = PbFetchLogRespForBucket {
        filtered_end_offset: fields.filtered_end_offset.take(),
        min_retain_offset: fields.min_retain_offset.take(),
        ..Default::default()
    };
    Framed::new(&fields, RECORDS, records, &after)
}

/// The parts of a LimitScanResponse. The `records` of `fields` are ignored.
pub fn limit_scan_response<P: BodyPart>(
    mut fields: LimitScanResponse,
    records: Option<Vec<P>>,
) -> Vec<P> {
    const RECORDS: u32 = 4;
    fields.records = None;
    let mut out = Parts::default();
    out.put_framed(Framed::new(
        &fields,
        RECORDS,
        records,
        &LimitScanResponse::default(),
    ));
    out.finish()
}

/// The parts of a ScanKvResponse. The `records` of `fields` are ignored.
pub fn scan_kv_response<P: BodyPart>(
    mut fields: ScanKvResponse,
    records: Option<Vec<P>>,
) -> Vec<P> {
    const RECORDS: u32 = 5;
    fields.records = None;
    let after = ScanKvResponse {
        log_offset: fields.log_offset.take(),
        ..Default::default()
    };
    let mut out = Parts::default();
    out.put_framed(Framed::new(&fields, RECORDS, records, &after));
    out.finish()
}

/// The parts of a ProduceLogRequest: `fields` without its buckets, and each
/// bucket with its records. The `records` of a bucket's fields are ignored.
pub fn produce_log_request<P: BodyPart>(
    mut fields: ProduceLogRequest,
    buckets: Vec<(PbProduceLogReqForBucket, Vec<P>)>,
) -> Vec<P> {
    const BUCKETS: u32 = 4;
    const RECORDS: u32 = 3;
    fields.buckets_req.clear();
    let mut out = Parts::default();
    out.put_encoded(&fields);
    for (mut bucket, records) in buckets {
        bucket.records = None;
        let after = PbProduceLogReqForBucket {
            original_partition_name: bucket.original_partition_name.take(),
            routing_bucket_count: bucket.routing_bucket_count.take(),
            ..Default::default()
        };
        out.put_message(
            BUCKETS,
            Framed::new(&bucket, RECORDS, Some(records), &after),
        );
    }
    out.finish()
}

/// The parts of a PutKvRequest: `fields` without its buckets, and each bucket
/// with its records. The `records` of a bucket's fields are ignored.
pub fn put_kv_request<P: BodyPart>(
    mut fields: PutKvRequest,
    buckets: Vec<(PbPutKvReqForBucket, Vec<P>)>,
) -> Vec<P> {
    const BUCKETS: u32 = 5;
    const RECORDS: u32 = 3;
    fields.buckets_req.clear();
    let after = PutKvRequest {
        agg_mode: fields.agg_mode.take(),
        ..Default::default()
    };
    let mut out = Parts::default();
    out.put_encoded(&fields);
    for (mut bucket, records) in buckets {
        bucket.records = None;
        let after = PbPutKvReqForBucket {
            original_partition_name: bucket.original_partition_name.take(),
            routing_bucket_count: bucket.routing_bucket_count.take(),
            ..Default::default()
        };
        out.put_message(
            BUCKETS,
            Framed::new(&bucket, RECORDS, Some(records), &after),
        );
    }
    out.put_encoded(&after);
    out.finish()
}

/// A message with one records field: what stands before it, the records, and
/// what stands after it.
struct Framed<P> {
    before: Vec<u8>,
    records: Vec<P>,
    after: Vec<u8>,
    length: u64,
}

impl<P: BodyPart> Framed<P> {
    fn new(
        before: &impl Message,
        field: u32,
        records: Option<Vec<P>>,
        after: &impl Message,
    ) -> Self {
        let mut before = before.encode_to_vec();
        let after = after.encode_to_vec();
        let mut records_length = 0;
        if let Some(records) = &records {
            records_length = records.iter().map(BodyPart::length).sum::<u64>();
            put_varint(&mut before, delimited_tag(field));
            put_varint(&mut before, records_length);
        }
        let length = (before.len() + after.len()) as u64 + records_length;
        Framed {
            before,
            records: records.unwrap_or_default(),
            after,
            length,
        }
    }

    /// Length as the field `number` of another message.
    fn field_length(&self, number: u32) -> u64 {
        (tag_length(number) + varint_length(self.length)) as u64 + self.length
    }
}

/// Collects parts; bytes between records are joined.
struct Parts<P> {
    done: Vec<P>,
    joined: Vec<u8>,
}

impl<P> Default for Parts<P> {
    fn default() -> Self {
        Parts {
            done: Vec::new(),
            joined: Vec::new(),
        }
    }
}

impl<P: BodyPart> Parts<P> {
    fn put_int(&mut self, number: u32, value: i64) {
        put_varint(&mut self.joined, u64::from(number << 3));
        put_varint(&mut self.joined, value as u64);
    }

    fn put_delimited(&mut self, number: u32, length: u64) {
        put_varint(&mut self.joined, delimited_tag(number));
        put_varint(&mut self.joined, length);
    }

    fn put_encoded(&mut self, message: &impl Message) {
        message.encode_raw(&mut self.joined);
    }

    fn put_message(&mut self, number: u32, message: Framed<P>) {
        self.put_delimited(number, message.length);
        self.put_framed(message);
    }

    fn put_framed(&mut self, message: Framed<P>) {
        self.joined.extend_from_slice(&message.before);
        for part in message.records {
            if part.length() > 0 {
                self.cut();
                self.done.push(part);
            }
        }
        self.joined.extend_from_slice(&message.after);
    }

    fn cut(&mut self) {
        if !self.joined.is_empty() {
            self.done
                .push(P::from(Bytes::from(std::mem::take(&mut self.joined))));
        }
    }

    fn finish(mut self) -> Vec<P> {
        self.cut();
        self.done
    }
}

fn delimited_tag(number: u32) -> u64 {
    u64::from(number << 3 | 2)
}

fn tag_length(number: u32) -> usize {
    varint_length(u64::from(number << 3))
}

/// Joins parts that are all in memory.
pub fn join(parts: &[Bytes]) -> Bytes {
    match parts {
        [] => Bytes::new(),
        [one] => one.clone(),
        many => {
            let mut out = BytesMut::with_capacity(many.iter().map(Bytes::len).sum());
            for part in many {
                out.extend_from_slice(part);
            }
            out.freeze()
        }
    }
}

#[cfg(test)]
mod tests;
