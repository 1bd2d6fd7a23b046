//! A FetchLog request, checked.

use std::time::Duration;

use mainstem_net::Session;
use mainstem_protocol::messages as pb;
use mainstem_types::TableBucket;

use mainstem_format::Predicate;

use crate::predicate;
use crate::service::{Refusal, table_bucket};

/// No reader is held longer, whatever it asks for.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// `min_bytes` without `max_wait_ms` (wire.md §4.9).
const DEFAULT_WAIT: Duration = Duration::from_millis(100);

/// Records of one answer, whatever the request allows: a frame holds 2 GiB at
/// most, and projected records are held in memory until they are sent.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// What to read.
#[derive(Debug)]
pub(in crate::service) struct FetchPlan {
    /// Id of the follower that asks; `None` for clients.
    pub follower: Option<i32>,
    /// A follower that asks where clients do: it is refused, as followers read
    /// beyond the high watermark (wire.md §3.4).
    pub is_stranger: bool,
    /// Budget of all records; `None` if the request gave a negative one.
    pub max_bytes: Option<u64>,
    /// Answer when so many bytes are there.
    pub min_bytes: u64,
    /// Or when so much time has passed.
    pub max_wait: Duration,
    /// By table.
    pub tables: Vec<TablePlan>,
}

/// What to read of a table.
#[derive(Debug)]
pub(in crate::service) struct TablePlan {
    /// The table.
    pub table_id: i64,
    /// Positions of wanted columns; `None` = whole batches.
    pub projection: Option<Vec<i32>>,
    /// Batches wanted, by the schema that the field ids belong to.
    pub filter: Option<(i32, Predicate)>,
    /// By bucket.
    pub buckets: Vec<BucketPlan>,
}

/// What to read of a bucket.
#[derive(Debug)]
pub(in crate::service) struct BucketPlan {
    /// The bucket.
    pub bucket: TableBucket,
    /// Its partition as the request gave it.
    pub partition_id: Option<i64>,
    /// First wanted offset; −2 = the start of the log.
    pub fetch_offset: i64,
    /// Budget of this bucket.
    pub max_bytes: u64,
    /// Bucket count that the client used.
    pub routing_bucket_count: Option<i32>,
}

impl FetchPlan {
    /// Checks a request.
    ///
    /// # Errors
    /// −1 for a predicate without a usable schema id (wire.md §6.5).
    pub fn new(request: pb::FetchLogRequest, session: &Session) -> Result<Self, Refusal> {
        let follower = request.follower_server_id.filter(|id| *id >= 0);
        let wait_ms = |ms: i32| Duration::from_millis(u64::try_from(ms).unwrap_or(0)).min(MAX_WAIT);
        let max_wait = match request.min_bytes {
            None => Duration::ZERO,
            Some(_) => request.max_wait_ms.map_or(DEFAULT_WAIT, wait_ms),
        };
        let tables: Result<Vec<TablePlan>, Refusal> =
            request.tables_req.into_iter().map(table_plan).collect();
        let mut plan = Self {
            follower,
            is_stranger: follower.is_some() && !session.internal,
            max_bytes: u64::try_from(request.max_bytes.unwrap_or_default())
                .ok()
                .map(|bytes| bytes.min(MAX_ANSWER_BYTES)),
            min_bytes: u64::try_from(request.min_bytes.unwrap_or(1)).unwrap_or(0),
            max_wait,
            tables: tables?,
        };
        if follower.is_some() {
            // Followers read whole batches.
            for table in &mut plan.tables {
                table.projection = None;
                table.filter = None;
            }
        }
        Ok(plan)
    }

    /// Buckets of all tables.
    pub fn bucket_count(&self) -> usize {
        self.tables.iter().map(|table| table.buckets.len()).sum()
    }
}

fn table_plan(request: pb::PbFetchLogReqForTable) -> Result<TablePlan, Refusal> {
    let table_id = request.table_id.unwrap_or_default();
    let filter = match (request.filter_predicate, request.filter_schema_id) {
        (Some(predicate), Some(schema_id)) if schema_id >= 0 => {
            predicate::from_proto(&predicate).map(|predicate| (schema_id, predicate))
        }
        (Some(_), Some(schema_id)) => {
            return Err(Refusal::new(-1, format!("filter_schema_id is {schema_id}")));
        }
        (Some(_), None) => {
            return Err(Refusal::new(
                -1,
                "a filter_predicate needs its filter_schema_id",
            ));
        }
        (None, _) => None,
    };
    let buckets = request
        .buckets_req
        .into_iter()
        .map(|bucket| BucketPlan {
            bucket: table_bucket(
                table_id,
                bucket.partition_id,
                bucket.bucket_id.unwrap_or_default(),
            ),
            partition_id: bucket.partition_id,
            fetch_offset: bucket.fetch_offset.unwrap_or_default(),
            max_bytes: u64::try_from(bucket.max_fetch_bytes.unwrap_or_default()).unwrap_or(0),
            routing_bucket_count: bucket.routing_bucket_count,
        })
        .collect();
    Ok(TablePlan {
        table_id,
        projection: (request.projection_pushdown_enabled == Some(true))
            .then_some(request.projected_fields),
        filter,
        buckets,
    })
}
