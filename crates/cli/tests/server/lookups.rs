//! Lookups, and lookups that insert (behaviour.md §11, wire.md §4.10, 6.7).

use mainstem_format::{KeyEncoder, Value};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Client, Table, Values, ab, keyed_ab, keyed_table, lookup_outcome, path};
use mainstem_types::{DataType, Schema, TableDescriptor, TypeKind};

use crate::support::{brief, changes, quick, server_with};

fn key(table: &Table, number: i32) -> Vec<u8> {
    table.puts().key(&[Value::Int(number)])
}

/// A stored row of `a INT, b STRING`.
fn stored(table: &Table, number: i32) -> Option<bytes::Bytes> {
    let text = format!("row {number}");
    let row = [Value::Int(number), Value::from(text.as_str())];
    Some(table.puts().stored(&row))
}

#[test]
fn every_key_gets_its_row_or_none_in_the_order_of_the_keys() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers(0..500))
        .expect("a put");
    let keys: Vec<Vec<u8>> = [300, 7, 9_999, 7, 0]
        .map(|number| key(&table, number))
        .to_vec();
    let expected = [300, 7, -1, 7, 0].map(|number| stored(&table, number).filter(|_| number >= 0));
    assert_eq!(client.look_up(&table, 0, &keys), Ok(expected.to_vec()));
    let strange = [
        vec![],
        vec![0xFF; 3],
        vec![7; 100_000],
        [key(&table, 7), vec![0]].concat(),
    ];
    assert_eq!(client.look_up(&table, 0, &strange), Ok(vec![None; 4]));
    let none: [Vec<u8>; 0] = [];
    assert_eq!(client.look_up(&table, 0, &none), Ok(vec![]));
    let all: Vec<_> = (0..500).map(|number| key(&table, number)).collect();
    let expected = (0..500).map(|number| stored(&table, number)).collect();
    assert_eq!(client.look_up(&table, 0, &all), Ok(expected));
}

#[test]
fn a_lookup_sees_every_acknowledged_put_and_delete() {
    let (mut server, mut client, table) = server_with(&keyed_ab(2));
    for bucket in [0, 1] {
        let puts = table.puts();
        client
            .put_records(&table, bucket, &puts.numbers([1, 2]))
            .expect("a put");
        let delete = puts.deletes(&[vec![Value::Int(1), Value::Null]]);
        client
            .put_records(&table, bucket, &delete)
            .expect("a delete");
    }
    let keys = [key(&table, 1), key(&table, 2)];
    let expected = Ok(vec![None, stored(&table, 2)]);
    for round in ["as written", "after an orderly stop", "after a crash"] {
        match round {
            "after an orderly stop" => drop(server.restart()),
            "after a crash" => drop(server.crash()),
            _ => {}
        }
        let mut client = server.client();
        for bucket in [0, 1] {
            assert_eq!(client.look_up(&table, bucket, &keys), expected, "{round}");
        }
    }
}

/// Buckets of an answer with what they answer.
fn outcomes(client: &mut Client, request: &pb::LookupRequest) -> Vec<(i32, Values)> {
    let answers = client.try_lookup(request).expect("a success");
    let mut outcomes: Vec<_> = answers
        .into_iter()
        .map(|answer| {
            let bucket = answer.bucket_id.expect("a bucket");
            let keys = answer.values.len();
            (bucket, lookup_outcome(answer, keys))
        })
        .collect();
    outcomes.sort();
    outcomes
}

/// Known failure B010.
#[test]
fn a_bucket_that_is_not_known_does_not_fail_the_others() {
    let (_server, mut client, table) = server_with(&keyed_ab(2));
    client
        .put_records(&table, 1, &table.puts().numbers([1]))
        .expect("a put");
    let keys = [key(&table, 1)];
    let request = table.lookup([(None, 1, &keys[..]), (None, 7, &keys), (Some(3), 0, &keys)]);
    let expected = [(0, Err(21)), (1, Ok(vec![stored(&table, 1)])), (7, Err(21))];
    assert_eq!(outcomes(&mut client, &request), expected);
    let inserting = pb::LookupRequest {
        insert_if_not_exists: Some(true),
        acks: Some(-1),
        timeout_ms: Some(10_000),
        ..request.clone()
    };
    assert_eq!(outcomes(&mut client, &inserting), expected);
    let unknown = pb::LookupRequest {
        table_id: Some(99_999),
        ..request
    };
    let got = outcomes(&mut client, &unknown);
    assert!(
        got.iter().all(|(_, outcome)| *outcome == Err(21)),
        "{got:?}"
    );
    assert_eq!(client.try_lookup(&table.lookup::<Vec<u8>>([])), Ok(vec![]));
}

#[test]
fn of_two_entries_for_one_bucket_the_last_is_answered() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers([1, 2]))
        .expect("a put");
    let (first, last) = ([key(&table, 1), key(&table, 1)], [key(&table, 2)]);
    let request = table.lookup([(None, 0, &first[..]), (None, 0, &last[..])]);
    assert_eq!(client.look_up_one(&request), Ok(vec![stored(&table, 2)]));
}

#[test]
fn a_log_table_has_no_lookups() {
    let (_server, mut client, table) = server_with(&ab(1));
    let keys = [vec![1_u8]];
    let request = table.lookup([(None, 0, &keys[..])]);
    assert_eq!(client.look_up_one(&request), Err(20));
    assert_eq!(client.look_up_one(&inserting(&request)), Err(20));
    assert_eq!(client.end(&table, 0), 0);
}

#[test]
fn versions_0_and_1_are_the_same_for_a_table_without_a_lake() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers([1]))
        .expect("a put");
    let keys = [key(&table, 1)];
    let answer: pb::LookupResponse =
        client.call(ApiKey::Lookup, &table.lookup([(None, 0, &keys[..])]));
    let answer = answer.buckets_resp.into_iter().next().expect("an entry");
    assert_eq!(lookup_outcome(answer, 1), Ok(vec![stored(&table, 1)]));
}

/// wire.md §2.2.
#[test]
fn version_0_is_refused_where_keys_and_bucket_keys_are_encoded_differently() {
    let columns = [
        ("k", TypeKind::Int),
        ("m", TypeKind::Int),
        ("v", TypeKind::Int),
    ];
    for (lake, bucket_keys, code) in [
        (Some("paimon"), ["k"].as_slice(), 2),
        (Some("paimon"), &["k", "m"], 0),
        (None, &["k"], 0),
    ] {
        let options = match lake {
            Some(lake) => quick().with("datalake.format", lake),
            None => quick(),
        };
        let server = options.start();
        let mut client = server.client();
        let descriptor =
            keyed_table(&columns, &["k", "m"], 1).distributed_by(1, bucket_keys.iter().copied());
        let table = client.create_table("fluss.t", &descriptor);
        let row = vec![Value::Int(1), Value::Int(2), Value::Int(3)];
        let records = table.puts().rows(std::slice::from_ref(&row));
        let keys = [table.puts().key(&row)];
        let put = table.put([(None, 0, &records[..])]);
        let lookup = table.lookup([(None, 0, &keys[..])]);
        let answer: pb::PutKvResponse = client.call(ApiKey::PutKv, &put);
        let got = answer.buckets_resp[0].error_code.unwrap_or(0);
        assert_eq!(got, code, "PutKv, {lake:?} {bucket_keys:?}");
        let answer: pb::LookupResponse = client.call(ApiKey::Lookup, &lookup);
        let got = answer.buckets_resp[0].error_code.unwrap_or(0);
        assert_eq!(got, code, "Lookup, {lake:?} {bucket_keys:?}");
        assert!(client.put_one(&put).is_ok(), "{lake:?} {bucket_keys:?}");
        let stored = table.puts().stored(&row);
        assert_eq!(client.look_up_one(&lookup), Ok(vec![Some(stored)]));
    }
}

#[test]
fn a_name_of_an_expired_partition_is_refused_for_a_bucket_that_is_not_historical() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let keys = [key(&table, 1)];
    let mut request = table.lookup([(None, 0, &keys[..])]);
    request.buckets_req[0].original_partition_name = Some("2024".to_owned());
    for request in [inserting(&request), request] {
        let answers = client.try_lookup(&request).expect("a success");
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].error_code, Some(43));
        assert_eq!(answers[0].original_partition_name.as_deref(), Some("2024"));
    }
    let mut request = table.lookup([(None, 0, &keys[..]), (None, 0, &keys)]);
    request.buckets_req[1].original_partition_name = Some("2024".to_owned());
    let refused = client
        .try_lookup(&request)
        .expect_err("one of two is named");
    assert_eq!(refused.code, -1);
    let mut put = table.put([(None, 0, &table.puts().numbers([1])[..])]);
    put.buckets_req[0].original_partition_name = Some("2024".to_owned());
    let answers = client.put(&put);
    assert_eq!(answers[0].error_code, Some(43));
    assert_eq!(answers[0].original_partition_name.as_deref(), Some("2024"));
    assert_eq!(client.end(&table, 0), 0);
}

/// wire.md §6.4.
#[test]
fn a_wrong_bucket_count_is_74() {
    let (_server, mut client, table) = server_with(&keyed_ab(2));
    let keys = [key(&table, 1)];
    for (count, expected) in [(Some(3), Err(74)), (Some(2), Ok(vec![None]))] {
        let mut request = table.lookup([(None, 0, &keys[..])]);
        request.buckets_req[0].routing_bucket_count = count;
        assert_eq!(client.look_up_one(&request), expected);
    }
}

fn inserting(request: &pb::LookupRequest) -> pb::LookupRequest {
    pb::LookupRequest {
        insert_if_not_exists: Some(true),
        acks: Some(-1),
        timeout_ms: Some(10_000),
        ..request.clone()
    }
}

fn look_up_or_insert<K: AsRef<[u8]>>(client: &mut Client, table: &Table, keys: &[K]) -> Values {
    client.look_up_one(&inserting(&table.lookup([(None, 0, keys)])))
}

#[test]
fn a_missing_key_is_inserted_with_nulls_and_an_existing_row_stays() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers([1]))
        .expect("a put");
    let keys = [2, 1, 2, 3].map(|number| key(&table, number));
    let nulls = |number| Some(table.puts().stored(&[Value::Int(number), Value::Null]));
    let expected = Ok(vec![nulls(2), stored(&table, 1), nulls(2), nulls(3)]);
    for acks in [-1, 0, 1] {
        let request = pb::LookupRequest {
            acks: Some(acks),
            ..inserting(&table.lookup([(None, 0, &keys[..])]))
        };
        assert_eq!(client.look_up_one(&request), expected, "acks {acks}");
    }
    assert_eq!(client.look_up(&table, 0, &keys), expected);
    let log = changes(&mut client, &table, 0, 1);
    assert_eq!(brief(&log), [("+I", Value::Null), ("+I", Value::Null)]);
    assert_eq!(
        client.end(&table, 0),
        3,
        "nothing is appended for what is there"
    );
}

#[test]
fn an_insert_needs_acks_and_a_timeout_that_make_sense() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let keys = [key(&table, 1)];
    let request = inserting(&table.lookup([(None, 0, &keys[..])]));
    let mut code = |request: &pb::LookupRequest| {
        let refused = client.try_lookup(request).expect_err("a refusal");
        refused.code
    };
    assert_eq!(
        code(&pb::LookupRequest {
            acks: None,
            ..request.clone()
        }),
        -1
    );
    assert_eq!(
        code(&pb::LookupRequest {
            timeout_ms: None,
            ..request.clone()
        }),
        -1
    );
    assert_eq!(
        code(&pb::LookupRequest {
            acks: Some(7),
            ..request.clone()
        }),
        18
    );
    assert_eq!(
        code(&pb::LookupRequest {
            acks: Some(-2),
            ..request
        }),
        18
    );
    assert_eq!(client.end(&table, 0), 0);
}

/// The reference takes a key with bytes behind it: its row would have another key
/// once it is built from the changelog. Here it is refused.
#[test]
fn a_key_that_cannot_be_decoded_inserts_nothing() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let good = key(&table, 1);
    let trailing = [&good[..], &[0]].concat();
    // The same number in more bytes than it needs.
    let longer = [&[good[0] | 0x80][..], &[0]].concat();
    for bad in [vec![], vec![0xFF], vec![0xFF; 9], trailing, longer] {
        let keys = [good.clone(), bad.clone()];
        assert_eq!(
            look_up_or_insert(&mut client, &table, &keys),
            Err(-1),
            "{bad:?}"
        );
        assert_eq!(client.end(&table, 0), 0, "{bad:?}");
    }
    assert_eq!(client.look_up(&table, 0, &[good]), Ok(vec![None]));
}

#[test]
fn tables_whose_rows_need_more_than_a_key_take_no_such_inserts() {
    let strict = Schema::builder()
        .columns(
            [("a", TypeKind::Int), ("b", TypeKind::Int)].map(|(name, kind)| {
                let data_type = DataType {
                    nullable: false,
                    ..DataType::nullable(kind)
                };
                (name, data_type)
            }),
        )
        .primary_key(["a"])
        .build()
        .expect("a schema");
    for descriptor in [
        TableDescriptor::new(strict),
        keyed_ab(1).with_property("table.merge-engine", "first_row"),
    ] {
        let (_server, mut client, table) = server_with(&descriptor);
        let keys = [key(&table, 1)];
        assert_eq!(look_up_or_insert(&mut client, &table, &keys), Err(35));
        assert_eq!(client.end(&table, 0), 0);
    }
}

#[test]
fn an_insert_fills_numbered_columns_once_per_key() {
    let columns = [("word", TypeKind::String), ("id", TypeKind::Int)];
    let mut schema = keyed_table(&columns, &["word"], 1).schema;
    schema.auto_increment = vec!["id".to_owned()];
    let descriptor = TableDescriptor::new(schema).distributed_by(1, Vec::<String>::new());
    let (server, mut client, table) = server_with(&descriptor);
    let word = |text: &str| table.puts().key(&[Value::from(text)]);
    let id = |value: &Option<bytes::Bytes>| {
        let row = table.puts().decode(value.as_ref().expect("a row"));
        match &row[1] {
            Value::Int(id) => *id,
            other => panic!("{other:?}"),
        }
    };
    let keys = [word("x"), word("y"), word("x")];
    let values = look_up_or_insert(&mut client, &table, &keys).expect("rows");
    assert_eq!(values.iter().map(id).collect::<Vec<_>>(), [1, 2, 1]);
    // Several clients at once get one number for a word.
    let words: Vec<String> = (0..40).map(|number| format!("w{number}")).collect();
    let ask = || {
        let mut client = server.client();
        let keys: Vec<_> = words.iter().map(|text| word(text)).collect();
        keys.chunks(7)
            .flat_map(|keys| look_up_or_insert(&mut client, &table, keys).expect("rows"))
            .map(|value| id(&value))
            .collect::<Vec<i32>>()
    };
    let all: Vec<Vec<i32>> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        asking
            .into_iter()
            .map(|asked| asked.join().expect("rows"))
            .collect()
    });
    assert!(all.iter().all(|ids| *ids == all[0]), "{all:?}");
    let mut ids = all[0].clone();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), ids[0] > 2), (40, true), "{ids:?}");
}

#[test]
fn an_insert_into_a_partition_has_its_values() {
    let columns = [
        ("p", TypeKind::String),
        ("k", TypeKind::Int),
        ("v", TypeKind::Int),
    ];
    for key_order in [["p", "k"], ["k", "p"]] {
        let parted = keyed_table(&columns, &key_order, 1).partitioned_by(["p"]);
        let (mut server, mut client, table) = server_with(&parted);
        let partition = client.create_partition(&table, &[("p", "x")]);
        let encoder = KeyEncoder::primary_key(&table.descriptor).expect("a key");
        let mut key = Vec::new();
        encoder.encode(&[Value::Int(7)], &mut key).expect("a key");
        let keys = [key];
        let request = table.lookup([(Some(partition), 0, &keys[..])]);
        let row = [Value::from("x"), Value::Int(7), Value::Null];
        let expected = Ok(vec![Some(table.puts().stored(&row))]);
        assert_eq!(
            client.look_up_one(&inserting(&request)),
            expected,
            "{key_order:?}"
        );
        assert_eq!(client.look_up_one(&request), expected, "{key_order:?}");
        // The row is found by its key also if it is built anew from the changelog.
        server.crash();
        assert_eq!(
            server.client().look_up_one(&request),
            expected,
            "{key_order:?}"
        );
    }
}

#[test]
fn lookups_of_a_dropped_table_are_refused_and_a_new_one_of_its_name_is_empty() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    client
        .put_records(&table, 0, &table.puts().numbers([1]))
        .expect("a put");
    let keys = [key(&table, 1)];
    client.drop_table("fluss.t");
    assert_eq!(client.look_up(&table, 0, &keys), Err(21));
    assert_eq!(
        client.put_records(&table, 0, &table.puts().numbers([1])),
        Err(21)
    );
    let table = client.create_table("fluss.t", &keyed_ab(1));
    assert_eq!(client.look_up(&table, 0, &keys), Ok(vec![None]));
    assert_eq!(table.path(), path("fluss.t"));
}
