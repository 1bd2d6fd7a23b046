//! PrefixLookup (wire.md §4.10): all rows whose key begins with some bytes, in the
//! order of the keys.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_net::Reply;
use mainstem_protocol::messages as pb;
use mainstem_types::TableBucket;

use super::write::last_of_each_bucket;
use super::{Refusal, TabletService, blocking, check_key_version, request, success, table_bucket};

/// Bytes of values in one answer. A prefix is meant for the few rows of a bucket
/// key; a client that wants a whole table scans it.
const MAX_BYTES: usize = 64 << 20;
/// Bytes that a value of an answer takes in memory besides its own.
const VALUE_OVERHEAD: usize = 64;

impl TabletService {
    pub(super) fn prefix_lookup(self: &Arc<Self>, api_version: i16, body: Bytes) -> Reply {
        let request: pb::PrefixLookupRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        let table_id = request.table_id.unwrap_or_default();
        let entries = last_of_each_bucket(request.buckets_req, |entry| {
            table_bucket(
                table_id,
                entry.partition_id,
                entry.bucket_id.unwrap_or_default(),
            )
        });
        let service = self.clone();
        blocking(move || {
            let mut left = MAX_BYTES;
            let buckets_resp = entries
                .iter()
                .map(|(bucket, entry)| {
                    let mut response = pb::PbPrefixLookupRespForBucket {
                        partition_id: entry.partition_id,
                        bucket_id: entry.bucket_id,
                        ..pb::PbPrefixLookupRespForBucket::default()
                    };
                    match service.prefixed(bucket, entry, api_version, &mut left) {
                        Ok(lists) => response.value_lists = lists,
                        Err(refusal) => {
                            response.error_code = Some(refusal.code);
                            response.error_message = Some(refusal.message);
                        }
                    }
                    response
                })
                .collect();
            success(&pb::PrefixLookupResponse { buckets_resp })
        })
    }

    fn prefixed(
        &self,
        bucket: &TableBucket,
        entry: &pb::PbPrefixLookupReqForBucket,
        api_version: i16,
        left: &mut usize,
    ) -> Result<Vec<pb::PbValueList>, Refusal> {
        let replica = self.replica(bucket, entry.routing_bucket_count)?;
        check_key_version(&replica, api_version)?;
        let mut snapshot = replica.row_snapshot()?;
        let mut rest_left = *left;
        let mut lists = Vec::with_capacity(entry.keys.len());
        for prefix in &entry.keys {
            let mut values = Vec::new();
            snapshot.seek(prefix);
            while let Some((key, value)) = snapshot.entry()
                && key.starts_with(prefix)
            {
                // What a value takes besides its bytes counts as well.
                let Some(rest) = rest_left.checked_sub(value.len() + VALUE_OVERHEAD) else {
                    let message = format!(
                        "the rows of these prefixes are more than {} MiB: ask for fewer \
                         prefixes, or scan the bucket",
                        MAX_BYTES >> 20
                    );
                    return Err(Refusal::new(-1, message));
                };
                rest_left = rest;
                values.push(Bytes::copy_from_slice(value));
                snapshot.advance();
            }
            snapshot
                .check()
                .map_err(|error| replica.read_failed(error))?;
            lists.push(pb::PbValueList { values });
        }
        *left = rest_left;
        self.metrics.looked_up(replica.metrics());
        Ok(lists)
    }
}
