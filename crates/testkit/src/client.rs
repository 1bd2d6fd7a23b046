//! Typed calls, and the few of them that every test begins with.

use std::net::SocketAddr;

use bytes::Bytes;
use mainstem_protocol::messages as pb;
use mainstem_protocol::{ApiKey, Required, Shaped, decode};
use mainstem_types::TableDescriptor;
use prost::Message;

use crate::table::{Table, path, spec};
use crate::wire::{Answer, Wire};

/// An ERROR frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Code of wire.md §5.1.
    pub code: i32,
    /// Text for the user.
    pub message: String,
}

/// A connection with typed calls. One request is under way at a time, unless it
/// is sent by [`Client::send`].
#[derive(Debug)]
pub struct Client {
    wire: Wire,
}

impl Client {
    /// Connects, without ApiVersions: a server answers any first request.
    pub fn connect(address: SocketAddr) -> Self {
        Self {
            wire: Wire::connect(address),
        }
    }

    /// The connection.
    pub fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Sends a request of version 0; returns its id.
    pub fn send(&mut self, api: ApiKey, request: &impl Message) -> i32 {
        self.wire.send(api.code(), 0, &request.encode_to_vec())
    }

    /// The next answer, which must be a message of this type or a refusal.
    ///
    /// # Errors
    /// An ERROR frame.
    ///
    /// # Panics
    /// For anything else, and for a message that lacks a required field.
    pub fn receive<R: Message + Default + Required + Shaped>(&mut self) -> Result<R, Refused> {
        read_answer(self.wire.receive())
    }

    /// Calls version 0 of an API.
    ///
    /// # Errors
    /// An ERROR frame.
    pub fn try_call<R>(&mut self, api: ApiKey, request: &impl Message) -> Result<R, Refused>
    where
        R: Message + Default + Required + Shaped,
    {
        read_answer(self.wire.call(api.code(), 0, &request.encode_to_vec()))
    }

    /// Calls version 0 of an API, which must succeed.
    ///
    /// # Panics
    /// If it does not.
    pub fn call<R>(&mut self, api: ApiKey, request: &impl Message) -> R
    where
        R: Message + Default + Required + Shaped,
    {
        self.try_call(api, request)
            .unwrap_or_else(|refused| panic!("{}: {refused:?}", api.name()))
    }

    /// Code with which version 0 of an API refuses a request; 0 for a success.
    pub fn code(&mut self, api: ApiKey, request: &impl Message) -> i32 {
        match self.wire.call(api.code(), 0, &request.encode_to_vec()) {
            Answer::Success { .. } => 0,
            Answer::Error { code, .. } => code,
            other => panic!("{}: {other:?}", api.name()),
        }
    }

    /// Creates a database that may exist.
    pub fn create_database(&mut self, name: &str) {
        let _: pb::CreateDatabaseResponse = self.call(
            ApiKey::CreateDatabase,
            &pb::CreateDatabaseRequest {
                database_name: Some(name.to_owned()),
                ignore_if_exists: Some(true),
                database_json: None,
            },
        );
    }

    /// Creates a table in a database that exists; `fluss` always does.
    pub fn create_table(&mut self, name: &str, descriptor: &TableDescriptor) -> Table {
        let _: pb::CreateTableResponse = self.call(
            ApiKey::CreateTable,
            &pb::CreateTableRequest {
                table_path: Some(path(name)),
                table_json: Some(descriptor.to_json_bytes().into()),
                ignore_if_exists: Some(false),
            },
        );
        self.table(name)
    }

    /// A table as the server describes it.
    pub fn table(&mut self, name: &str) -> Table {
        let info: pb::GetTableInfoResponse = self.call(
            ApiKey::GetTableInfo,
            &pb::GetTableInfoRequest {
                table_path: Some(path(name)),
            },
        );
        let json: Bytes = info.table_json.expect("a descriptor");
        Table {
            name: name.to_owned(),
            id: info.table_id.expect("an id"),
            schema_id: info.schema_id.expect("an id"),
            descriptor: TableDescriptor::from_json_bytes(&json).expect("a descriptor"),
        }
    }

    /// Drops a table.
    pub fn drop_table(&mut self, name: &str) {
        let _: pb::DropTableResponse = self.call(
            ApiKey::DropTable,
            &pb::DropTableRequest {
                table_path: Some(path(name)),
                ignore_if_not_exists: Some(false),
            },
        );
    }

    /// Creates a partition and returns its id.
    pub fn create_partition(&mut self, table: &Table, pairs: &[(&str, &str)]) -> i64 {
        let _: pb::CreatePartitionResponse = self.call(
            ApiKey::CreatePartition,
            &pb::CreatePartitionRequest {
                table_path: Some(table.path()),
                partition_spec: Some(spec(pairs)),
                ignore_if_not_exists: Some(false),
            },
        );
        let found = self.partitions(table).into_iter().find(|(_, values)| {
            pairs
                .iter()
                .all(|(_, value)| values.iter().any(|known| known == value))
        });
        found.expect("the partition is listed").0
    }

    /// Ids and values of the partitions of a table.
    pub fn partitions(&mut self, table: &Table) -> Vec<(i64, Vec<String>)> {
        let listed: pb::ListPartitionInfosResponse = self.call(
            ApiKey::ListPartitionInfos,
            &pb::ListPartitionInfosRequest {
                table_path: Some(table.path()),
                ..pb::ListPartitionInfosRequest::default()
            },
        );
        let values = |spec: Option<pb::PbPartitionSpec>| {
            let pairs = spec.expect("a spec").partition_key_values;
            pairs
                .into_iter()
                .map(|pair| pair.value.expect("a value"))
                .collect()
        };
        listed
            .partitions_info
            .into_iter()
            .map(|info| {
                (
                    info.partition_id.expect("an id"),
                    values(info.partition_spec),
                )
            })
            .collect()
    }

    /// Drops a partition.
    pub fn drop_partition(&mut self, table: &Table, pairs: &[(&str, &str)]) {
        let _: pb::DropPartitionResponse = self.call(
            ApiKey::DropPartition,
            &pb::DropPartitionRequest {
                table_path: Some(table.path()),
                partition_spec: Some(spec(pairs)),
                ignore_if_not_exists: Some(false),
            },
        );
    }

    /// Id of a new writer.
    pub fn init_writer(&mut self) -> i64 {
        let answer: pb::InitWriterResponse =
            self.call(ApiKey::InitWriter, &pb::InitWriterRequest::default());
        answer.writer_id.expect("an id")
    }

    /// Appends records to a bucket, with acks = all.
    pub fn produce(
        &mut self,
        request: &pb::ProduceLogRequest,
    ) -> Vec<pb::PbProduceLogRespForBucket> {
        let answer: pb::ProduceLogResponse = self.call(ApiKey::ProduceLog, request);
        answer.buckets_resp
    }

    /// Appends records to one bucket; the base offset, or the code.
    ///
    /// # Errors
    /// The code of the bucket.
    ///
    /// # Panics
    /// If the answer is not about this one bucket.
    pub fn append(&mut self, table: &Table, bucket: i32, records: &[u8]) -> Result<i64, i32> {
        let answers = self.produce(&table.produce([(None, bucket, records)]));
        one_append(&answers, bucket)
    }

    /// As [`Client::append`], to a partition.
    ///
    /// # Errors
    /// The code of the bucket.
    pub fn append_to(
        &mut self,
        table: &Table,
        partition: i64,
        bucket: i32,
        records: &[u8],
    ) -> Result<i64, i32> {
        let answers = self.produce(&table.produce([(Some(partition), bucket, records)]));
        one_append(&answers, bucket)
    }

    /// Reads.
    pub fn fetch(&mut self, request: &pb::FetchLogRequest) -> Vec<pb::PbFetchLogRespForBucket> {
        let answer: pb::FetchLogResponse = self.call(ApiKey::FetchLog, request);
        answer
            .tables_resp
            .into_iter()
            .flat_map(|table| table.buckets_resp)
            .collect()
    }

    /// Reads one bucket without waiting.
    ///
    /// # Errors
    /// The code of the bucket.
    ///
    /// # Panics
    /// If the answer is not about this one bucket, or is neither a success nor a
    /// failure.
    pub fn fetch_one(
        &mut self,
        request: &pb::FetchLogRequest,
    ) -> Result<pb::PbFetchLogRespForBucket, i32> {
        let mut answers = self.fetch(request);
        assert_eq!(answers.len(), 1, "{answers:?}");
        check_fetched(answers.remove(0))
    }

    /// Committed end of a bucket.
    pub fn end(&mut self, table: &Table, bucket: i32) -> i64 {
        self.offset(table, None, bucket, 1, None)
            .expect("an offset")
    }

    /// An offset of a bucket: earliest 0, latest 1, by timestamp 2.
    ///
    /// # Errors
    /// The code of the bucket.
    ///
    /// # Panics
    /// If the answer is not about this one bucket.
    pub fn offset(
        &mut self,
        table: &Table,
        partition: Option<i64>,
        bucket: i32,
        offset_type: i32,
        timestamp_ms: Option<i64>,
    ) -> Result<i64, i32> {
        let answer: pb::ListOffsetsResponse = self.call(
            ApiKey::ListOffsets,
            &pb::ListOffsetsRequest {
                follower_server_id: Some(-1),
                offset_type: Some(offset_type),
                table_id: Some(table.id),
                partition_id: partition,
                bucket_id: vec![bucket],
                start_timestamp: timestamp_ms,
                routing_bucket_count: None,
            },
        );
        assert_eq!(answer.buckets_resp.len(), 1, "{answer:?}");
        let entry = &answer.buckets_resp[0];
        assert_eq!(entry.bucket_id, Some(bucket));
        match (entry.offset, entry.error_code) {
            (Some(offset), None) => Ok(offset),
            (None, Some(code)) => Err(code),
            _ => panic!("neither a success nor a failure: {entry:?}"),
        }
    }
}

pub(crate) fn read_answer<R: Message + Default + Required + Shaped>(
    answer: Answer,
) -> Result<R, Refused> {
    match answer {
        Answer::Success { body, .. } => {
            Ok(decode(body).unwrap_or_else(|error| panic!("an answer of another form: {error}")))
        }
        Answer::Error { code, message, .. } => Err(Refused { code, message }),
        other => panic!("no answer but {other:?}"),
    }
}

fn one_append(answers: &[pb::PbProduceLogRespForBucket], bucket: i32) -> Result<i64, i32> {
    let [answer] = answers else {
        panic!("one answer was expected: {answers:?}")
    };
    assert_eq!(answer.bucket_id, Some(bucket));
    match (answer.base_offset, answer.error_code) {
        (Some(offset), None) => Ok(offset),
        (None, Some(code)) if code != 0 => Err(code),
        _ => panic!("neither a success nor a failure: {answer:?}"),
    }
}

fn check_fetched(entry: pb::PbFetchLogRespForBucket) -> Result<pb::PbFetchLogRespForBucket, i32> {
    let is_success = entry.high_watermark.is_some()
        && entry.records.is_some() != entry.remote_log_fetch_info.is_some();
    match entry.error_code {
        None if is_success => Ok(entry),
        Some(code) if code != 0 && entry.records.is_none() && entry.high_watermark.is_none() => {
            Err(code)
        }
        _ => panic!("neither a success nor a failure: {entry:?}"),
    }
}
