//! Measures the log on a real disk: appends beside a floor program that only
//! writes the same bytes, group commit, reads, and opening many buckets.
//!
//! `cargo run --release -p mainstem-log --example log_bench [DIRECTORY]`

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstem_env::{RealFileSystem, SystemClock};
use mainstem_format::BatchSpec;
use mainstem_log::{
    CheckedBatches, Durability, LogConfig, LogPart, LogResources, LogTablet, ReadRequest, Syncer,
};
use mainstem_types::LeaderEpoch;

const EPOCH: LeaderEpoch = LeaderEpoch(1);

fn main() {
    let root = std::env::args()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let root = root.join(format!("log-bench-{}", std::process::id()));
    std::fs::create_dir_all(&root).expect("a directory for the bench");
    appends(&root);
    reads(&root);
    syncs(&root);
    opens(&root);
    std::fs::remove_dir_all(&root).expect("the bench's own directory");
}

fn config(durability: Durability) -> Arc<LogConfig> {
    Arc::new(LogConfig {
        durability,
        ..LogConfig::default()
    })
}

fn open(root: &Path, name: &str, config: &Arc<LogConfig>) -> Arc<LogTablet> {
    let resources = LogResources::new(Arc::new(RealFileSystem), root.to_owned(), 512);
    let opened = LogTablet::open(resources, root.join(name), Arc::clone(config), 0);
    Arc::new(opened.expect("the log opens").0)
}

fn batch(payload: usize) -> Bytes {
    let spec = BatchSpec::default();
    Bytes::from(
        spec.build(10, &[], &[], &vec![7; payload])
            .expect("a batch"),
    )
}

/// User and system time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    // 100 ticks a second on every Linux that matters here.
    Duration::from_millis(ticks * 10)
}

fn resident_kib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * 4
}

fn appends(root: &Path) {
    println!("append, durability os, checksum verified:");
    for (payload, total) in [(1 << 20, 1 << 30), (10_000, 512 << 20), (52, 100 << 20_u64)] {
        let one = batch(payload);
        let count = total / one.len() as u64;
        for round in 0..5 {
            let log = {
                let tablet = open(
                    root,
                    &format!("append-{payload}-{round}"),
                    &config(Durability::Os),
                );
                let (start, cpu_start) = (Instant::now(), cpu());
                for _ in 0..count {
                    let checked = CheckedBatches::verify(&one).expect("valid");
                    tablet
                        .append_as_leader(&checked, 0, EPOCH)
                        .expect("appended");
                }
                let measured = (start.elapsed(), cpu() - cpu_start);
                tablet.remove().expect("removed");
                measured
            };
            let floor = {
                let path = root.join("floor");
                let file = File::create(&path).expect("a file");
                let (start, cpu_start) = (Instant::now(), cpu());
                let mut position = 0;
                for _ in 0..count {
                    std::hint::black_box(crc32c::crc32c(&one[25..]));
                    file.write_all_at(&one, position).expect("written");
                    position += one.len() as u64;
                }
                let measured = (start.elapsed(), cpu() - cpu_start);
                std::fs::remove_file(path).expect("removed");
                measured
            };
            let rate = |time: Duration| total as f64 / time.as_secs_f64() / 1e9;
            println!(
                "  {:>8} B: {:.2} GB/s, {:>9.0} batches/s, cpu {:.2} s/GB; floor {:.2} GB/s, cpu {:.2} s/GB; ratio {:.2}",
                one.len(),
                rate(log.0),
                count as f64 / log.0.as_secs_f64(),
                log.1.as_secs_f64() / (total as f64 / 1e9),
                rate(floor.0),
                floor.1.as_secs_f64() / (total as f64 / 1e9),
                floor.0.as_secs_f64() / log.0.as_secs_f64(),
            );
        }
    }
}

fn reads(root: &Path) {
    println!("read of ranges, 1 MiB each, headers only:");
    for (payload, segment_bytes) in [(1 << 19, 1 << 30), (52, 1 << 30), (52, 120)] {
        let config = Arc::new(LogConfig {
            durability: Durability::Os,
            segment_bytes,
            ..LogConfig::default()
        });
        let tablet = open(root, "read", &config);
        let one = CheckedBatches::verify(&batch(payload)).expect("valid");
        let count = if segment_bytes == 120 {
            20_000
        } else {
            (256 << 20) / (payload + 48)
        };
        for _ in 0..count {
            tablet.append_as_leader(&one, 0, EPOCH).expect("appended");
        }
        let (start, mut offset, mut slices, mut files) = (Instant::now(), 0, 0_u32, 0);
        while offset < tablet.end_offset() {
            let slice = tablet
                .read(&ReadRequest {
                    start_offset: offset,
                    end_offset_limit: i64::MAX,
                    max_bytes: 1 << 20,
                    min_one_batch: true,
                })
                .expect("read");
            files += slice
                .parts
                .iter()
                .filter(|part| matches!(part, LogPart::File(_)))
                .count();
            offset = slice.end_offset;
            slices += 1;
        }
        let time = start.elapsed();
        println!(
            "  batches of {:>7} B, segments of {:>10} B: {:.1} µs a slice ({slices} slices, {files} file ranges)",
            payload + 48,
            segment_bytes,
            time.as_secs_f64() * 1e6 / f64::from(slices),
        );
        let (start, mut cursor) = (Instant::now(), tablet.batches(0, i64::MAX).expect("cursor"));
        let mut walked = 0_u32;
        while cursor.next_batch().expect("walks").is_some() {
            walked += 1;
        }
        let per_batch = start.elapsed().as_secs_f64() * 1e9 / f64::from(walked);
        println!("    cursor: {per_batch:.0} ns a batch");
        tablet.remove().expect("removed");
    }
}

/// Appends with a bounded number in flight, and a sync for all that is there.
fn syncs(root: &Path) {
    println!("durable appends of 1 KiB for 2 s, acknowledged after the sync:");
    for in_flight in [1, 16, 256] {
        for round in 0..2 {
            let name = format!("sync-{in_flight}-{round}");
            let log = durable_appends(&open(root, &name, &config(Durability::Fsync)), in_flight);
            let floor = floor_syncs(&root.join("floor"), in_flight as u64);
            println!(
                "  {in_flight:>3} in flight: {log:>7.0} acks/s; floor {floor:>7.0}; ratio {:.2}",
                log / floor
            );
        }
    }
    println!("durable appends over many buckets, 8 in flight each, 2 s:");
    for buckets in [8, 64] {
        let syncer = Arc::new(Syncer::new(16, Arc::new(SystemClock::new())));
        let tablets: Vec<_> = (0..buckets)
            .map(|bucket| {
                open(
                    root,
                    &format!("many-{buckets}-{bucket}"),
                    &config(Durability::Fsync),
                )
            })
            .collect();
        let one = CheckedBatches::verify(&batch(1_000)).expect("valid");
        let (start, acks) = (Instant::now(), AtomicU64::new(0));
        while start.elapsed() < Duration::from_secs(2) {
            for tablet in &tablets {
                if tablet.end_offset() - tablet.durable_end_offset() < 80 {
                    tablet.append_as_leader(&one, 0, EPOCH).expect("appended");
                    syncer.request(tablet);
                    acks.fetch_add(1, Ordering::Relaxed);
                }
            }
            std::thread::yield_now();
        }
        drop(syncer);
        let rate = acks.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
        println!("  {buckets:>3} buckets: {rate:.0} acks/s");
    }
}

fn durable_appends(tablet: &Arc<LogTablet>, in_flight: i64) -> f64 {
    let syncer = Syncer::new(2, Arc::new(SystemClock::new()));
    let one = CheckedBatches::verify(&batch(1_000)).expect("valid");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        if (tablet.end_offset() - tablet.durable_end_offset()) / 10 < in_flight {
            tablet.append_as_leader(&one, 0, EPOCH).expect("appended");
            syncer.request(tablet);
        } else {
            std::thread::yield_now();
        }
    }
    (tablet.durable_end_offset() / 10) as f64 / start.elapsed().as_secs_f64()
}

fn floor_syncs(path: &Path, in_flight: u64) -> f64 {
    let file = File::create(path).expect("a file");
    let bytes = batch(1_000);
    let (start, mut written) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(2) {
        for _ in 0..in_flight {
            file.write_all_at(&bytes, written * bytes.len() as u64)
                .expect("written");
            written += 1;
        }
        file.sync_data().expect("synced");
    }
    written as f64 / start.elapsed().as_secs_f64()
}

fn opens(root: &Path) {
    println!("opening 1,000 buckets of 100 batches:");
    let config = config(Durability::Os);
    let resources = LogResources::new(Arc::new(RealFileSystem), root.to_owned(), 512);
    let one = CheckedBatches::verify(&batch(1_000)).expect("valid");
    let open_all = |what: &str| {
        let (before, start) = (resident_kib(), Instant::now());
        let tablets: Vec<_> = (0..1_000)
            .map(|bucket| {
                let dir = root.join(format!("many/t-{}/log-{}", bucket / 10, bucket % 10));
                LogTablet::open(Arc::clone(&resources), dir, Arc::clone(&config), 0)
                    .expect("the log opens")
            })
            .collect();
        let scanned: u64 = tablets.iter().map(|(_, report)| report.scanned_bytes).sum();
        let tablets: Vec<Arc<LogTablet>> = tablets
            .into_iter()
            .map(|(tablet, _)| Arc::new(tablet))
            .collect();
        println!(
            "  {what}: {:.1} ms, {} KiB read, {} KiB resident more",
            start.elapsed().as_secs_f64() * 1e3,
            scanned >> 10,
            resident_kib().saturating_sub(before),
        );
        tablets
    };
    let tablets = open_all("empty");
    for tablet in &tablets {
        for _ in 0..100 {
            tablet.append_as_leader(&one, 0, EPOCH).expect("appended");
        }
        tablet.release_idle_handles(0, 0);
    }
    drop(tablets);
    let tablets = open_all("after kill -9, no checkpoint");
    let start = Instant::now();
    assert_eq!(LogTablet::close_all(&tablets, 0), 0);
    println!(
        "  closing all, synced: {:.0} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    drop(tablets);
    drop(open_all("after a clean close"));

    let tiny = Arc::new(LogConfig {
        segment_bytes: 120,
        ..(*config).clone()
    });
    let tablet = open(root, "tiny", &tiny);
    let start = Instant::now();
    for _ in 0..20_000 {
        tablet.append_as_leader(&one, 0, EPOCH).expect("appended");
    }
    println!(
        "20,000 segments of one batch: {:.0} µs an append",
        start.elapsed().as_secs_f64() * 1e6 / 2e4
    );
    drop(tablet);
    let start = Instant::now();
    let tablet = open(root, "tiny", &tiny);
    println!(
        "  opened after kill -9 in {:.0} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    let start = Instant::now();
    tablet.close(0).expect("closed");
    println!(
        "  synced and closed in {:.0} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
}
