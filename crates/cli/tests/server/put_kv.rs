//! PutKv: records and requests (behaviour.md §10, wire.md §4.8, 6.6).

use mainstem_format::Value;
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Answer, Client, PutBytes, Table, ab, keyed_ab, keyed_table, put_outcome};
use mainstem_types::TypeKind;
use prost::Message;

use crate::support::{Outcome, assert_all_right, server_with};

/// Puts each case into bucket 0: so many offsets are taken, or the code, and
/// nothing is stored: neither in the log nor in the table.
fn check_puts(client: &mut Client, table: &Table, cases: &[(&str, PutBytes, Outcome)]) {
    let mut wrong = Vec::new();
    for (sentence, records, expected) in cases {
        let before = client.end(table, 0);
        let rows = client.scan_all(table, 0).0;
        let got = client.put_records(table, 0, records);
        let end = client.end(table, 0);
        let right = match expected {
            Ok(offsets) => got == Ok(before + offsets) && end == before + offsets,
            Err(code) => got == Err(*code) && end == before && client.scan_all(table, 0).0 == rows,
        };
        if !right {
            wrong.push(format!(
                "{sentence}: {expected:?} was expected; at {before} it was {got:?}, then the end was {end}"
            ));
        }
    }
    assert_all_right(&wrong);
    let good = table.puts().numbers([77_777]);
    let end = client.end(table, 0);
    assert_eq!(client.put_records(table, 0, &good), Ok(end + 1));
}

#[test]
fn records_of_one_entry_change_the_table_or_are_refused_whole() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let puts = table.puts();
    let batch = || puts.numbers([1, 2]);
    let row = |number| vec![Value::Int(number), Value::Null];
    let length = batch().len();
    check_puts(
        &mut client,
        &table,
        &[
            ("new rows", batch(), Ok(2)),
            ("the same rows again", batch(), Ok(4)),
            ("a delete of a missing key", puts.deletes(&[row(9)]), Ok(1)),
            ("a delete", puts.deletes(&[row(2)]), Ok(1)),
            ("no records", puts.records([]), Ok(1)),
            ("schema id 0", batch().with_schema_id(0), Err(9)),
            ("schema id -1", batch().with_schema_id(-1), Err(9)),
            (
                "a schema id that is to come",
                batch().with_schema_id(2),
                Err(9),
            ),
            ("a wrong checksum", batch().with_wrong_checksum(), Err(14)),
            ("magic 5", batch().with_magic(5), Err(14)),
            ("length field 0", batch().with_length_field(0), Err(14)),
            ("length field -1", batch().with_length_field(-1), Err(14)),
            (
                "length field of the largest number",
                batch().with_length_field(i32::MAX),
                Err(14),
            ),
            ("cut by one byte", batch().cut_to(length - 1), Err(14)),
            ("cut to 20 bytes", batch().cut_to(20), Err(14)),
            ("cut to 3 bytes", batch().cut_to(3), Err(14)),
            ("no bytes", batch().cut_to(0), Err(14)),
            (
                "a log batch",
                PutBytes(table.source().numbers([1]).0),
                Err(14),
            ),
            ("two batches", batch().then(&puts.numbers([3])), Err(14)),
            (
                "record count 3 with two records",
                batch().with_record_count(3),
                Err(14),
            ),
            ("record count -1", batch().with_record_count(-1), Err(14)),
            (
                "record count 1 with two records",
                batch().with_record_count(1),
                Err(14),
            ),
            (
                "record count of the largest number",
                batch().with_record_count(i32::MAX),
                Err(14),
            ),
        ],
    );
}

#[test]
fn a_damaged_record_refuses_its_batch() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let puts = table.puts();
    let one = || puts.numbers([1]);
    let row = puts.row(&[Value::Int(1), Value::from("row 1")]);
    let key = puts.key(&[Value::Int(1)]);
    let with_row = |row: &[u8]| puts.records([(&key[..], Some(row))]);
    let mut longer = row.clone();
    // Length of the string, behind the null bits and the number.
    let at = longer.len() - "row 1".len() - 1;
    longer[at] = 100;
    let mut body = 3_i32.to_le_bytes().to_vec();
    body.extend([9, 1, 2]);
    check_puts(
        &mut client,
        &table,
        &[
            ("record length 0", one().with_body(&[0, 0, 0, 0]), Err(14)),
            (
                "record length -4",
                one().with_body(&(-4_i32).to_le_bytes()),
                Err(14),
            ),
            (
                "record length of the largest number",
                one().with_body(&i32::MAX.to_le_bytes()),
                Err(14),
            ),
            (
                "a key longer than its record",
                one().with_body(&body),
                Err(14),
            ),
            ("a row of one byte", with_row(&row[..1]), Err(14)),
            (
                "a wrong length inside of the row",
                with_row(&longer),
                Err(14),
            ),
            (
                "a good record and a damaged row",
                puts.records([
                    (&b"\x05"[..], Some(&row[..])),
                    (&key[..], Some(&longer[..])),
                ]),
                Err(14),
            ),
            (
                "a good record and a row of a wrong length, in the other order",
                puts.records([
                    (&key[..], Some(&longer[..])),
                    (&b"\x05"[..], Some(&row[..])),
                ]),
                Err(14),
            ),
        ],
    );
}

#[test]
fn null_in_a_not_null_column_is_refused() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let puts = table.puts();
    let no_key = puts.row(&[Value::Null, Value::from("x")]);
    let key = puts.key(&[Value::Int(1)]);
    check_puts(
        &mut client,
        &table,
        &[(
            "null in the key column",
            puts.records([(&key[..], Some(&no_key[..]))]),
            Err(14),
        )],
    );
}

/// Known failure R06.
#[test]
fn rows_of_the_indexed_format_are_stored() {
    let indexed = keyed_ab(1)
        .with_property("table.kv.format", "INDEXED")
        .with_property("table.log.format", "INDEXED");
    let (_server, mut client, table) = server_with(&indexed);
    assert_eq!(
        client.put_records(&table, 0, &table.puts().numbers([1, 2])),
        Ok(2)
    );
    let row = client.row(&table, &[Value::Int(2)]);
    assert_eq!(row, Some(vec![Value::Int(2), Value::from("row 2")]));
}

/// Keys are the client's: what they hold is not looked at.
#[test]
fn keys_that_are_empty_or_of_another_row_are_stored() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let puts = table.puts();
    let row = puts.row(&[Value::Int(1), Value::from("x")]);
    let keys: [&[u8]; 3] = [b"", b"no key of this row", b"\x07"];
    let records = puts.records(keys.map(|key| (key, Some(&row[..]))));
    assert_eq!(client.put_records(&table, 0, &records), Ok(3));
    let stored = puts.stored(&[Value::Int(1), Value::from("x")]);
    let values = client.look_up(&table, 0, &keys);
    assert_eq!(values, Ok(vec![Some(stored); 3]));
}

/// Buckets of an answer with what became of their puts, in the order of buckets.
fn outcomes(client: &mut Client, request: &pb::PutKvRequest) -> Vec<(i32, Outcome)> {
    let mut outcomes: Vec<_> = client
        .put(request)
        .iter()
        .map(|entry| (entry.bucket_id.expect("a bucket"), put_outcome(entry)))
        .collect();
    outcomes.sort();
    outcomes
}

/// Known failure B010.
#[test]
fn a_failure_of_one_bucket_does_not_fail_the_others() {
    let (_server, mut client, table) = server_with(&keyed_ab(3));
    let good = table.puts().numbers([1]);
    let damaged = good.clone().with_wrong_checksum();
    let request = table.put([
        (None, 0, &good[..]),
        (None, 9, &good[..]),
        (None, -1, &good[..]),
        (None, 1, &damaged[..]),
        (None, 2, &good[..]),
    ]);
    let got = outcomes(&mut client, &request);
    assert_eq!(
        got,
        [
            (-1, Err(21)),
            (0, Ok(1)),
            (1, Err(14)),
            (2, Ok(1)),
            (9, Err(21))
        ]
    );
    let unknown = pb::PutKvRequest {
        table_id: Some(99_999),
        ..request
    };
    let got = outcomes(&mut client, &unknown);
    assert!(
        got.iter().all(|(_, outcome)| *outcome == Err(21)),
        "{got:?}"
    );
    assert_eq!(client.put(&table.put([])), []);
}

#[test]
fn acks_and_timeouts_are_those_of_the_log() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let put = |acks, timeout_ms| pb::PutKvRequest {
        acks: Some(acks),
        timeout_ms: Some(timeout_ms),
        ..table.put([(None, 0, &table.puts().numbers([1])[..])])
    };
    for (acks, timeout_ms) in [(-1, 0), (-1, -5), (0, 10_000), (1, 10_000), (-1, i32::MAX)] {
        let end = client.end(&table, 0);
        let got = client.put_one(&put(acks, timeout_ms));
        assert!(got > Ok(end), "acks {acks}, timeout {timeout_ms}: {got:?}");
    }
    let end = client.end(&table, 0);
    for acks in [5, 2, -2] {
        assert_eq!(client.put_one(&put(acks, 10_000)), Err(18), "acks {acks}");
        let unknown = pb::PutKvRequest {
            table_id: Some(99_999),
            ..put(acks, 10_000)
        };
        assert_eq!(client.put_one(&unknown), Err(18), "acks {acks}");
    }
    assert_eq!(client.end(&table, 0), end);
}

#[test]
fn a_put_without_acknowledgement_is_visible_soon() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let put = pb::PutKvRequest {
        acks: Some(0),
        ..table.put([(None, 0, &table.puts().numbers([1])[..])])
    };
    assert_eq!(client.put_one(&put), Ok(1));
    mainstem_testkit::until("the row", || client.row(&table, &[Value::Int(1)]));
}

#[test]
fn of_two_entries_for_one_bucket_the_last_is_stored() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let (first, last) = (table.puts().numbers([1, 2, 3]), table.puts().numbers([9]));
    let request = table.put([(None, 0, &first[..]), (None, 0, &last[..])]);
    assert_eq!(client.put_one(&request), Ok(1));
    assert_eq!(client.row(&table, &[Value::Int(1)]), None);
    assert!(client.row(&table, &[Value::Int(9)]).is_some());
}

#[test]
fn a_log_table_takes_no_puts() {
    let (_server, mut client, table) = server_with(&ab(1));
    let keyed = client.create_table("fluss.keyed", &keyed_ab(1));
    let records = keyed.puts().numbers([1]);
    for target_columns in [vec![], vec![0, 1], vec![1]] {
        let request = pb::PutKvRequest {
            target_columns,
            ..table.put([(None, 0, &records[..])])
        };
        assert_eq!(client.put_one(&request), Err(20));
    }
    assert_eq!(client.end(&table, 0), 0);
}

#[test]
fn buckets_of_a_partitioned_table_need_their_partition() {
    let columns = [
        ("k", TypeKind::Int),
        ("p", TypeKind::String),
        ("v", TypeKind::Int),
    ];
    let parted = keyed_table(&columns, &["k", "p"], 2).partitioned_by(["p"]);
    let (_server, mut client, table) = server_with(&parted);
    let partition = client.create_partition(&table, &[("p", "x")]);
    let plain = client.create_table("fluss.plain", &keyed_ab(1));
    let row = vec![Value::Int(1), Value::from("x"), Value::Int(5)];
    let records = table.puts().rows(std::slice::from_ref(&row));
    let mut put =
        |table: &Table, partition| client.put_one(&table.put([(partition, 0, &records[..])]));
    assert_eq!(put(&table, None), Err(21));
    assert_eq!(put(&table, Some(partition + 7)), Err(21));
    assert_eq!(put(&plain, Some(partition)), Err(21));
    assert_eq!(put(&table, Some(partition)), Ok(1));
    let key = [table.puts().key(&row)];
    let values = client.look_up_one(&table.lookup([(Some(partition), 0, &key[..])]));
    assert_eq!(values, Ok(vec![Some(table.puts().stored(&row))]));
    let values = client.look_up_one(&table.lookup([(Some(partition), 1, &key[..])]));
    assert_eq!(values, Ok(vec![None]));
}

/// wire.md §6.4.
#[test]
fn a_wrong_bucket_count_is_74() {
    let (_server, mut client, table) = server_with(&keyed_ab(2));
    let records = table.puts().numbers([1]);
    let mut put = |count| {
        let mut request = table.put([(None, 0, &records[..])]);
        request.buckets_req[0].routing_bucket_count = count;
        client.put_one(&request)
    };
    assert_eq!(put(Some(3)), Err(74));
    assert_eq!(put(Some(2)), Ok(1));
    assert_eq!(put(None), Ok(3));
}

#[test]
fn versions_that_are_not_offered_are_refused() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let body = table
        .put([(None, 0, &table.puts().numbers([1])[..])])
        .encode_to_vec();
    for version in [9, -1, i16::MAX] {
        let answer = client.wire().call(ApiKey::PutKv.code(), version, &body);
        assert_eq!(
            answer.error_code(),
            Some(2),
            "version {version}: {answer:?}"
        );
    }
    assert_eq!(client.end(&table, 0), 0);
    for version in [0, 1, 2] {
        let answer = client.wire().call(ApiKey::PutKv.code(), version, &body);
        assert!(matches!(answer, Answer::Success { .. }), "{answer:?}");
    }
}

/// Known failures B024, B026 and B054.
#[test]
fn writers_of_rows_are_known_by_their_sequences() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let writer = client.init_writer();
    let put = |sequence, number| {
        let source = table.puts().with_writer(writer, sequence);
        source.rows(&[vec![
            Value::Int(1),
            Value::from(format!("v{number}").as_str()).into_owned(),
        ]])
    };
    assert_eq!(
        client.put_records(&table, 0, &put(3, 0)),
        Err(31),
        "first sequence 3"
    );
    assert_eq!(client.put_records(&table, 0, &put(0, 0)), Ok(1));
    assert_eq!(client.put_records(&table, 0, &put(1, 1)), Ok(3));
    assert_eq!(client.put_records(&table, 0, &put(4, 4)), Err(31), "a gap");
    // With another row as well.
    assert_eq!(client.put_records(&table, 0, &put(1, 9)), Ok(3), "a repeat");
    assert_eq!(
        client.put_records(&table, 0, &put(0, 9)),
        Ok(1),
        "the repeat before"
    );
    assert_eq!(client.end(&table, 0), 3);
    let row = client.row(&table, &[Value::Int(1)]);
    assert_eq!(row, Some(vec![Value::Int(1), Value::from("v1")]));
    assert_eq!(client.put_records(&table, 0, &put(2, 2)), Ok(5));
    // A batch that changes nothing has a sequence as well.
    let nothing = table.puts().with_writer(writer, 3);
    let nothing = nothing.deletes(&[vec![Value::Int(5), Value::Null]]);
    assert_eq!(client.put_records(&table, 0, &nothing), Ok(6));
    assert_eq!(client.put_records(&table, 0, &nothing), Ok(6));
    assert_eq!(client.put_records(&table, 0, &put(4, 4)), Ok(8));
}
