//! Which rule merges the rows of a request.

use std::sync::Arc;

use mainstem_types::{MergeEngine, Schema, TableDescriptor};

use super::RowMerger;
use super::aggregate::Aggregate;
use super::first_row::FirstRow;
use super::function::Function;
use super::last_row::LastRow;
use super::partial::PartialUpdate;
use super::target::TargetColumns;
use super::versioned::Versioned;
use crate::{KvError, Result};

/// What the merging of rows needs to know of a table with its latest schema.
#[derive(Clone, Debug)]
pub struct MergeRules {
    engine: Option<MergeEngine>,
    columns: Arc<[ColumnRule]>,
    /// Position of the version column.
    version: Option<usize>,
    /// Position of the auto-increment column.
    auto_increment: Option<usize>,
}

/// What the merging of rows needs to know of a column.
#[derive(Clone, Debug)]
pub(super) struct ColumnRule {
    pub(super) name: String,
    pub(super) is_key: bool,
    pub(super) nullable: bool,
    /// How the aggregation engine merges it.
    pub(super) function: Function,
}

impl MergeRules {
    /// Rules of a table whose newest schema is `latest`.
    ///
    /// Options were checked when the table was made. In a table that another
    /// release let pass, an engine that is unknown here is no engine, a version
    /// column that is missing lets the newest row win, and a function that is
    /// unknown is the default one (tables.md §4.7).
    pub fn new(table: &TableDescriptor, latest: &Schema) -> Self {
        let engine = table.merge_engine().ok().flatten();
        let position = |name: &str| latest.column(name).map(|(position, _)| position);
        let columns = latest.columns.iter().map(|column| {
            let is_key = latest.is_primary_key_column(&column.name);
            ColumnRule {
                name: column.name.clone(),
                is_key,
                nullable: column.data_type.nullable,
                function: Function::of(column, is_key),
            }
        });
        Self {
            engine,
            columns: columns.collect(),
            version: table.version_column().and_then(position),
            auto_increment: latest
                .auto_increment
                .first()
                .and_then(|name| position(name)),
        }
    }

    /// The rule for a request: positions of the columns that it writes, as it gives
    /// them (empty = all), and whether it overwrites (`agg_mode` 1), which puts the
    /// table's merge engine aside.
    ///
    /// # Errors
    /// [`KvError::InvalidTarget`] if there are positions that the table does not
    /// have, or the table cannot be written by just these columns.
    pub fn merger(&self, target_columns: &[i32], overwrite: bool) -> Result<Arc<dyn RowMerger>> {
        let target = match target_columns {
            [] => None,
            positions => Some(TargetColumns::new(positions, &self.columns)?),
        };
        self.check_auto_increment(target.as_ref())?;
        let engine = match overwrite {
            true => None,
            false => self.engine,
        };
        match (engine, target) {
            (None, None) => Ok(Arc::new(LastRow)),
            (None, Some(target)) if target.is_complete() => Ok(Arc::new(LastRow)),
            (None, Some(target)) => {
                target.check("Partial Update")?;
                Ok(Arc::new(PartialUpdate::new(target)))
            }
            (Some(MergeEngine::FirstRow), None) => Ok(Arc::new(FirstRow)),
            (Some(MergeEngine::Versioned), None) => Ok(Arc::new(Versioned::new(self.version))),
            (Some(engine @ (MergeEngine::FirstRow | MergeEngine::Versioned)), Some(_)) => {
                Err(KvError::InvalidTarget(format!(
                    "Partial update is not supported for the {} merge engine.",
                    engine.text().to_ascii_lowercase()
                )))
            }
            (Some(MergeEngine::Aggregation), target) => {
                if let Some(target) = &target {
                    target.check("Partial aggregate")?;
                }
                Ok(Arc::new(Aggregate::new(self.columns.clone(), target)))
            }
        }
    }

    /// The numbers of such a column are the server's alone: a writer has to say
    /// that it leaves the column out (tables.md §4.9).
    fn check_auto_increment(&self, target: Option<&TargetColumns>) -> Result<()> {
        let Some(position) = self.auto_increment else {
            return Ok(());
        };
        let name = &self.columns[position].name;
        match target {
            None => Err(KvError::InvalidTarget(format!(
                "Explicitly specifying values for an auto increment column is not allowed. \
                 The table has the auto-increment column [{name}], \
                 but update target columns are not explicitly specified."
            ))),
            Some(target) if target.contains(position) => Err(KvError::InvalidTarget(format!(
                "Auto-increment column [{name}] at index {position} \
                 must not be included in target columns."
            ))),
            Some(_) => Ok(()),
        }
    }
}
