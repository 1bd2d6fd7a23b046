//! The coordinator's state and how it changes.

use std::collections::HashSet;
use std::sync::Arc;

use mainstem_env::Clock;
use mainstem_meta::keys::{self, BucketOwner};
use mainstem_meta::records::{
    AssignmentRecord, BucketRecord, ConfigRecord, DatabaseRecord, Record,
};
use mainstem_meta::store::encode_counter;
use mainstem_meta::{
    BucketState, Catalog, DatabaseEntry, MetaStore, PartitionEntry, TableEntry, Transaction, load,
};
use mainstem_types::listeners::Endpoint;
use mainstem_types::validation::Cluster;
use mainstem_types::{BucketId, CoordinatorEpoch, PartitionId, ServerId, TableId};
use parking_lot::{Mutex, MutexGuard, RwLock};
use rand::Rng;

use crate::cluster_config::ClusterConfigListener;
use crate::plan::assignment::{Origin, assign};
use crate::plan::election;
use crate::sequences::Sequences;
use crate::servers::Servers;
use crate::term::Term;
use crate::writer_ids::WriterIds;
use crate::{ApiError, CoordinatorConfig, ServerNode};

/// The database that a new cluster has.
pub(crate) const DEFAULT_DATABASE: &str = "fluss";

/// Most bucket states written by one transaction of an election.
const MAX_ELECTION_BATCH: usize = 1024;

/// Answers requests about metadata and cluster administration.
pub struct Coordinator {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) config: CoordinatorConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) servers: Servers,
    pub(crate) writer_ids: WriterIds,
    pub(crate) sequences: Sequences,
    pub(crate) dynamic_config: RwLock<ConfigRecord>,
    pub(crate) config_listeners: Mutex<Vec<Arc<dyn ClusterConfigListener>>>,
    /// Held by every change from its first look at the catalog to the end of
    /// telling the listeners: changes happen one after another.
    term: Mutex<Term>,
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Coordinator")
            .field("catalog", &self.catalog)
            .finish_non_exhaustive()
    }
}

impl Coordinator {
    /// Takes office on a store: fences earlier coordinators, creates the default
    /// database in an empty store, fills the catalog and tells its listeners.
    ///
    /// Tablet servers are made known with [`Coordinator::register`].
    ///
    /// # Errors
    /// The store cannot be read or written, or holds damaged records.
    pub fn new(
        store: Arc<dyn MetaStore>,
        catalog: Arc<Catalog>,
        config: CoordinatorConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, mainstem_meta::MetaError> {
        let now_ms = clock.now_ms();
        let mut contents = load::load(&*store)?;
        let first = DatabaseRecord {
            created_time: now_ms,
            modified_time: now_ms,
            ..DatabaseRecord::default()
        };
        let is_new = contents.databases.is_empty();
        let mut term = Term::begin(&*store, |transaction| {
            if is_new {
                transaction.put(keys::database(DEFAULT_DATABASE), first.encode())
            } else {
                transaction
            }
        })?;
        if is_new {
            let name = DEFAULT_DATABASE.to_owned();
            contents.databases.push(Arc::new(DatabaseEntry {
                name,
                record: first,
            }));
        }
        term.next_table_id = contents.next_table_id;
        term.next_partition_id = contents.next_partition_id;
        let dynamic_config = RwLock::new(std::mem::take(&mut contents.config));
        tracing::info!(
            epoch = term.epoch.0,
            tables = contents.tables.len(),
            partitions = contents.partitions.len(),
            "coordinator in office"
        );
        catalog.replace(contents);
        Ok(Self {
            writer_ids: WriterIds::new(Arc::clone(&store)),
            sequences: Sequences::new(Arc::clone(&store), term.version),
            store,
            catalog,
            config,
            clock,
            servers: Servers::default(),
            dynamic_config,
            config_listeners: Mutex::new(Vec::new()),
            term: Mutex::new(term),
        })
    }

    /// The catalog that reads are answered from.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The ids that the next table and the next partition get.
    pub fn next_ids(&self) -> (TableId, PartitionId) {
        let term = self.term.lock();
        let (table, partition) = (term.next_table_id, term.next_partition_id);
        (TableId(table), PartitionId(partition))
    }

    /// The epoch of this coordinator.
    pub fn epoch(&self) -> CoordinatorEpoch {
        self.term.lock().epoch
    }

    /// Says where clients find the coordinator on each listener.
    pub fn set_coordinator_endpoints(&self, endpoints: Vec<Endpoint>) {
        self.servers.set_coordinator(endpoints);
    }

    /// A tablet server is there: buckets of its replicas that have no leader, or
    /// one that is gone, get one.
    ///
    /// # Errors
    /// The store failed; the server is known all the same, and calling again
    /// completes the elections.
    pub fn register(&self, node: ServerNode) -> Result<(), ApiError> {
        let mut change = self.change()?;
        let id = node.id;
        self.servers.register(node);
        change.elect(|state| state.replicas.contains(&id))
    }

    /// A tablet server is gone: it leads nothing any more.
    ///
    /// # Errors
    /// The store failed; calling again completes the elections.
    pub fn remove(&self, id: ServerId) -> Result<(), ApiError> {
        let mut change = self.change()?;
        self.servers.remove(id);
        change.elect(|state| state.leader == Some(id))
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// What validation needs to know.
    pub(crate) fn cluster(&self) -> Cluster {
        Cluster {
            default_bucket_number: self.config.default_bucket_number,
            default_replication_factor: self.config.default_replication_factor,
            max_bucket_num: self.config.max_bucket_num,
            allow_log_tables: self.config.allow_create_log_tables,
            allow_kv_tables: self.config.allow_create_kv_tables,
            datalake_format: self.effective_config("datalake.format"),
            live_servers: i32::try_from(self.servers.candidates().len()).unwrap_or(i32::MAX),
        }
    }

    /// The right to change something, alone until it is dropped.
    pub(crate) fn change(&self) -> Result<Change<'_>, ApiError> {
        let mut term = self.term.lock();
        if term.outcome_unknown {
            let mut contents = load::load(&*self.store)?;
            term.next_table_id = contents.next_table_id;
            term.next_partition_id = contents.next_partition_id;
            *self.dynamic_config.write() = std::mem::take(&mut contents.config);
            self.catalog.replace(contents);
            term.outcome_unknown = false;
        }
        Ok(Change {
            coordinator: self,
            term,
        })
    }
}

/// A change under way.
pub(crate) struct Change<'a> {
    pub(crate) coordinator: &'a Coordinator,
    term: MutexGuard<'a, Term>,
}

/// Buckets to create: their states, and what stores them.
pub(crate) struct NewBuckets {
    pub(crate) states: Vec<BucketState>,
    assignment: AssignmentRecord,
    records: Vec<Option<BucketRecord>>,
}

impl Change<'_> {
    pub(crate) fn commit(&mut self, transaction: Transaction) -> Result<(), ApiError> {
        self.term.commit(&*self.coordinator.store, transaction)
    }

    /// An id for a table, to be stored by the transaction that uses it.
    pub(crate) fn next_table_id(&self) -> TableId {
        TableId(self.term.next_table_id)
    }

    /// Records in a transaction that the next table id is used.
    pub(crate) fn use_table_id(&self, transaction: Transaction) -> Transaction {
        transaction.put(
            keys::NEXT_TABLE_ID,
            encode_counter(self.term.next_table_id + 1),
        )
    }

    /// The ids that partitions created by one transaction get, from this one on.
    pub(crate) fn next_partition_id(&self) -> PartitionId {
        PartitionId(self.term.next_partition_id)
    }

    /// Records in a transaction that partition ids below `next` are used.
    pub(crate) fn use_partition_ids(
        &self,
        transaction: Transaction,
        next: PartitionId,
    ) -> Transaction {
        transaction.put(keys::NEXT_PARTITION_ID, encode_counter(next.0))
    }

    /// Says that ids have been used: after the commit.
    pub(crate) fn ids_used(&mut self, tables: i64, next_partition: PartitionId) {
        self.term.next_table_id += tables;
        self.term.next_partition_id = next_partition.0;
    }

    /// Places buckets on the live servers and elects their first leaders.
    pub(crate) fn plan_buckets(
        &self,
        buckets: i32,
        replication_factor: i32,
    ) -> Result<NewBuckets, ApiError> {
        let servers = &self.coordinator.servers;
        let candidates = servers.candidates();
        let count = candidates.len().max(1);
        let mut random = rand::rng();
        let origin = Origin {
            start: random.random_range(0..count),
            shift: random.random_range(0..count),
        };
        let replicas = assign(buckets, replication_factor, &candidates, origin)?;
        let epoch = self.term.epoch;
        let is_live = |server| servers.is_live(server);
        let records: Vec<Option<BucketRecord>> = replicas
            .iter()
            .map(|replicas| election::initial(replicas, &is_live, epoch))
            .collect();
        let assignment: Vec<Vec<i32>> = replicas
            .iter()
            .map(|ids| ids.iter().map(|id| id.0).collect())
            .collect();
        let states = assignment
            .iter()
            .zip(&records)
            .map(|(replicas, record)| BucketState::new(replicas, record.as_ref()))
            .collect();
        Ok(NewBuckets {
            states,
            assignment: AssignmentRecord {
                buckets: assignment,
            },
            records,
        })
    }

    /// Elects leaders for the buckets that `concerns` selects and whose leader
    /// is missing or not live. A bucket for which nobody may lead loses its
    /// leader.
    fn elect(&mut self, concerns: impl Fn(&BucketState) -> bool) -> Result<(), ApiError> {
        let servers = &self.coordinator.servers;
        let is_live = |server| servers.is_live(server);
        let epoch = self.term.epoch;
        let decide = |state: &BucketState| -> Option<BucketRecord> {
            let led = state.leader.is_some_and(is_live);
            if led || !concerns(state) {
                return None;
            }
            election::elect(state, &is_live, epoch).or_else(|| election::leaderless(state, epoch))
        };
        let mut elections: Vec<(BucketOwner, usize, BucketRecord)> = Vec::new();
        let catalog = Arc::clone(&self.coordinator.catalog);
        for table in catalog.tables() {
            let owner = BucketOwner::Table(table.table_id);
            collect(&mut elections, owner, &table.buckets, &decide);
        }
        for partition in catalog.partitions() {
            let owner = BucketOwner::Partition(partition.partition_id);
            collect(&mut elections, owner, &partition.buckets, &decide);
        }
        for batch in elections.chunks(MAX_ELECTION_BATCH) {
            let mut transaction = Transaction::new();
            for (owner, bucket, record) in batch {
                let key = keys::bucket(*owner, BucketId(*bucket as i32));
                transaction = transaction.put(key, record.encode());
            }
            self.commit(transaction)?;
            self.show_elections(batch);
        }
        Ok(())
    }

    fn show_elections(&self, elections: &[(BucketOwner, usize, BucketRecord)]) {
        let catalog = &self.coordinator.catalog;
        let owners: HashSet<BucketOwner> = elections.iter().map(|(owner, ..)| *owner).collect();
        for owner in owners {
            let apply = |buckets: &mut Vec<BucketState>| {
                for (_, bucket, record) in elections.iter().filter(|(of, ..)| *of == owner) {
                    buckets[*bucket] = election::after(&buckets[*bucket], record);
                }
            };
            match owner {
                BucketOwner::Table(id) => {
                    if let Some(table) = catalog.table_by_id(id) {
                        let mut table = TableEntry::clone(&table);
                        apply(&mut table.buckets);
                        catalog.put_table(Arc::new(table));
                    }
                }
                BucketOwner::Partition(id) => {
                    if let Some(partition) = catalog.partition_by_id(id) {
                        let mut partition = PartitionEntry::clone(&partition);
                        apply(&mut partition.buckets);
                        catalog.put_partition(Arc::new(partition));
                    }
                }
            }
        }
    }
}

fn collect(
    elections: &mut Vec<(BucketOwner, usize, BucketRecord)>,
    owner: BucketOwner,
    buckets: &[BucketState],
    decide: &dyn Fn(&BucketState) -> Option<BucketRecord>,
) {
    for (bucket, state) in buckets.iter().enumerate() {
        if let Some(record) = decide(state) {
            elections.push((owner, bucket, record));
        }
    }
}

impl NewBuckets {
    /// Adds what stores the buckets to a transaction.
    pub(crate) fn store(&self, owner: BucketOwner, transaction: Transaction) -> Transaction {
        let mut transaction = transaction.put(keys::assignment(owner), self.assignment.encode());
        for (bucket, record) in (0..).zip(&self.records) {
            if let Some(record) = record {
                transaction =
                    transaction.put(keys::bucket(owner, BucketId(bucket)), record.encode());
            }
        }
        transaction
    }
}

/// Adds what removes the buckets of an owner to a transaction.
pub(crate) fn forget_buckets(owner: BucketOwner, transaction: Transaction) -> Transaction {
    transaction
        .delete(keys::assignment(owner))
        .delete_prefix(keys::buckets(owner))
}
