//! What a tablet server keeps of a table to check and read its batches.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_format::SchemaLayout;
use mainstem_kv::KvTable;
use mainstem_meta::TableEntry;
use mainstem_types::{LogFormat, SchemaId};
use tracing::error;

/// A table as of one version of its description. Replaced as a whole when the
/// table changes; shared by all its replicas.
#[derive(Debug)]
pub struct TableView {
    /// The description.
    pub entry: Arc<TableEntry>,
    /// How batches carry rows.
    pub log_format: LogFormat,
    /// How rows change, of a table with a primary key: its log is written only
    /// through the table, never by ProduceLog.
    pub kv: Option<Arc<KvTable>>,
    /// Whether clients that encode keys the old way would look in the wrong place
    /// (wire.md §2.2).
    pub needs_compacted_keys: bool,
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
            kv: kv_table(&entry),
            needs_compacted_keys: needs_compacted_keys(&entry),
            layouts,
            entry,
        }
    }

    /// Whether the table has a primary key.
    pub fn has_primary_key(&self) -> bool {
        self.entry.descriptor.schema.has_primary_key()
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

fn kv_table(entry: &TableEntry) -> Option<Arc<KvTable>> {
    if !entry.descriptor.schema.has_primary_key() {
        return None;
    }
    let schemas = entry
        .schemas
        .iter()
        .filter_map(|(id, schema)| Some((i16::try_from(id.0).ok()?, schema.clone())));
    KvTable::new(&entry.descriptor, schemas)
        .map(Arc::new)
        .inspect_err(|error| error!(table = %entry.path, %error, "its rows cannot be served"))
        .ok()
}

fn needs_compacted_keys(entry: &TableEntry) -> bool {
    let descriptor = &entry.descriptor;
    descriptor.lake_format().ok().flatten().is_some()
        && descriptor
            .kv_format_version()
            .is_ok_and(|version| version >= 2)
        && !descriptor.has_default_bucket_key()
}
