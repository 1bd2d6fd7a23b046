//! Requests to encode, and answers as tests look at them.

use bytes::Bytes;
use mainstem_net::Response;
use mainstem_protocol::messages as pb;
use prost::Message;

use super::call::body;
use super::rows::{Row, read_rows};

/// A ProduceLog request.
pub struct Produce(pb::ProduceLogRequest);

/// What became of one entry: the base offset, or the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    pub partition: Option<i64>,
    pub bucket: i32,
    pub result: Result<i64, i32>,
}

impl Produce {
    pub fn to(table_id: i64, acks: i32) -> Self {
        Self(pb::ProduceLogRequest {
            acks: Some(acks),
            table_id: Some(table_id),
            timeout_ms: Some(30_000),
            buckets_req: Vec::new(),
        })
    }

    pub fn bucket(self, bucket: i32, records: Bytes) -> Self {
        self.partition(None, bucket, records)
    }

    pub fn partition(mut self, partition: Option<i64>, bucket: i32, records: Bytes) -> Self {
        self.0.buckets_req.push(pb::PbProduceLogReqForBucket {
            partition_id: partition,
            bucket_id: Some(bucket),
            records: Some(records),
            ..Default::default()
        });
        self
    }

    pub fn encode(&self) -> Bytes {
        self.0.encode_to_vec().into()
    }

    pub fn parse(response: Response) -> Vec<Produced> {
        let response = pb::ProduceLogResponse::decode(&*body(response)).unwrap();
        let entry = |entry: pb::PbProduceLogRespForBucket| Produced {
            partition: entry.partition_id,
            bucket: entry.bucket_id.unwrap(),
            result: match entry.error_code {
                Some(code) => {
                    assert_eq!(entry.base_offset, None, "an error has no offset");
                    Err(code)
                }
                None => Ok(entry.base_offset.unwrap()),
            },
        };
        response.buckets_resp.into_iter().map(entry).collect()
    }
}

/// A FetchLog request for buckets of tables.
#[derive(Clone)]
pub struct Fetch(pb::FetchLogRequest);

/// A bucket of the answer.
#[derive(Clone, Debug)]
pub struct FetchedBucket {
    pub partition: Option<i64>,
    pub error: Option<i32>,
    pub high_watermark: i64,
    pub log_start: i64,
    pub filtered_end: Option<i64>,
    pub records: Bytes,
}

impl FetchedBucket {
    pub fn rows(&self) -> Vec<Row> {
        assert_eq!(self.error, None);
        read_rows(&self.records, None)
    }
}

impl Fetch {
    /// Of one table, with the limits of a client, without waiting.
    pub fn of(table_id: i64) -> Self {
        Self(pb::FetchLogRequest {
            follower_server_id: Some(-1),
            max_bytes: Some(16 << 20),
            ..Default::default()
        })
        .and_of(table_id)
    }

    pub fn and_of(mut self, table_id: i64) -> Self {
        self.0.tables_req.push(pb::PbFetchLogReqForTable {
            table_id: Some(table_id),
            projection_pushdown_enabled: Some(false),
            ..Default::default()
        });
        self
    }

    pub fn bucket(self, bucket: i32, offset: i64) -> Self {
        self.bucket_within(None, bucket, offset, 1 << 20)
    }

    pub fn partition(self, partition: i64, bucket: i32, offset: i64) -> Self {
        self.bucket_within(Some(partition), bucket, offset, 1 << 20)
    }

    pub fn bucket_within(
        mut self,
        partition: Option<i64>,
        bucket: i32,
        offset: i64,
        max_bytes: i32,
    ) -> Self {
        self.table().buckets_req.push(pb::PbFetchLogReqForBucket {
            partition_id: partition,
            bucket_id: Some(bucket),
            fetch_offset: Some(offset),
            max_fetch_bytes: Some(max_bytes),
            ..Default::default()
        });
        self
    }

    /// Waits for so many bytes, or so long.
    pub fn waiting(mut self, min_bytes: i32, max_wait_ms: i32) -> Self {
        self.0.min_bytes = Some(min_bytes);
        self.0.max_wait_ms = Some(max_wait_ms);
        self
    }

    pub fn within(mut self, max_bytes: i32) -> Self {
        self.0.max_bytes = Some(max_bytes);
        self
    }

    pub fn by_follower(mut self, server: i32) -> Self {
        self.0.follower_server_id = Some(server);
        self
    }

    pub fn projected(mut self, fields: &[i32]) -> Self {
        let table = self.table();
        table.projection_pushdown_enabled = Some(true);
        table.projected_fields = fields.to_vec();
        self
    }

    /// Batches that may have a row with `a` = `value`.
    pub fn with_a(mut self, value: i64) -> Self {
        let table = self.table();
        table.filter_schema_id = Some(1);
        table.filter_predicate = Some(pb::PbPredicate {
            r#type: Some(0),
            leaf: Some(pb::PbLeafPredicate {
                function: Some(0),
                field_id: Some(0),
                literals: vec![pb::PbLiteralValue {
                    literal_type: Some(4),
                    is_null: Some(false),
                    bigint_value: Some(value),
                    ..Default::default()
                }],
            }),
            compound: None,
        });
        self
    }

    fn table(&mut self) -> &mut pb::PbFetchLogReqForTable {
        self.0.tables_req.last_mut().unwrap()
    }

    pub fn encode(&self) -> Bytes {
        self.0.encode_to_vec().into()
    }

    pub fn parse(response: Response) -> Vec<FetchedBucket> {
        let body = Bytes::from(body(response));
        let response = pb::FetchLogResponse::decode(body).unwrap();
        let mut buckets = Vec::new();
        for table in response.tables_resp {
            for bucket in table.buckets_resp {
                if bucket.error_code.is_none() {
                    assert!(
                        bucket.records.is_some(),
                        "wire.md §4.9: records are present"
                    );
                    let visible = bucket.high_watermark.unwrap();
                    let filtered = bucket.filtered_end_offset.unwrap_or(0);
                    assert!(filtered <= visible, "{filtered} beyond {visible}");
                }
                buckets.push(FetchedBucket {
                    partition: bucket.partition_id,
                    error: bucket.error_code,
                    high_watermark: bucket.high_watermark.unwrap_or(-1),
                    log_start: bucket.log_start_offset.unwrap_or(-1),
                    filtered_end: bucket.filtered_end_offset,
                    records: bucket.records.unwrap_or_default(),
                });
            }
        }
        buckets
    }
}

/// A ListOffsets request.
pub struct ListOffsets;

impl ListOffsets {
    pub fn latest(table_id: i64, bucket: i32) -> Bytes {
        Self::encode(table_id, bucket, 1, None)
    }

    pub fn at_time(table_id: i64, bucket: i32, timestamp_ms: i64) -> Bytes {
        Self::encode(table_id, bucket, 2, Some(timestamp_ms))
    }

    fn encode(table_id: i64, bucket: i32, offset_type: i32, timestamp: Option<i64>) -> Bytes {
        pb::ListOffsetsRequest {
            follower_server_id: Some(-1),
            offset_type: Some(offset_type),
            table_id: Some(table_id),
            bucket_id: vec![bucket],
            start_timestamp: timestamp,
            ..Default::default()
        }
        .encode_to_vec()
        .into()
    }

    /// The offset or the code of the only bucket.
    pub fn parse(response: Response) -> Result<i64, i32> {
        let response = pb::ListOffsetsResponse::decode(&*body(response)).unwrap();
        let entry = &response.buckets_resp[0];
        entry.error_code.map_or(Ok(entry.offset.unwrap()), Err)
    }
}

/// A LimitScan request.
pub struct LimitScan;

impl LimitScan {
    pub fn of(table_id: i64, bucket: i32, limit: i32) -> Bytes {
        pb::LimitScanRequest {
            table_id: Some(table_id),
            bucket_id: Some(bucket),
            limit: Some(limit),
            ..Default::default()
        }
        .encode_to_vec()
        .into()
    }

    pub fn parse(response: Response) -> Vec<Row> {
        let response = pb::LimitScanResponse::decode(Bytes::from(body(response))).unwrap();
        assert_eq!(
            (response.error_code, response.is_log_table),
            (None, Some(true))
        );
        read_rows(&response.records.unwrap(), None)
    }
}
