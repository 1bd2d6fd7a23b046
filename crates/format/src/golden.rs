//! Tables of a reference cluster, for tests: see `testdata/rows/README.md`.

use std::collections::BTreeMap;

use bytes::Bytes;
use mainstem_types::{DataType, Schema, TableDescriptor, TypeKind};
use serde_json::Value as Json;

use crate::testing::hex;
use crate::value::{Timestamp, Value};

pub(crate) struct GoldenTable {
    pub(crate) descriptor: TableDescriptor,
    pub(crate) schemas: BTreeMap<i16, Schema>,
    pub(crate) log: Vec<GoldenRecord>,
    pub(crate) stored: Vec<StoredRow>,
}

pub(crate) struct GoldenRecord {
    pub(crate) bucket: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: i64,
    pub(crate) change_type: u8,
    row: Json,
}

pub(crate) struct StoredRow {
    pub(crate) bucket: i32,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

pub(crate) fn table(name: &str) -> GoldenTable {
    let json: Json = serde_json::from_slice(&file("rows", &format!("{name}.json"))).unwrap();
    let schemas = json["schemas"].as_object().unwrap().iter();
    let list = |key: &str| json[key].as_array().cloned().unwrap_or_default();
    GoldenTable {
        descriptor: TableDescriptor::from_json(&json["table"]).unwrap(),
        schemas: schemas
            .map(|(id, schema)| (id.parse().unwrap(), Schema::from_json(schema).unwrap()))
            .collect(),
        log: list("log").iter().map(record).collect(),
        stored: list("stored").iter().map(stored_row).collect(),
    }
}

pub(crate) fn segment(name: &str) -> Bytes {
    Bytes::from(file("log", &format!("{name}.log")))
}

fn file(directory: &str, name: &str) -> Vec<u8> {
    let path = format!("{}/testdata/{directory}/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn record(json: &Json) -> GoldenRecord {
    let change_types = ["+A", "+I", "-U", "+U", "-D"];
    let change_type = change_types
        .iter()
        .position(|code| json["change_type"] == *code)
        .unwrap();
    GoldenRecord {
        bucket: integer(&json["bucket"]) as i32,
        offset: integer(&json["offset"]),
        timestamp_ms: integer(&json["timestamp"]),
        change_type: change_type as u8,
        row: json["row"].clone(),
    }
}

fn stored_row(json: &Json) -> StoredRow {
    StoredRow {
        bucket: integer(&json["bucket"]) as i32,
        key: hex(json["key"].as_str().unwrap()),
        value: hex(json["value"].as_str().unwrap()),
    }
}

fn integer(json: &Json) -> i64 {
    json.as_i64()
        .unwrap_or_else(|| panic!("{json} is no integer"))
}

impl GoldenRecord {
    /// The row as a version of the schema saw it.
    pub(crate) fn row(&self, schema: &Schema) -> Vec<Value<'static>> {
        let columns = schema.columns.iter();
        columns
            .map(|column| value(&self.row[&column.name], &column.data_type))
            .collect()
    }
}

fn value(json: &Json, data_type: &DataType) -> Value<'static> {
    if json.is_null() {
        return Value::Null;
    }
    let text = |key: &str| {
        json[key]
            .as_str()
            .unwrap_or_else(|| panic!("{json} without {key}"))
    };
    match &data_type.kind {
        TypeKind::Boolean => Value::Boolean(json.as_bool().unwrap()),
        TypeKind::TinyInt => Value::TinyInt(integer(json) as i8),
        TypeKind::SmallInt => Value::SmallInt(integer(json) as i16),
        TypeKind::Int => Value::Int(integer(json) as i32),
        TypeKind::BigInt => Value::BigInt(integer(json)),
        TypeKind::Float => Value::Float(json.as_f64().unwrap() as f32),
        TypeKind::Double => Value::Double(json.as_f64().unwrap()),
        TypeKind::Char { .. } | TypeKind::String => {
            Value::String(json.as_str().unwrap().to_owned().into())
        }
        TypeKind::Binary { .. } | TypeKind::Bytes => Value::Bytes(hex(text("hex")).into()),
        TypeKind::Decimal { scale, .. } => Value::Decimal(decimal(text("decimal"), *scale)),
        TypeKind::Date => Value::Date(days(text("date")) as i32),
        TypeKind::Time { .. } => Value::Time((micros(text("time")) / 1000) as i32),
        TypeKind::Timestamp { .. } | TypeKind::TimestampLtz { .. } => {
            let (date, time) = text("datetime").split_once('T').unwrap();
            let micros = days(date) * 86_400_000_000 + micros(time.trim_end_matches("+00:00"));
            Value::Timestamp(Timestamp {
                millis: micros.div_euclid(1000),
                nanos_of_milli: micros.rem_euclid(1000) as i32 * 1000,
            })
        }
        TypeKind::Array(element) => Value::Array(
            json.as_array()
                .unwrap()
                .iter()
                .map(|it| value(it, element))
                .collect(),
        ),
        TypeKind::Map { key, value: item } => {
            let entry = |pair: &Json| (value(&pair[0], key), value(&pair[1], item));
            Value::Map(json.as_array().unwrap().iter().map(entry).collect())
        }
        TypeKind::Row(fields) => {
            let field =
                |field: &mainstem_types::RowField| value(&json[&field.name], &field.data_type);
            Value::Row(fields.iter().map(field).collect())
        }
    }
}

fn decimal(text: &str, scale: u8) -> i128 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    assert!(fraction.len() <= usize::from(scale));
    format!("{whole}{fraction:0<width$}", width = usize::from(scale))
        .parse()
        .unwrap()
}

/// Days since 1970-01-01, counted year by year.
fn days(date: &str) -> i64 {
    let part = |range: std::ops::Range<usize>| date[range].parse::<i64>().unwrap();
    let (year, month, day) = (part(0..4), part(5..7), part(8..10));
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let year_days = |year| 365 + i64::from(leap(year));
    let years: i64 = match year {
        1970.. => (1970..year).map(year_days).sum(),
        _ => -(year..1970).map(year_days).sum::<i64>(),
    };
    let month_days = [
        31,
        28 + i64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    years + month_days[..month as usize - 1].iter().sum::<i64>() + day - 1
}

/// Microseconds of `HH:MM:SS` with an optional fraction of six digits.
fn micros(time: &str) -> i64 {
    let part = |range: std::ops::Range<usize>| time[range].parse::<i64>().unwrap();
    let seconds = (part(0..2) * 60 + part(3..5)) * 60 + part(6..8);
    let fraction = time.get(9..).map_or(0, |digits| {
        assert_eq!(digits.len(), 6, "{time}");
        digits.parse().unwrap()
    });
    seconds * 1_000_000 + fraction
}
