//! Lookup requests for many keys: grouped by server and bucket, several in
//! flight, repeated where that helps.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use mainstem_net::Connection;
use mainstem_protocol::{ApiKey, VersionRange, messages as pb};
use mainstem_types::ServerId;

use crate::backoff::Attempts;
use crate::cluster::{Client, TableInfo};
use crate::error::{ClientError, Result};
use crate::key_route::KeyRoute;
use crate::lane::unsupported;
use crate::places::{Place, Places};

/// Keys per bucket and request (wire.md §6.7).
const MAX_KEYS: usize = 128;
/// Requests on their way at the same time.
const IN_FLIGHT: usize = 16;
/// Both lookups have the same versions: 1 says how keys are encoded.
const VERSIONS: VersionRange = VersionRange { min: 0, max: 1 };

/// What is asked of the keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    /// The row of each key, which may be inserted if there is none.
    Rows {
        /// See [`crate::lookup::LookupOptions::insert_if_not_exists`].
        insert: bool,
    },
    /// The rows whose keys begin so.
    Prefixes,
}

/// Asks one table.
#[derive(Debug)]
pub(crate) struct KeyCalls {
    client: Client,
    table: Arc<TableInfo>,
    route: KeyRoute,
    places: Places,
    ask: Ask,
}

/// One key of a batch.
struct Key {
    partition: Option<String>,
    bytes: Bytes,
    bucket_key: Bytes,
}

/// The keys of one bucket in one request.
struct BucketKeys {
    place: Place,
    /// Their positions in the batch.
    positions: Vec<usize>,
}

/// What came of the keys of one bucket: the values of each, in their order.
struct Outcome {
    keys: BucketKeys,
    values: Result<Vec<Vec<Bytes>>>,
}

impl KeyCalls {
    pub(crate) fn new(client: Client, table: Arc<TableInfo>, route: KeyRoute, ask: Ask) -> Self {
        Self {
            places: Places::new(client.clone(), table.clone()),
            client,
            table,
            route,
            ask,
        }
    }

    /// The stored values of each key of a batch: none or one, for prefixes any
    /// number.
    pub(crate) async fn values(&mut self, batch: &RecordBatch) -> Result<Vec<Vec<Bytes>>> {
        let keys = self.keys(batch)?;
        let mut found: Vec<Vec<Bytes>> = vec![Vec::new(); keys.len()];
        let mut pending: Vec<usize> = (0..keys.len()).collect();
        let client = self.client.clone();
        let mut attempts = Attempts::new(&client);
        while !pending.is_empty() {
            let failure = match self.plan(&keys, &pending).await {
                Ok(requests) => {
                    pending.clear();
                    self.ask(&keys, requests, &mut found, &mut pending).await?
                }
                Err(error) => {
                    self.places.forget(None);
                    Some(error)
                }
            };
            if let Some(failure) = failure {
                attempts.after(failure).await?;
            }
        }
        Ok(found)
    }

    /// Sends requests and files the values. What failed and may be asked again
    /// is added to `pending`; the last of these failures is returned.
    async fn ask(
        &mut self,
        keys: &[Key],
        requests: Vec<(ServerId, Vec<BucketKeys>)>,
        found: &mut [Vec<Bytes>],
        pending: &mut Vec<usize>,
    ) -> Result<Option<ClientError>> {
        let this = &*self;
        let calls = requests.into_iter();
        let calls = calls.map(|(leader, buckets)| this.call(keys, leader, buckets));
        let mut answers = stream::iter(calls).buffer_unordered(IN_FLIGHT);
        let mut failed = Vec::new();
        while let Some(outcomes) = answers.next().await {
            for Outcome { keys, values } in outcomes {
                match values {
                    Ok(values) => {
                        for (key, values) in keys.positions.iter().zip(values) {
                            found[*key] = values;
                        }
                    }
                    Err(error) if error.is_retriable() => failed.push((keys, error)),
                    Err(error) => return Err(error),
                }
            }
        }
        drop(answers);
        let mut last = None;
        for (keys, error) in failed {
            if error.is_stale_metadata() {
                self.places.forget(keys.place.partition.as_deref());
            }
            pending.extend(keys.positions);
            last = Some(error);
        }
        Ok(last)
    }

    fn keys(&self, batch: &RecordBatch) -> Result<Vec<Key>> {
        let readers = self.route.readers(batch, &self.table.descriptor.schema)?;
        (0..batch.num_rows())
            .map(|row| {
                let (mut bytes, mut bucket_key) = (Vec::new(), Vec::new());
                self.route.put_key(&readers, row, &mut bytes)?;
                self.route
                    .put_bucket_key(&readers, row, &bytes, &mut bucket_key)?;
                Ok(Key {
                    partition: self.route.partition(&readers, row)?,
                    bytes: bytes.into(),
                    bucket_key: bucket_key.into(),
                })
            })
            .collect()
    }

    /// The requests to send: to a leader, each bucket at most once with at most
    /// [`MAX_KEYS`] keys. A partition that does not exist has no rows.
    async fn plan(
        &mut self,
        keys: &[Key],
        asked: &[usize],
    ) -> Result<Vec<(ServerId, Vec<BucketKeys>)>> {
        let insert = matches!(self.ask, Ask::Rows { insert: true });
        let mut groups: BTreeMap<(Option<&str>, i32), Vec<usize>> = BTreeMap::new();
        let mut found = HashMap::new();
        for position in asked {
            let key = &keys[*position];
            let partition = key.partition.as_deref();
            if let Entry::Vacant(unknown) = found.entry(partition) {
                unknown.insert(match insert {
                    true => Some(self.places.find_or_create(partition).await?),
                    false => self.places.find(partition).await?,
                });
            }
            let Some(Some(buckets)) = found.get(&partition) else {
                continue;
            };
            let bucket = self.route.bucket(&key.bucket_key, buckets.count())?;
            groups
                .entry((partition, bucket))
                .or_default()
                .push(*position);
        }
        let mut requests: BTreeMap<(i32, usize), Vec<BucketKeys>> = BTreeMap::new();
        for ((partition, bucket), positions) in groups {
            let Some(Some(buckets)) = found.get(&partition) else {
                continue;
            };
            let leader = buckets.leader(&self.table, bucket)?;
            let place = Place::new(&self.table, partition.map(str::to_owned), buckets, bucket);
            for (number, positions) in positions.chunks(MAX_KEYS).enumerate() {
                requests
                    .entry((leader.0, number))
                    .or_default()
                    .push(BucketKeys {
                        place: place.clone(),
                        positions: positions.to_vec(),
                    });
            }
        }
        let requests = requests.into_iter();
        Ok(requests
            .map(|((leader, _), buckets)| (ServerId(leader), buckets))
            .collect())
    }

    async fn call(&self, keys: &[Key], leader: ServerId, buckets: Vec<BucketKeys>) -> Vec<Outcome> {
        match self.answers(keys, leader, &buckets).await {
            Ok(mut answers) => {
                let outcomes = buckets.into_iter().map(|asked| {
                    let bucket = (asked.place.partition_id(), asked.place.bucket.bucket_id.0);
                    let values = answers
                        .remove(&bucket)
                        .unwrap_or_else(|| Err(ClientError::absent("buckets_resp")))
                        .and_then(|values| match values.len() == asked.positions.len() {
                            true => Ok(values),
                            false => Err(ClientError::Malformed(format!(
                                "{} answers for {} keys",
                                values.len(),
                                asked.positions.len()
                            ))),
                        });
                    Outcome {
                        keys: asked,
                        values,
                    }
                });
                outcomes.collect()
            }
            Err(error) => {
                // The whole request failed, and every bucket for that reason.
                let mut error = Some(error);
                let outcomes = buckets.into_iter().map(|asked| {
                    let again = || ClientError::Api {
                        code: 1,
                        message: "the request failed".to_owned(),
                    };
                    Outcome {
                        keys: asked,
                        values: Err(error.take().unwrap_or_else(again)),
                    }
                });
                outcomes.collect()
            }
        }
    }

    async fn answers(
        &self,
        keys: &[Key],
        leader: ServerId,
        buckets: &[BucketKeys],
    ) -> Result<Answers> {
        let connection = self.client.tablet(leader).await?;
        let key_bytes = |asked: &BucketKeys| -> Vec<Bytes> {
            let positions = asked.positions.iter();
            positions.map(|key| keys[*key].bytes.clone()).collect()
        };
        match self.ask {
            Ask::Rows { insert } => {
                let buckets_req = buckets.iter().map(|asked| pb::PbLookupReqForBucket {
                    partition_id: asked.place.partition_id(),
                    bucket_id: Some(asked.place.bucket.bucket_id.0),
                    keys: key_bytes(asked),
                    original_partition_name: None,
                    routing_bucket_count: Some(asked.place.bucket_count),
                });
                let limit = self.client.options().request_timeout.as_millis();
                let request = pb::LookupRequest {
                    table_id: Some(self.table.table_id.0),
                    buckets_req: buckets_req.collect(),
                    insert_if_not_exists: insert.then_some(true),
                    acks: insert.then_some(-1),
                    timeout_ms: insert.then(|| i32::try_from(limit).unwrap_or(i32::MAX)),
                };
                let version = version(&connection, ApiKey::Lookup)?;
                let answer: pb::LookupResponse =
                    connection.call(ApiKey::Lookup, version, &request).await?;
                Ok(answer.buckets_resp.into_iter().map(row_answer).collect())
            }
            Ask::Prefixes => {
                let buckets_req = buckets.iter().map(|asked| pb::PbPrefixLookupReqForBucket {
                    partition_id: asked.place.partition_id(),
                    bucket_id: Some(asked.place.bucket.bucket_id.0),
                    keys: key_bytes(asked),
                    routing_bucket_count: Some(asked.place.bucket_count),
                });
                let request = pb::PrefixLookupRequest {
                    table_id: Some(self.table.table_id.0),
                    buckets_req: buckets_req.collect(),
                };
                let version = version(&connection, ApiKey::PrefixLookup)?;
                let answer: pb::PrefixLookupResponse = connection
                    .call(ApiKey::PrefixLookup, version, &request)
                    .await?;
                Ok(answer.buckets_resp.into_iter().map(prefix_answer).collect())
            }
        }
    }
}

/// By partition id and bucket.
type Answers = HashMap<(Option<i64>, i32), Result<Vec<Vec<Bytes>>>>;
type BucketAnswer = ((Option<i64>, i32), Result<Vec<Vec<Bytes>>>);

fn row_answer(entry: pb::PbLookupRespForBucket) -> BucketAnswer {
    let values = entry.values.into_iter();
    let values = values.map(|value| value.values.into_iter().collect());
    let bucket = (entry.partition_id, entry.bucket_id.unwrap_or_default());
    (
        bucket,
        outcome(entry.error_code, entry.error_message, values.collect()),
    )
}

fn prefix_answer(entry: pb::PbPrefixLookupRespForBucket) -> BucketAnswer {
    let lists = entry.value_lists.into_iter().map(|list| list.values);
    let bucket = (entry.partition_id, entry.bucket_id.unwrap_or_default());
    (
        bucket,
        outcome(entry.error_code, entry.error_message, lists.collect()),
    )
}

fn outcome(
    code: Option<i32>,
    message: Option<String>,
    values: Vec<Vec<Bytes>>,
) -> Result<Vec<Vec<Bytes>>> {
    match code {
        None => Ok(values),
        Some(code) => Err(ClientError::Api {
            code,
            message: message.unwrap_or_default(),
        }),
    }
}

fn version(connection: &Connection, api: ApiKey) -> Result<i16> {
    connection
        .version(api, VERSIONS)
        .ok_or_else(|| unsupported(api))
}
