//! `bench settle`: the room that many rows take once writing has stopped, the
//! longest wait of a writer meanwhile, and single lookups among them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::Workload;
use super::figure::{Figure, Target};
use super::keyed_rows::{KeyedRows, lookup_request, put_request};
use super::report::Report;
use super::server::Durability;
use super::stage::{Stage, pause};
use super::table;
use super::upsert;
use super::wire::WireConnection;

const BUCKETS: u64 = 4;
const BATCH: usize = 2_000;
/// Nothing has changed on the disk for so long: it has settled.
const QUIET: Duration = Duration::from_secs(5);
const QUIET_MAX: Duration = Duration::from_secs(180);
/// Bytes of the STRING column, which make a row of about 100 bytes.
const NAME_BYTES: usize = 80;

/// Options of `mainstem bench settle`.
#[derive(clap::Args, Clone, Debug)]
pub struct SettleArguments {
    /// Rows, in random order.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Single lookups, one at a time.
    #[arg(long, default_value_t = 50_000)]
    lookups: usize,
}

struct Round {
    row_bytes: u64,
    disk_bytes: u64,
    longest_put: f64,
    rate: f64,
    lookups: Vec<Duration>,
    memory_bytes: u64,
}

impl Workload for SettleArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("settle");
        report.configured(
            "load",
            format!(
                "{} rows of about 100 bytes in random order, in batches of {BATCH} for one of \
                 {BUCKETS} buckets, one request in flight, then an orderly end and a start; {} \
                 single lookups",
                self.rows, self.lookups
            ),
        );
        let rows = KeyedRows::new()?.with_names_of(NAME_BYTES);
        let rounds = stage.rounds(&mut report, || self.round(stage, &rows))?;
        let mut add = |text: &str, unit, of: &dyn Fn(&Round) -> f64, target| {
            let values = rounds.iter().map(of).collect();
            let mut figure = Figure::new(text, unit, values);
            figure.target = target;
            report.push(figure);
        };
        add(
            "bytes on disk per byte of keys and rows",
            "",
            &|round| round.disk_bytes as f64 / round.row_bytes as f64,
            Some(Target::AtMost(1.5)),
        );
        add(
            "longest put",
            "ms",
            &|round| round.longest_put * 1e3,
            Some(Target::EachAtMost(500.0)),
        );
        add("rows", "M/s", &|round| round.rate / 1e6, None);
        for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            add(
                &format!("single lookup {name}"),
                "ms",
                &|round| {
                    let last = round.lookups.len().saturating_sub(1);
                    let time = round.lookups[(last as f64 * part) as usize];
                    time.as_secs_f64() * 1e3
                },
                (part == 0.99).then_some(Target::AtMost(1.0)),
            );
        }
        add(
            "memory at the end",
            "MB",
            &|round| round.memory_bytes as f64 / 1e6,
            None,
        );
        Ok(report)
    }
}

impl SettleArguments {
    fn round(&self, stage: &Stage, rows: &KeyedRows) -> Result<Round> {
        let dir = stage.fresh_dir("server")?;
        let server = stage.server(&dir, Durability::Os)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let buckets = i32::try_from(BUCKETS)?;
        let table = table::create(&mut connection, "settle", &rows.table(buckets))?;
        let of_bucket = self.rows / BUCKETS;
        let order = Permutation::new(of_bucket);
        let (mut longest_put, mut seconds, mut row_bytes) = (0.0_f64, 0.0, 0);
        for first in (0..of_bucket).step_by(BATCH) {
            let last = (first + BATCH as u64).min(of_bucket);
            for bucket in 0..BUCKETS {
                let ids: Vec<u64> = (first..last)
                    .map(|n| order.at(n) * BUCKETS + bucket)
                    .collect();
                let batch = rows.batch(&ids, 0)?;
                row_bytes += batch.len() as u64;
                let frame = put_request(table.table_id, i32::try_from(bucket)?, batch)?;
                let begin = Instant::now();
                upsert::pump(&mut connection, &[frame], 1)?;
                let took = begin.elapsed().as_secs_f64();
                seconds += took;
                longest_put = longest_put.max(took);
            }
        }
        wait_until_quiet(&dir.join("kv"))?;
        server.stop()?;
        let disk_bytes = size_of(&dir.join("kv"))?;
        let server = stage.server(&dir, Durability::Os)?;
        let mut connection = WireConnection::open(server.address())?;
        let stored = upsert::row_count(&mut connection, table.table_id, buckets)?;
        ensure!(
            stored == (of_bucket * BUCKETS) as i64,
            "{stored} rows are stored"
        );
        let lookups = self.look_up(&mut connection, rows, table.table_id, of_bucket)?;
        let memory_bytes = server.resident_bytes()?;
        server.kill()?;
        Ok(Round {
            row_bytes,
            disk_bytes,
            longest_put,
            rate: (of_bucket * BUCKETS) as f64 / seconds,
            lookups,
            memory_bytes,
        })
    }

    fn look_up(
        &self,
        connection: &mut WireConnection,
        rows: &KeyedRows,
        table_id: i64,
        of_bucket: u64,
    ) -> Result<Vec<Duration>> {
        let mut random = StdRng::seed_from_u64(3);
        let mut times = Vec::with_capacity(self.lookups);
        // The first half fills the caches.
        for number in 0..self.lookups * 2 {
            let bucket = random.random_range(0..BUCKETS);
            let id = random.random_range(0..of_bucket) * BUCKETS + bucket;
            let mut key = Vec::new();
            rows.key(id, &mut key);
            let frame = lookup_request(table_id, i32::try_from(bucket)?, vec![key.into()])?;
            let begin = Instant::now();
            connection.send(&frame)?;
            connection.receive()?;
            if number >= self.lookups {
                times.push(begin.elapsed());
            }
        }
        times.sort_unstable();
        Ok(times)
    }
}

/// Every number below a bound once, in an order without pattern.
struct Permutation {
    bound: u64,
    factor: u64,
}

impl Permutation {
    fn new(bound: u64) -> Self {
        let mut factor = (bound as f64 * 0.618) as u64 | 1;
        while gcd(factor, bound) != 1 {
            factor += 2;
        }
        Self { bound, factor }
    }

    fn at(&self, index: u64) -> u64 {
        let product = u128::from(index) * u128::from(self.factor);
        (product % u128::from(self.bound.max(1))) as u64
    }
}

fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

fn wait_until_quiet(dir: &Path) -> Result<()> {
    let begin = Instant::now();
    let (mut last, mut since) = (size_of(dir)?, Instant::now());
    while since.elapsed() < QUIET && begin.elapsed() < QUIET_MAX {
        pause(Duration::from_millis(500));
        let now = size_of(dir)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Bytes of all files below a directory. Files that vanish meanwhile are not there.
fn size_of(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes += size_of(&entry.path())?,
            Ok(metadata) => bytes += metadata.len(),
            Err(_) => {}
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_number_once() {
        for bound in [1, 2, 10, 999, 2_500] {
            let order = Permutation::new(bound);
            let mut all: Vec<u64> = (0..bound).map(|index| order.at(index)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..bound).collect::<Vec<_>>());
        }
    }
}
