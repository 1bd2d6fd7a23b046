//! Hand-framed messages equal those that the protobuf library encodes.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::decode;
use crate::messages::{
    FetchLogResponse, PbFetchLogRespForTable, PbRemoteLogFetchInfo, PbRemoteLogSegment,
};

fn parts() -> impl Strategy<Value = Vec<Bytes>> {
    prop::collection::vec(
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from),
        0..4,
    )
}

fn joined(records: &Option<Vec<Bytes>>) -> Option<Bytes> {
    records.as_ref().map(|parts| join(parts))
}

prop_compose! {
    fn fetched_bucket()(
        partition_id in any::<Option<i64>>(),
        bucket_id in any::<i32>(),
        error in any::<Option<(i32, String)>>(),
        offsets in any::<[Option<i64>; 4]>(),
        remote in any::<Option<(String, i64)>>(),
        records in prop::option::of(parts()),
    ) -> FetchedBucket<Bytes> {
        let (error_code, error_message) = error.unzip();
        FetchedBucket {
            fields: PbFetchLogRespForBucket {
                partition_id,
                bucket_id: Some(bucket_id),
                error_code,
                error_message,
                high_watermark: offsets[0],
                log_start_offset: offsets[1],
                remote_log_fetch_info: remote.map(|(text, offset)| PbRemoteLogFetchInfo {
                    remote_log_tablet_dir: Some(text.clone()),
                    partition_name: None,
                    remote_log_segments: vec![PbRemoteLogSegment {
                        remote_log_segment_id: Some(text),
                        remote_log_start_offset: Some(offset),
                        remote_log_end_offset: Some(offset),
                        segment_size_in_bytes: Some(1),
                        max_timestamp: None,
                    }],
                    first_start_pos: Some(0),
                }),
                records: None,
                filtered_end_offset: offsets[2],
                min_retain_offset: offsets[3],
            },
            records,
        }
    }
}

proptest! {
    #[test]
    fn fetch_log_response_equals_the_plain_encoding(
        tables in prop::collection::vec(
            (any::<i64>(), prop::collection::vec(fetched_bucket(), 0..4)),
            0..4,
        )
    ) {
        let plain = FetchLogResponse {
            tables_resp: tables
                .iter()
                .map(|(table_id, buckets)| PbFetchLogRespForTable {
                    table_id: Some(*table_id),
                    buckets_resp: buckets
                        .iter()
                        .map(|bucket| PbFetchLogRespForBucket {
                            records: joined(&bucket.records),
                            ..bucket.fields.clone()
                        })
                        .collect(),
                })
                .collect(),
        };
        let framed = fetch_log_response(
            tables
                .into_iter()
                .map(|(table_id, buckets)| FetchedTable { table_id, buckets })
                .collect(),
        );
        let length: u64 = framed.iter().map(BodyPart::length).sum();
        let bytes = join(&framed);
        prop_assert_eq!(length, bytes.len() as u64);
        prop_assert_eq!(&bytes, &plain.encode_to_vec());
        prop_assert_eq!(decode::<FetchLogResponse>(bytes).unwrap(), plain);
    }

    #[test]
    fn scan_responses_equal_the_plain_encoding(
        error_code in any::<Option<i32>>(),
        error_message in any::<Option<String>>(),
        flag in any::<Option<bool>>(),
        log_offset in any::<Option<i64>>(),
        records in prop::option::of(parts()),
    ) {
        let limit = LimitScanResponse {
            error_code,
            error_message: error_message.clone(),
            is_log_table: flag,
            records: joined(&records),
        };
        let framed = limit_scan_response(limit.clone(), records.clone());
        prop_assert_eq!(join(&framed), limit.encode_to_vec());
        let scan = ScanKvResponse {
            error_code,
            error_message,
            scanner_id: log_offset.map(|offset| Bytes::copy_from_slice(&offset.to_le_bytes())),
            has_more_results: flag,
            records: joined(&records),
            log_offset,
        };
        let framed = scan_kv_response(scan.clone(), records);
        prop_assert_eq!(join(&framed), scan.encode_to_vec());
    }

    #[test]
    fn write_requests_equal_the_plain_encoding(
        numbers in any::<(i32, i64, i32)>(),
        target_columns in prop::collection::vec(any::<i32>(), 0..4),
        agg_mode in any::<Option<i32>>(),
        buckets in prop::collection::vec(
            (any::<Option<i64>>(), any::<i32>(), any::<Option<String>>(), any::<Option<i32>>(), parts()),
            0..4,
        ),
    ) {
        let produce = ProduceLogRequest {
            acks: Some(numbers.0),
            table_id: Some(numbers.1),
            timeout_ms: Some(numbers.2),
            buckets_req: Vec::new(),
        };
        let put = PutKvRequest {
            acks: Some(numbers.0),
            table_id: Some(numbers.1),
            timeout_ms: Some(numbers.2),
            target_columns,
            buckets_req: Vec::new(),
            agg_mode,
        };
        let mut plain_produce = produce.clone();
        let mut plain_put = put.clone();
        let mut produced = Vec::new();
        let mut upserted = Vec::new();
        for (partition_id, bucket_id, original_partition_name, routing_bucket_count, records) in buckets {
            let bucket = PbProduceLogReqForBucket {
                partition_id,
                bucket_id: Some(bucket_id),
                records: None,
                original_partition_name: original_partition_name.clone(),
                routing_bucket_count,
            };
            plain_produce.buckets_req.push(PbProduceLogReqForBucket {
                records: Some(join(&records)),
                ..bucket.clone()
            });
            produced.push((bucket, records.clone()));
            let bucket = PbPutKvReqForBucket {
                partition_id,
                bucket_id: Some(bucket_id),
                records: None,
                original_partition_name,
                routing_bucket_count,
            };
            plain_put.buckets_req.push(PbPutKvReqForBucket {
                records: Some(join(&records)),
                ..bucket.clone()
            });
            upserted.push((bucket, records));
        }
        prop_assert_eq!(join(&produce_log_request(produce, produced)), plain_produce.encode_to_vec());
        prop_assert_eq!(join(&put_kv_request(put, upserted)), plain_put.encode_to_vec());
    }
}

#[test]
fn records_are_passed_on_and_not_copied() {
    let records = Bytes::from(vec![1u8; 100]);
    let framed = fetch_log_response(vec![FetchedTable {
        table_id: 1,
        buckets: vec![FetchedBucket {
            fields: PbFetchLogRespForBucket {
                bucket_id: Some(0),
                ..Default::default()
            },
            records: Some(vec![records.clone()]),
        }],
    }]);
    assert_eq!(framed.len(), 2);
    assert_eq!(framed[1].as_ptr(), records.as_ptr());
}

#[test]
fn no_records_is_a_present_field_of_length_zero() {
    let framed = fetch_log_response::<Bytes>(vec![FetchedTable {
        table_id: 5,
        buckets: vec![FetchedBucket {
            fields: PbFetchLogRespForBucket {
                bucket_id: Some(0),
                high_watermark: Some(0),
                log_start_offset: Some(0),
                ..Default::default()
            },
            records: Some(Vec::new()),
        }],
    }]);
    assert_eq!(
        join(&framed).as_ref(),
        [
            0x0A, 0x0C, 0x08, 0x05, 0x12, 0x08, 0x10, 0, 0x28, 0, 0x30, 0, 0x42, 0
        ]
    );
}
