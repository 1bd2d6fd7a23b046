use bytes::Bytes;
use prost::Message;

use super::{DecodeError, decode};
use crate::messages::{
    DatabaseExistsRequest, DropDatabaseRequest, FetchLogRequest, ListDatabasesRequest,
    PbCompoundPredicate, PbFetchLogReqForBucket, PbFetchLogReqForTable, PbPredicate,
    PbProduceLogReqForBucket, ProduceLogRequest,
};
use crate::shape::{MAX_DEPTH, MAX_ELEMENTS};

fn malformed(result: Result<impl std::fmt::Debug, DecodeError>, expected: &str) {
    match result {
        Err(DecodeError::Malformed { reason, .. }) if reason.contains(expected) => {}
        other => panic!("expected `{expected}`, got {other:?}"),
    }
}

#[test]
fn the_missing_field_is_named_also_inside_nested_messages() {
    assert_eq!(
        decode::<DatabaseExistsRequest>(Bytes::new()),
        Err(DecodeError::Missing {
            field: "DatabaseExistsRequest.database_name"
        })
    );
    let request = FetchLogRequest {
        follower_server_id: Some(-1),
        max_bytes: Some(1),
        tables_req: vec![PbFetchLogReqForTable {
            table_id: Some(1),
            projection_pushdown_enabled: Some(false),
            buckets_req: vec![PbFetchLogReqForBucket {
                bucket_id: Some(0),
                fetch_offset: Some(0),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(
        decode::<FetchLogRequest>(Bytes::from(request.encode_to_vec())),
        Err(DecodeError::Missing {
            field: "PbFetchLogReqForBucket.max_fetch_bytes"
        })
    );
}

#[test]
fn records_are_slices_of_the_frame() {
    let request = ProduceLogRequest {
        acks: Some(-1),
        table_id: Some(3),
        timeout_ms: Some(1000),
        buckets_req: vec![PbProduceLogReqForBucket {
            bucket_id: Some(0),
            records: Some(Bytes::from(vec![7u8; 5000])),
            ..Default::default()
        }],
    };
    let body = Bytes::from(request.encode_to_vec());
    let decoded: ProduceLogRequest = decode(body.clone()).unwrap();
    let records = decoded.buckets_req[0].records.as_ref().unwrap();
    assert!(
        body.as_ptr_range().contains(&records.as_ptr()),
        "records were copied"
    );
    assert_eq!(decoded, request);
}

#[test]
fn unknown_fields_and_fields_of_another_wire_type_are_skipped() {
    // Field 15, unknown, as a varint; then the name.
    let known = [0x78, 5, 0x0A, 2, b'd', b'b'];
    let decoded: DatabaseExistsRequest = decode(Bytes::copy_from_slice(&known)).unwrap();
    assert_eq!(decoded.database_name.as_deref(), Some("db"));
    // Field 1 as a varint, as fixed 32 and 64 bits, and then as it should be.
    let mut mixed = vec![0x08, 1, 0x0D, 0, 0, 0, 0, 0x09, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        decode::<DatabaseExistsRequest>(Bytes::from(mixed.clone())),
        Err(DecodeError::Missing {
            field: "DatabaseExistsRequest.database_name"
        })
    );
    mixed.extend_from_slice(&known);
    let decoded: DatabaseExistsRequest = decode(Bytes::from(mixed)).unwrap();
    assert_eq!(decoded.database_name.as_deref(), Some("db"));
}

#[test]
fn a_nested_field_of_another_wire_type_is_skipped() {
    // Bucket entry: bucket_id (field 2) as text, then as a number.
    let bucket = [0x12, 1, b'x', 0x10, 9, 0x18, 0, 0x20, 1];
    let mut table = vec![0x08, 1, 0x10, 0, 0x22, bucket.len() as u8];
    table.extend_from_slice(&bucket);
    let mut body = vec![0x08, 0, 0x10, 1, 0x1A, table.len() as u8];
    body.extend_from_slice(&table);
    let decoded: FetchLogRequest = decode(Bytes::from(body)).unwrap();
    assert_eq!(decoded.tables_req[0].buckets_req[0].bucket_id, Some(9));
}

#[test]
fn a_bool_is_true_only_if_it_is_one() {
    let request = |value: &[u8]| {
        let mut body = vec![0x0A, 1, b'd', 0x10, 0, 0x18];
        body.extend_from_slice(value);
        decode::<DropDatabaseRequest>(Bytes::from(body)).unwrap()
    };
    assert_eq!(request(&[1]).cascade, Some(true));
    assert_eq!(request(&[0]).cascade, Some(false));
    assert_eq!(request(&[2]).cascade, Some(false));
    assert_eq!(request(&[0x81, 1]).cascade, Some(false));
    let list: ListDatabasesRequest = decode(Bytes::from_static(&[0x08, 2])).unwrap();
    assert_eq!(list.include_summary, Some(false));
}

#[test]
fn text_that_is_not_utf8_becomes_a_strange_name() {
    let decoded: DatabaseExistsRequest =
        decode(Bytes::from_static(&[0x0A, 2, b'a', 0xFF])).unwrap();
    assert_eq!(decoded.database_name.as_deref(), Some("a\u{FFFD}"));
}

#[test]
fn packed_and_single_numbers_are_both_read() {
    let table = |projection: &[u8]| {
        let mut table = vec![0x08, 1, 0x10, 1];
        table.extend_from_slice(projection);
        decode::<PbFetchLogReqForTable>(Bytes::from(table))
            .unwrap()
            .projected_fields
    };
    assert_eq!(table(&[0x1A, 2, 3, 5]), [3, 5]);
    assert_eq!(table(&[0x18, 3, 0x18, 5]), [3, 5]);
    assert_eq!(table(&[0x1A, 0]), [0i32; 0]);
}

#[test]
fn damaged_bodies_are_errors() {
    malformed(
        decode::<DatabaseExistsRequest>(Bytes::from_static(&[0x0A, 5, b'd'])),
        "ends inside",
    );
    malformed(
        decode::<DatabaseExistsRequest>(Bytes::from_static(&[0x0B])),
        "wire type",
    );
    malformed(
        decode::<DatabaseExistsRequest>(Bytes::from_static(&[0xFF; 12])),
        "varint",
    );
    malformed(
        decode::<DatabaseExistsRequest>(Bytes::from_static(&[0x0A])),
        "ends inside",
    );
}

#[test]
fn the_number_of_elements_is_bounded() {
    // Empty table entries: two bytes each, a structure of a hundred decoded.
    let entries = |count: usize| {
        let mut body = vec![0x08, 0, 0x10, 1];
        body.extend([0x1A, 0].repeat(count));
        decode::<FetchLogRequest>(Bytes::from(body))
    };
    assert!(matches!(entries(1000), Err(DecodeError::Missing { .. })));
    malformed(entries(MAX_ELEMENTS + 1), "elements");
    // The same for packed numbers.
    let mut body = vec![0x08, 1, 0x10, 1, 0x1A];
    crate::wire_format::put_varint(&mut body, (MAX_ELEMENTS + 1) as u64);
    body.resize(body.len() + MAX_ELEMENTS + 1, 1);
    malformed(
        decode::<PbFetchLogReqForTable>(Bytes::from(body)),
        "elements",
    );
}

#[test]
fn the_depth_of_predicates_is_bounded() {
    let nested = |levels: usize| {
        let mut predicate = PbPredicate {
            r#type: Some(1),
            ..Default::default()
        };
        for _ in 0..levels {
            predicate = PbPredicate {
                r#type: Some(1),
                compound: Some(PbCompoundPredicate {
                    function: Some(0),
                    children: vec![predicate],
                }),
                ..Default::default()
            };
        }
        decode::<PbPredicate>(Bytes::from(predicate.encode_to_vec()))
    };
    // Each level is two messages.
    assert!(nested(MAX_DEPTH / 2).is_ok());
    malformed(nested(MAX_DEPTH / 2 + 1), "nested");
}
