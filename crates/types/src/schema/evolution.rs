//! Adding columns to a schema (tables.md §2.3).

use std::collections::HashSet;

use super::{AggFunction, Column, Schema, assign_ids};
use crate::data_type::UNASSIGNED_ID;
use crate::{DataType, ErrorCode, TableError};

/// A column to add behind the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewColumn {
    /// Name.
    pub name: String,
    /// Type, nullable. Ids of nested fields are assigned anew.
    pub data_type: DataType,
    /// Comment.
    pub comment: Option<String>,
    /// Aggregation function.
    pub agg_function: Option<AggFunction>,
}

impl NewColumn {
    /// A column without comment and function.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            name: name.into(),
            data_type,
            comment: None,
            agg_function: None,
        }
    }
}

impl Schema {
    /// The next version of the schema, with some columns more. They take the ids
    /// after `highest_field_id`, each before the fields inside it.
    ///
    /// What depends on the table, such as its merge engine and reserved names,
    /// is checked by `validation::alter_columns`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidAlterTable`] if a name is there already, also among
    /// the new columns; [`ErrorCode::UnknownServerError`], as the reference
    /// says, for a column that is not nullable, a blank name or a bad type.
    pub fn add_columns(&self, added: &[NewColumn]) -> Result<Self, TableError> {
        let mut columns = self.columns.clone();
        let mut names: HashSet<&str> = self
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let mut highest = self.highest_field_id;
        for new in added {
            if !names.insert(new.name.as_str()) {
                return Err(TableError::invalid_alter(format!(
                    "Column {} already exists.",
                    new.name
                )));
            }
            if !new.data_type.nullable {
                return Err(refused(format!("Column {} must be nullable.", new.name)));
            }
            let mut column = Column {
                name: new.name.clone(),
                data_type: new.data_type.clone(),
                comment: new.comment.clone(),
                agg_function: new.agg_function.clone(),
                id: UNASSIGNED_ID,
            };
            assign_ids(&mut column, &mut highest).map_err(|error| refused(error.to_string()))?;
            columns.push(column);
        }
        Self::from_parts(
            columns,
            self.primary_key.clone(),
            self.auto_increment.clone(),
            Some(highest),
        )
        .map_err(|error| refused(error.to_string()))
    }
}

fn refused(message: String) -> TableError {
    TableError::new(ErrorCode::UnknownServerError, message)
}
