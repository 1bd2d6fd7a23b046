//! Row filters: sent to the server, which may skip whole batches by their
//! statistics (wire.md §6.5), and applied to the rows that arrive.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, Scalar, StringArray};
use arrow_ord::cmp;
use arrow_schema::DataType as ArrowType;
use mainstem_protocol::messages as pb;
use mainstem_types::{Schema, TypeKind};

use crate::error::{ClientError, Result};

/// How a column is compared with a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A condition on the columns of a row; null compares as unknown, and only rows
/// for which the whole is true are kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Column against a literal given as text.
    Compare {
        /// Column name.
        column: String,
        /// Comparison.
        comparison: Comparison,
        /// Literal, parsed by the column's type.
        literal: String,
    },
    /// Column is (not) null.
    Null {
        /// Column name.
        column: String,
        /// True for IS NULL.
        is_null: bool,
    },
    /// String column against a pattern with `%` at the ends only.
    Like {
        /// Column name.
        column: String,
        /// Pattern.
        pattern: String,
    },
    /// Column is one of the literals.
    In {
        /// Column name.
        column: String,
        /// Literals given as text.
        literals: Vec<String>,
    },
    /// All hold.
    And(Vec<Filter>),
    /// Any holds.
    Or(Vec<Filter>),
    /// Does not hold.
    Not(Box<Filter>),
}

impl Filter {
    /// Names of the columns it reads.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Compare { column, .. }
            | Self::Null { column, .. }
            | Self::Like { column, .. }
            | Self::In { column, .. } => vec![column],
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::columns).collect(),
            Self::Not(inner) => inner.columns(),
        }
    }

    /// Which rows are kept.
    ///
    /// # Errors
    /// An unknown column, or a literal that the column's type cannot hold.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        match self {
            Self::Compare {
                column,
                comparison,
                literal,
            } => {
                let values = column_of(batch, column)?;
                let literal = parse_literal(column, literal, values.data_type())?;
                compare(*comparison, values, &Scalar::new(literal))
            }
            Self::Null { column, is_null } => {
                let values = column_of(batch, column)?;
                let null = |row| values.is_null(row) == *is_null;
                Ok((0..values.len()).map(|row| Some(null(row))).collect())
            }
            Self::Like { column, pattern } => {
                let values = column_of(batch, column)?;
                let pattern = Scalar::new(StringArray::from(vec![pattern.as_str()]));
                arrow_string::like::like(values, &pattern).map_err(usage)
            }
            Self::In { column, literals } => {
                let values = column_of(batch, column)?;
                let mut kept = BooleanArray::from(vec![false; values.len()]);
                for literal in literals {
                    let literal = parse_literal(column, literal, values.data_type())?;
                    let equal = compare(Comparison::Equal, values, &Scalar::new(literal))?;
                    kept = or(&kept, &equal);
                }
                Ok(kept)
            }
            Self::And(parts) => {
                let mut kept = BooleanArray::from(vec![true; batch.num_rows()]);
                for part in parts {
                    kept = and(&kept, &part.evaluate(batch)?);
                }
                Ok(kept)
            }
            Self::Or(parts) => {
                let mut kept = BooleanArray::from(vec![false; batch.num_rows()]);
                for part in parts {
                    kept = or(&kept, &part.evaluate(batch)?);
                }
                Ok(kept)
            }
            Self::Not(inner) => Ok(inner
                .evaluate(batch)?
                .iter()
                .map(|kept| kept.map(|kept| !kept))
                .collect()),
        }
    }

    /// The part that the server can use, as the protocol carries it; `None` if
    /// it cannot use any (the rows are filtered here anyway).
    pub fn to_proto(&self, schema: &Schema) -> Option<pb::PbPredicate> {
        match self {
            Self::Compare {
                column,
                comparison,
                literal,
            } => {
                let (_, column) = schema.column(column)?;
                let function = match comparison {
                    Comparison::Equal => 0,
                    Comparison::NotEqual => 1,
                    Comparison::Less => 2,
                    Comparison::LessOrEqual => 3,
                    Comparison::Greater => 4,
                    Comparison::GreaterOrEqual => 5,
                };
                Some(leaf(
                    function,
                    column.id,
                    vec![literal_to_proto(&column.data_type.kind, literal)?],
                ))
            }
            Self::Null { column, is_null } => {
                let (_, column) = schema.column(column)?;
                Some(leaf(if *is_null { 6 } else { 7 }, column.id, vec![]))
            }
            Self::Like { column, pattern } => {
                let (_, column) = schema.column(column)?;
                let prefix = pattern.strip_suffix('%')?;
                if prefix.contains(['%', '_', '\\']) {
                    return None;
                }
                Some(leaf(
                    8,
                    column.id,
                    vec![literal_to_proto(&column.data_type.kind, prefix)?],
                ))
            }
            Self::In { column, literals } => {
                let (_, column) = schema.column(column)?;
                let kind = &column.data_type.kind;
                let literals: Option<Vec<_>> = literals
                    .iter()
                    .map(|literal| literal_to_proto(kind, literal))
                    .collect();
                Some(leaf(11, column.id, literals?))
            }
            // A conjunction may drop parts that cannot be sent, a disjunction not.
            Self::And(parts) => {
                let children: Vec<_> = parts
                    .iter()
                    .filter_map(|part| part.to_proto(schema))
                    .collect();
                (!children.is_empty()).then(|| compound(0, children))
            }
            Self::Or(parts) => {
                let children: Option<Vec<_>> =
                    parts.iter().map(|part| part.to_proto(schema)).collect();
                children
                    .filter(|children| !children.is_empty())
                    .map(|c| compound(1, c))
            }
            Self::Not(_) => None,
        }
    }
}

fn leaf(function: i32, field_id: i32, literals: Vec<pb::PbLiteralValue>) -> pb::PbPredicate {
    pb::PbPredicate {
        r#type: Some(0),
        leaf: Some(pb::PbLeafPredicate {
            function: Some(function),
            field_id: Some(field_id),
            literals,
        }),
        compound: None,
    }
}

fn compound(function: i32, children: Vec<pb::PbPredicate>) -> pb::PbPredicate {
    pb::PbPredicate {
        r#type: Some(1),
        leaf: None,
        compound: Some(pb::PbCompoundPredicate {
            function: Some(function),
            children,
        }),
    }
}

/// The value field by type root (wire.md §4.18). Types whose text form needs a
/// calendar are left to the filter on this side.
fn literal_to_proto(kind: &TypeKind, text: &str) -> Option<pb::PbLiteralValue> {
    let mut value = pb::PbLiteralValue {
        is_null: Some(false),
        ..Default::default()
    };
    let root = match kind {
        TypeKind::Boolean => {
            value.boolean_value = Some(text.parse().ok()?);
            0
        }
        TypeKind::TinyInt => {
            value.int_value = Some(text.parse::<i8>().ok()?.into());
            1
        }
        TypeKind::SmallInt => {
            value.int_value = Some(text.parse::<i16>().ok()?.into());
            2
        }
        TypeKind::Int => {
            value.int_value = Some(text.parse().ok()?);
            3
        }
        TypeKind::BigInt => {
            value.bigint_value = Some(text.parse().ok()?);
            4
        }
        TypeKind::Float => {
            value.float_value = Some(text.parse().ok()?);
            5
        }
        TypeKind::Double => {
            value.double_value = Some(text.parse().ok()?);
            6
        }
        TypeKind::String => {
            value.string_value = Some(text.to_owned());
            8
        }
        _ => return None,
    };
    value.literal_type = Some(root);
    Some(value)
}

fn column_of<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch
        .column_by_name(name)
        .ok_or_else(|| ClientError::Usage(format!("there is no column '{name}'")))
}

fn parse_literal(column: &str, text: &str, data_type: &ArrowType) -> Result<ArrayRef> {
    let source = StringArray::from(vec![text]);
    let options = arrow_cast::CastOptions {
        safe: false,
        ..Default::default()
    };
    arrow_cast::cast_with_options(&source, data_type, &options).map_err(|_| {
        ClientError::Usage(format!(
            "'{text}' is not a value of column '{column}' ({data_type})"
        ))
    })
}

fn compare(
    comparison: Comparison,
    values: &ArrayRef,
    literal: &Scalar<ArrayRef>,
) -> Result<BooleanArray> {
    match comparison {
        Comparison::Equal => cmp::eq(values, literal),
        Comparison::NotEqual => cmp::neq(values, literal),
        Comparison::Less => cmp::lt(values, literal),
        Comparison::LessOrEqual => cmp::lt_eq(values, literal),
        Comparison::Greater => cmp::gt(values, literal),
        Comparison::GreaterOrEqual => cmp::gt_eq(values, literal),
    }
    .map_err(usage)
}

/// Three-valued AND.
fn and(left: &BooleanArray, right: &BooleanArray) -> BooleanArray {
    let row = |(left, right)| match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    };
    left.iter().zip(right).map(row).collect()
}

/// Three-valued OR.
fn or(left: &BooleanArray, right: &BooleanArray) -> BooleanArray {
    let row = |(left, right)| match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    };
    left.iter().zip(right).map(row).collect()
}

fn usage(error: arrow_schema::ArrowError) -> ClientError {
    ClientError::Usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use arrow_schema::{Field, Schema as ArrowSchema};

    use super::*;

    fn batch() -> RecordBatch {
        let schema = ArrowSchema::new(vec![
            Field::new("n", ArrowType::Int64, true),
            Field::new("s", ArrowType::Utf8, true),
        ]);
        let numbers = Int64Array::from(vec![Some(1), None, Some(3)]);
        let texts = StringArray::from(vec![Some("ab"), Some("b"), None]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(numbers), Arc::new(texts)])
            .expect("a batch")
    }

    fn kept(filter: &Filter) -> Vec<Option<bool>> {
        filter
            .evaluate(&batch())
            .expect("evaluates")
            .iter()
            .collect()
    }

    fn compare_n(comparison: Comparison, literal: &str) -> Filter {
        Filter::Compare {
            column: "n".into(),
            comparison,
            literal: literal.into(),
        }
    }

    #[test]
    fn null_compares_as_unknown() {
        assert_eq!(
            kept(&compare_n(Comparison::Greater, "1")),
            [Some(false), None, Some(true)]
        );
        let not = Filter::Not(Box::new(compare_n(Comparison::Greater, "1")));
        assert_eq!(kept(&not), [Some(true), None, Some(false)]);
    }

    #[test]
    fn and_or_in_like_follow_sql() {
        let like = Filter::Like {
            column: "s".into(),
            pattern: "a%".into(),
        };
        let both = Filter::And(vec![compare_n(Comparison::Equal, "1"), like.clone()]);
        assert_eq!(kept(&both), [Some(true), Some(false), Some(false)]);
        let either = Filter::Or(vec![compare_n(Comparison::Equal, "3"), like]);
        assert_eq!(kept(&either), [Some(true), None, Some(true)]);
        let list = Filter::In {
            column: "n".into(),
            literals: vec!["3".into(), "4".into()],
        };
        assert_eq!(kept(&list), [Some(false), None, Some(true)]);
    }

    #[test]
    fn a_literal_of_the_wrong_type_is_named() {
        let error = compare_n(Comparison::Equal, "x")
            .evaluate(&batch())
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("'x' is not a value of column 'n'"),
            "{error}"
        );
    }
}
