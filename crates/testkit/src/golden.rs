//! The recorded exchanges of a reference cluster (testdata/README.md).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mainstem_protocol::{RequestHeader, ResponseFrame};
use serde_json::Value;

const EXCHANGES: &[u8] = include_bytes!("../testdata/exchanges.jsonl.zst");
const TABLES: &[u8] = include_bytes!("../testdata/tables.json.zst");

/// How the reference answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SUCCESS frame.
    Ok,
    /// ERROR frame.
    Error,
    /// SERVER_FAILURE frame, and the end of the connection.
    Failure,
    /// Not at all.
    Unanswered,
}

/// A request with its answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Number in the order of the requests.
    pub seq: u64,
    /// Cluster, `a` or `b`.
    pub cluster: char,
    /// Listener: `plain`, `sasl` or `internal`.
    pub listener: String,
    /// Connection within the cluster.
    pub conn: u64,
    /// Whether the server was a tablet server.
    pub is_tablet: bool,
    /// Key of the request; `None` if the frame is none.
    pub api_key: Option<i16>,
    /// Version of the request.
    pub api_version: i16,
    /// How it was answered.
    pub kind: Kind,
    /// Whole request frame, length included.
    pub request: Bytes,
    /// Whole response frame, length included.
    pub response: Option<Bytes>,
    /// Code of an ERROR or SERVER_FAILURE frame.
    pub error_code: Option<i32>,
    /// Codes inside of a success.
    pub inner_error_codes: Vec<i32>,
    /// What it is about.
    pub note: String,
}

impl Exchange {
    /// Message of the request.
    ///
    /// # Panics
    /// If the frame is none.
    pub fn request_body(&self) -> Bytes {
        RequestHeader::parse(self.request.slice(4..))
            .expect("a request")
            .1
    }

    /// Message of a success.
    ///
    /// # Panics
    /// If there is none.
    pub fn success_body(&self) -> Bytes {
        let response = self.response.clone().expect("a response");
        match ResponseFrame::parse(response.slice(4..)).expect("a response") {
            ResponseFrame::Success { body, .. } => body,
            other => panic!("{other:?} is no success"),
        }
    }
}

/// All exchanges in their order.
///
/// # Panics
/// If the test data are damaged.
pub fn exchanges() -> Vec<Exchange> {
    let text = zstd::decode_all(EXCHANGES).expect("zstd");
    let text = String::from_utf8(text).expect("UTF-8");
    text.lines()
        .map(|line| exchange(&serde_json::from_str(line).expect("JSON")))
        .collect()
}

fn exchange(line: &Value) -> Exchange {
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let bytes = |key: &str| line[key].as_str().map(decode_base64);
    let code = |value: &Value| value.as_i64().and_then(|code| i32::try_from(code).ok());
    let short = |key: &str| {
        line[key]
            .as_i64()
            .and_then(|value| i16::try_from(value).ok())
    };
    let inner = line["inner_error_codes"].as_array().into_iter().flatten();
    Exchange {
        seq: line["seq"].as_u64().expect("a number"),
        cluster: text("cluster").chars().next().expect("a name"),
        listener: text("listener"),
        conn: line["conn"].as_u64().expect("a number"),
        is_tablet: line["role"] == "tablet",
        api_key: short("api_key"),
        api_version: short("api_version").unwrap_or_default(),
        kind: match line["kind"].as_str() {
            Some("ok") => Kind::Ok,
            Some("error") => Kind::Error,
            Some("failure") => Kind::Failure,
            _ => Kind::Unanswered,
        },
        request: bytes("request").expect("a request"),
        response: bytes("response"),
        error_code: code(&line["error_code"]),
        inner_error_codes: inner.filter_map(code).collect(),
        note: text("note"),
    }
}

/// A table of a cluster, with what its log held.
#[derive(Clone, Debug)]
pub struct RecordedTable {
    /// Cluster, `a` or `b`.
    pub cluster: char,
    /// `database.table`.
    pub name: String,
    /// Id that it had.
    pub id: i64,
    /// Its last descriptor.
    pub descriptor: Value,
    /// Names of its partitions by the id that they had.
    pub partitions: Vec<(i64, String)>,
    /// Schemas that it had before, without their ids, oldest first.
    pub earlier_schemas: Vec<Value>,
    /// Batches of its buckets: partition id that it had, bucket, batches back to
    /// back.
    pub log: Vec<(Option<i64>, i32, Bytes)>,
}

/// All tables.
///
/// # Panics
/// If the test data are damaged.
pub fn tables() -> Vec<RecordedTable> {
    let text = zstd::decode_all(TABLES).expect("zstd");
    let list: Value = serde_json::from_slice(&text).expect("JSON");
    list.as_array().expect("a list").iter().map(table).collect()
}

fn table(value: &Value) -> RecordedTable {
    let integer = |value: &Value| value.as_i64().expect("a number");
    let list = |key: &str| value[key].as_array().expect("a list").iter();
    RecordedTable {
        cluster: value["cluster"]
            .as_str()
            .and_then(|text| text.chars().next())
            .expect("a name"),
        name: value["name"].as_str().expect("a name").to_owned(),
        id: integer(&value["id"]),
        descriptor: value["descriptor"].clone(),
        partitions: list("partitions")
            .map(|pair| {
                (
                    integer(&pair[0]),
                    pair[1].as_str().expect("a name").to_owned(),
                )
            })
            .collect(),
        earlier_schemas: list("earlier_schemas").cloned().collect(),
        log: list("log")
            .map(|bucket| {
                let id = i32::try_from(integer(&bucket[1])).expect("a bucket");
                (
                    bucket[0].as_i64(),
                    id,
                    decode_base64(bucket[2].as_str().expect("base64")),
                )
            })
            .collect(),
    }
}

fn decode_base64(text: &str) -> Bytes {
    STANDARD.decode(text).expect("base64").into()
}
