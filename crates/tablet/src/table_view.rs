//! What a tablet server keeps of a table to check and read its batches.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_format::SchemaLayout;
use mainstem_meta::TableEntry;
use mainstem_types::{LogFormat, SchemaId};

/// A table as of one version of its description. Replaced as a whole when the
/// table changes; shared by all its replicas.
#[derive(Debug)]
pub struct TableView {
    /// The description.
    pub entry: Arc<TableEntry>,
    /// How batches carry rows.
    pub log_format: LogFormat,
    /// Whether the table has a primary key: its log is written only through the
    /// table, never by ProduceLog.
    pub has_primary_key: bool,
    /// `table.log.ttl`; `None` = records are kept for ever.
    pub log_ttl_ms: Option<i64>,
    layouts: HashMap<i16, Arc<SchemaLayout>>,
}

impl TableView {
    /// The view of a description.
    pub fn new(entry: Arc<TableEntry>) -> Self {
        let layouts = entry
            .schemas
            .iter()
            .filter_map(|(id, schema)| {
                Some((
                    i16::try_from(id.0).ok()?,
                    Arc::new(SchemaLayout::new(schema)),
                ))
            })
            .collect();
        // The options were checked when the table was created or altered.
        let ttl = entry.descriptor.log_ttl().unwrap_or_default();
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        Self {
            log_format: entry.descriptor.log_format().unwrap_or_default(),
            log_ttl_ms: (ttl_ms > 0).then_some(ttl_ms),
            has_primary_key: entry.descriptor.schema.has_primary_key(),
            layouts,
            entry,
        }
    }

    /// Arrow layout of a schema version; `None` if the table has no such version.
    pub fn layout(&self, schema_id: i16) -> Option<&Arc<SchemaLayout>> {
        self.layouts.get(&schema_id)
    }

    /// Layout of the current schema version.
    pub fn current_layout(&self) -> Option<&Arc<SchemaLayout>> {
        i16::try_from(self.entry.schema_id.0)
            .ok()
            .and_then(|id| self.layout(id))
    }

    /// All schema versions by id.
    pub fn layouts(&self) -> &HashMap<i16, Arc<SchemaLayout>> {
        &self.layouts
    }

    /// Current schema version.
    pub fn schema_id(&self) -> SchemaId {
        self.entry.schema_id
    }
}
