//! InitWriter and ProduceLog (behaviour.md §8, wire.md §4.8).

use mainstem_format::{RowFormat, Value};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Answer, BatchBytes, Table, ab, decode_batches, log_table, path};
use mainstem_types::{DataType, LogFormat, Schema, TableDescriptor, TypeKind};
use prost::Message;

use crate::support::{assert_all_right, check_appends, quick, server_with_table};

#[test]
fn writer_ids_are_new_each_time_whatever_tables_are_named() {
    let server = quick().start();
    let mut client = server.client();
    let mut last = -1;
    for tables in [
        vec![],
        vec![path("fluss.missing")],
        vec![path("nowhere.at_all")],
        vec![],
    ] {
        let answer: pb::InitWriterResponse = client.call(
            ApiKey::InitWriter,
            &pb::InitWriterRequest { table_path: tables },
        );
        let id = answer.writer_id.expect("an id");
        assert!(id > last, "{id} after {last}");
        last = id;
    }
}

#[test]
fn records_of_one_entry_are_stored_whole_or_refused_whole() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let rows = table.source();
    let batch = || rows.numbers([1, 2]);
    let two_columns = [vec![Value::Int(1), Value::from("x")]];
    let length = batch().len();
    check_appends(
        &mut client,
        &table,
        &[
            ("a batch of two records", batch(), Ok(2)),
            ("two batches", batch().then(&rows.numbers([3])), Ok(3)),
            ("schema id 0", batch().with_schema_id(0), Err(15)),
            ("schema id 99", batch().with_schema_id(99), Err(15)),
            ("schema id -1", batch().with_schema_id(-1), Err(15)),
            ("a wrong checksum", batch().with_wrong_checksum(), Err(14)),
            ("length field 0", batch().with_length_field(0), Err(14)),
            ("length field -5", batch().with_length_field(-5), Err(14)),
            ("length field 10", batch().with_length_field(10), Err(14)),
            (
                "length field of the largest number",
                batch().with_length_field(i32::MAX),
                Err(14),
            ),
            ("cut by one byte", batch().cut_to(length - 1), Err(14)),
            ("cut to 47 bytes", batch().cut_to(47), Err(14)),
            ("cut to 12 bytes", batch().cut_to(12), Err(14)),
            ("cut to 11 bytes", batch().cut_to(11), Err(14)),
            ("no bytes", batch().cut_to(0), Err(14)),
            (
                "a whole and a cut batch",
                batch().then(&batch().cut_to(length - 1)),
                Ok(2),
            ),
            (
                "a good batch and a damaged one",
                batch().then(&batch().with_wrong_checksum()),
                Err(14),
            ),
            ("magic 3", batch().with_magic(3), Err(14)),
            ("magic 99", batch().with_magic(99), Err(14)),
            (
                "magic 1, with statistics",
                rows.clone().with_statistics(&[0, 1]).numbers([1, 2]),
                Ok(2),
            ),
            (
                "a header without records",
                batch()
                    .with_body(&[])
                    .with_record_count(0)
                    .with_last_offset_delta(0),
                Ok(1),
            ),
            (
                "an undecodable body",
                batch().with_body(&[0xAB; 64]),
                Err(15),
            ),
            ("no body", batch().with_body(&[]), Err(15)),
            (
                "a COMPACTED batch in an ARROW table",
                rows.row_format(RowFormat::Compacted, &two_columns),
                Err(15),
            ),
            (
                "an INDEXED batch in an ARROW table",
                rows.row_format(RowFormat::Indexed, &two_columns),
                Err(15),
            ),
            (
                "the append-only bit clear",
                rows.arrow_changes(&two_columns, &[1]),
                Ok(1),
            ),
            (
                "five records that take two offsets",
                rows.numbers(0..5).with_last_offset_delta(1),
                Ok(2),
            ),
            (
                "last offset delta -3",
                batch().with_last_offset_delta(-3),
                Err(14),
            ),
            ("record count -1", batch().with_record_count(-1), Err(14)),
        ],
    );
}

#[test]
fn null_in_a_not_null_column_is_refused() {
    let server = quick().start();
    let mut client = server.client();
    let nullable = DataType::nullable(TypeKind::Int);
    let strict = DataType {
        nullable: false,
        ..nullable.clone()
    };
    let columns = |data_type: &DataType| Schema::of([("a", data_type.clone())]).expect("a schema");
    let descriptor = TableDescriptor::new(columns(&strict));
    let table = client.create_table("fluss.strict", &descriptor);
    let lax = mainstem_testkit::BatchSource::new(&columns(&nullable));
    check_appends(
        &mut client,
        &table,
        &[
            (
                "no null",
                lax.arrow(&[vec![Value::Int(1)], vec![Value::Int(2)]]),
                Ok(2),
            ),
            (
                "one null of two",
                lax.arrow(&[vec![Value::Int(1)], vec![Value::Null]]),
                Err(15),
            ),
        ],
    );
}

#[test]
fn each_log_format_takes_its_own_batches_only() {
    let server = quick().start();
    let mut client = server.client();
    for (name, format, own, other) in [
        (
            "fluss.indexed",
            LogFormat::Indexed,
            RowFormat::Indexed,
            RowFormat::Compacted,
        ),
        (
            "fluss.compacted",
            LogFormat::Compacted,
            RowFormat::Compacted,
            RowFormat::Indexed,
        ),
    ] {
        let text = if format == LogFormat::Indexed {
            "INDEXED"
        } else {
            "COMPACTED"
        };
        let descriptor = ab(1).with_property("table.log.format", text);
        let table = client.create_table(name, &descriptor);
        let source = table.source();
        let rows = [
            vec![Value::Int(7), Value::Null],
            vec![Value::Null, Value::from("seven")],
        ];
        check_appends(
            &mut client,
            &table,
            &[
                (text, source.row_format(own, &rows), Ok(2)),
                ("an ARROW batch", source.arrow(&rows), Err(15)),
                (
                    "damaged",
                    source.row_format(own, &rows).with_wrong_checksum(),
                    Err(14),
                ),
            ],
        );
        let fetched = client.fetch_one(&table.fetch([(0, 0)])).expect("readable");
        let read = decode_batches(&fetched.records.expect("records"), table.schema(), format);
        assert_eq!(read, [(0, rows[0].clone()), (1, rows[1].clone())], "{text}");
        // The other row format may happen to be readable; it must not break anything.
        let _ = client.append(&table, 0, &source.row_format(other, &rows));
        assert!(
            client
                .append(&table, 0, &source.row_format(own, &rows))
                .is_ok()
        );
    }
}

fn call(
    client: &mut mainstem_testkit::Client,
    request: &pb::ProduceLogRequest,
) -> Vec<(i32, Result<i64, i32>)> {
    let answers = client.produce(request);
    let outcome =
        |answer: &pb::PbProduceLogRespForBucket| match (answer.base_offset, answer.error_code) {
            (Some(offset), None) => Ok(offset),
            (None, Some(code)) => Err(code),
            _ => panic!("neither a success nor a failure: {answer:?}"),
        };
    answers
        .iter()
        .map(|answer| (answer.bucket_id.expect("a bucket"), outcome(answer)))
        .collect()
}

#[test]
fn every_entry_is_answered_for_itself() {
    let (_server, mut client, table) = server_with_table(&quick(), 2);
    let parted = client.create_table(
        "fluss.parted",
        &log_table(&[("a", TypeKind::Int), ("p", TypeKind::String)], 2).partitioned_by(["p"]),
    );
    let partition = client.create_partition(&parted, &[("p", "one")]);
    let unknown = Table {
        id: 99_999,
        ..table.clone()
    };
    let records = table.source().numbers([1]);
    let of = |table: &Table, entries: &[(Option<i64>, i32)]| {
        table.produce(
            entries
                .iter()
                .map(|(partition, bucket)| (*partition, *bucket, &records[..])),
        )
    };
    let with_acks = |table: &Table, acks| pb::ProduceLogRequest {
        acks: Some(acks),
        ..of(table, &[(None, 0)])
    };
    let cases = [
        ("acks 1", with_acks(&table, 1), vec![(0, Ok(0))]),
        (
            "acks 0 is answered too",
            with_acks(&table, 0),
            vec![(0, Ok(1))],
        ),
        ("acks 2", with_acks(&table, 2), vec![(0, Err(18))]),
        ("acks -2", with_acks(&table, -2), vec![(0, Err(18))]),
        (
            "acks 2 for an unknown table",
            with_acks(&unknown, 2),
            vec![(0, Err(18))],
        ),
        (
            "an unknown table",
            of(&unknown, &[(None, 0)]),
            vec![(0, Err(21))],
        ),
        (
            "bucket 7 of 2",
            of(&table, &[(None, 7)]),
            vec![(7, Err(21))],
        ),
        ("bucket -1", of(&table, &[(None, -1)]), vec![(-1, Err(21))]),
        (
            "a partitioned table without a partition",
            of(&parted, &[(None, 0)]),
            vec![(0, Err(21))],
        ),
        (
            "a wrong partition",
            of(&parted, &[(Some(99), 0)]),
            vec![(0, Err(21))],
        ),
        (
            "the partition of a plain table",
            of(&table, &[(Some(partition), 0)]),
            vec![(0, Err(21))],
        ),
        (
            "a good and a bad bucket",
            of(&table, &[(None, 7), (None, 0)]),
            vec![(7, Err(21)), (0, Ok(2))],
        ),
        ("no bucket", of(&table, &[]), vec![]),
    ];
    let mut wrong = Vec::new();
    for (sentence, request, expected) in &cases {
        let mut got = call(&mut client, request);
        got.sort_by_key(|(bucket, _)| expected.iter().position(|(known, _)| known == bucket));
        if got != *expected {
            wrong.push(format!("{sentence}: {got:?} instead of {expected:?}"));
        }
    }
    for (timeout, base) in [(0, 3), (-1, 4), (i32::MIN, 5)] {
        let request = pb::ProduceLogRequest {
            timeout_ms: Some(timeout),
            ..of(&table, &[(None, 0)])
        };
        let got = call(&mut client, &request);
        if got != [(0, Ok(base))] {
            wrong.push(format!("timeout_ms {timeout}: {got:?}"));
        }
    }
    assert_all_right(&wrong);
    // Partition ids come back as they were sent.
    let answers = client.produce(&of(&parted, &[(Some(partition), 1)]));
    assert_eq!(answers[0].partition_id, Some(partition));
    assert_eq!(
        client.append_to(&parted, partition, 1, &records.with_wrong_checksum()),
        Err(14)
    );
}

#[test]
fn of_two_entries_for_one_bucket_the_last_is_stored() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let (first, last) = (
        table.source().numbers([1, 2, 3]),
        table.source().numbers([9]),
    );
    let request = table.produce([(None, 0, &first[..]), (None, 0, &last[..])]);
    assert_eq!(call(&mut client, &request), [(0, Ok(0))]);
    assert_eq!(client.end(&table, 0), 1);
    let fetched = client.fetch_one(&table.fetch([(0, 0)])).expect("readable");
    let rows = decode_batches(
        &fetched.records.expect("records"),
        table.schema(),
        LogFormat::Arrow,
    );
    assert_eq!(rows[0].1[0], Value::Int(9));
}

#[test]
fn versions_that_are_not_offered_are_refused() {
    let (_server, mut client, table) = server_with_table(&quick(), 1);
    let body = table
        .produce([(None, 0, &table.source().numbers([1])[..])])
        .encode_to_vec();
    for version in [9, -1, i16::MAX] {
        let answer = client
            .wire()
            .call(ApiKey::ProduceLog.code(), version, &body);
        assert_eq!(
            answer.error_code(),
            Some(2),
            "version {version}: {answer:?}"
        );
    }
    assert_eq!(client.end(&table, 0), 0);
    let answer = client.wire().call(ApiKey::ProduceLog.code(), 0, &body);
    assert!(matches!(answer, Answer::Success { .. }), "{answer:?}");
}

/// Known failure R04.
#[test]
fn a_primary_key_table_takes_no_log_records_and_has_none_after_a_restart() {
    let mut server = quick().start();
    let mut client = server.client();
    let columns = [
        (
            "k",
            DataType {
                nullable: false,
                ..DataType::nullable(TypeKind::Int)
            },
        ),
        ("v", DataType::nullable(TypeKind::String)),
    ];
    let schema = Schema::builder()
        .columns(columns)
        .primary_key(["k"])
        .build()
        .expect("a schema");
    let table = client.create_table("fluss.kv", &TableDescriptor::new(schema));
    let batch = table
        .source()
        .arrow(&[vec![Value::Int(1), Value::from("x")]]);
    let damaged = BatchBytes(batch.0.clone()).with_body(&[7; 40]);
    for records in [&batch, &damaged] {
        assert_eq!(client.append(&table, 0, records), Err(15));
        assert_eq!(client.end(&table, 0), 0);
    }
    server.restart();
    let mut client = server.client();
    assert_eq!(client.end(&table, 0), 0);
    assert_eq!(client.append(&table, 0, &batch), Err(15));
}

/// Known failure B010.
#[test]
fn a_failure_of_one_bucket_does_not_fail_the_others() {
    let (_server, mut client, table) = server_with_table(&quick(), 3);
    let good = table.source().numbers([1]);
    let damaged = good.clone().with_wrong_checksum();
    let request = table.produce([
        (None, 0, &good[..]),
        (None, 9, &good[..]),
        (None, 1, &damaged[..]),
        (Some(5), 2, &good[..]),
        (None, 2, &good[..]),
    ]);
    let mut got = call(&mut client, &request);
    got.sort_by_key(|(bucket, outcome)| (*bucket, outcome.is_ok()));
    assert_eq!(
        got,
        [
            (0, Ok(0)),
            (1, Err(14)),
            (2, Err(21)),
            (2, Ok(0)),
            (9, Err(21))
        ]
    );
    let mut fetch = table.fetch([(0, 0), (9, 0), (1, 5), (2, 0)]);
    fetch.min_bytes = Some(1);
    fetch.max_wait_ms = Some(10_000);
    let codes: Vec<_> = client
        .fetch(&fetch)
        .iter()
        .map(|entry| entry.error_code)
        .collect();
    assert_eq!(codes, [None, Some(21), Some(19), None]);
}
