//! Rows of primary-key tables that recorded answers presuppose: what an answer
//! holds is put before its request is sent.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use mainstem_format::value_batch::split_stored_value;
use mainstem_format::{
    Batches, Columns, DecodedBatch, KeyEncoder, KvBatchBuilder, LogBatch, RowFormat, Value,
    ValueBatch, column_readers, row_batch,
};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::golden::{self, Exchange, Kind};
use mainstem_testkit::{Client, Table, put_outcome, stored_values};
use mainstem_types::{KvFormat, LogFormat, Schema};
use prost::Message;

use super::prepare::Cluster;
use super::requests::body_for;

/// `agg_mode` that stores rows as they are.
const OVERWRITE: i32 = 1;
const UPDATE_BEFORE: u8 = 2;
const DELETE: u8 = 4;

/// Recorded id of a scan to the one here, and its next call.
pub type Scans = HashMap<Bytes, (Bytes, i32)>;

impl Cluster {
    /// Puts what the recorded answer holds.
    pub fn prepare_rows(&mut self, exchange: &Exchange, key: ApiKey) {
        if exchange.kind != Kind::Ok {
            return;
        }
        match key {
            ApiKey::Lookup => self.prepare_lookup(exchange),
            ApiKey::PrefixLookup => self.prepare_prefix_lookup(exchange),
            ApiKey::LimitScan => self.prepare_limit_scan(exchange),
            ApiKey::ScanKv => self.prepare_scan(exchange),
            ApiKey::FetchLog => self.prepare_changelog(exchange),
            _ => {}
        }
    }

    fn prepare_lookup(&mut self, exchange: &Exchange) {
        let request = pb::LookupRequest::decode(exchange.request_body()).expect("a request");
        let answer = pb::LookupResponse::decode(exchange.success_body()).expect("an answer");
        for entry in &request.buckets_req {
            let mut answers = answer.buckets_resp.iter();
            let found = answers.find(|other| {
                (other.bucket_id, other.partition_id) == (entry.bucket_id, entry.partition_id)
            });
            let values = found.map_or(&[][..], |found| &found.values);
            let rows = entry.keys.iter().zip(values);
            let rows: Vec<_> = rows
                .filter_map(|(key, value)| Some((Some(key.clone()), value.values.clone()?)))
                .collect();
            self.put_values(request.table_id, entry.partition_id, entry.bucket_id, &rows);
        }
    }

    fn prepare_prefix_lookup(&mut self, exchange: &Exchange) {
        let request = pb::PrefixLookupRequest::decode(exchange.request_body()).expect("a request");
        let answer = pb::PrefixLookupResponse::decode(exchange.success_body()).expect("an answer");
        for entry in &answer.buckets_resp {
            let values = entry.value_lists.iter().flat_map(|list| &list.values);
            let rows: Vec<_> = values.map(|value| (None, value.clone())).collect();
            self.put_values(request.table_id, entry.partition_id, entry.bucket_id, &rows);
        }
    }

    fn prepare_limit_scan(&mut self, exchange: &Exchange) {
        let request = pb::LimitScanRequest::decode(exchange.request_body()).expect("a request");
        let answer = pb::LimitScanResponse::decode(exchange.success_body()).expect("an answer");
        if answer.is_log_table == Some(false) {
            let rows = values(answer.records.unwrap_or_default());
            self.put_values(
                request.table_id,
                request.partition_id,
                request.bucket_id,
                &rows,
            );
        }
    }

    /// All that any scan of the bucket gave, for a scan that begins.
    fn prepare_scan(&mut self, exchange: &Exchange) {
        let request = pb::ScanKvRequest::decode(exchange.request_body()).expect("a request");
        let Some(opening) = request.bucket_scan_req else {
            self.catch_up_scan(exchange, &request);
            return;
        };
        let mut ids = Vec::new();
        let mut rows = Vec::new();
        for other in golden::exchanges() {
            let is_scan = other.api_key == Some(ApiKey::ScanKv.code()) && other.kind == Kind::Ok;
            if !is_scan || other.cluster != exchange.cluster {
                continue;
            }
            let request = pb::ScanKvRequest::decode(other.request_body()).expect("a request");
            let answer = pb::ScanKvResponse::decode(other.success_body()).expect("an answer");
            let begins = request.bucket_scan_req.is_some_and(|other| {
                (other.table_id, other.bucket_id) == (opening.table_id, opening.bucket_id)
            });
            if begins || request.scanner_id.is_some_and(|id| ids.contains(&id)) {
                ids.extend(answer.scanner_id);
                rows.extend(values(answer.records.unwrap_or_default()));
            }
        }
        self.put_values(
            opening.table_id,
            opening.partition_id,
            opening.bucket_id,
            &rows,
        );
    }

    /// Makes the calls of a scan that were not recorded.
    fn catch_up_scan(&mut self, exchange: &Exchange, request: &pb::ScanKvRequest) {
        let answer = pb::ScanKvResponse::decode(exchange.success_body()).expect("an answer");
        let (Some(id), Some(call), None) =
            (&request.scanner_id, request.call_seq_id, answer.error_code)
        else {
            return;
        };
        while let Some((here, next)) = self.scans.get(id).cloned().filter(|(_, next)| *next < call)
        {
            let missing = pb::ScanKvRequest {
                scanner_id: Some(here.clone()),
                call_seq_id: Some(next),
                batch_size_bytes: Some(2_500),
                ..pb::ScanKvRequest::default()
            };
            self.client().scan_kv(&missing);
            self.scans.insert(id.clone(), (here, next + 1));
        }
    }

    /// Notes which scan here is meant by the recorded one.
    pub fn note_scan(&mut self, exchange: &Exchange, answer: &Bytes) {
        let request = pb::ScanKvRequest::decode(exchange.request_body()).expect("a request");
        let theirs = pb::ScanKvResponse::decode(exchange.success_body()).expect("an answer");
        let ours = pb::ScanKvResponse::decode(answer.clone()).expect("an answer");
        if let (Some(theirs), Some(ours)) = (theirs.scanner_id, ours.scanner_id) {
            let next = request.call_seq_id.unwrap_or_default() + 1;
            self.scans.insert(theirs, (ours, next));
        }
    }

    /// Makes a table anew and puts each batch of the changelog that the answer holds
    /// as one, where it was.
    fn prepare_changelog(&mut self, exchange: &Exchange) {
        let request = pb::FetchLogRequest::decode(exchange.request_body()).expect("a request");
        let answer = pb::FetchLogResponse::decode(exchange.success_body()).expect("an answer");
        for table in &answer.tables_resp {
            let asked = request
                .tables_req
                .iter()
                .find(|asked| asked.table_id == table.table_id);
            let asked = asked.expect("what is answered was asked for");
            let mut projection = asked.projected_fields.clone();
            if asked.projection_pushdown_enabled != Some(true) {
                projection.clear();
            }
            for bucket in &table.buckets_resp {
                let records = bucket.records.clone().unwrap_or_default();
                let batches: Vec<_> = Batches::new(&records)
                    .map(|batch| batch.expect("a batch"))
                    .collect();
                if let Some(at) = self.keyed(table.table_id).filter(|_| !batches.is_empty()) {
                    self.recreate(at);
                    let place = (bucket.partition_id, bucket.bucket_id);
                    self.put_batches(at, place, &projection, &batches);
                }
            }
        }
    }

    fn put_batches(
        &self,
        at: usize,
        (partition_id, bucket_id): (Option<i64>, Option<i32>),
        projection: &[i32],
        batches: &[LogBatch],
    ) {
        let recorded = &self.recorded[at];
        let table = self.client().table(&recorded.name);
        let mut partition_id = partition_id;
        self.map_partition(recorded.id, &mut partition_id);
        let put = |puts: KvBatchBuilder| {
            let records = puts.finish();
            let request = table.put([(partition_id, bucket_id.expect("a bucket"), &records[..])]);
            overwrite(&mut self.client(), &table, request);
        };
        let base_offset = batches[0].header().base_offset;
        if base_offset > 0 {
            // The rows that are changed first, and nothing in the other offsets.
            let mut before = KvBatchBuilder::new(batches[0].header().schema_id, -1, -1);
            let mut seen = HashSet::new();
            for batch in batches.iter().filter(|b| b.header().record_count > 0) {
                let schema = self.schema(at, batch.header().schema_id);
                let decoded = decode(batch, &table, &schema, projection);
                let records = changes(&table, &schema, projection, &decoded);
                for (change, key, row) in records {
                    if seen.insert(key.clone()) && [UPDATE_BEFORE, DELETE].contains(&change) {
                        before.append(&key, Some(&row)).expect("a record");
                    }
                }
            }
            let taken = before.record_count().max(1) as i64;
            put(before);
            for _ in taken..base_offset {
                put(KvBatchBuilder::new(1, -1, -1));
            }
        }
        for batch in batches {
            let header = batch.header();
            let schema = self.schema(at, header.schema_id);
            // Of a writer that begins later nothing is known here.
            let (writer, sequence) = match base_offset {
                0 => (header.writer_id, header.batch_sequence),
                _ => (-1, -1),
            };
            let mut puts = KvBatchBuilder::new(header.schema_id, writer, sequence);
            if header.record_count > 0 {
                let decoded = decode(batch, &table, &schema, projection);
                let records = changes(&table, &schema, projection, &decoded);
                for (change, key, row) in records {
                    if change != UPDATE_BEFORE {
                        let row = (change != DELETE).then_some(&row[..]);
                        puts.append(&key, row).expect("a record");
                    }
                }
            }
            put(puts);
        }
    }

    /// Puts stored values, under the keys that they were found by.
    fn put_values(
        &mut self,
        table_id: Option<i64>,
        partition_id: Option<i64>,
        bucket_id: Option<i32>,
        values: &[(Option<Bytes>, Bytes)],
    ) {
        let Some(at) = self.keyed(table_id).filter(|_| !values.is_empty()) else {
            return;
        };
        let recorded = &self.recorded[at];
        let table = self.client().table(&recorded.name);
        let mut partition_id = partition_id;
        self.map_partition(recorded.id, &mut partition_id);
        let encoder = KeyEncoder::primary_key(&table.descriptor).expect("a key");
        for (key, value) in values {
            let (schema_id, row) = split_stored_value(value).expect("a stored value");
            let key = key.clone().unwrap_or_else(|| {
                let schema = self.schema(at, schema_id);
                let row = row_format(&table).decode(row, schema.columns.as_slice());
                let mut key = Vec::new();
                let encoded = encoder.encode_row(&row.expect("a row"), &mut key);
                encoded.expect("a key");
                key.into()
            });
            let mut batch = KvBatchBuilder::new(schema_id, -1, -1);
            batch.append(&key, Some(row)).expect("a record");
            let records = batch.finish();
            let request = table.put([(partition_id, bucket_id.expect("a bucket"), &records[..])]);
            overwrite(&mut self.client(), &table, request);
        }
    }

    /// The recorded primary-key table of an id, if it could be made here.
    fn keyed(&self, table_id: Option<i64>) -> Option<usize> {
        let at = self
            .recorded
            .iter()
            .position(|table| Some(table.id) == table_id)?;
        let is_keyed = !self.recorded[at].descriptor["schema"]["primary_key"].is_null();
        (is_keyed && self.tables.contains_key(&self.recorded[at].id)).then_some(at)
    }

    fn schema(&self, at: usize, schema_id: i16) -> Schema {
        let recorded = &self.recorded[at];
        let position = usize::try_from(schema_id - 1).expect("a schema id");
        let json = recorded.earlier_schemas.get(position);
        Schema::from_json(json.unwrap_or(&recorded.descriptor["schema"])).expect("a schema")
    }

    /// Sends what the writers of a put had sent before, which was not recorded.
    pub fn catch_up_puts(&self, exchange: &Exchange) {
        let request = body_for(self, exchange, ApiKey::PutKv);
        let request = pb::PutKvRequest::decode(request).expect("a request");
        let answer = pb::PutKvResponse::decode(exchange.success_body()).expect("an answer");
        for entry in &request.buckets_req {
            let mut answers = answer.buckets_resp.iter();
            let accepted = answers
                .any(|other| other.bucket_id == entry.bucket_id && other.log_end_offset.is_some());
            let Some(records) = entry.records.clone().filter(|_| accepted) else {
                continue;
            };
            let writer = i64::from_le_bytes(records[12..20].try_into().expect("8 bytes"));
            let sequence = i32::from_le_bytes(records[20..24].try_into().expect("4 bytes"));
            let schema_id = i16::from_le_bytes(records[9..11].try_into().expect("2 bytes"));
            for earlier in 0..sequence {
                let entry = pb::PbPutKvReqForBucket {
                    records: Some(KvBatchBuilder::new(schema_id, writer, earlier).finish()),
                    ..entry.clone()
                };
                let request = pb::PutKvRequest {
                    buckets_req: vec![entry],
                    ..request.clone()
                };
                // Those that are known already are repeats, or too old to be that.
                self.client().put(&request);
            }
        }
    }
}

fn values(records: Bytes) -> Vec<(Option<Bytes>, Bytes)> {
    match records.is_empty() || ValueBatch::parse(records.clone()).is_err() {
        true => Vec::new(),
        false => stored_values(records)
            .into_iter()
            .map(|value| (None, value))
            .collect(),
    }
}

fn row_format(table: &Table) -> RowFormat {
    match table.descriptor.kv_format().expect("a format") {
        KvFormat::Compacted => RowFormat::Compacted,
        KvFormat::Indexed => RowFormat::Indexed,
    }
}

/// Puts rows as they are, whatever rules the table has.
fn overwrite(client: &mut Client, table: &Table, mut request: pb::PutKvRequest) {
    request.agg_mode = Some(OVERWRITE);
    if !table.schema().auto_increment.is_empty() {
        let columns = table.schema().columns.iter().enumerate();
        request.target_columns = columns
            .filter(|(_, column)| !table.schema().auto_increment.contains(&column.name))
            .map(|(at, _)| i32::try_from(at).expect("a position"))
            .collect();
    }
    for answer in client.put(&request) {
        let outcome = put_outcome(&answer);
        assert!(outcome.is_ok(), "{}: {answer:?}", table.name);
    }
}

fn decode(batch: &LogBatch, table: &Table, schema: &Schema, projection: &[i32]) -> DecodedBatch {
    let columns: Vec<usize> = projection.iter().map(|at| *at as usize).collect();
    let columns = match projection {
        [] => Columns::All,
        _ => Columns::Projected(&columns),
    };
    let decoded = match table.descriptor.log_format().expect("a format") {
        LogFormat::Arrow => mainstem_format::ArrowBatchDecoder::new(schema, columns)
            .expect("columns")
            .decode_batch(batch),
        other => {
            let format = RowFormat::of_log(other).expect("a row format");
            row_batch::decode_rows(batch.bytes(), format, schema)
        }
    };
    decoded.expect("a batch of the schema")
}

/// Change types, keys and rows. What a projection left out is null.
fn changes(
    table: &Table,
    schema: &Schema,
    projection: &[i32],
    decoded: &DecodedBatch,
) -> Vec<(u8, Vec<u8>, Vec<u8>)> {
    let all: Vec<i32> = (0..schema.columns.len() as i32).collect();
    let positions = match projection {
        [] => &all[..],
        _ => projection,
    };
    let selected = Schema::of(positions.iter().map(|at| {
        let column = &schema.columns[*at as usize];
        (column.name.clone(), column.data_type.clone())
    }))
    .expect("columns of a schema");
    let readers = column_readers(&decoded.batch, &selected).expect("columns");
    let encoder = KeyEncoder::primary_key(&table.descriptor).expect("a key");
    let record = |at: usize| {
        let change = decoded.change_types.as_ref().map_or(0, |types| types[at]);
        let mut row = vec![Value::Null; schema.columns.len()];
        for (position, reader) in positions.iter().zip(&readers) {
            row[*position as usize] = reader.value(at).expect("a value");
        }
        let (mut key, mut bytes) = (Vec::new(), Vec::new());
        encoder.encode_row(&row, &mut key).expect("a key");
        let encoded = row_format(table).encode(&row, schema.columns.as_slice(), &mut bytes);
        encoded.expect("a row");
        (change, key, bytes)
    };
    (0..decoded.record_count).map(record).collect()
}
