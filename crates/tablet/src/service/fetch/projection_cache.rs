//! Compiled projections by table and fields.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_format::projection::{Projection, ProjectionError};
use parking_lot::Mutex;

use crate::table_view::TableView;

/// Projections kept; when they are more, all are forgotten. Readers of a table
/// share a handful.
const CAPACITY: usize = 1_024;

type Key = (i64, i32, Vec<i32>);

/// See the module.
#[derive(Debug, Default)]
pub(in crate::service) struct ProjectionCache {
    compiled: Mutex<HashMap<Key, Arc<Projection>>>,
}

impl ProjectionCache {
    /// The projection of a table as of its present schemas.
    ///
    /// # Errors
    /// The fields do not fit the table.
    pub fn get(
        &self,
        table: &TableView,
        fields: &[i32],
    ) -> Result<Arc<Projection>, ProjectionError> {
        let key = (table.entry.table_id.0, table.schema_id().0, fields.to_vec());
        if let Some(projection) = self.compiled.lock().get(&key) {
            return Ok(projection.clone());
        }
        let versions: Vec<_> = table
            .layouts()
            .iter()
            .map(|(id, layout)| (*id, layout.clone()))
            .collect();
        let projection = Arc::new(Projection::new(&versions, fields)?);
        let mut compiled = self.compiled.lock();
        if compiled.len() >= CAPACITY {
            compiled.clear();
        }
        compiled.insert(key, projection.clone());
        Ok(projection)
    }
}
