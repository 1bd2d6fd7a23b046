//! What lies on the disk when a server starts (known failures B016, B022, B023,
//! B036, B187).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use mainstem_testkit::{
    BatchBytes, BatchSource, Client, Server, ServerOptions, Table, ab, failed_start, log_table,
};
use mainstem_types::TypeKind;

use crate::support::{all_rows, durable, numbers, quick, server_with_table};

/// The newest segment of a bucket.
fn last_segment(dir: &Path) -> PathBuf {
    let names = std::fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    names
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .max()
        .expect("a segment")
}

fn append_bytes(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(path)
        .expect("the segment");
    file.write_all(bytes).expect("written");
}

fn cut(path: &Path, bytes: u64) {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .expect("the segment");
    let length = file.metadata().expect("a length").len();
    file.set_len(length - bytes).expect("cut");
}

/// One bucket per case, each with the batches `0, 1` and `2, 3, 4`.
fn buckets(options: &ServerOptions, count: usize) -> (Server, Table, BatchBytes) {
    let count = i32::try_from(count).expect("a count");
    let (server, mut client, table) = server_with_table(options, count);
    let (first, second) = (table.source().numbers(0..2), table.source().numbers(2..5));
    for batch in [&first, &second] {
        let answers =
            client.produce(&table.produce((0..count).map(|bucket| (None, bucket, &batch[..]))));
        assert!(answers.iter().all(|answer| answer.error_code.is_none()));
    }
    (server, table, second)
}

/// Known failure B016: what a crash may leave behind the last whole batch, and
/// any length of it.
#[test]
fn a_torn_tail_is_cut_off_and_nothing_else() {
    let probe = BatchSource::new(&ab(1).schema).numbers(5..7);
    let mut tails: Vec<(String, Vec<u8>)> = (1..probe.len())
        .map(|length| {
            (
                format!("{length} bytes of the next batch"),
                probe[..length].to_vec(),
            )
        })
        .collect();
    for length in [1, 7, 12, 48, 100, 5_000] {
        tails.push((format!("{length} zeros"), vec![0; length]));
        tails.push((format!("{length} ones"), vec![0xFF; length]));
        tails.push((
            format!("{length} other bytes"),
            (0..length).map(|at| (at * 37) as u8).collect(),
        ));
    }
    let next_but_wrong = probe
        .clone()
        .with_wrong_checksum()
        .set(0, &5_i64.to_le_bytes());
    tails.push(("a batch with a wrong checksum".to_owned(), next_but_wrong.0));
    tails.push((
        "a batch with an offset from the past".to_owned(),
        probe.clone().set(0, &1_i64.to_le_bytes()).0,
    ));
    tails.push((
        "a batch with an offset from the future".to_owned(),
        probe.set(0, &9_i64.to_le_bytes()).0,
    ));
    for options in [durable(), quick()] {
        let (mut server, table, _) = buckets(&options, tails.len());
        server.kill();
        for (bucket, (_, tail)) in (0..).zip(&tails) {
            append_bytes(
                &last_segment(&server.bucket_dir(table.id, None, bucket)),
                tail,
            );
        }
        server.start_again();
        let mut client = server.client();
        for (bucket, (sentence, _)) in (0..).zip(&tails) {
            assert_eq!(client.end(&table, bucket), 5, "{sentence}");
            assert_eq!(
                numbers(&all_rows(&mut client, &table, bucket)),
                [0, 1, 2, 3, 4],
                "{sentence}"
            );
            let appended = client.append(&table, bucket, &table.source().numbers([5]));
            assert_eq!(appended, Ok(5), "{sentence}");
        }
        // What was cut stays cut.
        server.crash();
        let mut client = server.client();
        for (bucket, (sentence, _)) in (0..).zip(&tails) {
            assert_eq!(
                numbers(&all_rows(&mut client, &table, bucket)),
                [0, 1, 2, 3, 4, 5],
                "{sentence}"
            );
        }
    }
}

/// Known failure B016: an unsynced batch of which a power cut has left any part.
#[test]
fn a_batch_that_lost_its_end_is_cut_off_whole() {
    let count = ab_batch_length();
    let (mut server, table, second) = buckets(&quick(), count - 1);
    assert_eq!(second.len(), count);
    server.kill();
    for lost in 1..count {
        let dir = server.bucket_dir(table.id, None, i32::try_from(lost).expect("in range") - 1);
        // What says how much was durable is older after a power cut.
        for name in ["durable.mark", "checkpoint", "checkpoint.prev"] {
            remove(&dir.join(name));
        }
        cut(&last_segment(&dir), lost as u64);
    }
    server.start_again();
    let mut client = server.client();
    for lost in 1..count {
        let bucket = i32::try_from(lost).expect("in range") - 1;
        assert_eq!(client.end(&table, bucket), 2, "{lost} bytes lost");
        assert_eq!(
            numbers(&all_rows(&mut client, &table, bucket)),
            [0, 1],
            "{lost} bytes lost"
        );
        assert_eq!(
            client.append(&table, bucket, &table.source().numbers([9])),
            Ok(2),
            "{lost} bytes lost"
        );
    }
}

fn ab_batch_length() -> usize {
    BatchSource::new(&ab(1).schema).numbers(2..5).len()
}

/// Known failure B187: the last replica keeps what is readable, says so, and
/// never goes on as if nothing were missing.
#[test]
fn damage_to_acknowledged_records_leaves_the_readable_part_and_refuses_writes() {
    let options = durable().with("log.segment.file-size", "600");
    let (mut server, mut client, table) = server_with_table(&options, 4);
    for bucket in 0..4 {
        for number in 0..12 {
            client
                .append(&table, bucket, &table.source().numbers([number]))
                .expect("appended");
        }
    }
    server.kill();
    let segments = |bucket: i32| {
        let dir = server.bucket_dir(table.id, None, bucket);
        let names = std::fs::read_dir(dir)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path());
        let mut found: Vec<PathBuf> = names
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .collect();
        found.sort();
        assert!(found.len() > 3, "{found:?}");
        found
    };
    let flip = |path: &Path| {
        let mut bytes = std::fs::read(path).expect("read");
        let at = bytes.len() - 20;
        bytes[at] ^= 0xFF;
        std::fs::write(path, bytes).expect("written");
    };
    flip(&segments(0)[0]);
    flip(&segments(1)[segments(1).len() / 2]);
    std::fs::remove_file(&segments(2)[1]).expect("removed");
    server.start_again();
    let mut client = server.client();
    for bucket in 0..3 {
        let end = client.end(&table, bucket);
        let read = numbers(&all_rows(&mut client, &table, bucket));
        assert_eq!(
            read,
            (0..i32::try_from(end).expect("in range")).collect::<Vec<_>>(),
            "bucket {bucket}"
        );
        assert!(read.len() < 12, "bucket {bucket} has lost something");
        let refused = client.append(&table, bucket, &table.source().numbers([99]));
        assert!(
            matches!(refused, Err(10 | 26)),
            "bucket {bucket}: {refused:?}"
        );
    }
    assert_eq!(
        numbers(&all_rows(&mut client, &table, 3)),
        (0..12).collect::<Vec<_>>()
    );
    assert_eq!(
        client.append(&table, 3, &table.source().numbers([12])),
        Ok(12)
    );
    assert!(server.log().contains("damaged"), "{}", server.log());
}

/// What may be missing or broken beside the segments.
const SPOILT: [(&str, fn(&Path)); 9] = [
    ("nothing", |_| {}),
    ("no checkpoint", |dir| remove(&dir.join("checkpoint"))),
    ("no checkpoint at all", |dir| {
        remove(&dir.join("checkpoint"));
        remove(&dir.join("checkpoint.prev"));
    }),
    ("an empty checkpoint", |dir| {
        drop(File::create(dir.join("checkpoint")))
    }),
    ("a cut checkpoint", |dir| halve(&dir.join("checkpoint"))),
    ("a broken checkpoint", |dir| {
        std::fs::write(dir.join("checkpoint"), [0xAB; 300]).expect("written")
    }),
    ("no mark", |dir| remove(&dir.join("durable.mark"))),
    ("no indexes", |dir| each_index(dir, remove)),
    ("broken indexes", |dir| {
        each_index(dir, |path| {
            std::fs::write(path, [0xAB; 77]).expect("written")
        })
    }),
];

fn remove(path: &Path) {
    // It may not be there yet.
    let _ = std::fs::remove_file(path);
}

fn halve(path: &Path) {
    if let Ok(bytes) = std::fs::read(path) {
        std::fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
    }
}

fn each_index(dir: &Path, change: impl Fn(&Path)) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|end| end == "index") {
            change(&path);
        }
    }
}

/// Known failures B022, B023.
#[test]
fn writers_are_known_again_whatever_is_left_of_their_checkpoint() {
    let options = durable()
        .with("log.segment.file-size", "4096")
        .with("log.index.interval-size", "256");
    let count = i32::try_from(SPOILT.len()).expect("in range");
    let (mut server, mut client, table) = server_with_table(&options, count);
    let writers: Vec<i64> = (0..6).map(|_| client.init_writer()).collect();
    let batch = |writer: i64, sequence: i32| {
        table
            .source()
            .with_writer(writer, sequence)
            .numbers([sequence])
    };
    let append = |client: &mut Client, writer, sequence| {
        let records = batch(writer, sequence);
        client
            .produce(&table.produce((0..count).map(|bucket| (None, bucket, &records[..]))))
            .into_iter()
            .map(|answer| answer.base_offset.ok_or(answer.error_code))
            .collect::<Vec<_>>()
    };
    let mut sequence = 0;
    let mut offsets = Vec::new();
    for orderly in [true, false, true] {
        for _ in 0..7 {
            offsets = writers
                .iter()
                .map(|writer| append(&mut client, *writer, sequence))
                .collect();
            sequence += 1;
        }
        if orderly {
            server.stop();
        } else {
            server.kill();
        }
        for (bucket, (_, spoil)) in (0..).zip(SPOILT) {
            spoil(&server.bucket_dir(table.id, None, bucket));
        }
        server.start_again();
        client = server.client();
        for (writer, known) in writers.iter().zip(&offsets) {
            let repeated = append(&mut client, *writer, sequence - 1);
            let gap = append(&mut client, *writer, sequence + 1);
            for (bucket, (sentence, _)) in SPOILT.iter().enumerate() {
                assert_eq!(repeated[bucket], known[bucket], "a repeat, with {sentence}");
                assert_eq!(gap[bucket], Err(Some(31)), "a gap, with {sentence}");
            }
        }
    }
    for (bucket, (sentence, _)) in (0..).zip(SPOILT) {
        let rows = numbers(&all_rows(&mut client, &table, bucket));
        assert_eq!(rows.len(), writers.len() * 21, "{sentence}");
    }
}

/// It must not take all tables for dropped ones.
#[test]
fn a_start_without_the_metadata_or_with_an_old_copy_is_refused_and_nothing_is_lost() {
    let mut server = durable().start();
    server.stop();
    let metadata = server.data_dir().join("meta.redb");
    let copies = tempfile::tempdir().expect("a directory");
    let old = copies.path().join("old");
    std::fs::copy(&metadata, &old).expect("copied");
    server.start_again();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &ab(1));
    client
        .append(&table, 0, &table.source().numbers(0..3))
        .expect("appended");
    server.stop();
    let right = copies.path().join("right");
    std::fs::rename(&metadata, &right).expect("moved");
    for number in 0..3 {
        if number == 2 {
            std::fs::copy(&old, &metadata).expect("copied");
        }
        let (status, errors) = failed_start(&durable(), &server.data_dir());
        assert_eq!(status.code(), Some(1), "{errors}");
        let named = format!(
            "does not know {}",
            server.data_dir().join("log/t").display()
        );
        assert!(
            errors.contains("meta.redb") && errors.contains(&named),
            "{errors}"
        );
    }
    std::fs::copy(&right, &metadata).expect("copied");
    server.start_again();
    let mut client = server.client();
    assert_eq!(numbers(&all_rows(&mut client, &table, 0)), [0, 1, 2]);
}

/// Known failure B036.
#[test]
fn what_a_dropped_table_left_on_the_disk_is_removed_by_the_next_start() {
    let mut server = durable().start();
    let mut client = server.client();
    let table = client.create_table("fluss.t", &ab(1));
    let descriptor =
        log_table(&[("a", TypeKind::Int), ("b", TypeKind::String)], 1).partitioned_by(["b"]);
    let parted = client.create_table("fluss.parted", &descriptor);
    let partition = client.create_partition(&parted, &[("b", "one")]);
    let gone = client.create_table("fluss.gone", &ab(1));
    let gone_parted = client.create_table("fluss.gone-parted", &descriptor);
    let gone_partition = client.create_partition(&gone_parted, &[("b", "one")]);
    client.drop_table("fluss.gone");
    client.drop_table("fluss.gone-parted");
    client
        .append(&table, 0, &table.source().numbers(0..3))
        .expect("appended");
    client
        .append_to(&parted, partition, 0, &table.source().numbers(0..3))
        .expect("appended");
    server.stop();
    let live = server.bucket_dir(table.id, None, 0);
    let leftovers = [
        server.bucket_dir(gone.id, None, 0),
        server.bucket_dir(table.id, None, 5),
        server.bucket_dir(parted.id, Some(gone_partition), 0),
    ];
    for dir in &leftovers {
        std::fs::create_dir_all(dir).expect("created");
        for entry in std::fs::read_dir(&live).expect("a directory") {
            let path = entry.expect("an entry").path();
            std::fs::copy(&path, dir.join(path.file_name().expect("a name"))).expect("copied");
        }
        std::fs::write(dir.join("00000000000000000009.log"), [0xAB; 500]).expect("written");
    }
    let empty = server.bucket_dir(gone_parted.id, Some(gone_partition), 0);
    std::fs::create_dir_all(empty.parent().expect("that of a partition")).expect("created");
    server.start_again();
    for dir in &leftovers {
        assert!(!dir.exists(), "{}", dir.display());
    }
    assert!(
        [gone.id, gone_parted.id]
            .iter()
            .all(|id| !server.data_dir().join(format!("log/t{id}")).exists())
    );
    let mut client = server.client();
    assert_eq!(numbers(&all_rows(&mut client, &table, 0)), [0, 1, 2]);
    assert_eq!(client.offset(&parted, Some(partition), 0, 1, None), Ok(3));
    // The same name again is another table.
    client.drop_table("fluss.t");
    let again = client.create_table("fluss.t", &ab(1));
    assert_eq!(client.end(&again, 0), 0);
    server.crash();
    let mut client = server.client();
    assert_eq!(client.end(&again, 0), 0);
    assert!(!live.exists());
}
