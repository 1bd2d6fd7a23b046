//! Prefix lookups (behaviour.md §11, wire.md §4.10).

use bytes::Bytes;
use mainstem_format::{KeyEncoder, Value};
use mainstem_protocol::ApiKey;
use mainstem_protocol::messages as pb;
use mainstem_testkit::{Answer, Client, Table, ab, keyed_ab, keyed_table};
use mainstem_types::TypeKind;
use prost::Message;

use crate::support::{quick, server_with};

/// A list of values per prefix, or the code.
type Lists = Result<Vec<Vec<Bytes>>, i32>;

fn request(table: &Table, entries: &[(i32, &[&[u8]])]) -> pb::PrefixLookupRequest {
    let entry = |(bucket, keys): &(i32, &[&[u8]])| pb::PbPrefixLookupReqForBucket {
        bucket_id: Some(*bucket),
        keys: keys.iter().map(|key| Bytes::copy_from_slice(key)).collect(),
        ..pb::PbPrefixLookupReqForBucket::default()
    };
    pb::PrefixLookupRequest {
        table_id: Some(table.id),
        buckets_req: entries.iter().map(entry).collect(),
    }
}

fn call(client: &mut Client, request: &pb::PrefixLookupRequest) -> Vec<(i32, Lists)> {
    let body = request.encode_to_vec();
    let answer = client.wire().call(ApiKey::PrefixLookup.code(), 1, &body);
    let Answer::Success { body, .. } = answer else {
        panic!("{answer:?}")
    };
    let answer: pb::PrefixLookupResponse = mainstem_protocol::decode(body).expect("an answer");
    let outcome = |entry: pb::PbPrefixLookupRespForBucket| {
        let lists = entry.value_lists.into_iter().map(|list| list.values);
        match entry.error_code {
            None => Ok(lists.collect()),
            Some(code) => Err(code),
        }
    };
    let mut outcomes: Vec<_> = answer
        .buckets_resp
        .into_iter()
        .map(|entry| (entry.bucket_id.expect("a bucket"), outcome(entry)))
        .collect();
    outcomes.sort();
    outcomes
}

fn prefixed(client: &mut Client, table: &Table, prefixes: &[&[u8]]) -> Lists {
    let mut outcomes = call(client, &request(table, &[(0, prefixes)]));
    assert_eq!((outcomes.len(), outcomes[0].0), (1, 0));
    outcomes.remove(0).1
}

/// Known failure B065.
#[test]
fn rows_of_a_prefix_are_those_whose_leading_columns_are_equal() {
    let columns = [
        ("a", TypeKind::String),
        ("n", TypeKind::Int),
        ("m", TypeKind::String),
    ];
    for lake in [None, Some("paimon")] {
        let options = match lake {
            Some(lake) => quick().with("datalake.format", lake),
            None => quick(),
        };
        let server = options.start();
        let mut client = server.client();
        let descriptor = keyed_table(&columns, &["a", "n", "m"], 1).distributed_by(1, ["a", "n"]);
        let table = client.create_table("fluss.t", &descriptor);
        let texts = ["", "a", "ab", "a\0b", "b"];
        let numbers = [0, 1, -1, 300, i32::MAX, i32::MIN];
        let mut rows = Vec::new();
        for text in texts {
            for number in numbers {
                for last in ["", "x", "xy"] {
                    rows.push(vec![
                        Value::from(text),
                        Value::Int(number),
                        Value::from(last),
                    ]);
                }
            }
        }
        client
            .put_records(&table, 0, &table.puts().rows(&rows))
            .expect("a put");
        let encoder = KeyEncoder::prefix(&table.descriptor).expect("a prefix");
        for text in texts {
            for number in numbers {
                let mut prefix = Vec::new();
                let values = [Value::from(text), Value::Int(number)];
                encoder.encode(&values, &mut prefix).expect("a prefix");
                let lists = prefixed(&mut client, &table, &[&prefix]).expect("rows");
                let found: Vec<_> = lists[0]
                    .iter()
                    .map(|value| table.puts().decode(value))
                    .collect();
                let expected: Vec<_> = rows
                    .iter()
                    .filter(|row| row[..2] == values)
                    .cloned()
                    .collect();
                assert_eq!(found, expected, "{lake:?} {text:?} {number}");
            }
        }
    }
}

#[test]
fn any_bytes_are_a_prefix() {
    let (_server, mut client, table) = server_with(&keyed_ab(1));
    let numbers = [1, 2, 300, 301, 70_000];
    client
        .put_records(&table, 0, &table.puts().numbers(numbers))
        .expect("a put");
    let mut keys: Vec<_> = numbers
        .iter()
        .map(|number| (table.puts().key(&[Value::Int(*number)]), *number))
        .collect();
    keys.sort();
    let with = |prefix: &[u8]| -> Vec<Bytes> {
        let matching = keys.iter().filter(|(key, _)| key.starts_with(prefix));
        let stored = |number: i32| {
            let text = format!("row {number}");
            table
                .puts()
                .stored(&[Value::Int(number), Value::from(text.as_str())])
        };
        matching.map(|(_, number)| stored(*number)).collect()
    };
    assert_eq!(with(b"").len(), 5);
    // The key of 300 takes two bytes, of which the first alone says that there is more.
    let cut = &table.puts().key(&[Value::Int(300)])[..1];
    let whole = table.puts().key(&[Value::Int(2)]);
    let prefixes: [&[u8]; 5] = [b"", cut, &whole, b"\xFF\xFF", b""];
    let expected: Vec<_> = prefixes.iter().map(|prefix| with(prefix)).collect();
    assert_eq!(prefixed(&mut client, &table, &prefixes), Ok(expected));
    assert_eq!(prefixed(&mut client, &table, &[]), Ok(vec![]));
    let long = vec![1; 100_000];
    assert_eq!(prefixed(&mut client, &table, &[&long]), Ok(vec![vec![]]));
}

/// Known failure B010.
#[test]
fn a_failure_of_one_bucket_does_not_fail_the_others() {
    let (_server, mut client, table) = server_with(&keyed_ab(2));
    let log = client.create_table("fluss.log", &ab(1));
    client
        .put_records(&table, 1, &table.puts().numbers([1]))
        .expect("a put");
    let all: &[&[u8]] = &[b""];
    let mut asked = request(&table, &[(0, all), (7, all), (1, all), (1, all)]);
    let got = call(&mut client, &asked);
    let stored = table.puts().stored(&[Value::Int(1), Value::from("row 1")]);
    assert_eq!(
        got,
        [
            (0, Ok(vec![vec![]])),
            (1, Ok(vec![vec![stored]])),
            (7, Err(21))
        ]
    );
    asked.table_id = Some(99_999);
    let codes: Vec<_> = call(&mut client, &asked)
        .into_iter()
        .map(|(_, lists)| lists.err())
        .collect();
    assert_eq!(codes, [Some(21); 3]);
    assert_eq!(prefixed(&mut client, &log, all), Err(20));
    let mut counted = request(&table, &[(0, all)]);
    counted.buckets_req[0].routing_bucket_count = Some(3);
    assert_eq!(call(&mut client, &counted), [(0, Err(74))]);
}
