//! Aggregation functions (tables.md §4.7).

mod decimal;
mod number;
mod order;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use mainstem_format::Value;
use mainstem_types::schema::AggKind;
use mainstem_types::{Column, TypeKind};

use super::{bitmap32, bitmap64};
use decimal::DecimalType;

/// Parameter of `listagg` and `string_agg`, and its default.
const DELIMITER: &str = "delimiter";
const DEFAULT_DELIMITER: &str = ",";

/// How the stored value of a column (the accumulator) and a new one (the input)
/// make the one that is kept.
#[derive(Clone, Debug)]
pub(super) struct Function {
    kind: AggKind,
    /// Between the texts of `listagg`.
    delimiter: String,
    /// What the results of a decimal column must fit.
    decimal: DecimalType,
}

impl Function {
    /// The function of a column: the last value for the key, the last one that is
    /// not null for columns that do not name a function.
    pub(super) fn of(column: &Column, is_key: bool) -> Self {
        let named = column.agg_function.as_ref();
        let kind = match named.and_then(|function| function.kind()) {
            _ if is_key => AggKind::LastValue,
            Some(kind) => kind,
            None => AggKind::LastValueIgnoreNulls,
        };
        let delimiter = named.and_then(|function| function.parameters.get(DELIMITER));
        Self {
            kind,
            delimiter: delimiter
                .map_or(DEFAULT_DELIMITER, String::as_str)
                .to_owned(),
            decimal: match column.data_type.kind {
                TypeKind::Decimal { precision, scale } => DecimalType { precision, scale },
                _ => DecimalType::WIDEST,
            },
        }
    }

    /// Name in documents.
    pub(super) fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// The value that is kept; an error says why there is none.
    pub(super) fn apply<'a>(
        &self,
        accumulator: &Value<'a>,
        input: &Value<'a>,
    ) -> Result<Value<'a>, String> {
        if self.kind == AggKind::LastValue {
            return Ok(input.clone());
        }
        if input.is_null() {
            return Ok(accumulator.clone());
        }
        if accumulator.is_null() {
            return Ok(input.clone());
        }
        let merged = match self.kind {
            AggKind::LastValue | AggKind::LastValueIgnoreNulls => Some(input.clone()),
            AggKind::FirstValue | AggKind::FirstValueIgnoreNulls => Some(accumulator.clone()),
            AggKind::Sum => number::sum(accumulator, input, self.decimal),
            AggKind::Product => number::product(accumulator, input, self.decimal),
            // A tie keeps the accumulator.
            AggKind::Max => order::compare(accumulator, input)
                .map(|order| if order.is_ge() { accumulator } else { input }.clone()),
            // A tie takes the input.
            AggKind::Min => order::compare(accumulator, input)
                .map(|order| if order.is_lt() { accumulator } else { input }.clone()),
            AggKind::ListAgg | AggKind::StringAgg => self.join(accumulator, input),
            AggKind::BoolAnd => booleans(accumulator, input).map(|(a, b)| Value::Boolean(a && b)),
            AggKind::BoolOr => booleans(accumulator, input).map(|(a, b)| Value::Boolean(a || b)),
            AggKind::Rbm32 => return union(bitmap32::union, accumulator, input),
            AggKind::Rbm64 => return union(bitmap64::union, accumulator, input),
        };
        merged.ok_or_else(|| unsuitable(accumulator, input))
    }

    fn join<'a>(&self, accumulator: &Value<'a>, input: &Value<'a>) -> Option<Value<'a>> {
        let (Value::String(list), Value::String(next)) = (accumulator, input) else {
            return None;
        };
        let mut joined = String::with_capacity(list.len() + self.delimiter.len() + next.len());
        joined.push_str(list);
        joined.push_str(&self.delimiter);
        joined.push_str(next);
        Some(Value::String(Cow::Owned(joined)))
    }
}

fn booleans(accumulator: &Value<'_>, input: &Value<'_>) -> Option<(bool, bool)> {
    match (accumulator, input) {
        (Value::Boolean(accumulator), Value::Boolean(input)) => Some((*accumulator, *input)),
        _ => None,
    }
}

fn union<'a>(
    union: fn(&[u8], &[u8]) -> Result<Vec<u8>, String>,
    accumulator: &Value<'a>,
    input: &Value<'a>,
) -> Result<Value<'a>, String> {
    match (accumulator, input) {
        (Value::Bytes(accumulator), Value::Bytes(input)) => {
            Ok(Value::Bytes(Cow::Owned(union(accumulator, input)?)))
        }
        _ => Err(unsuitable(accumulator, input)),
    }
}

/// Columns are decoded by their type and functions are checked against it: only a
/// table that was made elsewhere can come here.
fn unsuitable(accumulator: &Value<'_>, input: &Value<'_>) -> String {
    // The values themselves may be large, or secret.
    let kinds = (
        std::mem::discriminant(accumulator),
        std::mem::discriminant(input),
    );
    match kinds.0 == kinds.1 {
        true => "not a function for that type".to_owned(),
        false => "values of different types".to_owned(),
    }
}
