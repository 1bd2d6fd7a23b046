//! The embedded store: one redb file.
//!
//! **On disk.** Three tables. `entries`: key → 8 bytes version, big endian, then
//! the value. `ephemeral`: keys that belonged to a session. `store`: `format`
//! (1) and `revision`, the newest one. redb checksums its pages.
//!
//! **Order of writes.** A transaction writes new pages and then the root that
//! refers to them, and syncs before it returns. A crash before the sync leaves
//! the old root or a complete new one, which its checksum tells. Ephemeral keys
//! that a crash left behind are removed when the file is opened. The file itself
//! is made under another name and renamed when it is whole.
//!
//! **Failures.** After a failed write redb refuses everything until the file is
//! opened again; the store does that by itself at the next call, so it works
//! again as soon as the disk does. Whether the failed transaction was applied is
//! then seen by reading.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use parking_lot::RwLock;
use redb::{ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use super::engine::{Backing, Engine, ReadTree, WriteTree, impl_store_by_engine};
use super::{Entry, Listing, MetaStore, Revision, SessionId, Transaction, Watch};
use crate::MetaError;

const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
const EPHEMERAL: TableDefinition<'_, &str, ()> = TableDefinition::new("ephemeral");
const STORE: TableDefinition<'_, &str, u64> = TableDefinition::new("store");
const FORMAT: &str = "format";
const REVISION: &str = "revision";
const FORMAT_VERSION: u64 = 1;

/// Pages that redb keeps in memory. Readers are served by the catalog, so the
/// cache only has to hold the upper levels of the trees.
const CACHE_BYTES: usize = 2 << 20;

/// A [`MetaStore`] in one file, for a single process.
#[derive(Debug)]
pub struct EmbeddedStore(Engine<Redb>);

impl EmbeddedStore {
    /// Opens the store in a file, or creates it.
    ///
    /// Fails with [`MetaError::Locked`] if another process has it open, with
    /// [`MetaError::Corrupt`] if it is not a store or one of a later version.
    pub fn open(path: &Path) -> Result<Self, MetaError> {
        let path = path.to_owned();
        Self::with_opener(Box::new(move || open_file(&path)))
    }

    /// Opens the store on a backend made by `backend`, which is called again
    /// after a failure. For tests of crashes and full disks.
    pub fn open_on<S: StorageBackend>(
        backend: impl Fn() -> S + Send + Sync + 'static,
    ) -> Result<Self, MetaError> {
        Self::with_opener(Box::new(move || open_database(backend(), "store")))
    }

    fn with_opener(open: Opener) -> Result<Self, MetaError> {
        let database = open()?;
        let backing = Redb {
            open,
            database: RwLock::new(Some(database)),
        };
        Ok(Self(Engine::new(backing)?))
    }
}

impl_store_by_engine!(EmbeddedStore);

type Opener = Box<dyn Fn() -> Result<redb::Database, MetaError> + Send + Sync>;

fn open_file(path: &Path) -> Result<redb::Database, MetaError> {
    if !path.exists() {
        create_file(path)?;
    }
    open_existing(path)
}

/// Makes an empty store under another name first: a store whose creation was
/// cut short cannot be told from a damaged one.
fn create_file(path: &Path) -> Result<(), MetaError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let unfinished = Path::new(&name);
    let failed = |error: std::io::Error| MetaError::Unavailable {
        reason: format!("cannot create {}: {error}", path.display()),
    };
    match std::fs::remove_file(unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    drop(open_existing(unfinished)?);
    std::fs::rename(unfinished, path).map_err(failed)?;
    if let Some(directory) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(failed)?;
    }
    Ok(())
}

fn open_existing(path: &Path) -> Result<redb::Database, MetaError> {
    let place = path.display().to_string();
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let file = file.map_err(|error| MetaError::Unavailable {
        reason: format!("cannot open {place}: {error}"),
    })?;
    let backend = redb::backends::FileBackend::new(file)
        .map_err(|error| from_redb(error.into()).at(&place))?;
    open_database(backend, &place)
}

fn open_database(backend: impl StorageBackend, place: &str) -> Result<redb::Database, MetaError> {
    let database = redb::Builder::new()
        .set_cache_size(CACHE_BYTES)
        .create_with_backend(backend)
        .map_err(|error| from_redb(error.into()).at(place))?;
    prepare(&database).map_err(|error| error.at(place))?;
    Ok(database)
}

/// Checks the format, creates the tables, removes ephemeral keys.
fn prepare(database: &redb::Database) -> Result<(), MetaError> {
    let transaction = database.begin_read().map_err(redb_error)?;
    let format = match transaction.open_table(STORE) {
        Ok(store) => store
            .get(FORMAT)
            .map_err(redb_error)?
            .map(|format| format.value()),
        Err(redb::TableError::TableDoesNotExist(_)) => None,
        Err(error) => return Err(redb_error(error)),
    };
    if let Some(format) = format {
        if format != FORMAT_VERSION {
            return Err(MetaError::Corrupt {
                place: String::new(),
                reason: format!("format {format}, this version reads {FORMAT_VERSION}"),
            });
        }
        let ephemeral = transaction.open_table(EPHEMERAL).map_err(redb_error)?;
        if ephemeral.first().map_err(redb_error)?.is_none() {
            return Ok(());
        }
    }
    drop(transaction);
    let transaction = database.begin_write().map_err(redb_error)?;
    {
        let mut store = transaction.open_table(STORE).map_err(redb_error)?;
        let mut entries = transaction.open_table(ENTRIES).map_err(redb_error)?;
        let mut ephemeral = transaction.open_table(EPHEMERAL).map_err(redb_error)?;
        store.insert(FORMAT, FORMAT_VERSION).map_err(redb_error)?;
        let mut removed = false;
        while let Some((key, ())) = ephemeral
            .pop_first()
            .map_err(redb_error)?
            .map(|(key, _)| (key.value().to_owned(), ()))
        {
            removed |= entries.remove(key.as_str()).map_err(redb_error)?.is_some();
        }
        if removed {
            let revision = store
                .get(REVISION)
                .map_err(redb_error)?
                .map_or(0, |guard| guard.value());
            store.insert(REVISION, revision + 1).map_err(redb_error)?;
        }
    }
    transaction.commit().map_err(redb_error)
}

/// The redb database, opened again after a failure.
struct Redb {
    open: Opener,
    database: RwLock<Option<redb::Database>>,
}

impl std::fmt::Debug for Redb {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Redb").finish_non_exhaustive()
    }
}

impl Redb {
    fn with_database<T>(
        &self,
        run: impl FnOnce(&redb::Database) -> Result<T, MetaError>,
    ) -> Result<T, MetaError> {
        let mut database = self.database.read();
        if database.is_none() {
            drop(database);
            let mut slot = self.database.write();
            if slot.is_none() {
                *slot = Some((self.open)()?);
                tracing::info!("metadata store opened again after a failure");
            }
            database = parking_lot::RwLockWriteGuard::downgrade(slot);
        }
        let Some(open) = database.as_ref() else {
            return Err(MetaError::Unavailable {
                reason: "the store is closed".to_owned(),
            });
        };
        let outcome = run(open);
        if matches!(outcome, Err(MetaError::Unavailable { .. })) {
            drop(database);
            *self.database.write() = None;
        }
        outcome
    }
}

impl Backing for Redb {
    fn read(
        &self,
        read: &mut dyn FnMut(&dyn ReadTree) -> Result<(), MetaError>,
    ) -> Result<(), MetaError> {
        self.with_database(|database| {
            let transaction = database.begin_read().map_err(redb_error)?;
            let tree = Tree {
                entries: transaction.open_table(ENTRIES).map_err(redb_error)?,
                store: transaction.open_table(STORE).map_err(redb_error)?,
            };
            read(&tree)
        })
    }

    fn write(
        &self,
        write: &mut dyn FnMut(&mut dyn WriteTree) -> Result<bool, MetaError>,
    ) -> Result<(), MetaError> {
        self.with_database(|database| {
            let transaction = database.begin_write().map_err(redb_error)?;
            let changed = {
                let mut tree = WriteTables {
                    tree: Tree {
                        entries: transaction.open_table(ENTRIES).map_err(redb_error)?,
                        store: transaction.open_table(STORE).map_err(redb_error)?,
                    },
                    transaction: &transaction,
                };
                write(&mut tree)?
            };
            if changed {
                transaction.commit().map_err(redb_error)
            } else {
                transaction.abort().map_err(redb_error)
            }
        })
    }
}

struct Tree<E, S> {
    entries: E,
    store: S,
}

impl<E, S> ReadTree for Tree<E, S>
where
    E: ReadableTable<&'static str, &'static [u8]>,
    S: ReadableTable<&'static str, u64>,
{
    fn revision(&self) -> Result<Revision, MetaError> {
        let revision = self.store.get(REVISION).map_err(redb_error)?;
        Ok(Revision(revision.map_or(0, |guard| guard.value())))
    }

    fn get(&self, key: &str) -> Result<Option<Entry>, MetaError> {
        let Some(guard) = self.entries.get(key).map_err(redb_error)? else {
            return Ok(None);
        };
        let (version, value) = split(key, guard.value())?;
        Ok(Some(Entry {
            value: Bytes::copy_from_slice(value),
            version,
        }))
    }

    fn visit(
        &self,
        start: &str,
        visitor: &mut dyn FnMut(&str, &[u8], Revision) -> bool,
    ) -> Result<(), MetaError> {
        for item in self.entries.range::<&str>(start..).map_err(redb_error)? {
            let (key, stored) = item.map_err(redb_error)?;
            let (version, value) = split(key.value(), stored.value())?;
            if !visitor(key.value(), value, version) {
                break;
            }
        }
        Ok(())
    }
}

struct WriteTables<'t> {
    tree: Tree<redb::Table<'t, &'static str, &'static [u8]>, redb::Table<'t, &'static str, u64>>,
    transaction: &'t redb::WriteTransaction,
}

impl ReadTree for WriteTables<'_> {
    fn revision(&self) -> Result<Revision, MetaError> {
        self.tree.revision()
    }

    fn get(&self, key: &str) -> Result<Option<Entry>, MetaError> {
        self.tree.get(key)
    }

    fn visit(
        &self,
        start: &str,
        visitor: &mut dyn FnMut(&str, &[u8], Revision) -> bool,
    ) -> Result<(), MetaError> {
        self.tree.visit(start, visitor)
    }
}

impl WriteTree for WriteTables<'_> {
    fn set_revision(&mut self, revision: Revision) -> Result<(), MetaError> {
        self.tree
            .store
            .insert(REVISION, revision.0)
            .map_err(redb_error)?;
        Ok(())
    }

    fn insert(&mut self, key: &str, value: &Bytes, version: Revision) -> Result<(), MetaError> {
        let mut stored = self
            .tree
            .entries
            .insert_reserve(key, VERSION_BYTES + value.len())
            .map_err(redb_error)?;
        let stored = stored.as_mut();
        stored[..VERSION_BYTES].copy_from_slice(&version.0.to_be_bytes());
        stored[VERSION_BYTES..].copy_from_slice(value);
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<(), MetaError> {
        self.tree.entries.remove(key).map_err(redb_error)?;
        Ok(())
    }

    fn mark_ephemeral(&mut self, key: &str, ephemeral: bool) -> Result<(), MetaError> {
        let mut table = self.transaction.open_table(EPHEMERAL).map_err(redb_error)?;
        if ephemeral {
            table.insert(key, ()).map_err(redb_error)?;
        } else {
            table.remove(key).map_err(redb_error)?;
        }
        Ok(())
    }
}

const VERSION_BYTES: usize = 8;

fn split<'a>(key: &str, stored: &'a [u8]) -> Result<(Revision, &'a [u8]), MetaError> {
    match stored.split_first_chunk::<VERSION_BYTES>() {
        Some((version, value)) => Ok((Revision(u64::from_be_bytes(*version)), value)),
        None => Err(MetaError::Corrupt {
            place: key.to_owned(),
            reason: format!("an entry has at least 8 bytes, found {}", stored.len()),
        }),
    }
}

fn redb_error(error: impl Into<redb::Error>) -> MetaError {
    from_redb(error.into())
}

fn from_redb(error: redb::Error) -> MetaError {
    match error {
        redb::Error::DatabaseAlreadyOpen => MetaError::Locked {
            path: String::new(),
        },
        redb::Error::Io(error) if error.kind() != std::io::ErrorKind::InvalidData => {
            MetaError::Unavailable {
                reason: error.to_string(),
            }
        }
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => MetaError::Unavailable {
            reason: error.to_string(),
        },
        other => MetaError::Corrupt {
            place: String::new(),
            reason: other.to_string(),
        },
    }
}

impl MetaError {
    /// Names the file where an error of redb does not.
    fn at(self, file: &str) -> Self {
        match self {
            Self::Locked { path } if path.is_empty() => Self::Locked {
                path: file.to_owned(),
            },
            Self::Corrupt { place, reason } if place.is_empty() => Self::Corrupt {
                place: file.to_owned(),
                reason,
            },
            Self::Unavailable { reason } if !reason.contains(file) => Self::Unavailable {
                reason: format!("{file}: {reason}"),
            },
            other => other,
        }
    }
}
