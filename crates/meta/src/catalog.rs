//! Everything that readers ask for, in memory.
//!
//! A reader takes entries by reference count and keeps a consistent picture of
//! one table however long it works with it. Entries never change; a change puts
//! a new one in the place of the old.

mod change;
mod entry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mainstem_types::{PartitionId, TableId, TablePath};
use parking_lot::{Mutex, RwLock};

pub use change::{CatalogChange, CatalogListener};
pub use entry::{BucketState, DatabaseEntry, PartitionEntry, TableEntry};

use crate::load::Contents;

#[derive(Debug, Default)]
struct Database {
    entry: Arc<DatabaseEntry>,
    tables: BTreeMap<String, Arc<TableEntry>>,
}

#[derive(Debug, Default)]
struct Maps {
    databases: BTreeMap<String, Database>,
    tables: HashMap<TableId, Arc<TableEntry>>,
    partitions: HashMap<PartitionId, Arc<PartitionEntry>>,
    partitions_of: HashMap<TableId, BTreeMap<String, Arc<PartitionEntry>>>,
}

/// The databases, tables and partitions of the cluster.
///
/// Lookups take a lock for the time of a map access and never touch the store.
#[derive(Default)]
pub struct Catalog {
    maps: RwLock<Maps>,
    /// Held while a change is made and told, so that all listeners see all
    /// changes in the order in which readers may see them.
    listeners: Mutex<Vec<Arc<dyn CatalogListener>>>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let maps = self.maps.read();
        formatter
            .debug_struct("Catalog")
            .field("databases", &maps.databases.len())
            .field("tables", &maps.tables.len())
            .field("partitions", &maps.partitions.len())
            .finish_non_exhaustive()
    }
}

impl Catalog {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// A table by its path.
    pub fn table(&self, path: &TablePath) -> Option<Arc<TableEntry>> {
        self.maps.read().table(path).cloned()
    }

    /// A table by its id.
    pub fn table_by_id(&self, id: TableId) -> Option<Arc<TableEntry>> {
        self.maps.read().tables.get(&id).cloned()
    }

    /// All tables, in no order.
    pub fn tables(&self) -> Vec<Arc<TableEntry>> {
        self.maps.read().tables.values().cloned().collect()
    }

    /// A partition by its id.
    pub fn partition_by_id(&self, id: PartitionId) -> Option<Arc<PartitionEntry>> {
        self.maps.read().partitions.get(&id).cloned()
    }

    /// A partition by its name.
    pub fn partition(&self, path: &TablePath, name: &str) -> Option<Arc<PartitionEntry>> {
        let maps = self.maps.read();
        let table = maps.table(path)?;
        maps.partitions_of.get(&table.table_id)?.get(name).cloned()
    }

    /// The partitions of a table, ascending by name.
    pub fn partitions_of(&self, table: TableId) -> Vec<Arc<PartitionEntry>> {
        let maps = self.maps.read();
        maps.partitions_of
            .get(&table)
            .map(|all| all.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Number of partitions of a table.
    pub fn partition_count(&self, table: TableId) -> usize {
        self.maps
            .read()
            .partitions_of
            .get(&table)
            .map_or(0, BTreeMap::len)
    }

    /// All partitions, in no order.
    pub fn partitions(&self) -> Vec<Arc<PartitionEntry>> {
        self.maps.read().partitions.values().cloned().collect()
    }

    /// A database.
    pub fn database(&self, name: &str) -> Option<Arc<DatabaseEntry>> {
        self.maps
            .read()
            .databases
            .get(name)
            .map(|database| Arc::clone(&database.entry))
    }

    /// All databases with their number of tables, ascending by name.
    pub fn databases(&self) -> Vec<(Arc<DatabaseEntry>, usize)> {
        let maps = self.maps.read();
        let databases = maps.databases.values();
        databases
            .map(|database| (Arc::clone(&database.entry), database.tables.len()))
            .collect()
    }

    /// The tables of a database, ascending by name; `None` if it is missing.
    pub fn tables_in(&self, database: &str) -> Option<Vec<Arc<TableEntry>>> {
        let maps = self.maps.read();
        maps.databases
            .get(database)
            .map(|database| database.tables.values().cloned().collect())
    }

    /// Tells a listener of every change from now on.
    pub fn subscribe(&self, listener: Arc<dyn CatalogListener>) {
        self.listeners.lock().push(listener);
    }

    /// Sets a database, new or changed.
    pub fn put_database(&self, entry: Arc<DatabaseEntry>) {
        self.change(|maps, _| maps.put_database(entry));
    }

    /// Removes a database and whatever is in it.
    pub fn remove_database(&self, name: &str) {
        self.change(|maps, changes| {
            if let Some(database) = maps.databases.remove(name) {
                for table in database.tables.values() {
                    maps.forget_table(table, changes);
                }
            }
        });
    }

    /// Sets a table, new or changed. Its database must be there.
    pub fn put_table(&self, table: Arc<TableEntry>) {
        self.change(|maps, changes| maps.put_table(table, changes));
    }

    /// Removes a table with its partitions.
    pub fn remove_table(&self, path: &TablePath) {
        self.change(|maps, changes| {
            let database = maps.databases.get_mut(&path.database);
            if let Some(table) = database.and_then(|database| database.tables.remove(&path.table)) {
                maps.forget_table(&table, changes);
            }
        });
    }

    /// Sets a partition, new or changed. Its table must be there.
    pub fn put_partition(&self, partition: Arc<PartitionEntry>) {
        self.change(|maps, changes| maps.put_partition(partition, changes));
    }

    /// Removes a partition.
    pub fn remove_partition(&self, id: PartitionId) {
        self.change(|maps, changes| maps.remove_partition(id, changes));
    }

    /// Makes the catalog equal to what the store holds. Listeners are told the
    /// differences: drops first, then what is new or changed.
    pub fn replace(&self, contents: Contents) {
        self.change(|maps, changes| {
            let mut fresh = Maps::default();
            let mut untold = Vec::new();
            for entry in contents.databases {
                fresh.put_database(entry);
            }
            for table in contents.tables {
                fresh.put_table(table, &mut untold);
            }
            for partition in contents.partitions {
                fresh.put_partition(partition, &mut untold);
            }
            maps.differences(&fresh, changes);
            *maps = fresh;
        });
    }

    fn change(&self, change: impl FnOnce(&mut Maps, &mut Vec<CatalogChange>)) {
        let listeners = self.listeners.lock();
        let mut changes = Vec::new();
        change(&mut self.maps.write(), &mut changes);
        for change in &changes {
            for listener in listeners.iter() {
                listener.apply(change);
            }
        }
    }
}

impl Maps {
    fn table(&self, path: &TablePath) -> Option<&Arc<TableEntry>> {
        self.databases.get(&path.database)?.tables.get(&path.table)
    }

    fn put_database(&mut self, entry: Arc<DatabaseEntry>) {
        let name = entry.name.clone();
        self.databases.entry(name).or_default().entry = entry;
    }

    fn put_table(&mut self, table: Arc<TableEntry>, changes: &mut Vec<CatalogChange>) {
        let Some(database) = self.databases.get_mut(&table.path.database) else {
            return;
        };
        let before = database
            .tables
            .insert(table.path.table.clone(), Arc::clone(&table));
        self.tables.insert(table.table_id, Arc::clone(&table));
        match before {
            Some(before) if before.table_id == table.table_id => {
                changes.push(CatalogChange::TableAltered { table });
            }
            replaced => {
                if let Some(replaced) = replaced {
                    self.forget_table(&replaced, changes);
                }
                changes.push(CatalogChange::BucketsCreated {
                    table,
                    partition: None,
                });
            }
        }
    }

    /// Removes what is known of a table that is no longer in its database.
    fn forget_table(&mut self, table: &TableEntry, changes: &mut Vec<CatalogChange>) {
        self.tables.remove(&table.table_id);
        let partitions = self
            .partitions_of
            .remove(&table.table_id)
            .unwrap_or_default();
        let mut buckets = table.table_buckets();
        for partition in partitions.values() {
            self.partitions.remove(&partition.partition_id);
            buckets.extend(partition.table_buckets());
        }
        changes.push(CatalogChange::TableDropped {
            table_id: table.table_id,
            buckets,
        });
    }

    fn put_partition(&mut self, partition: Arc<PartitionEntry>, changes: &mut Vec<CatalogChange>) {
        let Some(table) = self.tables.get(&partition.table_id).cloned() else {
            return;
        };
        let siblings = self.partitions_of.entry(partition.table_id).or_default();
        let before = siblings.insert(partition.name.clone(), Arc::clone(&partition));
        self.partitions
            .insert(partition.partition_id, Arc::clone(&partition));
        match before {
            Some(before) if before.partition_id == partition.partition_id => {
                changes.push(CatalogChange::PartitionAltered { table, partition });
            }
            replaced => {
                if let Some(replaced) = replaced {
                    self.partitions.remove(&replaced.partition_id);
                    changes.push(partition_dropped(&replaced));
                }
                changes.push(CatalogChange::BucketsCreated {
                    table,
                    partition: Some(partition),
                });
            }
        }
    }

    fn remove_partition(&mut self, id: PartitionId, changes: &mut Vec<CatalogChange>) {
        let Some(partition) = self.partitions.remove(&id) else {
            return;
        };
        if let Some(siblings) = self.partitions_of.get_mut(&partition.table_id) {
            siblings.remove(&partition.name);
        }
        changes.push(partition_dropped(&partition));
    }

    /// What has to be told so that a listener that knows `self` knows `fresh`.
    fn differences(&self, fresh: &Self, changes: &mut Vec<CatalogChange>) {
        for (id, table) in &self.tables {
            if !fresh.tables.contains_key(id) {
                let mut buckets = table.table_buckets();
                for partition in self
                    .partitions_of
                    .get(id)
                    .into_iter()
                    .flat_map(BTreeMap::values)
                {
                    buckets.extend(partition.table_buckets());
                }
                changes.push(CatalogChange::TableDropped {
                    table_id: *id,
                    buckets,
                });
            }
        }
        for (id, partition) in &self.partitions {
            if !fresh.partitions.contains_key(id) && fresh.tables.contains_key(&partition.table_id)
            {
                changes.push(partition_dropped(partition));
            }
        }
        for (id, table) in &fresh.tables {
            let table = Arc::clone(table);
            match self.tables.get(id) {
                None => changes.push(CatalogChange::BucketsCreated {
                    table,
                    partition: None,
                }),
                Some(before) if *before != table => {
                    changes.push(CatalogChange::TableAltered { table });
                }
                Some(_) => {}
            }
        }
        for (id, partition) in &fresh.partitions {
            let Some(table) = fresh.tables.get(&partition.table_id).cloned() else {
                continue;
            };
            let partition = Arc::clone(partition);
            match self.partitions.get(id) {
                None => changes.push(CatalogChange::BucketsCreated {
                    table,
                    partition: Some(partition),
                }),
                Some(before) if *before != partition => {
                    changes.push(CatalogChange::PartitionAltered { table, partition });
                }
                Some(_) => {}
            }
        }
    }
}

fn partition_dropped(partition: &PartitionEntry) -> CatalogChange {
    CatalogChange::PartitionDropped {
        table_id: partition.table_id,
        partition_id: partition.partition_id,
        buckets: partition.table_buckets(),
    }
}
