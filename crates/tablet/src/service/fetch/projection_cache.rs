//! Compiled projections by table and fields.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_format::projection::{Projection, ProjectionError};
use parking_lot::Mutex;

use crate::table_view::TableView;

/// Fields of the projections kept, by schema version; when they are more, all
/// are forgotten. Readers of a table share a handful of projections.
const MAX_FIELDS: usize = 200_000;

type Key = (i64, i32, Vec<i32>);

/// See the module.
#[derive(Debug, Default)]
pub(in crate::service) struct ProjectionCache {
    compiled: Mutex<Compiled>,
}

#[derive(Debug, Default)]
struct Compiled {
    projections: HashMap<Key, Arc<Projection>>,
    fields: usize,
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
        if let Some(projection) = self.compiled.lock().projections.get(&key) {
            return Ok(projection.clone());
        }
        let versions: Vec<_> = table
            .layouts()
            .iter()
            .map(|(id, layout)| (*id, layout.clone()))
            .collect();
        let projection = Arc::new(Projection::new(&versions, fields)?);
        // An entry without fields takes room as well.
        let cost = versions.len() * (fields.len() + 8);
        let mut compiled = self.compiled.lock();
        if compiled.fields + cost > MAX_FIELDS {
            *compiled = Compiled::default();
        }
        compiled.fields += cost;
        compiled.projections.insert(key, projection.clone());
        Ok(projection)
    }
}
