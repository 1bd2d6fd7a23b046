//! ScanKv (wire.md §4.11, 6.7): all rows of a bucket as they were when the scan
//! began, in several answers.

use std::sync::Arc;

use bytes::Bytes;
use mainstem_format::ValueBatchBuilder;
use mainstem_net::{Reply, Response, Segment};
use mainstem_protocol::messages as pb;
use mainstem_protocol::records::scan_kv_response;

use super::scan_sessions::{Scan, Turn};
use super::{Refusal, TabletService, blocking, request, table_bucket};

impl TabletService {
    pub(super) fn scan_kv(self: &Arc<Self>, body: Bytes) -> Reply {
        let request: pb::ScanKvRequest = match request(body) {
            Ok(request) => request,
            Err(refusal) => return Reply::Now(refusal.into()),
        };
        let service = self.clone();
        blocking(move || {
            let answer = match (&request.bucket_scan_req, &request.scanner_id) {
                _ if request.close_scanner == Some(true) => service.close_scan(&request),
                (Some(opening), None) => service.open_scan(&request, opening),
                (None, Some(id)) => service.next_rows(&request, id),
                _ => Err(invalid("either a bucket to scan or a scanner id is needed")),
            };
            answer.unwrap_or_else(|refusal| {
                let fields = pb::ScanKvResponse {
                    error_code: Some(refusal.code),
                    error_message: Some(refusal.message),
                    ..pb::ScanKvResponse::default()
                };
                Response::Success(scan_kv_response(fields, None))
            })
        })
    }

    fn close_scan(&self, request: &pb::ScanKvRequest) -> Result<Response, Refusal> {
        let Some(id) = request
            .scanner_id
            .as_ref()
            .filter(|_| request.bucket_scan_req.is_none())
        else {
            return Err(invalid("closing needs a scanner id and nothing else"));
        };
        self.scans.close(id);
        let fields = pb::ScanKvResponse {
            scanner_id: Some(id.clone()),
            has_more_results: Some(false),
            ..pb::ScanKvResponse::default()
        };
        Ok(Response::Success(scan_kv_response(fields, None)))
    }

    fn open_scan(
        &self,
        request: &pb::ScanKvRequest,
        opening: &pb::PbScanReqForBucket,
    ) -> Result<Response, Refusal> {
        let budget = self.budget(request)?;
        if request.call_seq_id != Some(0) {
            return Err(invalid("the first call has the sequence number 0"));
        }
        let bucket = table_bucket(
            opening.table_id.unwrap_or_default(),
            opening.partition_id,
            opening.bucket_id.unwrap_or_default(),
        );
        let replica = self.replica(&bucket, opening.routing_bucket_count)?;
        replica.rows()?;
        let turn = self.scans.open(bucket)?;
        let (mut snapshot, log_offset) = replica.lock_rows()?.0.snapshot()?;
        snapshot.seek(&[]);
        let limit = opening.limit.and_then(|limit| u64::try_from(limit).ok());
        let scan = Scan {
            bucket,
            snapshot,
            next_call: 1,
            rows_left: limit.filter(|limit| *limit > 0),
        };
        self.go_on(turn, Box::new(scan), budget, Some(log_offset))
    }

    fn next_rows(&self, request: &pb::ScanKvRequest, id: &[u8]) -> Result<Response, Refusal> {
        let (turn, mut scan) = self.scans.take(id)?;
        let budget = self.budget(request)?;
        if request.call_seq_id != Some(scan.next_call) {
            let message = format!("the next call has the sequence number {}", scan.next_call);
            return Err(Refusal::new(68, message));
        }
        // Rows of a bucket that this server does not lead any more may be old.
        self.known(&scan.bucket)?.check_leader()?;
        scan.next_call += 1;
        self.go_on(turn, scan, budget, None)
    }

    fn go_on(
        &self,
        turn: Turn<'_>,
        mut scan: Box<Scan>,
        budget: usize,
        log_offset: Option<i64>,
    ) -> Result<Response, Refusal> {
        let mut rows = ValueBatchBuilder::default();
        while let Some((_, value)) = scan.snapshot.entry()
            && scan.rows_left != Some(0)
            && (rows.record_count() == 0 || rows.size_bytes() < budget)
        {
            rows.append(value)
                .map_err(|error| Refusal::new(-1, error.to_string()))?;
            scan.snapshot.advance();
            if let Some(left) = &mut scan.rows_left {
                *left -= 1;
            }
        }
        if let Err(error) = scan.snapshot.check() {
            return Err(self.known(&scan.bucket)?.read_failed(error));
        }
        let has_more = scan.rows_left != Some(0) && scan.snapshot.entry().is_some();
        let is_empty = rows.record_count() == 0;
        let fields = pb::ScanKvResponse {
            // An empty bucket has no scan to continue.
            scanner_id: (!(is_empty && log_offset.is_some()))
                .then(|| Bytes::copy_from_slice(turn.id())),
            has_more_results: Some(has_more),
            log_offset,
            ..pb::ScanKvResponse::default()
        };
        if has_more {
            turn.put_back(scan, self.clock.now_ms());
        }
        let records = (!is_empty).then(|| vec![Segment::Bytes(rows.finish())]);
        Ok(Response::Success(scan_kv_response(fields, records)))
    }

    /// Bytes of the answer.
    fn budget(&self, request: &pb::ScanKvRequest) -> Result<usize, Refusal> {
        match request.batch_size_bytes.map(usize::try_from) {
            Some(Ok(bytes)) if bytes > 0 => Ok(bytes.min(self.scans.limits().max_batch_bytes)),
            _ => Err(invalid("batch_size_bytes has to be greater than 0")),
        }
    }
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(68, message)
}
