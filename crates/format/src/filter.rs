//! Whether a batch can hold a row that a predicate wants, by its statistics
//! (formats.md §2.4).
//!
//! A filter only ever leaves out batches that surely have no match; whatever is
//! unknown or unusual keeps the batch. The reader tests the rows again.

use std::sync::Arc;

use mainstem_types::{DataType, TypeKind};

use crate::header::BatchHeader;
use crate::predicate::{LeafFunction, Predicate};
use crate::schema_layout::SchemaLayout;
use crate::statistics::Statistics;
use crate::value::Value;

mod leaf;

use leaf::{ColumnRange, Unknown};

/// Nesting of a predicate. One that is deeper is not evaluated.
const MAX_DEPTH: usize = 64;
/// Leaves and literals of a predicate, so that testing a batch takes some ten
/// microseconds at most.
const MAX_TESTS: usize = 4096;

/// A predicate on batches of one table, compiled for each of its schema
/// versions.
#[derive(Clone, Debug)]
pub struct Filter {
    test: Test,
    columns: Vec<Column>,
    /// By schema id: positions of `columns` in that schema.
    versions: Vec<(i16, Vec<Option<usize>>)>,
}

#[derive(Clone, Debug)]
enum Test {
    Leaf {
        function: LeafFunction,
        column: usize,
        literals: Vec<Value<'static>>,
    },
    And(Vec<Test>),
    Or(Vec<Test>),
}

#[derive(Clone, Debug)]
struct Column {
    id: i32,
    data_type: DataType,
}

impl Filter {
    /// Compiles a predicate whose column ids are those of the schema
    /// `filter_schema_id`. `versions` are the table's schemas by id.
    ///
    /// `None` if the predicate is unusable: an unknown schema or column, a
    /// literal of another type than its column, a wrong number of literals or
    /// children, or a size beyond all reason. The table is then read unfiltered.
    pub fn new(
        versions: &[(i16, Arc<SchemaLayout>)],
        filter_schema_id: i16,
        predicate: &Predicate,
    ) -> Option<Self> {
        let (_, schema) = versions.iter().find(|(id, _)| *id == filter_schema_id)?;
        let mut compiler = Compiler {
            schema,
            columns: Vec::new(),
            tests: 0,
        };
        let test = compiler.compile(predicate, 0)?;
        let columns = compiler.columns;
        let positions_in = |layout: &SchemaLayout| {
            let position = |column: &Column| {
                layout.position_of(column.id).filter(|position| {
                    layout.columns()[*position].data_type.kind == column.data_type.kind
                })
            };
            columns.iter().map(position).collect()
        };
        let mut versions: Vec<_> = versions
            .iter()
            .map(|(id, layout)| (*id, positions_in(layout)))
            .collect();
        versions.sort_by_key(|(id, _)| *id);
        Some(Self {
            test,
            columns,
            versions,
        })
    }

    /// Whether the batch may hold a matching row. `statistics` is its statistics
    /// block (see [`crate::ReadWindow::statistics`]); without one the answer is
    /// yes.
    pub fn may_match(&self, header: &BatchHeader, statistics: &[u8]) -> bool {
        let Ok(Some(statistics)) = Statistics::parse(statistics) else {
            return true;
        };
        let found = self
            .versions
            .binary_search_by_key(&header.schema_id, |(id, _)| *id);
        let Ok(version) = found else { return true };
        let batch = Batch {
            columns: &self.columns,
            positions: &self.versions[version].1,
            statistics,
            record_count: header.record_count,
        };
        batch.may_match(&self.test).unwrap_or(true)
    }
}

struct Compiler<'a> {
    schema: &'a SchemaLayout,
    columns: Vec<Column>,
    tests: usize,
}

impl Compiler<'_> {
    /// Recursion is bounded by [`MAX_DEPTH`].
    fn compile(&mut self, predicate: &Predicate, depth: usize) -> Option<Test> {
        let weight = match predicate {
            Predicate::Leaf { literals, .. } => 1 + literals.len(),
            Predicate::And(_) | Predicate::Or(_) => 1,
        };
        self.tests = self.tests.saturating_add(weight);
        if depth > MAX_DEPTH || self.tests > MAX_TESTS {
            return None;
        }
        match predicate {
            Predicate::Leaf {
                function,
                column_id,
                literals,
            } => self.compile_leaf(*function, *column_id, literals),
            Predicate::And(children) => Some(Test::And(self.compile_all(children, depth)?)),
            Predicate::Or(children) => Some(Test::Or(self.compile_all(children, depth)?)),
        }
    }

    fn compile_all(&mut self, children: &[Predicate], depth: usize) -> Option<Vec<Test>> {
        if children.is_empty() {
            return None;
        }
        children
            .iter()
            .map(|child| self.compile(child, depth + 1))
            .collect()
    }

    fn compile_leaf(
        &mut self,
        function: LeafFunction,
        column_id: i32,
        literals: &[Value<'static>],
    ) -> Option<Test> {
        let column = &self.schema.columns()[self.schema.position_of(column_id)?];
        let kind = &column.data_type.kind;
        let count_fits = match function {
            LeafFunction::IsNull | LeafFunction::IsNotNull => literals.is_empty(),
            LeafFunction::In | LeafFunction::NotIn => !literals.is_empty(),
            _ => literals.len() == 1,
        };
        if !count_fits || !literals.iter().all(|literal| is_of_type(literal, kind)) {
            return None;
        }
        let is_text = matches!(kind, TypeKind::Char { .. } | TypeKind::String);
        let needs_text = matches!(
            function,
            LeafFunction::StartsWith | LeafFunction::Contains | LeafFunction::EndsWith
        );
        if needs_text && !is_text {
            return None;
        }
        let known = self.columns.iter().position(|known| known.id == column_id);
        let index = known.unwrap_or_else(|| {
            self.columns.push(Column {
                id: column_id,
                data_type: column.data_type.clone(),
            });
            self.columns.len() - 1
        });
        Some(Test::Leaf {
            function,
            column: index,
            literals: literals.to_vec(),
        })
    }
}

/// Whether a literal is null or a value of the type.
fn is_of_type(literal: &Value<'_>, kind: &TypeKind) -> bool {
    match literal {
        Value::Null => true,
        Value::Boolean(_) => matches!(kind, TypeKind::Boolean),
        Value::TinyInt(_) => matches!(kind, TypeKind::TinyInt),
        Value::SmallInt(_) => matches!(kind, TypeKind::SmallInt),
        Value::Int(_) => matches!(kind, TypeKind::Int),
        Value::BigInt(_) => matches!(kind, TypeKind::BigInt),
        Value::Float(_) => matches!(kind, TypeKind::Float),
        Value::Double(_) => matches!(kind, TypeKind::Double),
        Value::String(_) => matches!(kind, TypeKind::Char { .. } | TypeKind::String),
        Value::Bytes(_) => matches!(kind, TypeKind::Binary { .. } | TypeKind::Bytes),
        Value::Decimal(_) => matches!(kind, TypeKind::Decimal { .. }),
        Value::Date(_) => matches!(kind, TypeKind::Date),
        Value::Time(_) => matches!(kind, TypeKind::Time { .. }),
        Value::Timestamp(_) => {
            matches!(
                kind,
                TypeKind::Timestamp { .. } | TypeKind::TimestampLtz { .. }
            )
        }
        Value::Array(_) | Value::Map(_) | Value::Row(_) => false,
    }
}

/// A batch under test.
struct Batch<'a> {
    columns: &'a [Column],
    positions: &'a [Option<usize>],
    statistics: Statistics<'a>,
    record_count: i32,
}

impl Batch<'_> {
    /// Children are tested in order, and what is unknown ends the evaluation,
    /// unless an earlier child has decided it.
    fn may_match(&self, test: &Test) -> Result<bool, Unknown> {
        match test {
            Test::Leaf {
                function,
                column,
                literals,
            } => self.range(*column)?.may_match(*function, literals),
            Test::And(children) => {
                for child in children {
                    if !self.may_match(child)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Test::Or(children) => {
                for child in children {
                    if self.may_match(child)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn range(&self, column: usize) -> Result<ColumnRange<'_>, Unknown> {
        let position = self.positions[column].ok_or(Unknown)?;
        let index = self.statistics.find(position).ok_or(Unknown)?;
        let data_type = &self.columns[column].data_type;
        Ok(ColumnRange {
            min: self.statistics.min(index, data_type).map_err(|_| Unknown)?,
            max: self.statistics.max(index, data_type).map_err(|_| Unknown)?,
            null_count: self.statistics.null_count(index),
            record_count: self.record_count,
        })
    }
}

#[cfg(test)]
mod tests;
