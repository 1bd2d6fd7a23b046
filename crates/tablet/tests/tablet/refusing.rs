//! Records that nobody should send (wire.md §4.8).

use bytes::Bytes;
use mainstem_env::SeededRng;
use mainstem_format::{BatchHeader, SchemaLayout, check_append};
use mainstem_types::LogFormat;

use crate::common::*;

/// A batch with some bytes changed, mostly of its header, whose checksum says
/// that it is fine.
fn damaged(rng: &mut SeededRng) -> Vec<u8> {
    let width = [1, 50][rng.index(2)];
    let count = 1 + rng.below(3) as i64;
    let mut bytes = batch(7, rng.below(3) as i32, &rows(0, count, width)).to_vec();
    let crc_start = BatchHeader::parse(&bytes).unwrap().magic.crc_start();
    for _ in 0..1 + rng.index(3) {
        let reach = if rng.chance(70) { 60 } else { bytes.len() };
        let at = rng.index(reach.min(bytes.len()));
        if rng.chance(40) && at + 4 <= bytes.len() {
            let extreme = [-1, 0, 1, i32::MAX, i32::MIN, 1 << 16][rng.index(6)];
            bytes[at..at + 4].copy_from_slice(&extreme.to_le_bytes());
        } else {
            bytes[at] = rng.next_u64() as u8;
        }
    }
    if rng.chance(10) {
        bytes.truncate(rng.index(bytes.len()));
    }
    let whole = bytes.len();
    if whole > crc_start {
        let crc = crc32c::crc32c(&bytes[crc_start..whole]);
        bytes[crc_start - 4..crc_start].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

#[test]
fn whatever_is_sent_is_refused_or_stays_readable() {
    let catalog = catalog();
    put_table(&catalog, &TableSpec::default());
    let disk = disk(1);
    let server = Server::start(&disk, &catalog, log_config());
    let mut rng = SeededRng::new(5);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..4_000 {
        let mut records = damaged(&mut rng);
        if rng.chance(30) {
            records.extend(damaged(&mut rng));
        }
        let end = server.replica(1, 0).log_end_offset();
        let call = server.produce(&Produce::to(1, -1).bucket(0, records.into()));
        server.sync();
        match server.produced(call)[0].result {
            Ok(_) => accepted += 1,
            Err(code) => {
                assert!(matches!(code, 14 | 15 | 31), "round {round}: code {code}");
                let replica = server.replica(1, 0);
                assert_eq!(replica.log_end_offset(), end, "round {round}");
                refused += 1;
            }
        }
    }
    assert!(accepted > 20 && refused > 1_000, "{accepted} and {refused}");
    let at = server.append(1, 0, &rows(1_000, 2, 5));
    let end = server.replica(1, 0).high_watermark();
    assert_eq!(end, at + 2);
    drop(server);

    // Every start finds the same.
    let server = Server::start(&disk.process_kill(), &catalog, log_config());
    server.sync();
    assert_eq!(server.replica(1, 0).high_watermark(), end);
    let mut next = 0;
    while next < end {
        let read = &server.fetched(&Fetch::of(1).bucket(0, next))[0];
        assert_eq!(read.error, None);
        let batches = check_stored(&read.records);
        assert!(batches > next, "stuck at {next}");
        next = batches;
    }
}

/// Checks batches as a server checks what it is sent. Returns their end.
fn check_stored(records: &Bytes) -> i64 {
    let layout = std::sync::Arc::new(SchemaLayout::new(&schema()));
    let schemas = |id: i16| (id == 1).then(|| layout.clone());
    let batches = check_append(records, LogFormat::Arrow, &schemas).expect("sound batches");
    batches.last().map_or(0, |last| last.header().next_offset())
}
