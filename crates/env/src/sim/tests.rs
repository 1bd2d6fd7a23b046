use super::*;

fn write(file: &Arc<dyn StorageFile>, bytes: &[u8], position: u64) -> io::Result<()> {
    file.write_all_at(&mut [IoSlice::new(bytes)], position)
}

fn path(name: &str) -> PathBuf {
    Path::new("/dir").join(name)
}

/// A disk with a durable directory `/dir`.
fn disk_with_dir() -> SimFileSystem {
    let fs = SimFileSystem::new(7);
    fs.create_dir_all(Path::new("/dir")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs
}

#[test]
fn a_power_loss_keeps_what_was_synced_and_may_lose_the_rest() {
    let fs = disk_with_dir();
    let file = fs.create_new(&path("a")).unwrap();
    write(&file, b"synced", 0).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir(Path::new("/dir")).unwrap();
    write(&file, b" not", 6).unwrap();

    assert_eq!(fs.content(&path("a")).unwrap(), b"synced not");
    let after = fs.power_loss(Survival::Nothing);
    assert_eq!(after.content(&path("a")).unwrap(), b"synced");
    let after = fs.power_loss(Survival::Everything);
    assert_eq!(after.content(&path("a")).unwrap(), b"synced not");
    for seed in 0..200 {
        let content = fs
            .power_loss(Survival::Seeded(seed))
            .content(&path("a"))
            .unwrap();
        assert_eq!(&content[..6], b"synced", "seed {seed}");
    }
}

#[test]
fn a_synced_file_without_a_synced_entry_may_vanish() {
    let fs = disk_with_dir();
    let file = fs.create_new(&path("a")).unwrap();
    write(&file, b"x", 0).unwrap();
    file.sync_data().unwrap();
    let error = fs
        .power_loss(Survival::Nothing)
        .content(&path("a"))
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn unsynced_removals_and_renames_may_come_back() {
    let fs = disk_with_dir();
    for name in ["a", "b"] {
        fs.create_new(&path(name)).unwrap();
    }
    fs.sync_dir(Path::new("/dir")).unwrap();
    fs.remove_file(&path("a")).unwrap();
    fs.rename(&path("b"), &path("c")).unwrap();

    let names = |fs: &SimFileSystem| -> Vec<String> {
        fs.list(Path::new("/dir"))
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect()
    };
    assert_eq!(names(&fs), ["c"]);
    assert_eq!(names(&fs.power_loss(Survival::Nothing)), ["a", "b"]);
    let mut seen: Vec<Vec<String>> = Vec::new();
    for seed in 0..200 {
        let outcome = names(&fs.power_loss(Survival::Seeded(seed)));
        // A rename is one change: never both names, never none.
        assert_eq!(
            outcome.iter().filter(|name| *name != "a").count(),
            1,
            "seed {seed}"
        );
        if !seen.contains(&outcome) {
            seen.push(outcome);
        }
    }
    assert_eq!(seen.len(), 4, "every combination of two changes: {seen:?}");
}

#[test]
fn unsynced_bytes_come_back_torn_zeroed_or_with_holes() {
    let fs = disk_with_dir();
    let file = fs.create_new(&path("a")).unwrap();
    fs.sync_dir(Path::new("/dir")).unwrap();
    for sector in 0..8u8 {
        write(&file, &[sector + 1; 512], u64::from(sector) * 512).unwrap();
    }
    let (mut holes, mut torn, mut garbage) = (0, 0, 0);
    for seed in 0..300 {
        let content = fs
            .power_loss(Survival::Seeded(seed))
            .content(&path("a"))
            .unwrap();
        let sectors: Vec<&[u8]> = content.chunks(512).collect();
        torn += i32::from(!content.len().is_multiple_of(512));
        holes += i32::from(
            sectors
                .windows(2)
                .any(|two| two[0][0] == 0 && two[1][0] != 0),
        );
        garbage += i32::from(sectors.iter().any(|one| one.iter().any(|byte| *byte > 8)));
    }
    assert!(
        holes > 10 && torn > 10 && garbage > 10,
        "{holes} {torn} {garbage}"
    );
}

#[test]
fn after_a_failed_sync_later_syncs_do_not_bring_the_bytes_back() {
    let mut lost = 0;
    for seed in 0..50 {
        let fs = SimFileSystem::new(seed);
        let file = fs.create_new(Path::new("/a")).unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        write(&file, &[1; 2_000], 0).unwrap();
        fs.fail(fs.operations() + 1, Fault::Io);
        file.sync_data().unwrap_err();
        file.sync_data().unwrap();
        assert_eq!(fs.content(Path::new("/a")).unwrap(), [1; 2_000]);
        let after = fs
            .power_loss(Survival::Everything)
            .content(Path::new("/a"))
            .unwrap();
        lost += i32::from(after != [1; 2_000]);
    }
    assert!(lost > 10);
}

#[test]
fn a_full_disk_takes_a_prefix_and_has_room_again_after_a_removal() {
    let fs = disk_with_dir();
    fs.set_capacity(Some(10));
    let file = fs.create_new(&path("a")).unwrap();
    let error = write(&file, b"0123456789abcdef", 0).unwrap_err();
    assert!(crate::is_disk_full(&error));
    assert_eq!(fs.used_bytes(), 10);
    fs.remove_file(&path("a")).unwrap();
    let file = fs.create_new(&path("b")).unwrap();
    write(&file, b"0123456789", 0).unwrap();
}

#[test]
fn nothing_works_once_the_power_is_off() {
    let fs = disk_with_dir();
    let file = fs.create_new(&path("a")).unwrap();
    fs.fail(fs.operations() + 1, Fault::PowerLoss);
    write(&file, b"x", 0).unwrap_err();
    file.sync_data().unwrap_err();
    file.read_at(&mut [0], 0).unwrap_err();
    fs.list(Path::new("/dir")).unwrap_err();
    fs.power_loss(Survival::Everything)
        .list(Path::new("/dir"))
        .unwrap();
}

#[test]
fn a_killed_process_loses_nothing_but_its_bytes_stay_unsynced() {
    let fs = disk_with_dir();
    let file = fs.create_new(&path("a")).unwrap();
    write(&file, b"x", 0).unwrap();
    let next = fs.process_kill();
    assert_eq!(next.content(&path("a")).unwrap(), b"x");
    assert_eq!(next.durable_content(&path("a")).unwrap(), b"");
    assert_eq!((fs.open_handles(), next.open_handles()), (1, 0));
}

#[test]
fn the_trace_records_operations_in_order() {
    let fs = SimFileSystem::new(1);
    let file = fs.create_new(Path::new("/a")).unwrap();
    write(&file, b"xy", 3).unwrap();
    file.sync_data().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    let a = PathBuf::from("/a");
    assert_eq!(
        fs.trace(),
        [
            Operation::Create(a.clone()),
            Operation::Write {
                path: a.clone(),
                position: 3,
                len: 2
            },
            Operation::SyncData(a),
            Operation::SyncDir("/".into()),
        ]
    );
    assert_eq!(fs.operations(), 4);
}
