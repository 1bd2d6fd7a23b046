//! ListOffsets (wire.md §4.9, 6.8).

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use mainstem_net::{Reply, Response};
use mainstem_protocol::messages as pb;

use super::{Refusal, TabletService, blocking, request, success, table_bucket};

/// `offset_type` that looks into the log for a time.
const BY_TIMESTAMP: i32 = 2;

impl TabletService {
    pub(super) fn list_offsets(self: &Arc<Self>, body: Bytes) -> Reply {
        let request: pb::ListOffsetsRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        if request.offset_type == Some(BY_TIMESTAMP) {
            let service = self.clone();
            return blocking(move || service.offsets(&request));
        }
        Reply::Now(self.offsets(&request))
    }

    fn offsets(&self, request: &pb::ListOffsetsRequest) -> Response {
        let mut buckets_resp: Vec<pb::PbListOffsetsRespForBucket> = Vec::new();
        let mut answered = HashSet::new();
        for bucket_id in &request.bucket_id {
            if !answered.insert(*bucket_id) {
                continue;
            }
            let mut entry = pb::PbListOffsetsRespForBucket {
                bucket_id: Some(*bucket_id),
                ..pb::PbListOffsetsRespForBucket::default()
            };
            match self.offset_of(request, *bucket_id) {
                Ok(offset) => entry.offset = Some(offset),
                // A wrong bucket count fails the whole request (wire.md §6.4).
                Err(refusal) if refusal.code == 74 => return refusal.into(),
                Err(refusal) => {
                    entry.error_code = Some(refusal.code);
                    entry.error_message = Some(refusal.message);
                }
            }
            buckets_resp.push(entry);
        }
        success(&pb::ListOffsetsResponse { buckets_resp })
    }

    fn offset_of(&self, request: &pb::ListOffsetsRequest, bucket: i32) -> Result<i64, Refusal> {
        let table_id = request.table_id.unwrap_or_default();
        let bucket = table_bucket(table_id, request.partition_id, bucket);
        let follower = request.follower_server_id.unwrap_or(-1) >= 0;
        let routing = request.routing_bucket_count.filter(|_| !follower);
        let replica = if follower {
            self.known(&bucket)?
        } else {
            self.replica(&bucket, routing)?
        };
        match request.offset_type.unwrap_or(-1) {
            0 => Ok(replica.log_start_offset()),
            1 if follower => Ok(replica.log_end_offset()),
            1 => Ok(replica.high_watermark()),
            BY_TIMESTAMP => {
                let timestamp_ms = request.start_timestamp.ok_or_else(|| {
                    Refusal::new(-1, "an offset by timestamp needs startTimestamp")
                })?;
                let now_ms = self.clock.now_ms();
                if timestamp_ms > now_ms {
                    let message =
                        format!("timestamp {timestamp_ms} is in the future: it is {now_ms} now");
                    return Err(Refusal::new(38, message));
                }
                replica.offset_for_timestamp(timestamp_ms)
            }
            3 => Ok(replica.epoch_start_offset()),
            other => Err(Refusal::new(-1, format!("there is no offset type {other}"))),
        }
    }
}
