//! Partitioned log tables (tables.md §5; known failures B011, B036, B107, R08).

use std::time::{Duration, Instant};

use chrono::{Datelike, Utc};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, Server, Table, log_table, offsets, path, spec, until};
use mainstem_types::{TableDescriptor, TypeKind};

use crate::support::{durable, quick};

fn parted() -> TableDescriptor {
    log_table(&[("a", TypeKind::Int), ("b", TypeKind::String)], 2).partitioned_by(["b"])
}

fn names(client: &mut Client, table: &Table) -> Vec<String> {
    let mut names: Vec<String> = client
        .partitions(table)
        .into_iter()
        .map(|(_, values)| values.join("$"))
        .collect();
    names.sort();
    names
}

fn fetched(client: &mut Client) -> Vec<(Option<i64>, Option<i32>, usize)> {
    let answer: pb::FetchLogResponse = client.receive().expect("a success");
    answer
        .tables_resp
        .into_iter()
        .flat_map(|table| table.buckets_resp)
        .map(|entry| {
            let batches = entry.records.map_or(0, |records| offsets(&records).len());
            (entry.partition_id, entry.error_code, batches)
        })
        .collect()
}

fn long_poll(table: &Table, buckets: &[(i64, i32, i64)]) -> pb::FetchLogRequest {
    let mut request = table.fetch_of(
        buckets
            .iter()
            .map(|(partition, bucket, offset)| (Some(*partition), *bucket, *offset)),
    );
    request.min_bytes = Some(1);
    request.max_wait_ms = Some(60_000);
    request
}

/// What a client does that finds a partition missing (wire.md §6.2).
#[test]
fn a_client_creates_the_partition_that_it_misses_and_writes_at_once() {
    let server = quick().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &parted());
    let wanted = pb::MetadataRequest {
        partitions_path: vec![pb::PbPhysicalTablePath {
            database_name: Some("fluss".to_owned()),
            table_name: Some("t".to_owned()),
            partition_name: Some("new".to_owned()),
        }],
        ..pb::MetadataRequest::default()
    };
    let create = pb::CreatePartitionRequest {
        table_path: Some(table.path()),
        partition_spec: Some(spec(&[("b", "new")])),
        ignore_if_not_exists: Some(true),
    };
    assert_eq!(client.code(ApiKey::GetMetadata, &wanted), 36);
    // Two writers at the same time.
    let mut other = server.client();
    client.send(ApiKey::CreatePartition, &create);
    other.send(ApiKey::CreatePartition, &create);
    for client in [&mut client, &mut other] {
        let created: Result<pb::CreatePartitionResponse, _> = client.receive();
        assert!(created.is_ok(), "{created:?}");
        let found: pb::MetadataResponse = client.call(ApiKey::GetMetadata, &wanted);
        let [partition] = &found.partition_metadata[..] else {
            panic!("{found:?}")
        };
        assert_eq!(partition.bucket_metadata.len(), 2);
        assert!(
            partition
                .bucket_metadata
                .iter()
                .all(|bucket| bucket.leader_id.is_some())
        );
        let id = partition.partition_id.expect("an id");
        client
            .append_to(&table, id, 1, &table.source().numbers([1]))
            .expect("appended");
    }
}

/// Known failure B107.
#[test]
fn a_new_partition_serves_from_the_moment_it_is_created() {
    let server = quick().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &parted());
    for number in 0..40 {
        let id = client.create_partition(&table, &[("b", &format!("p{number}"))]);
        assert_eq!(client.offset(&table, Some(id), 1, 1, None), Ok(0));
        assert_eq!(
            client.append_to(&table, id, 1, &table.source().numbers([number])),
            Ok(0)
        );
    }
}

/// Known failure B011.
#[test]
fn dropping_a_partition_ends_only_its_own_reading() {
    let server = quick().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &parted());
    let ids: Vec<i64> = ["p1", "p2", "p3"]
        .iter()
        .map(|name| client.create_partition(&table, &[("b", name)]))
        .collect();
    for id in &ids {
        client
            .append_to(&table, *id, 0, &table.source().numbers([1]))
            .expect("appended");
    }
    let mut reader = server.client();
    // All are at their end; dropping one ends the wait, and tells about that one.
    let all: Vec<_> = ids.iter().map(|id| (*id, 0, 1)).collect();
    reader.send(ApiKey::FetchLog, &long_poll(&table, &all));
    assert_eq!(
        reader.wire().receive_within(Duration::from_millis(30)),
        None
    );
    client.drop_partition(&table, &[("b", "p2")]);
    client
        .append_to(&table, ids[0], 0, &table.source().numbers([2]))
        .expect("appended");
    let mut next = [1, 1, 1];
    let mut codes = [None; 3];
    while next != [2, 1, 1] || codes != [None, Some(21), None] {
        for (partition, code, batches) in fetched(&mut reader) {
            let at = ids
                .iter()
                .position(|id| Some(*id) == partition)
                .expect("a partition");
            codes[at] = code;
            next[at] += batches as i64;
        }
        if next != [2, 1, 1] || codes != [None, Some(21), None] {
            let again: Vec<_> = ids
                .iter()
                .zip(next)
                .map(|(id, next)| (*id, 0, next))
                .collect();
            reader.send(ApiKey::FetchLog, &long_poll(&table, &again));
        }
    }
    // The others go on; a reader that starts with the dropped one in its list too.
    for (round, at) in [(2, 2), (3, 0)] {
        client
            .append_to(&table, ids[at], 0, &table.source().numbers([round]))
            .expect("appended");
    }
    let mut late = server.client();
    let request = table.fetch_of(ids.iter().map(|id| (Some(*id), 0, 0)));
    let entries = late.fetch(&request);
    let got: Vec<_> = entries
        .iter()
        .map(|entry| {
            (
                entry.error_code,
                entry.records.as_ref().map(|records| offsets(records).len()),
            )
        })
        .collect();
    assert_eq!(got, [(None, Some(3)), (Some(21), None), (None, Some(2))]);
    assert_eq!(
        client.append_to(&table, ids[1], 0, &table.source().numbers([1])),
        Err(21)
    );
    assert_eq!(client.offset(&table, Some(ids[1]), 0, 1, None), Err(21));
    // The name is free for another partition, which is empty.
    let again = client.create_partition(&table, &[("b", "p2")]);
    assert!(!ids.contains(&again));
    assert_eq!(client.offset(&table, Some(again), 0, 1, None), Ok(0));
}

/// Known failure B011: the id of a dropped partition is told apart quickly.
#[test]
fn a_dead_partition_id_in_metadata_is_36_and_the_others_are_found_without_it() {
    let server = quick().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &parted());
    let ids: Vec<i64> = ["p1", "p2"]
        .iter()
        .map(|name| client.create_partition(&table, &[("b", name)]))
        .collect();
    client.drop_partition(&table, &[("b", "p1")]);
    let ask = |ids: &[i64]| pb::MetadataRequest {
        partitions_id: ids.to_vec(),
        ..pb::MetadataRequest::default()
    };
    for _ in 0..3 {
        assert_eq!(client.code(ApiKey::GetMetadata, &ask(&ids)), 36);
        let found: pb::MetadataResponse = client.call(ApiKey::GetMetadata, &ask(&ids[1..]));
        assert_eq!(found.partition_metadata.len(), 1);
    }
}

/// Known failure R08.
#[test]
fn partitions_with_long_names_are_led_and_keep_their_rows() {
    let mut server = durable().start();
    let mut client = server.client();
    let columns = [
        ("a", TypeKind::Int),
        ("x", TypeKind::String),
        ("y", TypeKind::String),
    ];
    let table = client.create_table(
        "fluss.t",
        &log_table(&columns, 1).partitioned_by(["x", "y"]),
    );
    let (x, y) = ("x".repeat(200), "y".repeat(200));
    let id = client.create_partition(&table, &[("x", &x), ("y", &y)]);
    let rows = table.source().arrow(&[vec![
        mainstem_format::Value::Int(1),
        x.as_str().into(),
        y.as_str().into(),
    ]]);
    assert_eq!(client.append_to(&table, id, 0, &rows), Ok(0));
    server.crash();
    let mut client = server.client();
    assert_eq!(client.offset(&table, Some(id), 0, 1, None), Ok(1));
    assert_eq!(names(&mut client, &table), [format!("{x}${y}")]);
}

fn auto(unit: &str, format: Option<&str>) -> TableDescriptor {
    let descriptor = parted()
        .with_property("table.auto-partition.enabled", "true")
        .with_property("table.auto-partition.time-unit", unit)
        .with_property("table.auto-partition.time-zone", "UTC")
        .with_property("table.auto-partition.num-precreate", "3")
        .with_property("table.auto-partition.num-retention", "2");
    match format {
        Some(format) => descriptor.with_property("table.auto-partition.time-format", format),
        None => descriptor,
    }
}

/// The years from this one on, which must not change while it is looked at.
fn years(count: i32, ask: impl Fn() -> Vec<String>) -> (Vec<String>, Vec<String>) {
    let year = Utc::now().year();
    let got = ask();
    let expected = if Utc::now().year() == year {
        year
    } else {
        Utc::now().year()
    };
    (
        got,
        (expected..expected + count)
            .map(|year| year.to_string())
            .collect(),
    )
}

#[test]
fn an_auto_partitioned_table_has_its_partitions_from_the_start_and_they_can_be_written() {
    let server = quick().start();
    let mut client = server.client();
    let mut tables = Vec::new();
    for (unit, format, years_shown) in [
        ("YEAR", None, true),
        ("MONTH", None, false),
        ("HOUR", None, false),
        ("YEAR", Some("yyyy'-Y'"), false),
    ] {
        let name = format!("fluss.t{}", tables.len());
        let table = client.create_table(&name, &auto(unit, format));
        let found = until("the partitions to be created", || {
            let found = client.partitions(&table);
            (found.len() == 3).then_some(found)
        });
        if years_shown {
            let (got, expected) = years(3, || {
                found.iter().map(|(_, values)| values.join("")).collect()
            });
            let mut got = got;
            got.sort();
            assert_eq!(got, expected);
        }
        for (id, _) in found {
            assert_eq!(
                client.append_to(&table, id, 1, &table.source().numbers([1])),
                Ok(0),
                "{unit}"
            );
        }
        tables.push(table);
    }
    assert_eq!(tables.len(), 4);
}

#[test]
fn only_partitions_that_are_kept_can_be_created_by_hand() {
    let server = quick().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &auto("YEAR", None));
    let year = Utc::now().year();
    let create = |name: &str| pb::CreatePartitionRequest {
        table_path: Some(table.path()),
        partition_spec: Some(spec(&[("b", name)])),
        ignore_if_not_exists: Some(false),
    };
    for (name, expected) in [
        ((year - 2).to_string(), 0),
        ((year - 4).to_string(), 43),
        ((year + 10).to_string(), 0),
        ("abcd".to_owned(), 43),
        (format!("{year}01"), 43),
        ("0000".to_owned(), 43),
    ] {
        assert_eq!(
            client.code(ApiKey::CreatePartition, &create(&name)),
            expected,
            "{name}"
        );
    }
}

fn set(client: &mut Client, table: &Table, key: &str, value: &str) {
    let request = pb::AlterTableRequest {
        table_path: Some(path(&table.name)),
        ignore_if_not_exists: Some(false),
        config_changes: vec![pb::PbAlterConfig {
            config_key: Some(key.to_owned()),
            config_value: Some(value.to_owned()),
            op_type: Some(0),
        }],
        ..pb::AlterTableRequest::default()
    };
    let _: pb::AlterTableResponse = client.call(ApiKey::AlterTable, &request);
}

#[test]
fn switching_auto_partitioning_on_creates_and_drops_at_once() {
    let server = quick().start();
    let mut client = server.client();
    let descriptor = auto("YEAR", None).with_property("table.auto-partition.enabled", "false");
    let table = client.create_table("fluss.t", &descriptor);
    let old = client.create_partition(&table, &[("b", "1999")]);
    client
        .append_to(&table, old, 0, &table.source().numbers([1]))
        .expect("appended");
    let dir = server.bucket_dir(table.id, Some(old), 0);
    assert!(dir.exists());
    let mut reader = server.client();
    reader.send(ApiKey::FetchLog, &long_poll(&table, &[(old, 0, 1)]));
    set(&mut client, &table, "table.auto-partition.enabled", "true");
    let begin = Instant::now();
    until("the partitions to follow the clock", || {
        let (got, expected) = years(3, || names(&mut server.client(), &table));
        (got == expected).then_some(())
    });
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(fetched(&mut reader), [(Some(old), Some(21), 0)]);
    until("the files of the old partition to go", || {
        (!dir.exists()).then_some(())
    });
}

/// A round of the clock drops what is past while it is written and read.
#[test]
fn a_partition_that_expires_while_it_is_read_hinders_nobody() {
    let server: Server = quick().with("auto-partition.check.interval", "1s").start();
    let mut client = server.client();
    let table = client.create_table(
        "fluss.t",
        &auto("YEAR", None).with_property("table.auto-partition.num-retention", "5"),
    );
    let old = (Utc::now().year() - 4).to_string();
    let old_id = client.create_partition(&table, &[("b", &old)]);
    let live = until("a partition of today", || {
        client
            .partitions(&table)
            .into_iter()
            .find(|(id, _)| *id != old_id)
            .map(|(id, _)| id)
    });
    for id in [old_id, live] {
        client
            .append_to(&table, id, 0, &table.source().numbers([1]))
            .expect("appended");
    }
    set(
        &mut client,
        &table,
        "table.auto-partition.num-retention",
        "1",
    );
    let mut reader = server.client();
    let mut rounds = 0;
    until("the old partition to go", || {
        rounds += 1;
        let appended = client.append_to(&table, live, 0, &table.source().numbers([rounds]));
        assert!(appended.is_ok(), "{appended:?}");
        let entries =
            reader.fetch(&table.fetch_of([(Some(old_id), 0, 0), (Some(live), 0, rounds.into())]));
        assert_eq!(entries[1].error_code, None);
        (entries[0].error_code == Some(21)).then_some(())
    });
}
