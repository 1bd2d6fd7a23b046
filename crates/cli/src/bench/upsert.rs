//! `bench upsert`: puts of encoded batches, against RocksDB in this process that
//! does the same gets and puts and writes as many bytes to a log.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use mainstem_format::KvBatch;
use mainstem_kv::{KvEngine, KvWrites, Reach};
use mainstem_kv_rocksdb::{RocksConfig, RocksEngine};
use mainstem_protocol::{ApiKey, decode, messages as pb};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::figure::{Figure, Target};
use super::keyed_rows::{KeyedRows, put_request};
use super::report::Report;
use super::server::Durability;
use super::stage::{Stage, Usage};
use super::wire::{Frame, WireConnection};
use super::{Workload, cpu, table};

const BUCKETS: usize = 4;

/// Options of `mainstem bench upsert`.
#[derive(clap::Args, Clone, Debug)]
pub struct UpsertArguments {
    /// Rows per round.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Rows of a request, all for one bucket.
    #[arg(long, default_value_t = 1_000)]
    batch: usize,
    /// Requests in flight.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    window: u16,
}

/// What is written.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// New keys, ascending.
    New,
    /// Half of them new and ascending, then as many random ones among those.
    HalfKnown,
}

impl Keys {
    const ALL: [Self; 2] = [Self::New, Self::HalfKnown];

    fn name(self) -> &'static str {
        match self {
            Self::New => "new keys",
            Self::HalfKnown => "half of them known",
        }
    }

    /// What the server may use for a million rows.
    fn cpu_target(self) -> f64 {
        match self {
            Self::New => 1.5,
            Self::HalfKnown => 2.2,
        }
    }

    /// Bucket and keys of every batch. A key is always in the same bucket.
    fn batches(self, rows: u64, batch: usize) -> Vec<(usize, Vec<u64>)> {
        let known = match self {
            Self::New => rows,
            Self::HalfKnown => rows / 2,
        };
        let mut batches = Vec::new();
        let per_bucket = BUCKETS as u64;
        let steps = known.div_ceil(per_bucket * batch as u64);
        for step in 0..steps {
            for bucket in 0..per_bucket {
                let first = step * batch as u64;
                let last = (first + batch as u64).min(known / per_bucket);
                let ids = (first..last).map(|n| n * per_bucket + bucket).collect();
                batches.push((bucket as usize, ids));
            }
        }
        let mut random = StdRng::seed_from_u64(7);
        let more = (rows - known) / batch as u64;
        for number in 0..more {
            let bucket = number % per_bucket;
            let of_bucket = known / per_bucket;
            let ids = (0..batch)
                .map(|_| random.random_range(0..of_bucket) * per_bucket + bucket)
                .collect();
            batches.push((bucket as usize, ids));
        }
        batches.retain(|(_, ids): &(usize, Vec<u64>)| !ids.is_empty());
        batches
    }
}

impl Workload for UpsertArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("upsert");
        report.configured(
            "load",
            format!(
                "{} rows of BIGINT key, INT, DOUBLE, STRING(10) in batches of {} for one of \
                 {BUCKETS} buckets; changelog with both images, Arrow, zstd; 1 connection, {} \
                 requests in flight, acks all",
                self.rows, self.batch, self.window
            ),
        );
        let rows = KeyedRows::new()?;
        for keys in Keys::ALL {
            let batches: Vec<(usize, Bytes)> = keys
                .batches(self.rows, self.batch)
                .iter()
                .enumerate()
                .map(|(version, (bucket, ids))| Ok((*bucket, rows.batch(ids, version as u64)?)))
                .collect::<Result<_>>()?;
            self.compare(stage, keys, &rows, &batches, &mut report)?;
        }
        Ok(report)
    }
}

impl UpsertArguments {
    fn compare(
        &self,
        stage: &Stage,
        keys: Keys,
        rows: &KeyedRows,
        batches: &[(usize, Bytes)],
        report: &mut Report,
    ) -> Result<()> {
        let rounds = stage.rounds(report, || {
            let floor = floor(stage, batches)?;
            let os = self.server(stage, Durability::Os, rows, batches)?;
            let fsync = self.server(stage, Durability::Fsync, rows, batches)?;
            Ok((floor, os, fsync))
        })?;
        let count = self.rows as f64;
        let mut add = |text: &str, unit, of: &dyn Fn(&(Usage, Usage, Usage)) -> f64, target| {
            let values = rounds.iter().map(of).collect();
            let mut figure = Figure::new(format!("{}: {text}", keys.name()), unit, values);
            figure.target = target;
            report.push(figure);
        };
        let cpu_target = Some(Target::AtMost(keys.cpu_target()));
        let per_million = 1e6 / count;
        add(
            "rate / RocksDB in process",
            "",
            &|(floor, os, _)| floor.seconds / os.seconds,
            Some(Target::AtLeast(0.5)),
        );
        add("rate", "M/s", &|(_, os, _)| count / 1e6 / os.seconds, None);
        add(
            "rate with fsync",
            "M/s",
            &|(.., fsync)| count / 1e6 / fsync.seconds,
            None,
        );
        add(
            "rate of RocksDB",
            "M/s",
            &|(floor, ..)| count / 1e6 / floor.seconds,
            None,
        );
        add(
            "server CPU",
            "s/Mrow",
            &|(_, os, _)| os.cpu_seconds * per_million,
            cpu_target,
        );
        add(
            "server CPU with fsync",
            "s/Mrow",
            &|(.., fsync)| fsync.cpu_seconds * per_million,
            cpu_target,
        );
        add(
            "RocksDB CPU",
            "s/Mrow",
            &|(floor, ..)| floor.cpu_seconds * per_million,
            None,
        );
        Ok(())
    }

    fn server(
        &self,
        stage: &Stage,
        durability: Durability,
        rows: &KeyedRows,
        batches: &[(usize, Bytes)],
    ) -> Result<Usage> {
        let server = stage.fresh_server(durability)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let buckets = i32::try_from(BUCKETS)?;
        let table = table::create(&mut connection, "upsert", &rows.table(buckets))?;
        let frames: Vec<Frame> = batches
            .iter()
            .map(|(bucket, batch)| {
                put_request(table.table_id, i32::try_from(*bucket)?, batch.clone())
            })
            .collect::<Result<_>>()?;
        let (usage, ()) = Usage::of(&server, || {
            pump(&mut connection, &frames, usize::from(self.window))
        })?;
        let stored = row_count(&mut connection, table.table_id, buckets)?;
        let mut wanted = std::collections::HashSet::new();
        for (_, batch) in batches {
            let batch = KvBatch::parse(batch.clone())?;
            wanted.extend(batch.records().map(|record| record.key.to_vec()));
        }
        ensure!(
            stored == wanted.len() as i64,
            "{stored} rows are stored of {}",
            wanted.len()
        );
        server.kill()?;
        Ok(usage)
    }
}

/// Sends all requests with at most `window` of them unanswered.
pub fn pump(connection: &mut WireConnection, frames: &[Frame], window: usize) -> Result<()> {
    let mut in_flight = 0;
    for frame in frames {
        if in_flight == window {
            check(connection.receive()?.1)?;
            in_flight -= 1;
        }
        connection.send(frame)?;
        in_flight += 1;
    }
    for _ in 0..in_flight {
        check(connection.receive()?.1)?;
    }
    Ok(())
}

fn check(body: Bytes) -> Result<()> {
    let answer: pb::PutKvResponse = decode(body)?;
    for bucket in &answer.buckets_resp {
        if let Some(code) = bucket.error_code {
            let message = bucket.error_message.as_deref().unwrap_or("");
            bail!("put: error {code}: {message}");
        }
    }
    Ok(())
}

/// Rows of all buckets.
pub fn row_count(connection: &mut WireConnection, table_id: i64, buckets: i32) -> Result<i64> {
    let request = pb::GetTableStatsRequest {
        table_id: Some(table_id),
        buckets_req: (0..buckets)
            .map(|bucket| pb::PbTableStatsReqForBucket {
                bucket_id: Some(bucket),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let answer: pb::GetTableStatsResponse = connection.call(ApiKey::GetTableStats, &request)?;
    let mut rows = 0;
    for bucket in answer.buckets_resp {
        match bucket.row_count {
            Some(count) => rows += count,
            None => bail!("no row count: {:?}", bucket.error_message),
        }
    }
    Ok(rows)
}

/// The same in this process: look up the keys, write the rows, write the batch to a
/// log.
fn floor(stage: &Stage, batches: &[(usize, Bytes)]) -> Result<Usage> {
    let dir = stage.fresh_dir("rocksdb")?;
    std::fs::create_dir_all(&dir)?;
    let engine = RocksEngine::new(RocksConfig::default())?;
    let mut stores = Vec::new();
    let mut logs = Vec::new();
    for bucket in 0..BUCKETS {
        stores.push(engine.open(&dir.join(bucket.to_string()))?);
        logs.push(File::create(dir.join(format!("{bucket}.log")))?);
    }
    let this = std::process::id();
    let cpu_begin = cpu::cpu_seconds(this)?;
    let begin = Instant::now();
    let mut found = 0_usize;
    for (bucket, batch) in batches {
        let parsed = KvBatch::parse(batch.clone())?;
        let keys: Vec<&[u8]> = parsed.records().map(|record| record.key).collect();
        stores[*bucket].multi_get(&keys, Reach::Disk, &mut |_, value| {
            found += value.map_or(0, <[u8]>::len);
        })?;
        let mut writes = KvWrites::default();
        for record in parsed.records() {
            writes.put(record.key, 1, record.row.unwrap_or_default());
        }
        logs[*bucket].write_all(batch)?;
        stores[*bucket].write(&writes, true)?;
    }
    std::hint::black_box(found);
    Ok(Usage {
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: cpu::cpu_seconds(this)? - cpu_begin,
    })
}
