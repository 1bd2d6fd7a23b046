//! Rows and changes as text: `+I[1,v11,null]@0`.

use mainstem_format::Value;
use mainstem_types::{Schema, TypeKind};

use crate::ChangeType;

/// The row that a text says; columns that are left out are null.
pub(super) fn row(schema: &Schema, text: &str) -> Vec<Value<'static>> {
    let fields = text.split(',').chain(std::iter::repeat("null"));
    let columns = schema.columns.iter().zip(fields);
    columns
        .map(|(column, text)| value(&column.data_type.kind, text))
        .collect()
}

fn value(kind: &TypeKind, text: &str) -> Value<'static> {
    if text == "null" {
        return Value::Null;
    }
    match kind {
        TypeKind::Int => Value::Int(text.parse().unwrap()),
        TypeKind::BigInt => Value::BigInt(text.parse().unwrap()),
        TypeKind::Double => Value::Double(text.parse().unwrap()),
        TypeKind::Boolean => Value::Boolean(text.parse().unwrap()),
        TypeKind::Decimal { .. } => Value::Decimal(text.parse().unwrap()),
        TypeKind::String => Value::String(text.to_owned().into()),
        other => panic!("no values of type {other:?} in these tests"),
    }
}

/// The text of a row.
pub(super) fn of_row(row: &[Value<'_>]) -> String {
    let texts: Vec<String> = row.iter().map(of_value).collect();
    texts.join(",")
}

fn of_value(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::BigInt(value) => value.to_string(),
        Value::Double(value) => format!("{value:?}"),
        Value::Boolean(value) => value.to_string(),
        Value::Decimal(value) => value.to_string(),
        Value::String(value) => value.to_string(),
        other => panic!("no value {other:?} in these tests"),
    }
}

/// The text of a change.
pub(super) fn of_change(offset: i64, change: ChangeType, row: &[Value<'_>]) -> String {
    let sign = match change {
        ChangeType::Append => "+A",
        ChangeType::Insert => "+I",
        ChangeType::UpdateBefore => "-U",
        ChangeType::UpdateAfter => "+U",
        ChangeType::Delete => "-D",
    };
    format!("{sign}[{}]@{offset}", of_row(row))
}
