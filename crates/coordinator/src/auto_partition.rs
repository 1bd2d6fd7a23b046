//! Partitions that come and go with time (cluster.md §3.8, tables.md §5.3–5.4).

use std::collections::HashSet;
use std::sync::Arc;

use mainstem_meta::{PartitionEntry, TableEntry, Transaction};
use mainstem_types::auto_partition::{AutoPartitionStrategy, MAX_JITTER_MINUTES, Plan};
use mainstem_types::partition::Partition;
use mainstem_types::{TableId, TablePath};

use crate::coordinator::Change;
use crate::new_partitions::NewPartitions;
use crate::{ApiError, Coordinator};

/// Most buckets that one round creates in one table. One request of a client can
/// ask for a thousand partitions of thousands of buckets; the rest of them comes
/// with the next rounds.
const MAX_ROUND_BUCKETS: usize = 16_384;

impl Coordinator {
    /// Creates the partitions that are due and drops those whose time is over,
    /// in all tables that ask for it; to be called from time to time
    /// (`auto-partition.check.interval`). A table that fails does not stop the
    /// others: it is tried again at the next call.
    pub fn tick(&self) {
        for table in self.catalog.tables() {
            if !table.is_partitioned() {
                continue;
            }
            match self.change() {
                Ok(mut change) => change.auto_partition(&table.path, false),
                Err(error) => {
                    tracing::warn!(%error, "auto partition: metadata cannot be changed now");
                    return;
                }
            }
        }
    }
}

impl Change<'_> {
    /// The partitions that a table to create has from the start. What cannot be
    /// created now is left for later.
    pub(crate) fn plan_first_partitions(&self, table: &TableEntry, now_ms: i64) -> NewPartitions {
        let mut new = NewPartitions::new(self);
        let plan = self.plan_partitions(table, &[], now_ms, true);
        self.plan_due(&mut new, table, plan.create);
        new
    }

    /// Brings the partitions of a table up to date at once, after a change of
    /// its options.
    pub(crate) fn auto_partition_now(&mut self, path: &TablePath) {
        self.auto_partition(path, true);
    }

    /// Failures are logged: nobody waits for this.
    fn auto_partition(&mut self, path: &TablePath, forced: bool) {
        let catalog = Arc::clone(&self.coordinator.catalog);
        let Some(table) = catalog.table(path) else {
            return;
        };
        let existing = catalog.partitions_of(table.table_id);
        let plan = self.plan_partitions(&table, &existing, self.coordinator.now_ms(), forced);
        let doomed: HashSet<&str> = plan.drop.iter().map(String::as_str).collect();
        let doomed: Vec<Arc<PartitionEntry>> = existing
            .into_iter()
            .filter(|partition| doomed.contains(partition.name.as_str()))
            .collect();
        if !doomed.is_empty() {
            tracing::info!(%path, partitions = ?plan.drop, "auto partition: drop");
            if let Err(error) = self.drop_partitions(&doomed) {
                tracing::warn!(%path, %error, "auto partition: drop failed");
                return;
            }
        }
        let mut new = NewPartitions::new(self);
        self.plan_due(&mut new, &table, plan.create);
        if new.is_empty() {
            return;
        }
        let transaction = new.store(self, Transaction::new());
        match self.commit(transaction) {
            Ok(()) => {
                self.ids_used(0, new.next_id());
                new.show(&catalog);
            }
            Err(error) => tracing::warn!(%path, %error, "auto partition: create failed"),
        }
    }

    fn plan_partitions(
        &self,
        table: &TableEntry,
        existing: &[Arc<PartitionEntry>],
        now_ms: i64,
        forced: bool,
    ) -> Plan {
        if !table.is_partitioned() {
            return Plan::default();
        }
        let strategy = match strategy(table) {
            Ok(strategy) => strategy,
            Err(error) => {
                tracing::warn!(path = %table.path, %error, "auto partition: unusable options");
                return Plan::default();
            }
        };
        let names: Vec<&str> = existing
            .iter()
            .map(|partition| partition.name.as_str())
            .collect();
        let most = usize::try_from(self.coordinator.config.max_partition_num).unwrap_or(0);
        let plan = strategy.plan(&names, now_ms, jitter_minutes(table.table_id), forced, most);
        if plan.limited {
            tracing::warn!(path = %table.path, most, "auto partition: the table has all it may have");
        }
        plan
    }

    fn plan_due(&self, new: &mut NewPartitions, table: &TableEntry, names: Vec<String>) {
        for name in names {
            let buckets = usize::try_from(table.bucket_count()).unwrap_or(0);
            if !new.is_empty() && new.bucket_count() + buckets > MAX_ROUND_BUCKETS {
                tracing::info!(path = %table.path, "auto partition: the rest follows later");
                return;
            }
            if let Err(error) = new.plan(self, table, name) {
                tracing::warn!(path = %table.path, %error, "auto partition: create failed");
                return;
            }
        }
    }
}

fn strategy(table: &TableEntry) -> Result<AutoPartitionStrategy, ApiError> {
    let descriptor = &table.descriptor;
    Ok(AutoPartitionStrategy::from_properties(
        &descriptor.partition_keys,
        &descriptor.properties,
    )?)
}

/// The delay of a table's daily partitions, always the same for one table:
/// spread over the day, so that all tables do not create theirs at midnight.
fn jitter_minutes(table: TableId) -> u32 {
    let spread = table.0.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    u32::try_from(spread).unwrap_or(0) % (MAX_JITTER_MINUTES + 1)
}

/// Refuses a partition that a client wants to create although its time is over,
/// or is not told in the table's form (tables.md §5.3).
pub(crate) fn check_time(
    table: &TableEntry,
    partition: &Partition,
    now_ms: i64,
) -> Result<(), ApiError> {
    let strategy = strategy(table)?;
    match partition.values().get(strategy.key_index) {
        Some(value) => Ok(strategy.check_create(value, now_ms)?),
        None => Ok(()),
    }
}
