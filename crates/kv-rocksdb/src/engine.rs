//! Opens stores.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use mainstem_kv::{KvEngine, KvStore, Result};
use rocksdb::{DB, DEFAULT_COLUMN_FAMILY_NAME, Options};

use crate::buffers::Buffers;
use crate::config::RocksConfig;
use crate::store::RocksStore;
use crate::{directory, error, options};

/// RocksDB, with one cache, one budget of write buffers and one set of threads for
/// all stores.
pub struct RocksEngine {
    options: Options,
    buffers: Arc<Buffers>,
    config: RocksConfig,
}

impl RocksEngine {
    /// An engine without stores. Nothing is read or written.
    ///
    /// # Errors
    /// [`Storage`](mainstem_kv::KvError::Storage) if RocksDB refuses the settings.
    pub fn new(config: RocksConfig) -> Result<Self> {
        Ok(Self {
            options: options::build(&config)?,
            buffers: Arc::new(Buffers::new(config.write_buffers_bytes)),
            config,
        })
    }

    /// The settings.
    pub fn config(&self) -> &RocksConfig {
        &self.config
    }
}

impl KvEngine for RocksEngine {
    fn open(&self, dir: &Path) -> Result<Arc<dyn KvStore>> {
        directory::create(dir)?;
        directory::refuse_remains(dir)?;
        // By name, so that the store has a handle of it for batched reads.
        let families = [(DEFAULT_COLUMN_FAMILY_NAME, self.options.clone())];
        let db = DB::open_cf_with_opts(&self.options, dir, families)
            .map_err(|failure| error::opening(dir, failure))?;
        Ok(Arc::new(RocksStore::new(
            db,
            self.config.write_buffer_bytes,
            &self.buffers,
        )))
    }

    fn destroy(&self, dir: &Path) -> Result<()> {
        directory::remove(dir)
    }
}

impl fmt::Debug for RocksEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksEngine")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
