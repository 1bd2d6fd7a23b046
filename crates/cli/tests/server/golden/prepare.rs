//! A server in the state that a recorded cluster was in.

use std::cell::RefCell;
use std::collections::HashMap;

use mainstem_format::LogBatch;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::golden::{self, Exchange, Kind, RecordedTable};
use mainstem_testkit::{BatchBytes, Client, Server, Wire, ab, path};

use prost::Message;

use super::expected::{AFTER_DROP, AFTER_PARTITION};
use super::requests::{body_for, subject};
use super::rows::Scans;
use crate::support::quick;

const JAAS: &str =
    "PlainLoginModule required user_admin=\"admin-secret\" user_alice=\"alice-secret\";";

/// Added to ids that were unknown there, so that they are unknown here.
pub const UNKNOWN: i64 = 1_000_000;

/// A server, and what the recorded ids mean here.
pub struct Cluster {
    server: Server,
    client: RefCell<Client>,
    pub(super) recorded: Vec<RecordedTable>,
    /// Recorded table id to the one here; a table that was made anew has another.
    pub(super) tables: HashMap<i64, i64>,
    /// Recorded table and partition id to the partition id here.
    partitions: HashMap<(i64, i64), i64>,
    pub(super) scans: Scans,
}

/// Fluss-rs sends an empty token after its login, as the reference asks it to.
fn is_second_login(exchange: &Exchange) -> bool {
    exchange.note.starts_with("second") || (exchange.cluster, exchange.seq) == ('a', 5)
}

impl Cluster {
    /// Starts a server with the tables of a cluster and what was in their logs.
    pub fn start(name: char) -> Self {
        let mut options = quick()
            .with("bind.listeners", "FLUSS://127.0.0.1:0,CLIENT://127.0.0.1:0")
            .with("security.protocol.map", "CLIENT:SASL")
            .with("security.sasl.enabled.mechanisms", "PLAIN")
            .with("security.sasl.plain.jaas.config", JAAS);
        if name == 'b' {
            options = options
                .with("max.bucket.num", "24")
                .with("max.partition.num", "5")
                // The second scan of a bucket was not recorded.
                .with("kv.scanner.max-per-bucket", "1");
        }
        let server = options.start();
        let recorded: Vec<_> = golden::tables()
            .into_iter()
            .filter(|table| table.cluster == name)
            .collect();
        let mut cluster = Self {
            client: RefCell::new(server.client()),
            server,
            recorded,
            tables: HashMap::new(),
            partitions: HashMap::new(),
            scans: Scans::new(),
        };
        for at in 0..cluster.recorded.len() {
            cluster.create(at, &[]);
        }
        cluster
    }

    /// A connection to the listener of an exchange, logged in unless it is about
    /// that.
    pub fn connect(&self, exchange: &Exchange) -> Wire {
        if exchange.listener != "sasl" {
            return self.server.wire();
        }
        let mut wire = Wire::connect(self.server.listener("CLIENT"));
        let before_login = exchange.error_code == Some(46)
            || exchange.api_key == Some(ApiKey::Authenticate.code());
        if !before_login || is_second_login(exchange) {
            let login = pb::AuthenticateRequest {
                protocol: Some("PLAIN".to_owned()),
                token: Some(bytes::Bytes::from_static(b"\0alice\0alice-secret")),
            };
            let answer = wire.call(ApiKey::Authenticate.code(), 0, &login.encode_to_vec());
            answer.expect_success();
        }
        wire
    }

    /// Replaces a recorded table id; returns the recorded one.
    pub fn map_table(&self, id: &mut Option<i64>) -> i64 {
        let recorded = id.unwrap_or(-1);
        // An id that was unknown there stays one that is unknown here.
        *id = id.map(|id| self.tables.get(&id).copied().unwrap_or(id + UNKNOWN));
        recorded
    }

    /// Replaces a partition id of a recorded table.
    pub fn map_partition(&self, table: i64, id: &mut Option<i64>) {
        *id = id.map(|id| {
            self.partitions
                .get(&(table, id))
                .copied()
                .unwrap_or(id + UNKNOWN)
        });
    }

    /// The partition that had this id, of whatever table.
    pub fn partition_anywhere(&self, id: i64) -> Option<i64> {
        self.partitions
            .iter()
            .find(|((_, known), _)| *known == id)
            .map(|(_, here)| *here)
    }

    pub(super) fn client(&self) -> std::cell::RefMut<'_, Client> {
        self.client.borrow_mut()
    }

    fn ensure_database(&self, name: &str) {
        self.client().create_database(name);
    }

    fn drop_database(&self, name: &str) {
        let request = pb::DropDatabaseRequest {
            database_name: Some(name.to_owned()),
            ignore_if_not_exists: Some(true),
            cascade: Some(true),
        };
        // The default database cannot be dropped.
        let _ = self.client().code(ApiKey::DropDatabase, &request);
    }

    fn drop_table(&self, name: &str) {
        let request = pb::DropTableRequest {
            table_path: Some(path(name)),
            ignore_if_not_exists: Some(true),
        };
        // Of a database that is missing, it is missing as well.
        let _ = self.client().code(ApiKey::DropTable, &request);
    }

    /// Makes a table as it was, unless it is there.
    fn ensure_table(&mut self, name: &str) {
        let known = self.recorded.iter().rposition(|table| table.name == name);
        let exists = {
            let request = pb::TableExistsRequest {
                table_path: Some(path(name)),
            };
            let answer: Result<pb::TableExistsResponse, _> =
                self.client().try_call(ApiKey::TableExists, &request);
            answer.is_ok_and(|answer| answer.exists == Some(true))
        };
        match known {
            _ if exists => {}
            Some(at) => self.create(at, &[]),
            None => {
                self.ensure_database(name.split('.').next().expect("a database"));
                self.client().create_table(name, &ab(1));
            }
        }
    }

    /// Makes a recorded table with its partitions and rows, without these columns.
    fn create(&mut self, at: usize, left_out: &[String]) {
        let table = self.recorded[at].clone();
        self.ensure_database(table.name.split('.').next().expect("a database"));
        let mut descriptor = table.descriptor.clone();
        if let Some(first) = table.earlier_schemas.first() {
            descriptor["schema"] = first.clone();
        }
        if let Some(columns) = descriptor["schema"]["columns"].as_array_mut() {
            let count = columns.len();
            columns.retain(|column| !left_out.iter().any(|name| column["name"] == **name));
            if columns.len() < count
                && let Some(schema) = descriptor["schema"].as_object_mut()
            {
                schema.remove("highest_field_id");
            }
        }
        // One server holds one replica; auto partitions have their own tests.
        descriptor["properties"]["table.replication.factor"] = "1".into();
        let request = pb::CreateTableRequest {
            table_path: Some(path(&table.name)),
            table_json: Some(descriptor.to_string().into()),
            ignore_if_exists: Some(true),
        };
        if self.client().code(ApiKey::CreateTable, &request) != 0 {
            // It needs what is not built, such as a lake; what is about it shows.
            return;
        }
        let mut here = self.client().table(&table.name);
        if !table.earlier_schemas.is_empty() && left_out.is_empty() {
            self.add_columns(&table);
            here = self.client().table(&table.name);
        }
        self.tables.insert(table.id, here.id);
        for (recorded, value) in &table.partitions {
            let keys = here.descriptor.partition_keys.iter().cloned();
            let pairs: Vec<_> = keys.zip(value.split('$').map(str::to_owned)).collect();
            let request = partition_request(&table.name, &pairs);
            // What is expired by now cannot be made again.
            if self.client().code(ApiKey::CreatePartition, &request) == 0 {
                let listed = self.client().partitions(&here);
                let found = listed
                    .into_iter()
                    .find(|(_, values)| values.join("$") == *value);
                self.partitions
                    .insert((table.id, *recorded), found.expect("listed").0);
            }
        }
        if here.descriptor.has_primary_key() || !left_out.is_empty() {
            return;
        }
        for (partition, bucket, records) in &table.log {
            let partition = partition.map(|id| self.partitions[&(table.id, id)]);
            if self.client().offset(&here, partition, *bucket, 1, None) == Ok(0) {
                for batch in mainstem_format::Batches::new(records) {
                    let batch = batch.expect("a batch");
                    let request = here.produce([(partition, *bucket, &batch.bytes()[..])]);
                    let answers = self.client().produce(&request);
                    assert_eq!(answers[0].error_code, None, "{}: {answers:?}", table.name);
                }
            }
        }
    }

    /// Makes a recorded table anew, without rows if it has a primary key.
    pub(super) fn recreate(&mut self, at: usize) {
        let name = self.recorded[at].name.clone();
        self.drop_table(&name);
        self.create(at, &[]);
    }

    /// Columns of the last schema that the first one lacks.
    fn add_columns(&self, table: &RecordedTable) {
        let columns =
            |schema: &serde_json::Value| schema["columns"].as_array().expect("a list").clone();
        let first = columns(&table.earlier_schemas[0]).len();
        let mut steps: Vec<_> = table.earlier_schemas[1..].iter().map(columns).collect();
        steps.push(columns(&table.descriptor["schema"]));
        let mut have = first;
        for step in steps {
            let added = step[have..].iter().map(|column| pb::PbAddColumn {
                column_name: column["name"].as_str().map(str::to_owned),
                data_type_json: Some(column["data_type"].to_string().into()),
                column_position_type: Some(0),
                ..pb::PbAddColumn::default()
            });
            let request = pb::AlterTableRequest {
                table_path: Some(path(&table.name)),
                ignore_if_not_exists: Some(false),
                add_columns: added.collect(),
                ..pb::AlterTableRequest::default()
            };
            let _: pb::AlterTableResponse = self.client().call(ApiKey::AlterTable, &request);
            have = step.len();
        }
    }

    fn ensure_partition(&self, table: &str, pairs: &[(String, String)]) {
        let request = partition_request(table, pairs);
        let code = self.client().code(ApiKey::CreatePartition, &request);
        assert_eq!(code, 0, "{table} {pairs:?}");
    }

    fn drop_partition(&self, table: &str, pairs: &[(String, String)]) {
        let request = partition_request(table, pairs);
        let drop = pb::DropPartitionRequest {
            table_path: request.table_path,
            partition_spec: request.partition_spec,
            ignore_if_not_exists: Some(true),
        };
        // A spec that is wrong on purpose has no partition.
        let _ = self.client().code(ApiKey::DropPartition, &drop);
    }

    /// Makes what the recorded answer to a request presupposes.
    pub fn prepare(&mut self, exchange: &Exchange, key: ApiKey) {
        let subject = subject(exchange, key);
        let code = exchange.error_code.unwrap_or_default();
        if let Some((_, table)) = AFTER_DROP.iter().find(|(seq, _)| *seq == exchange.seq) {
            self.drop_table(table);
            return;
        }
        if let Some((_, table, pairs)) = AFTER_PARTITION
            .iter()
            .find(|(seq, ..)| *seq == exchange.seq)
        {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            self.ensure_table(table);
            self.ensure_partition(table, &pairs.iter().map(owned).collect::<Vec<_>>());
        }
        if key == ApiKey::ProduceLog && exchange.kind == Kind::Ok {
            self.catch_up_writers(exchange);
        }
        if key == ApiKey::PutKv && exchange.kind == Kind::Ok {
            self.catch_up_puts(exchange);
        }
        self.prepare_rows(exchange, key);
        if let Some(database) = &subject.database {
            self.prepare_database(exchange, key, database, code);
        }
        for table in &subject.tables {
            let known = self.recorded.iter().rposition(|known| known.name == *table);
            if let Some(at) = known.filter(|_| !subject.added.is_empty() && code == 0) {
                self.drop_table(table);
                self.create(at, &subject.added);
            }
            self.prepare_table(exchange, key, table, code);
            if let Some(pairs) = &subject.partition {
                self.prepare_partition(key, table, pairs, code);
            }
        }
    }

    /// Sends what the writers of a request had sent before, which was not recorded.
    fn catch_up_writers(&self, exchange: &Exchange) {
        let request = body_for(self, exchange, ApiKey::ProduceLog);
        let mut request = pb::ProduceLogRequest::decode(request).expect("a request");
        if !matches!(request.acks, Some(-1..=1)) {
            return;
        }
        let answer: pb::ProduceLogResponse =
            Message::decode(exchange.success_body()).expect("a message");
        let accepted = |bucket: Option<i32>| {
            let mut entries = answer.buckets_resp.iter();
            entries.any(|entry| entry.bucket_id == bucket && entry.base_offset.is_some())
        };
        request
            .buckets_req
            .retain(|entry| accepted(entry.bucket_id));
        for entry in &request.buckets_req {
            let records = entry.records.clone().expect("records");
            let Ok(batch) = LogBatch::parse(&records) else {
                continue;
            };
            let header = *batch.header();
            for sequence in 0..header.batch_sequence {
                let earlier =
                    BatchBytes(batch.bytes().to_vec()).with_writer(header.writer_id, sequence);
                let entry = pb::PbProduceLogReqForBucket {
                    records: Some(earlier.into()),
                    ..entry.clone()
                };
                let request = pb::ProduceLogRequest {
                    buckets_req: vec![entry],
                    ..request.clone()
                };
                // Those that are known already are repeats, or too old to be that.
                self.client().produce(&request);
            }
        }
    }

    /// Makes the recorded tables again that a request has changed.
    pub fn restore(&mut self, exchange: &Exchange, key: ApiKey) {
        let subject = subject(exchange, key);
        let changes_table = matches!(
            key,
            ApiKey::CreateTable
                | ApiKey::DropTable
                | ApiKey::AlterTable
                | ApiKey::CreatePartition
                | ApiKey::DropPartition
        );
        let in_database = |table: &RecordedTable| {
            let database = table.name.split('.').next().map(str::to_owned);
            subject.database.is_some() && database == subject.database
        };
        for at in 0..self.recorded.len() {
            let table = &self.recorded[at];
            let name = table.name.clone();
            let dropped = AFTER_DROP
                .iter()
                .any(|(seq, table)| *seq == exchange.seq && *table == name);
            if dropped || (changes_table && subject.tables.contains(&name)) {
                self.drop_table(&name);
                self.create(at, &[]);
            } else if in_database(table) {
                self.ensure_table(&name);
            }
        }
    }

    fn prepare_database(&mut self, exchange: &Exchange, key: ApiKey, database: &str, code: i32) {
        match (key, code) {
            (ApiKey::CreateDatabase, 0) | (_, 4) => self.drop_database(database),
            (ApiKey::CreateDatabase, 6) => self.ensure_database(database),
            (ApiKey::DropDatabase, 5) => self.ensure_table(&format!("{database}.t")),
            (ApiKey::DatabaseExists, _) => {
                let body = exchange.success_body();
                let answer: pb::DatabaseExistsResponse = Message::decode(body).expect("a message");
                if answer.exists == Some(true) {
                    self.ensure_database(database);
                } else {
                    self.drop_database(database);
                }
            }
            (_, 0) if exchange.kind == Kind::Ok => self.ensure_database(database),
            _ => {}
        }
    }

    fn prepare_table(&mut self, exchange: &Exchange, key: ApiKey, table: &str, code: i32) {
        if key == ApiKey::TableExists && exchange.kind == Kind::Ok {
            let body = exchange.success_body();
            let answer: pb::TableExistsResponse = Message::decode(body).expect("a message");
            if answer.exists == Some(true) {
                self.ensure_table(table);
            } else {
                self.drop_table(table);
            }
            return;
        }
        match (key, code) {
            (_, 7 | 9) | (ApiKey::GetMetadata, -1)
                if !self.recorded.iter().any(|known| known.name == table) =>
            {
                self.drop_table(table);
            }
            (ApiKey::DropTable, 7) => self.drop_table(table),
            (ApiKey::CreateTable, 0) => {
                self.ensure_database(table.split('.').next().expect("a database"));
                self.drop_table(table);
            }
            (ApiKey::CreateTable, 8) => self.ensure_table(table),
            (ApiKey::CreateTable, 4) => {
                self.drop_database(table.split('.').next().expect("a database"))
            }
            (ApiKey::CreateTable, _) | (_, 4 | 7 | 15 | 16) => {}
            (ApiKey::CreatePartition | ApiKey::DropPartition, 0 | 36 | 42 | 45) => {
                self.ensure_table(table)
            }
            _ => self.ensure_table(table),
        }
    }

    fn prepare_partition(
        &mut self,
        key: ApiKey,
        table: &str,
        pairs: &[(String, String)],
        code: i32,
    ) {
        match (key, code) {
            (ApiKey::CreatePartition, 0) => self.drop_partition(table, pairs),
            (ApiKey::CreatePartition, 42) | (ApiKey::DropPartition, 0) => {
                self.ensure_partition(table, pairs)
            }
            (ApiKey::DropPartition, 36) => self.drop_partition(table, pairs),
            (ApiKey::CreatePartition, 45) => {
                for filler in 0..5 {
                    let pair = [(pairs[0].0.clone(), format!("filler{filler}"))];
                    let request = partition_request(table, &pair);
                    // Full is what it should be.
                    let _ = self.client().code(ApiKey::CreatePartition, &request);
                }
            }
            _ => {}
        }
    }
}

fn partition_request(table: &str, pairs: &[(String, String)]) -> pb::CreatePartitionRequest {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    pb::CreatePartitionRequest {
        table_path: Some(path(table)),
        partition_spec: Some(mainstem_testkit::spec(&pairs)),
        ignore_if_not_exists: Some(true),
    }
}
