//! The data directory: who may use it, and what lies where.
//!
//! | Path | Content |
//! |---|---|
//! | `.lock` | held by the running server |
//! | `VERSION` | layout of the directory: `mainstem 1` |
//! | `meta.redb` | metadata store |
//! | `log/t<table>[/p<partition>]/b<bucket>/` | a log tablet |

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

const LAYOUT: &str = "mainstem 1\n";

/// A data directory that this process has to itself.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Released by the end of the process, however it ends.
    _lock: File,
}

impl DataDir {
    /// Creates the directory if it is missing, and locks it.
    ///
    /// # Errors
    /// Each says what to do: no permission, another process, a foreign layout.
    pub fn open(path: &Path) -> Result<Self> {
        let denied = || {
            format!(
                "cannot use the data directory {}; choose another with --data-dir or data.dir",
                path.display()
            )
        };
        create_durably(path).with_context(denied)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path.join(".lock"))
            .with_context(denied)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "the data directory {} is in use by another process; stop it, or choose another \
                 with --data-dir",
                path.display()
            );
        }
        check_layout(path).with_context(denied)?;
        // The log tablets make their own entries durable, up to this directory.
        for name in ["log", "kv"] {
            std::fs::create_dir_all(path.join(name)).with_context(denied)?;
        }
        File::open(path)
            .and_then(|dir| dir.sync_all())
            .with_context(denied)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// The metadata store's file.
    pub fn metadata(&self) -> PathBuf {
        self.path.join("meta.redb")
    }

    /// The directory of the logs.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// The directory of the rows of primary-key tables.
    pub fn kv(&self) -> PathBuf {
        self.path.join("kv")
    }

    /// Part of the volume that is used, 0 to 1.
    ///
    /// # Errors
    /// The volume does not answer.
    pub fn used_ratio(&self) -> std::io::Result<f64> {
        let volume = rustix::fs::statvfs(&self.path)?;
        Ok(used_ratio(volume.f_blocks, volume.f_bfree, volume.f_bavail))
    }
}

/// As `df` counts: blocks that nobody but the system may use are neither used nor free.
/// On a volume that has many of them writes would be refused while there is room.
fn used_ratio(blocks: u64, free: u64, available: u64) -> f64 {
    let used = blocks.saturating_sub(free) as f64;
    let usable = used + available as f64;
    if usable > 0.0 { used / usable } else { 1.0 }
}

/// Creates a directory and those above it that are missing, so that a power cut
/// does not take them, and all that is in them, away again.
fn create_durably(path: &Path) -> std::io::Result<()> {
    let path = std::path::absolute(path)?;
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.exists()).collect();
    std::fs::create_dir_all(&path)?;
    for parent in missing.iter().filter_map(|dir| dir.parent()) {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn check_layout(path: &Path) -> Result<()> {
    let version = path.join("VERSION");
    match std::fs::read_to_string(&version) {
        Ok(text) if text == LAYOUT => Ok(()),
        Ok(text) if !text.is_empty() => {
            bail!(
                "its layout is '{}', this server knows '{}'",
                text.trim(),
                LAYOUT.trim()
            )
        }
        // Missing, or cut off in the middle of the first start.
        Ok(_) => write_layout(&version),
        Err(error) if error.kind() == ErrorKind::NotFound => write_layout(&version),
        Err(error) => Err(error.into()),
    }
}

fn write_layout(path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(LAYOUT.as_bytes())?;
    Ok(file.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_user_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = DataDir::open(dir.path()).expect("opens");
        let error = DataDir::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("in use by another process"), "{error}");
        drop(first);
        DataDir::open(dir.path()).expect("opens again");
    }

    #[test]
    fn reserved_blocks_are_neither_used_nor_free() {
        let ratios = [
            (used_ratio(1_000, 1_000, 1_000), 0.0),
            (used_ratio(1_000, 500, 500), 0.5),
            (used_ratio(1_000, 800, 200), 0.5),
            (used_ratio(1_000, 50, 0), 1.0),
            (used_ratio(0, 0, 0), 1.0),
        ];
        for (ratio, wanted) in ratios {
            assert!((ratio - wanted).abs() < 1e-9, "{ratio} for {wanted}");
        }
    }

    #[test]
    fn a_foreign_layout_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("VERSION"), "mainstem 99\n").expect("writes");
        let error = format!("{:#}", DataDir::open(dir.path()).unwrap_err());
        assert!(error.contains("mainstem 99"), "{error}");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, "").expect("writes");
        let error = format!("{:#}", DataDir::open(&path).unwrap_err());
        assert!(error.contains("choose another"), "{error}");
    }
}
