//! The client of primary-key tables against a server in memory.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use mainstem_client::ClientError;
use mainstem_client::kv_scan::{KvScan, KvScanOptions, limit_scan};
use mainstem_client::lookup::{Lookup, LookupOptions, PrefixLookup};
use mainstem_client::upsert::{UpsertOptions, UpsertWriter};
use mainstem_format::KvBatch;
use mainstem_format::value_batch::put_stored_value;
use mainstem_protocol::ApiKey;
use mainstem_types::schema::NewColumn;
use mainstem_types::{DataType, Schema, TableDescriptor, TypeKind};
use support::FakeServer;

fn int() -> DataType {
    DataType::nullable(TypeKind::Int)
}

fn text() -> DataType {
    DataType::nullable(TypeKind::String)
}

/// `id INT, name STRING, hits BIGINT`, by `id`, in three buckets.
fn people() -> TableDescriptor {
    let schema = Schema::builder()
        .column("id", int())
        .column("name", text())
        .column("hits", DataType::nullable(TypeKind::BigInt))
        .primary_key(["id"]);
    table(schema.build().expect("a schema"))
}

fn table(schema: Schema) -> TableDescriptor {
    TableDescriptor::new(schema)
        .distributed_by(3, Vec::<String>::new())
        .with_property("table.kv.format-version", "2")
        .checked()
        .expect("a table")
}

fn ids(ids: impl IntoIterator<Item = i32>) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(ids));
    RecordBatch::try_from_iter([("id", ids)]).expect("a batch")
}

/// Rows whose columns are not in the order of the table.
fn rows(ids: impl IntoIterator<Item = i32>, name: &str) -> RecordBatch {
    let ids: Vec<i32> = ids.into_iter().collect();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(ids.iter().map(|_| name)));
    let hits: ArrayRef = Arc::new(Int64Array::from_iter(
        ids.iter().map(|id| Some(i64::from(*id))),
    ));
    let ids: ArrayRef = Arc::new(Int32Array::from(ids));
    RecordBatch::try_from_iter([("hits", hits), ("id", ids), ("name", names)]).expect("a batch")
}

async fn writer(server: &FakeServer, options: UpsertOptions) -> UpsertWriter {
    let writer = UpsertWriter::new(server.client().await, server.table.clone(), options).await;
    writer.expect("a writer")
}

async fn filled(count: i32) -> FakeServer {
    let server = FakeServer::start(people());
    let mut writer = writer(&server, UpsertOptions::default()).await;
    writer.upsert(&rows(0..count, "a")).await.expect("queues");
    assert_eq!(writer.close().await.expect("is stored"), count as u64);
    server
}

#[tokio::test]
async fn rows_are_put_as_the_reference_encodes_them() {
    let schema = Schema::builder()
        .column("id", int())
        .column("name", text())
        .primary_key(["id"])
        .build()
        .expect("a schema");
    let server = FakeServer::start(table(schema));
    let mut writer = writer(&server, UpsertOptions::default()).await;
    let id: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let name: ArrayRef = Arc::new(StringArray::from(vec!["a1"]));
    let batch = RecordBatch::try_from_iter([("id", id), ("name", name)]).expect("a batch");
    writer.upsert(&batch).await.expect("queues");
    writer.delete(&ids([1])).await.expect("queues");
    writer.close().await.expect("is stored");
    let state = server.state.lock();
    let records = |put: usize| {
        state.puts[put].buckets_req[0]
            .records
            .clone()
            .expect("records")
    };
    // formats.md §9.2 behind the header: length, key length, key, row.
    assert_eq!(&records(0)[28..], b"\x07\0\0\0\x01\x01\x00\x01\x02a1");
    assert_eq!(&records(1)[28..], b"\x02\0\0\0\x01\x01");
    assert_eq!(state.put_versions, [2, 2]);
    for (put, sequence) in [(0, 0), (1, 1)] {
        let batch = KvBatch::parse(records(put)).expect("a KV batch");
        assert_eq!((batch.schema_id(), batch.writer_id()), (1, 11));
        assert_eq!(batch.batch_sequence(), sequence);
        assert_eq!(state.puts[put].agg_mode, Some(0));
        assert!(state.puts[put].target_columns.is_empty());
    }
}

#[tokio::test]
async fn upserts_deletes_and_lookups_agree() {
    let server = filled(1000).await;
    let mut writer = writer(&server, UpsertOptions::default()).await;
    writer.upsert(&rows(500..600, "b")).await.expect("queues");
    writer.delete(&ids(550..1000)).await.expect("queues");
    writer.close().await.expect("is stored");
    let options = LookupOptions {
        columns: Some(vec!["name".to_owned(), "id".to_owned()]),
        ..LookupOptions::default()
    };
    let mut lookup =
        Lookup::new(server.client().await, server.table.clone(), &options).expect("a lookup");
    let found = lookup.lookup(&ids((400..700).rev())).await.expect("found");
    assert_eq!(found.rows.num_rows(), 150);
    assert_eq!(found.missing, (0..150).collect::<Vec<u32>>());
    assert_eq!(
        found.keys.values().to_vec(),
        (150..300).collect::<Vec<u32>>()
    );
    let id = found.rows.column(1).as_primitive::<Int32Type>();
    assert_eq!(id.values().to_vec(), (400..550).rev().collect::<Vec<i32>>());
    let name = found.rows.column(0).as_string::<i32>();
    assert_eq!((name.value(0), name.value(149)), ("b", "a"));
    let state = server.state.lock();
    assert!(
        state
            .lookups
            .iter()
            .all(|request| request.insert_if_not_exists.is_none())
    );
    let buckets = state
        .lookups
        .iter()
        .flat_map(|request| &request.buckets_req);
    assert!(buckets.clone().all(|bucket| bucket.keys.len() <= 128));
    assert_eq!(buckets.map(|bucket| bucket.keys.len()).sum::<usize>(), 300);
}

#[tokio::test]
async fn failures_that_pass_neither_lose_nor_repeat_a_row() {
    let server = FakeServer::start(people());
    // Of some batches of the window the first is refused, of others a later one.
    server.fail(ApiKey::PutKv, [72, 12, 11, 21, 25, 28, 72]);
    let options = UpsertOptions {
        max_batch_bytes: 200,
        max_throttle: Duration::from_millis(20),
        ..UpsertOptions::default()
    };
    let mut writer = writer(&server, options).await;
    for round in 0..5 {
        let name = format!("round {round}");
        writer.upsert(&rows(0..100, &name)).await.expect("queues");
    }
    assert_eq!(writer.close().await.expect("is stored"), 500);
    let state = server.state.lock();
    assert_eq!(state.applied, 500);
    let is_last = |value: &Vec<u8>| value.windows(7).any(|part| part == b"round 4");
    assert!(state.rows().values().all(is_last));
}

#[tokio::test]
async fn a_server_under_pressure_is_given_time() {
    let server = FakeServer::start(people());
    server.state.lock().pressure = Some(0.5);
    let options = UpsertOptions {
        max_batch_bytes: 1,
        max_throttle: Duration::from_millis(400),
        ..UpsertOptions::default()
    };
    let mut writer = writer(&server, options).await;
    let started = Instant::now();
    // All of one key, so of one bucket: the window, and one more.
    for _ in 0..6 {
        writer.upsert(&rows([1], "a")).await.expect("queues");
    }
    writer.close().await.expect("is stored");
    // 400 ms × 0.5².
    assert!(started.elapsed() >= Duration::from_millis(100));
    assert_eq!(server.state.lock().applied, 6);
}

#[tokio::test]
async fn what_the_server_refuses_for_good_is_reported() {
    let server = FakeServer::start(people());
    server.fail(ApiKey::PutKv, [57]);
    let mut writer = writer(&server, UpsertOptions::default()).await;
    writer.delete(&ids([1])).await.expect("queues");
    let error = writer.flush().await.expect_err("refused");
    assert!(
        matches!(error, ClientError::Api { code: 57, .. }),
        "{error}"
    );
    let again = writer.upsert(&rows([1], "a")).await.expect_err("failed");
    assert!(
        matches!(again, ClientError::Api { code: 57, .. }),
        "{again}"
    );
}

#[tokio::test]
async fn a_partial_update_names_its_columns_and_sends_null_for_the_others() {
    let server = FakeServer::start(people());
    let options = UpsertOptions {
        columns: Some(vec!["hits".to_owned(), "id".to_owned()]),
        overwrite: true,
        ..UpsertOptions::default()
    };
    let mut writer = writer(&server, options).await;
    let batch = rows([1], "ignored").project(&[0, 1]).expect("a batch");
    writer.upsert(&batch).await.expect("queues");
    let error = writer.upsert(&rows([1], "a")).await.expect_err("refused");
    assert!(error.to_string().contains("'name' is not among"), "{error}");
    writer.close().await.expect("is stored");
    let state = server.state.lock();
    assert_eq!(state.puts[0].target_columns, [0, 2]);
    assert_eq!(state.puts[0].agg_mode, Some(1));
    // Null bits: the name.
    assert_eq!(state.rows()[&vec![1]], [1, 0, 0b010, 1, 1]);
}

#[tokio::test]
async fn columns_that_cannot_be_written_are_refused_before_anything_is_sent() {
    let schema = Schema::builder()
        .column("id", int())
        .column("uid", DataType::nullable(TypeKind::BigInt))
        .column("name", text())
        .primary_key(["id"])
        .auto_increment("uid")
        .build()
        .expect("a schema");
    let server = FakeServer::start(table(schema));
    let refused = async |columns: &[&str]| {
        let options = UpsertOptions {
            columns: Some(columns.iter().map(|c| (*c).to_owned()).collect()),
            ..UpsertOptions::default()
        };
        let writer = UpsertWriter::new(server.client().await, server.table.clone(), options).await;
        writer.expect_err("refused").to_string()
    };
    assert!(
        refused(&["name"])
            .await
            .contains("'id' belongs to the primary key")
    );
    assert!(
        refused(&["id", "uid"])
            .await
            .contains("numbered by the server")
    );
    assert!(
        refused(&["id", "x"])
            .await
            .contains("there is no column 'x'")
    );
    // Without a list, all but the numbered column are written.
    let mut writer = writer(&server, UpsertOptions::default()).await;
    let batch = rows([1], "a").project(&[1, 2]).expect("a batch");
    writer.upsert(&batch).await.expect("queues");
    let error = writer.delete(&ids([1])).await.expect_err("refused");
    assert!(error.to_string().contains("cannot be deleted"), "{error}");
    writer.close().await.expect("is stored");
    assert_eq!(server.state.lock().puts[0].target_columns, [0, 2]);
}

#[tokio::test]
async fn lookups_are_repeated_until_every_key_is_answered() {
    let server = filled(300).await;
    server.fail(ApiKey::Lookup, [12, 21, 11, 26]);
    let client = server.client().await;
    let options = LookupOptions::default();
    let mut lookup = Lookup::new(client, server.table.clone(), &options).expect("a lookup");
    let found = lookup.lookup(&ids(0..300)).await.expect("found");
    assert_eq!((found.rows.num_rows(), found.missing.len()), (300, 0));
    let id = found.rows.column(0).as_primitive::<Int32Type>();
    assert_eq!(id.values().to_vec(), (0..300).collect::<Vec<i32>>());
    server.fail(ApiKey::Lookup, [20]);
    let error = lookup.lookup(&ids([1])).await.expect_err("refused");
    assert!(
        matches!(error, ClientError::Api { code: 20, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn an_inserting_lookup_says_how_long_it_waits_for_the_write() {
    let server = filled(1).await;
    let options = LookupOptions {
        insert_if_not_exists: true,
        ..LookupOptions::default()
    };
    let client = server.client().await;
    let mut lookup = Lookup::new(client, server.table.clone(), &options).expect("a lookup");
    lookup.lookup(&ids([0])).await.expect("found");
    let state = server.state.lock();
    let request = &state.lookups[0];
    assert_eq!(request.insert_if_not_exists, Some(true));
    assert_eq!((request.acks, request.timeout_ms), (Some(-1), Some(30_000)));
}

#[tokio::test]
async fn values_of_older_schemas_are_read_with_theirs() {
    let server = filled(2).await;
    let mut table = server.table.clone();
    table.schema_id = 2;
    table.descriptor.schema = newer_schema(&server);
    // One row of the new schema: id 7, name, hits, note.
    let mut value = Vec::new();
    put_stored_value(2, &[0, 7, 1, b'n', 9, 1, b'!'], &mut value);
    server.state.lock().insert(None, 0, &[7], value);
    let client = server.client().await;
    let batch = limit_scan(client, table, 10, None).await.expect("rows");
    assert_eq!((batch.num_rows(), batch.num_columns()), (3, 4));
    let id = batch.column(0).as_primitive::<Int32Type>();
    let hits = batch.column(2).as_primitive::<Int64Type>();
    let note = batch.column(3).as_string::<i32>();
    let row = |wanted| {
        id.values()
            .iter()
            .position(|id| *id == wanted)
            .expect("a row")
    };
    assert_eq!((hits.value(row(7)), note.value(row(7))), (9, "!"));
    assert!(note.iter().filter(Option::is_none).count() == 2);
    // And the other way round: a reader of the old schema drops the column.
    let client = server.client().await;
    server.state.lock().schemas.insert(2, newer_schema(&server));
    let batch = limit_scan(client, server.table.clone(), 10, None)
        .await
        .expect("rows");
    assert_eq!((batch.num_rows(), batch.num_columns()), (3, 3));
}

fn newer_schema(server: &FakeServer) -> Schema {
    let added = NewColumn::new("note", text());
    let schema = &server.table.descriptor.schema;
    schema.add_columns(&[added]).expect("a schema")
}

#[tokio::test]
async fn a_limit_scan_returns_so_many_rows_and_no_more() {
    let server = filled(100).await;
    for (limit, rows) in [(0, 0), (1, 1), (60, 60), (1000, 100)] {
        let columns = ["hits".to_owned()];
        let client = server.client().await;
        let batch = limit_scan(client, server.table.clone(), limit, Some(&columns)).await;
        let batch = batch.expect("rows");
        assert_eq!((batch.num_rows(), batch.num_columns()), (rows, 1));
    }
}

#[tokio::test]
async fn a_scan_returns_every_row_and_leaves_no_session() {
    let server = filled(1000).await;
    // Two sessions are refused first.
    server.fail(ApiKey::ScanKv, [69, 69]);
    let options = KvScanOptions {
        batch_bytes: 100,
        ..KvScanOptions::default()
    };
    let client = server.client().await;
    let mut scan = KvScan::new(client, server.table.clone(), &options)
        .await
        .expect("a scan");
    let mut found = Vec::new();
    while let Some(rows) = scan.next().await.expect("rows") {
        let id = rows.batch.column(0).as_primitive::<Int32Type>();
        found.extend(id.values().iter().copied());
    }
    found.sort_unstable();
    assert_eq!(found, (0..1000).collect::<Vec<i32>>());
    assert_eq!(scan.log_offsets().len(), 3);
    assert_eq!(scan.log_offsets().values().sum::<i64>(), 1000);
    assert_eq!(server.state.lock().open_scanners(), 0);
}

#[tokio::test]
async fn a_scan_that_is_given_up_closes_its_sessions() {
    let server = filled(1000).await;
    let options = KvScanOptions {
        batch_bytes: 10,
        ..KvScanOptions::default()
    };
    let client = server.client().await;
    let mut scan = KvScan::new(client, server.table.clone(), &options)
        .await
        .expect("a scan");
    assert!(scan.next().await.expect("rows").is_some());
    scan.close().await;
    let state = server.state.lock();
    assert!(state.scanners_opened >= 1);
    assert_eq!(state.open_scanners(), 0);
}

#[tokio::test]
async fn a_broken_session_is_an_error_and_not_a_gap() {
    let server = filled(1000).await;
    let options = KvScanOptions {
        batch_bytes: 10,
        parallel_buckets: 1,
        ..KvScanOptions::default()
    };
    let client = server.client().await;
    let mut scan = KvScan::new(client, server.table.clone(), &options)
        .await
        .expect("a scan");
    assert!(scan.next().await.expect("rows").is_some());
    server.fail(ApiKey::ScanKv, [66]);
    let error = loop {
        match scan.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the scan ended as if it were whole"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, ClientError::Api { code: 66, .. }),
        "{error}"
    );
}

/// `day STRING, a INT, b INT, v STRING` by all but `v`, partitioned by day,
/// bucketed by `a`.
fn partitioned() -> TableDescriptor {
    let schema = Schema::builder()
        .column("day", text())
        .column("a", int())
        .column("b", int())
        .column("v", text())
        .primary_key(["day", "a", "b"])
        .build()
        .expect("a schema");
    TableDescriptor::new(schema)
        .partitioned_by(["day"])
        .distributed_by(3, ["a"])
        .with_property("table.kv.format-version", "2")
        .checked()
        .expect("a table")
}

fn keys(rows: &[(&str, i32, i32)]) -> RecordBatch {
    let day: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0)));
    let a: ArrayRef = Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.1)));
    let b: ArrayRef = Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.2)));
    RecordBatch::try_from_iter([("b", b), ("day", day), ("a", a)]).expect("a batch")
}

#[tokio::test]
async fn partitions_are_created_for_rows_and_missing_ones_have_none() {
    let server = FakeServer::start(partitioned());
    let options = UpsertOptions {
        columns: Some(["day", "a", "b"].map(str::to_owned).to_vec()),
        ..UpsertOptions::default()
    };
    let mut writer = writer(&server, options).await;
    let written = [("mon", 1, 1), ("mon", 1, 2), ("tue", 1, 1), ("mon", 2, 300)];
    writer.upsert(&keys(&written)).await.expect("queues");
    writer.close().await.expect("is stored");
    assert_eq!(server.state.lock().partitions.len(), 2);
    let client = server.client().await;
    let options = LookupOptions::default();
    let mut lookup = Lookup::new(client, server.table.clone(), &options).expect("a lookup");
    let asked = [("tue", 1, 1), ("wed", 1, 1), ("mon", 2, 300), ("tue", 2, 2)];
    let found = lookup.lookup(&keys(&asked)).await.expect("found");
    assert_eq!(found.missing, [1, 3]);
    assert_eq!(found.keys.values().to_vec(), [0, 2]);
    assert_eq!(
        server.state.lock().partitions.len(),
        2,
        "reading creates nothing"
    );
    let client = server.client().await;
    let mut prefixes = PrefixLookup::new(client, server.table.clone(), None).expect("a lookup");
    let asked = keys(&[("mon", 1, 0), ("mon", 3, 0), ("tue", 1, 0)]);
    let asked = asked.project(&[1, 2]).expect("a batch");
    let found = prefixes.lookup(&asked).await.expect("found");
    assert_eq!(found.keys.values().to_vec(), [0, 0, 2]);
    assert_eq!(found.missing, [1]);
    let b = found.rows.column(2).as_primitive::<Int32Type>();
    assert_eq!(b.values().to_vec(), [1, 2, 1]);
}

#[tokio::test]
async fn null_keys_and_foreign_columns_are_refused_whole() {
    let server = FakeServer::start(people());
    let mut writer = writer(&server, UpsertOptions::default()).await;
    let id: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let null = RecordBatch::try_from_iter([("id", id)]).expect("a batch");
    let error = writer.delete(&null).await.expect_err("refused");
    assert!(
        error.to_string().contains("'id' is null in row 1"),
        "{error}"
    );
    let error = writer.upsert(&ids([1])).await.expect_err("refused");
    assert!(
        error.to_string().contains("column 'name' is missing"),
        "{error}"
    );
    assert_eq!(writer.close().await.expect("nothing to store"), 0);
    assert!(server.state.lock().puts.is_empty());
}
