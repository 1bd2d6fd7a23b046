//! Crashes, full disks and reopening of the embedded store.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// A disk that keeps what was synced and may lose the rest.
#[derive(Debug, Default)]
struct Disk {
    durable: Vec<u8>,
    /// What a reader of the running process sees.
    volatile: Vec<u8>,
    /// Writes since the last sync, in order.
    unsynced: Vec<Unsynced>,
    /// Calls that change something, until the next of which everything fails.
    calls_left: Option<usize>,
}

#[derive(Clone, Debug)]
enum Unsynced {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

fn apply(bytes: &mut Vec<u8>, change: &Unsynced) {
    match change {
        Unsynced::SetLen(length) => bytes.resize(*length as usize, 0),
        Unsynced::Write(offset, data) => {
            let end = *offset as usize + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset as usize..end].copy_from_slice(data);
        }
    }
}

impl Disk {
    /// Loses power: any subset of the unsynced writes arrived, writes of
    /// several pages perhaps only in part.
    fn crash(&mut self, random: &mut StdRng) {
        let unsynced = std::mem::take(&mut self.unsynced);
        for change in unsynced {
            match change {
                Unsynced::SetLen(_) => apply(&mut self.durable, &change),
                Unsynced::Write(offset, data) => {
                    for (index, sector) in data.chunks(512).enumerate() {
                        if random.random_bool(0.5) {
                            let offset = offset + 512 * index as u64;
                            apply(&mut self.durable, &Unsynced::Write(offset, sector.to_vec()));
                        }
                    }
                }
            }
        }
        self.volatile = self.durable.clone();
        self.calls_left = None;
    }

    fn tick(&mut self) -> io::Result<()> {
        match &mut self.calls_left {
            Some(0) => Err(io::Error::from(io::ErrorKind::StorageFull)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct SharedDisk(Arc<Mutex<Disk>>);

impl StorageBackend for SharedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().volatile.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let disk = self.0.lock();
        let start = offset as usize;
        out.copy_from_slice(&disk.volatile[start..start + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.tick()?;
        let change = Unsynced::SetLen(len);
        apply(&mut disk.volatile, &change);
        disk.unsynced.push(change);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.tick()?;
        let unsynced = std::mem::take(&mut disk.unsynced);
        for change in &unsynced {
            apply(&mut disk.durable, change);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.tick()?;
        let change = Unsynced::Write(offset, data.to_vec());
        apply(&mut disk.volatile, &change);
        disk.unsynced.push(change);
        Ok(())
    }
}

fn open(disk: &SharedDisk) -> EmbeddedStore {
    let disk = disk.clone();
    EmbeddedStore::open_on(move || disk.clone()).expect("the store opens")
}

/// Transaction `n` writes two keys, and deletes one of transaction `n - 2`.
fn step(n: u32) -> Transaction {
    let transaction = Transaction::new()
        .put(format!("left/{n}"), vec![n as u8; 100 + 37 * n as usize])
        .put(format!("right/{n}"), n.to_be_bytes().to_vec());
    if n >= 2 {
        transaction.delete(format!("left/{}", n - 2))
    } else {
        transaction
    }
}

fn expected_after(count: u32) -> Vec<String> {
    let mut keys: Vec<String> = (count.saturating_sub(2)..count)
        .map(|n| format!("left/{n}"))
        .collect();
    keys.extend((0..count).map(|n| format!("right/{n}")));
    keys.sort();
    keys
}

fn keys(store: &EmbeddedStore) -> Vec<String> {
    let entries = store.list("").expect("the store is read").entries;
    entries.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn a_power_cut_at_any_write_keeps_acknowledged_transactions_and_none_in_part() {
    let mut random = StdRng::seed_from_u64(7);
    // Beyond the last call of the workload nothing fails, which ends the loop.
    for cut in 0.. {
        let disk = SharedDisk::default();
        let store = open(&disk);
        disk.0.lock().calls_left = Some(cut);
        let mut acknowledged = 0;
        while acknowledged < 12 && store.commit(step(acknowledged)).is_ok() {
            acknowledged += 1;
        }
        let complete = acknowledged == 12;
        disk.0.lock().crash(&mut random);
        drop(store);
        disk.0.lock().crash(&mut random);

        let reopened = open(&disk);
        let found = keys(&reopened);
        let possible = [
            expected_after(acknowledged),
            expected_after(acknowledged + 1),
        ];
        assert!(
            possible.contains(&found),
            "cut {cut}, {acknowledged} acknowledged: {found:?}"
        );
        // And it goes on working.
        reopened
            .put("after", Bytes::from_static(b"x"))
            .expect("the store is writable again");
        assert!(reopened.get("after").expect("readable").is_some());
        if complete {
            assert!(cut > 20, "the workload makes more calls than {cut}");
            return;
        }
    }
}

#[test]
fn a_crash_while_the_store_is_created_leaves_nothing_in_the_way() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("meta.redb");
    // Half of a new store, as the crash left it.
    std::fs::write(directory.path().join("meta.redb.new"), [7; 300]).expect("write");
    let store = EmbeddedStore::open(&path).expect("open");
    store.put("a", Bytes::new()).expect("put");
    let names: Vec<_> = std::fs::read_dir(directory.path())
        .expect("list")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    assert_eq!(names, ["meta.redb"]);
}

#[test]
fn a_full_disk_refuses_writes_and_the_store_works_when_there_is_space() {
    let disk = SharedDisk::default();
    let store = open(&disk);
    store
        .put("kept", Bytes::from_static(b"1"))
        .expect("there is space");
    disk.0.lock().calls_left = Some(0);
    for _ in 0..3 {
        let refused = store.put("lost", Bytes::from_static(b"2"));
        assert!(
            matches!(refused, Err(MetaError::Unavailable { .. })),
            "{refused:?}"
        );
    }
    disk.0.lock().calls_left = None;
    store
        .put("later", Bytes::from_static(b"3"))
        .expect("there is space again");
    assert_eq!(keys(&store), ["kept", "later"]);
}

#[test]
fn watches_are_told_when_a_failure_may_have_hidden_a_change() {
    let disk = SharedDisk::default();
    let store = open(&disk);
    let revision = store.put("a", Bytes::new()).expect("put");
    let mut watch = store.watch("", revision).expect("watch");
    // Everything reaches the disk, but the answer of the sync is lost.
    let calls = {
        disk.0.lock().calls_left = Some(usize::MAX);
        store.put("b", Bytes::new()).expect("put");
        usize::MAX - disk.0.lock().calls_left.take().expect("set")
    };
    assert_eq!(
        watch.poll(std::time::Duration::ZERO).expect("poll").len(),
        1
    );
    disk.0.lock().calls_left = Some(calls - 1);
    let unclear = store.put("c", Bytes::new());
    assert!(unclear.is_err());
    disk.0.lock().calls_left = None;
    store.put("d", Bytes::new()).expect("put");
    let hidden = store.get("c").expect("get").is_some();
    match watch.poll(std::time::Duration::ZERO) {
        Ok(events) => assert!(!hidden && events.len() == 1, "{events:?}"),
        Err(error) => assert!(
            hidden && matches!(error, MetaError::Compacted { .. }),
            "{error}"
        ),
    }
}

#[test]
fn contents_revision_and_counters_survive_reopening() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("meta.redb");
    let store = EmbeddedStore::open(&path).expect("open");
    store.put("a/b", Bytes::from_static(b"value")).expect("put");
    assert_eq!(store.counter_add("ids", 1000).expect("add"), 0);
    let before = store.list("").expect("list");
    drop(store);

    let store = EmbeddedStore::open(&path).expect("open again");
    let after = store.list("").expect("list");
    assert_eq!(before.revision, after.revision);
    assert_eq!(before.entries, after.entries);
    assert_eq!(store.counter_add("ids", 1).expect("add"), 1000);
    let revision = store.put("a/b", Bytes::new()).expect("put");
    assert!(revision > before.revision, "versions are never used twice");
}

#[test]
fn ephemeral_keys_do_not_survive_the_process_and_their_versions_are_not_used_again() {
    let disk = SharedDisk::default();
    let store = open(&disk);
    let session = store.open_session(1000, 0).expect("session");
    let transaction = Transaction::new()
        .put_ephemeral("live/1", Bytes::new(), session)
        .put("kept", Bytes::new());
    let revision = store.commit(transaction).expect("commit");
    disk.0.lock().crash(&mut StdRng::seed_from_u64(1));
    drop(store);

    let store = open(&disk);
    assert_eq!(keys(&store), ["kept"]);
    assert!(store.list("").expect("list").revision > revision);
    assert!(matches!(
        store.renew_session(session, 1),
        Err(MetaError::SessionExpired { .. })
    ));
}

#[test]
fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("meta.redb");
    let _store = EmbeddedStore::open(&path).expect("open");
    let second = EmbeddedStore::open(&path);
    assert!(
        matches!(&second, Err(MetaError::Locked { path }) if path.ends_with("meta.redb")),
        "{second:?}"
    );
}

#[test]
fn a_file_that_is_no_store_is_refused_with_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("meta.redb");
    std::fs::write(&path, vec![7; 8192]).expect("write");
    let error = EmbeddedStore::open(&path).expect_err("not a store");
    assert!(matches!(error, MetaError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("meta.redb"), "{error}");
}

#[test]
fn a_store_of_a_later_format_is_refused() {
    let disk = SharedDisk::default();
    {
        let database = redb::Builder::new()
            .create_with_backend(disk.clone())
            .expect("create");
        let transaction = database.begin_write().expect("begin");
        transaction
            .open_table(STORE)
            .expect("table")
            .insert(FORMAT, 2)
            .expect("insert");
        transaction.commit().expect("commit");
    }
    let error = EmbeddedStore::open_on(move || disk.clone()).expect_err("a later format");
    assert!(error.to_string().contains("format 2"), "{error}");
}
