//! What was acknowledged, kept outside the server.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use anyhow::{Result, bail, ensure};

use crate::reader::Stored;

/// A writer's rows are numbered from 0 and acknowledged in order, so two
/// numbers tell all: the next row to append, and the rows acknowledged.
#[derive(Default)]
struct Account {
    appended: AtomicI64,
    acknowledged: AtomicI64,
    mark: AtomicI64,
}

pub struct Ledger {
    accounts: Vec<Account>,
    errors: Mutex<Vec<String>>,
    tables: Mutex<Vec<String>>,
    /// How often the client did not take a row, because it had forgotten the table.
    pub not_taken: AtomicU64,
    /// Set when the writers are to finish.
    pub stop: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Ledger {
    pub fn new(writers: usize) -> Self {
        Self {
            accounts: (0..writers).map(|_| Account::default()).collect(),
            errors: Mutex::default(),
            tables: Mutex::default(),
            not_taken: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// The number of the row that the writer appends next.
    pub fn next(&self, writer: usize) -> i64 {
        self.accounts[writer]
            .appended
            .fetch_add(1, Ordering::SeqCst)
    }

    pub fn acknowledge(&self, writer: usize, sequence: i64) -> Result<()> {
        let before = self.accounts[writer]
            .acknowledged
            .fetch_add(1, Ordering::SeqCst);
        ensure!(
            before == sequence,
            "writer {writer}: row {sequence} acknowledged where {before} was due"
        );
        Ok(())
    }

    pub fn write_error(&self, writer: usize, sequence: i64, error: &fluss::error::Error) {
        locked(&self.errors).push(format!("writer {writer}, row {sequence}: {error}"));
    }

    pub fn fail_on_error(&self) -> Result<()> {
        let errors = locked(&self.errors);
        if let Some(first) = errors.first() {
            bail!("{} write errors, the first: {first}", errors.len());
        }
        Ok(())
    }

    /// Remembers what has been appended up to now.
    pub fn mark(&self) {
        for account in &self.accounts {
            let appended = account.appended.load(Ordering::SeqCst);
            account.mark.store(appended, Ordering::SeqCst);
        }
    }

    /// Every writer has a row acknowledged that it appended after the mark.
    pub fn every_writer_is_past_its_mark(&self) -> bool {
        self.accounts.iter().all(|account| {
            account.acknowledged.load(Ordering::SeqCst) > account.mark.load(Ordering::SeqCst)
        })
    }

    /// How many rows the writer has begun to write.
    pub fn attempted(&self, writer: usize) -> i64 {
        self.accounts[writer].appended.load(Ordering::SeqCst)
    }

    /// How many of them are acknowledged: the first ones.
    pub fn acknowledged(&self, writer: usize) -> i64 {
        self.accounts[writer].acknowledged.load(Ordering::SeqCst)
    }

    pub fn acknowledged_count(&self, writers: Range<usize>) -> i64 {
        self.accounts[writers]
            .iter()
            .map(|account| account.acknowledged.load(Ordering::SeqCst))
            .sum()
    }

    pub fn table_created(&self, name: String) {
        locked(&self.tables).push(name);
    }

    pub fn tables(&self) -> Vec<String> {
        locked(&self.tables).clone()
    }

    /// Every acknowledged row of the first `writers` is stored, every stored row
    /// only once, and each writer's rows are in order within each bucket.
    pub fn compare(&self, writers: usize, stored: &Stored) -> Result<()> {
        let mut found: HashMap<(i32, i64), u32> = HashMap::new();
        for ((path, bucket), rows) in stored {
            let mut last: HashMap<i32, i64> = HashMap::new();
            for row in rows {
                *found.entry((row.writer, row.sequence)).or_insert(0) += 1;
                if let Some(before) = last.insert(row.writer, row.sequence)
                    && before >= row.sequence
                {
                    bail!(
                        "{path}, bucket {bucket}: writer {}'s row {} stands behind {before}",
                        row.writer,
                        row.sequence
                    );
                }
            }
        }
        let duplicates = found.values().filter(|&&count| count > 1).count();
        let mut lost = Vec::new();
        let mut acknowledged = 0;
        for (writer, account) in self.accounts[..writers].iter().enumerate() {
            let count = account.acknowledged.load(Ordering::SeqCst);
            acknowledged += count;
            lost.extend(
                (0..count)
                    .filter(|sequence| !found.contains_key(&(writer as i32, *sequence)))
                    .map(|sequence| (writer, sequence)),
            );
        }
        ensure!(
            lost.is_empty() && duplicates == 0,
            "{acknowledged} rows acknowledged, {} lost (the first: {:?}), {duplicates} duplicated",
            lost.len(),
            lost.first()
        );
        // All writers waited for their last row, so nothing else can be there.
        ensure!(
            found.len() as i64 == acknowledged,
            "{} rows stored, {acknowledged} acknowledged",
            found.len()
        );
        Ok(())
    }
}
