//! Schemas put together in code: ids are assigned as clients of the 1.0 line do.

use super::{AggFunction, Column, Schema, assign_ids};
use crate::data_type::UNASSIGNED_ID;
use crate::{DataType, DescriptorError};

/// Builds a [`Schema`]; see [`Schema::builder`].
#[derive(Clone, Debug, Default)]
pub struct SchemaBuilder {
    columns: Vec<Column>,
    primary_key: Option<Vec<String>>,
    auto_increment: Vec<String>,
}

impl Schema {
    /// An empty builder.
    pub fn builder() -> SchemaBuilder {
        SchemaBuilder::default()
    }

    /// A schema of columns without a primary key.
    ///
    /// # Errors
    /// A construction rule of tables.md §1.5 does not hold.
    pub fn of<N: Into<String>>(
        columns: impl IntoIterator<Item = (N, DataType)>,
    ) -> Result<Self, DescriptorError> {
        Self::builder().columns(columns).build()
    }
}

impl SchemaBuilder {
    /// Adds a column.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, data_type: DataType) -> Self {
        self.columns.push(Column {
            name: name.into(),
            data_type,
            comment: None,
            agg_function: None,
            id: UNASSIGNED_ID,
        });
        self
    }

    /// Adds several columns.
    #[must_use]
    pub fn columns<N: Into<String>>(
        self,
        columns: impl IntoIterator<Item = (N, DataType)>,
    ) -> Self {
        columns
            .into_iter()
            .fold(self, |builder, (name, data_type)| {
                builder.column(name, data_type)
            })
    }

    /// Comment of the column added last; without one it does nothing.
    #[must_use]
    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        if let Some(column) = self.columns.last_mut() {
            column.comment = Some(comment.into());
        }
        self
    }

    /// Aggregation function of the column added last; without one it does nothing.
    #[must_use]
    pub fn aggregate(mut self, function: AggFunction) -> Self {
        if let Some(column) = self.columns.last_mut() {
            column.agg_function = Some(function);
        }
        self
    }

    /// The primary key, at least one column.
    #[must_use]
    pub fn primary_key<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.primary_key = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// The column that the server numbers.
    #[must_use]
    pub fn auto_increment(mut self, name: impl Into<String>) -> Self {
        self.auto_increment.push(name.into());
        self
    }

    /// Assigns ids depth-first from 0 and applies the rules.
    ///
    /// # Errors
    /// A construction rule of tables.md §1.5 does not hold.
    pub fn build(mut self) -> Result<Schema, DescriptorError> {
        let mut highest = UNASSIGNED_ID;
        for column in &mut self.columns {
            assign_ids(column, &mut highest)?;
        }
        let primary_key = check_not_empty(self.primary_key)?;
        Schema::from_parts(
            self.columns,
            primary_key,
            self.auto_increment,
            Some(highest),
        )
    }
}

/// A primary key that is declared has columns.
pub(super) fn check_not_empty(
    primary_key: Option<Vec<String>>,
) -> Result<Vec<String>, DescriptorError> {
    match primary_key {
        Some(names) if names.is_empty() => Err(DescriptorError::new(
            "Primary key constraint must be defined for at least a single column.",
        )),
        names => Ok(names.unwrap_or_default()),
    }
}
