//! The directory of a store, before RocksDB sees it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use mainstem_kv::{KvError, Result};

use crate::error;

/// Names the newest manifest; it is the last file that makes a directory a store.
const CURRENT: &str = "CURRENT";
/// Manifest of a store that was never completely made.
const FIRST_MANIFEST: &str = "MANIFEST-000001";

/// Makes the directory, durably, if it is missing.
pub(crate) fn create(dir: &Path) -> Result<()> {
    let failed = |error: io::Error| error::file_system(dir, &error);
    let there = dir
        .ancestors()
        .take_while(|ancestor| !ancestor.as_os_str().is_empty())
        .position(Path::exists);
    fs::create_dir_all(dir).map_err(failed)?;
    // The entry of each new directory is in the one above it.
    for above in dir.ancestors().skip(1).take(there.unwrap_or(0)) {
        File::open(above)
            .and_then(|file| file.sync_all())
            .map_err(failed)?;
    }
    Ok(())
}

/// Refuses a directory that RocksDB would take for a new one although it was not:
/// without `CURRENT` it would throw all files away.
pub(crate) fn refuse_remains(dir: &Path) -> Result<()> {
    if dir.join(CURRENT).exists() {
        return Ok(());
    }
    let failed = |error: io::Error| error::file_system(dir, &error);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let is_table = Path::new(&name).extension() == Some(OsStr::new("sst"));
        let text = name.to_string_lossy();
        if is_table || text.starts_with("MANIFEST-") && text != FIRST_MANIFEST {
            return Err(KvError::Damaged(format!(
                "{} holds {text}, but no {CURRENT}",
                dir.display()
            )));
        }
    }
    Ok(())
}

/// Removes the directory and all that is in it. What a crash leaves of a half-removed
/// one is damaged to an opening: files are missing, or `CURRENT` is.
pub(crate) fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error::file_system(dir, &error))
        }
        _ => Ok(()),
    }
}
