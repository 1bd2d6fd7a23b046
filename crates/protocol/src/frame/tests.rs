//! The worked frames of wire.md §1.7, and the limits of §1.1.

use bytes::Bytes;
use prost::Message;

use super::*;
use crate::messages::{
    ApiVersionsRequest, ApiVersionsResponse, AuthenticateRequest, FetchLogRequest,
    FetchLogResponse, PbApiVersion, PbFetchLogReqForBucket, PbFetchLogReqForTable,
    PbFetchLogRespForBucket, PbFetchLogRespForTable, PbProduceLogRespForBucket, ProduceLogResponse,
};

fn hex(text: &str) -> Vec<u8> {
    text.split([' ', '·'])
        .filter(|part| !part.is_empty())
        .map(|part| u8::from_str_radix(part, 16).unwrap())
        .collect()
}

fn request(api_key: i16, request_id: i32, message: &impl Message) -> Vec<u8> {
    let header = RequestHeader {
        api_key,
        api_version: 0,
        request_id,
    };
    let mut frame = header
        .encode(message.encoded_len() as u64)
        .unwrap()
        .to_vec();
    message.encode_raw(&mut frame);
    let (parsed, body) = RequestHeader::parse(Bytes::copy_from_slice(&frame[4..])).unwrap();
    assert_eq!(parsed, header);
    assert_eq!(body, message.encode_to_vec());
    frame
}

fn success(request_id: i32, message: &impl Message) -> Vec<u8> {
    let mut frame = encode_success_header(request_id, message.encoded_len() as u64)
        .unwrap()
        .to_vec();
    message.encode_raw(&mut frame);
    let parsed = ResponseFrame::parse(Bytes::copy_from_slice(&frame[4..])).unwrap();
    let body = Bytes::from(message.encode_to_vec());
    assert_eq!(parsed, ResponseFrame::Success { request_id, body });
    frame
}

#[test]
fn api_versions_request_and_answer() {
    let message = ApiVersionsRequest {
        client_software_name: Some("fluss-rust".into()),
        client_software_version: Some("1.0.0".into()),
    };
    assert_eq!(
        request(1000, 0, &message),
        hex("00 00 00 1B · 03 E8 00 00 00 00 00 00 · \
             0A 0A 66 6C 75 73 73 2D 72 75 73 74 12 05 31 2E 30 2E 30")
    );
    let entry = |key, max| PbApiVersion {
        api_key: Some(key),
        min_version: Some(0),
        max_version: Some(max),
    };
    let answer = ApiVersionsResponse {
        api_versions: vec![entry(1000, 0), entry(1016, 3)],
        server_type: Some(2),
    };
    assert_eq!(
        success(0, &answer),
        hex("00 00 00 19 · 00 00 00 00 00 · 0A 07 08 E8 07 10 00 18 00 \
             0A 07 08 F8 07 10 00 18 03 10 02")
    );
}

#[test]
fn errors_with_and_without_text() {
    let with_text = encode_error(7, 7, "gone");
    assert_eq!(
        with_text,
        hex("00 00 00 0D · 01 00 00 00 07 · 08 07 12 04 67 6F 6E 65")
    );
    assert_eq!(
        ResponseFrame::parse(with_text.slice(4..)).unwrap(),
        ResponseFrame::Error {
            request_id: 7,
            error: Ok(ErrorResponse {
                error_code: Some(7),
                error_message: Some("gone".into())
            })
        }
    );
    assert_eq!(
        encode_error(8, -1, ""),
        hex("00 00 00 10 · 01 00 00 00 08 · 08 FF FF FF FF FF FF FF FF FF 01")
    );
}

#[test]
fn server_failure_has_no_request_id_and_always_a_text() {
    let expected = hex("00 00 00 1D · 02 · 08 FF FF FF FF FF FF FF FF FF 01 \
         12 0F 66 72 61 6D 65 20 74 6F 6F 20 6C 61 72 67 65");
    assert_eq!(encode_server_failure(-1, "frame too large"), expected);
    for text in ["", "abc"] {
        let frame = encode_server_failure(-1, text);
        let ResponseFrame::ServerFailure { error: Ok(error) } =
            ResponseFrame::parse(frame.slice(4..)).unwrap()
        else {
            panic!("not a failure");
        };
        assert!(error.error_message.unwrap().len() >= 4);
    }
}

#[test]
fn authenticate_and_its_success() {
    let message = AuthenticateRequest {
        protocol: Some("PLAIN".into()),
        token: Some(Bytes::from_static(b"\0admin\0pw")),
    };
    assert_eq!(
        request(1038, 1, &message),
        hex(
            "00 00 00 1A · 04 0E 00 00 00 00 00 01 · 0A 05 50 4C 41 49 4E \
             12 09 00 61 64 6D 69 6E 00 70 77"
        )
    );
    assert_eq!(
        encode_success_header(1, 0).unwrap().to_vec(),
        hex("00 00 00 05 00 00 00 00 01")
    );
}

#[test]
fn fetch_log_and_its_empty_answer() {
    let message = FetchLogRequest {
        follower_server_id: Some(-1),
        max_bytes: Some(16 << 20),
        tables_req: vec![PbFetchLogReqForTable {
            table_id: Some(5),
            projection_pushdown_enabled: Some(false),
            buckets_req: vec![PbFetchLogReqForBucket {
                bucket_id: Some(0),
                fetch_offset: Some(0),
                max_fetch_bytes: Some(1 << 20),
                ..Default::default()
            }],
            ..Default::default()
        }],
        max_wait_ms: Some(500),
        min_bytes: Some(1),
        ..Default::default()
    };
    assert_eq!(
        request(1015, 10, &message),
        hex(
            "00 00 00 2D · 03 F7 00 00 00 00 00 0A · 08 FF FF FF FF FF FF FF FF FF 01 \
             10 80 80 80 08 · 1A 0E 08 05 10 00 22 08 10 00 18 00 20 80 80 40 · 20 F4 03 28 01"
        )
    );
    let answer = FetchLogResponse {
        tables_resp: vec![PbFetchLogRespForTable {
            table_id: Some(5),
            buckets_resp: vec![PbFetchLogRespForBucket {
                bucket_id: Some(0),
                high_watermark: Some(0),
                log_start_offset: Some(0),
                records: Some(Bytes::new()),
                ..Default::default()
            }],
        }],
    };
    assert_eq!(
        success(10, &answer),
        hex("00 00 00 13 · 00 00 00 00 0A · 0A 0C 08 05 12 08 10 00 28 00 30 00 42 00")
    );
}

#[test]
fn produce_log_answer_with_one_failed_bucket() {
    let answer = ProduceLogResponse {
        buckets_resp: vec![
            PbProduceLogRespForBucket {
                bucket_id: Some(0),
                base_offset: Some(100),
                ..Default::default()
            },
            PbProduceLogRespForBucket {
                bucket_id: Some(3),
                error_code: Some(12),
                ..Default::default()
            },
        ],
    };
    assert_eq!(
        success(9, &answer),
        hex("00 00 00 11 · 00 00 00 00 09 · 0A 04 10 00 28 64 0A 04 10 03 18 0C")
    );
}

#[test]
fn the_limit_is_compared_with_the_length_plus_four() {
    let check = |length: u32| check_request_length(length.to_be_bytes(), DEFAULT_MAX_REQUEST_BYTES);
    assert_eq!(check(8), Ok(8));
    assert_eq!(check(104_857_596), Ok(104_857_596));
    for length in [
        104_857_597,
        104_857_600,
        i32::MAX as u32,
        i32::MIN as u32,
        u32::MAX,
    ] {
        assert!(
            matches!(check(length), Err(FrameError::TooLong { .. })),
            "{length}"
        );
    }
    for length in 0..8 {
        assert!(
            matches!(check(length), Err(FrameError::TooShort { .. })),
            "{length}"
        );
    }
}

#[test]
fn a_negative_length_is_too_long_whatever_the_limit() {
    let check = |length: i32| check_response_length(length.to_be_bytes(), u64::MAX);
    assert_eq!(check(i32::MAX), Ok(i32::MAX as usize));
    assert!(matches!(check(-1), Err(FrameError::TooLong { .. })));
}

#[test]
fn a_body_too_long_for_a_frame_has_no_header() {
    assert!(encode_success_header(1, i32::MAX as u64 - 5).is_some());
    assert!(encode_success_header(1, i32::MAX as u64 - 4).is_none());
    assert!(encode_success_header(1, u64::MAX).is_none());
    let header = RequestHeader {
        api_key: 1014,
        api_version: 0,
        request_id: 0,
    };
    assert!(header.encode(i32::MAX as u64 - 7).is_none());
}

#[test]
fn cut_and_unknown_frames_are_errors() {
    assert!(RequestHeader::parse(Bytes::from_static(&[0; 7])).is_err());
    assert!(ResponseFrame::parse(Bytes::new()).is_err());
    assert!(ResponseFrame::parse(Bytes::from_static(&[0, 0, 0, 0])).is_err());
    assert_eq!(
        ResponseFrame::parse(Bytes::from_static(&[3, 0, 0, 0, 0])),
        Err(FrameError::UnknownType(3))
    );
}

#[test]
fn an_undecodable_error_still_names_its_request() {
    let parsed = ResponseFrame::parse(Bytes::from_static(&[1, 0, 0, 0, 9, 0xFF])).unwrap();
    let ResponseFrame::Error {
        request_id: 9,
        error: Err(_),
    } = parsed
    else {
        panic!("{parsed:?}");
    };
}
