//! Appends of encoded batches with a window of requests in flight.

use anyhow::{Result, bail};
use bytes::Bytes;
use mainstem_protocol::records::produce_log_request;
use mainstem_protocol::{ApiKey, decode, messages as pb};

use super::batches::Batch;
use super::wire::{Frame, WireConnection};

/// `acks` of all requests: when the high watermark has passed the batch, which
/// is what the official clients ask for.
const ACKS_ALL: i32 = -1;
const TIMEOUT_MS: i32 = 30_000;

/// A ProduceLog request with one batch.
pub fn request(table_id: i64, bucket: i32, batch: &Batch) -> Result<Frame> {
    let fields = pb::ProduceLogRequest {
        acks: Some(ACKS_ALL),
        table_id: Some(table_id),
        timeout_ms: Some(TIMEOUT_MS),
        buckets_req: Vec::new(),
    };
    let entry = pb::PbProduceLogReqForBucket {
        bucket_id: Some(bucket),
        ..Default::default()
    };
    let parts: Vec<Bytes> = produce_log_request(fields, vec![(entry, vec![batch.bytes.clone()])]);
    Frame::new(ApiKey::ProduceLog, parts)
}

/// Sends `count` requests, going round `frames`, with at most `window` of them
/// unanswered; returns when all are acknowledged.
pub fn pump(
    connection: &mut WireConnection,
    frames: &[Frame],
    count: usize,
    window: usize,
) -> Result<()> {
    let mut in_flight = 0;
    for frame in frames.iter().cycle().take(count) {
        if in_flight == window {
            check(connection.receive()?.1)?;
            in_flight -= 1;
        }
        connection.send(frame)?;
        in_flight += 1;
    }
    for _ in 0..in_flight {
        check(connection.receive()?.1)?;
    }
    Ok(())
}

/// Fails unless the bucket has taken the batch.
pub fn check(body: Bytes) -> Result<()> {
    let answer: pb::ProduceLogResponse = decode(body)?;
    match answer.buckets_resp.as_slice() {
        [bucket] => match bucket.error_code {
            None => Ok(()),
            Some(code) => {
                bail!(
                    "append: error {code}: {}",
                    bucket.error_message.as_deref().unwrap_or("")
                )
            }
        },
        buckets => bail!("append: {} buckets answered for one", buckets.len()),
    }
}
