use mainstem_env::SeededRng;
use mainstem_log::{LogConfig, LogError, LogPart, ReadRequest};

use crate::support::*;

fn request(start_offset: i64, max_bytes: u64) -> ReadRequest {
    ReadRequest {
        start_offset,
        end_offset_limit: i64::MAX,
        max_bytes,
        min_one_batch: true,
    }
}

#[test]
fn offsets_outside_of_the_log_are_refused_and_the_end_is_not() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    for offset in [-9, -1, 1, i64::MAX, i64::MIN] {
        let error = tablet.read(&request(offset, 10)).unwrap_err();
        assert!(
            matches!(
                error,
                LogError::OffsetOutOfRange {
                    start: 0,
                    end: 0,
                    ..
                }
            ),
            "{offset}"
        );
    }
    assert!(tablet.read(&request(0, 10)).unwrap().is_empty());
    append(&tablet, &[plain(5, 10)], 0).unwrap();
    assert!(tablet.read(&request(5, 10)).unwrap().is_empty());
    let error = tablet.read(&request(6, 10)).unwrap_err();
    assert!(matches!(
        error,
        LogError::OffsetOutOfRange {
            requested: 6,
            start: 0,
            end: 5
        }
    ));
}

#[test]
fn an_offset_inside_a_batch_returns_the_whole_batch() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    append(&tablet, &[plain(5, 10)], 0).unwrap();
    append(&tablet, &[plain(5, 10)], 0).unwrap();
    let slice = tablet.read(&request(7, 1 << 20)).unwrap();
    assert_eq!(
        (slice.base_offset, slice.end_offset, slice.len),
        (5, 10, 58)
    );
    assert_eq!(tablet.read(&request(4, 1 << 20)).unwrap().len, 116);
}

#[test]
fn nothing_beyond_the_limit_is_returned_not_even_in_part() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    for _ in 0..4 {
        append(&tablet, &[plain(5, 20_000)], 0).unwrap();
    }
    for limit in 0..=20 {
        let request = ReadRequest {
            end_offset_limit: limit,
            ..request(0, 1 << 20)
        };
        assert_eq!(
            tablet.read(&request).unwrap().end_offset,
            limit / 5 * 5,
            "{limit}"
        );
    }
    let request = ReadRequest {
        end_offset_limit: 7,
        ..request(6, 1 << 20)
    };
    assert!(tablet.read(&request).unwrap().is_empty());
}

#[test]
fn the_budget_holds_but_for_a_first_batch_larger_than_it() {
    let fs = disk(1);
    let (tablet, _) = open(&fs, &LogConfig::default()).unwrap();
    for _ in 0..10 {
        append(&tablet, &[plain(1, 52)], 0).unwrap();
    }
    assert_eq!(tablet.read(&request(0, 399)).unwrap().len, 300);
    assert_eq!(tablet.read(&request(0, 400)).unwrap().len, 400);
    assert_eq!(tablet.read(&request(0, 0)).unwrap().len, 100);
    assert_eq!(tablet.read(&request(0, 99)).unwrap().end_offset, 1);
    let request = ReadRequest {
        min_one_batch: false,
        ..request(0, 99)
    };
    assert!(tablet.read(&request).unwrap().is_empty());
}

#[test]
fn a_read_spans_segments_and_joins_small_ones_in_memory() {
    let fs = disk(1);
    let config = LogConfig {
        segment_bytes: 120,
        ..LogConfig::default()
    };
    let (tablet, _) = open(&fs, &config).unwrap();
    for _ in 0..1_000 {
        append(&tablet, &[plain(1, 52)], 0).unwrap();
    }
    append(&tablet, &[plain(1, 50_000)], 0).unwrap();
    assert_eq!(tablet.segment_count(), 1_001);
    let slice = tablet.read(&request(0, 1 << 20)).unwrap();
    assert_eq!((slice.end_offset, slice.len), (1_001, 150_048));
    assert_eq!(
        slice.parts.len(),
        2,
        "one of memory, one of the file of the large batch"
    );
    assert!(matches!(&slice.parts[1], LogPart::File(range) if range.len == 50_048));
    assert!(fs.open_handles() < 50);
}

#[test]
fn the_cursor_returns_each_batch_with_its_place() {
    let fs = disk(1);
    let config = LogConfig {
        segment_bytes: 30_000,
        ..LogConfig::default()
    };
    let (tablet, _) = open(&fs, &config).unwrap();
    let mut ledger = Ledger::default();
    let mut rng = SeededRng::new(5);
    for _ in 0..300 {
        let payload = [10, 200, 9_000][rng.index(3)];
        let batch = plain(1 + rng.below(4) as i32, payload);
        append(&tablet, std::slice::from_ref(&batch), 3).unwrap();
        ledger.add(&[batch], 3);
    }
    for first in [0, 1, 50, 299] {
        let start = ledger.stored[first].header.last_offset();
        let limit = ledger.end() - 1;
        let mut cursor = tablet.batches(start, limit).unwrap();
        let mut expected = ledger.stored[first..299].iter();
        while let Some(found) = cursor.next_batch().unwrap() {
            let one = expected.next().unwrap();
            assert_eq!(found.header, one.header);
            let mut bytes = vec![0; found.header.total_len];
            found
                .file
                .read_exact_at(&mut bytes, found.position)
                .unwrap();
            assert_eq!(bytes, one.bytes);
        }
        assert!(expected.next().is_none());
        assert!(cursor.segments_visited() <= tablet.segment_count());
    }
}

#[test]
fn lookups_survive_a_missing_a_damaged_and_a_foreign_index_file() {
    let fs = disk(1);
    let config = LogConfig {
        segment_bytes: 200_000,
        ..LogConfig::default()
    };
    let (tablet, _) = open(&fs, &config).unwrap();
    let mut ledger = Ledger::default();
    for number in 0..3_000 {
        let batch = plain(2, 100 + number % 300);
        append(&tablet, std::slice::from_ref(&batch), number as i64).unwrap();
        ledger.add(&[batch], number as i64);
    }
    assert!(tablet.segment_count() >= 4);
    tablet.close(0).unwrap();

    let base = |number: usize| -> i64 {
        let mut names: Vec<String> = mainstem_env::FileSystem::list(&fs, DIR.as_ref())
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .filter(|name| name.ends_with(".index"))
            .collect();
        names.sort();
        names[number].trim_end_matches(".index").parse().unwrap()
    };
    let index_path = |base: i64| segment_path(base).with_extension("index");
    let (first, second, third) = (base(0), base(1), base(2));
    mainstem_env::FileSystem::remove_file(&fs, &index_path(first)).unwrap();
    fs.corrupt(&index_path(second), 60, 0xff).unwrap();
    // A valid index that lies: entries shifted by one byte, checksum right.
    let mut lying = fs.content(&index_path(third)).unwrap();
    for entry in 1..10 {
        lying[48 + entry * 16 + 4] ^= 1;
    }
    let content = lying.len() - 4;
    let crc = crc32c::crc32c(&lying[..content]);
    lying[content..].copy_from_slice(&crc.to_le_bytes());
    let file =
        mainstem_env::FileSystem::open(&fs, &index_path(third), mainstem_env::OpenMode::ReadWrite)
            .unwrap();
    file.write_all_at(&mut [std::io::IoSlice::new(&lying)], 0)
        .unwrap();

    let (tablet, report) = open(&fs, &config).unwrap();
    assert!(report.is_clean());
    assert_eq!(report.scanned_bytes, 0);
    for stored in ledger.stored.iter().step_by(7) {
        let slice = tablet.read(&request(stored.header.base_offset, 0)).unwrap();
        assert_eq!(slice.to_bytes().unwrap(), stored.bytes);
        let offset = tablet
            .offset_for_timestamp(stored.header.commit_timestamp_ms)
            .unwrap();
        assert_eq!(offset, Some(stored.header.base_offset));
    }
}
