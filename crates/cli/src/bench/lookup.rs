//! `bench lookup`: lookups of many keys at once, against the same multi-get in this
//! process, and against MGET of a Redis server if there is one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use mainstem_kv::{KvEngine, KvWrites, Reach};
use mainstem_kv_rocksdb::{RocksConfig, RocksEngine};
use mainstem_protocol::{decode, messages as pb};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::figure::{Figure, Target};
use super::keyed_rows::{KeyedRows, lookup_request, put_request};
use super::report::Report;
use super::server::Durability;
use super::stage::{Stage, Usage, pause};
use super::wire::{Frame, WireConnection};
use super::{Workload, cpu, table, upsert};

const BUCKETS: u64 = 4;
const LOAD_BATCH: usize = 1_000;

/// Options of `mainstem bench lookup`.
#[derive(clap::Args, Clone, Debug)]
pub struct LookupArguments {
    /// Rows of the table.
    #[arg(long, default_value_t = 500_000)]
    rows: u64,
    /// Lookups per round.
    #[arg(long, default_value_t = 300_000)]
    lookups: usize,
    /// Keys of a request, all of one bucket.
    #[arg(long, default_value_t = 128)]
    keys: usize,
    /// Requests in flight.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    window: u16,
    /// Single lookups, one at a time, per round.
    #[arg(long, default_value_t = 20_000)]
    singles: usize,
}

/// Longer than a server keeps rows that nobody asks for ahead of the store.
const REST: Duration = Duration::from_secs(4);

struct Round {
    floor: Usage,
    /// Of rows at rest, and of rows that have just been written.
    ours: Usage,
    recent: Usage,
    redis: Option<Usage>,
    /// Times of single lookups, sorted.
    singles: Vec<Duration>,
}

impl Workload for LookupArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("lookup");
        report.configured(
            "load",
            format!(
                "{} lookups of random keys among {} in {BUCKETS} buckets, {} keys a request, {} \
                 requests in flight, 1 connection; then {} single ones, one at a time; all that \
                 of rows at rest, and the first part again of rows just written",
                self.lookups, self.rows, self.keys, self.window, self.singles
            ),
        );
        let rows = KeyedRows::new()?;
        let rounds = stage.rounds(&mut report, || {
            let requests = self.requests();
            Ok(Round {
                floor: self.floor(stage, &rows, &requests)?,
                redis: self.redis(stage, &rows, &requests)?,
                ..self.server(stage, &rows, &requests)?
            })
        })?;
        let count = (self.lookups / self.keys * self.keys) as f64;
        let mut add = |text: &str, unit, of: &dyn Fn(&Round) -> f64, target| {
            let mut figure = Figure::new(text, unit, rounds.iter().map(of).collect());
            figure.target = target;
            report.push(figure);
        };
        add(
            "rate / multi-get in process",
            "",
            &|round| round.floor.seconds / round.ours.seconds,
            Some(Target::AtLeast(0.7)),
        );
        add("rate", "M/s", &|r| count / 1e6 / r.ours.seconds, None);
        add(
            "rate of the multi-get",
            "M/s",
            &|round| count / 1e6 / round.floor.seconds,
            None,
        );
        add(
            "server CPU of 300,000 lookups",
            "s",
            &|round| round.ours.cpu_seconds * 300_000.0 / count,
            Some(Target::AtMost(1.0)),
        );
        add(
            "CPU of the multi-get, 300,000",
            "s",
            &|round| round.floor.cpu_seconds * 300_000.0 / count,
            None,
        );
        if rounds.iter().all(|round| round.redis.is_some()) {
            let redis = |round: &Round| round.redis.unwrap_or_default();
            add(
                "rate / Redis MGET",
                "",
                &|round| redis(round).seconds / round.ours.seconds,
                None,
            );
            add(
                "Redis CPU of 300,000 lookups",
                "s",
                &|round| redis(round).cpu_seconds * 300_000.0 / count,
                None,
            );
        }
        add(
            "rows just written: rate",
            "M/s",
            &|r| count / 1e6 / r.recent.seconds,
            None,
        );
        add(
            "rows just written: CPU, 300,000",
            "s",
            &|round| round.recent.cpu_seconds * 300_000.0 / count,
            None,
        );
        if rounds.iter().all(|round| round.redis.is_some()) {
            add(
                "rows just written: rate / Redis",
                "",
                &|r| r.redis.unwrap_or_default().seconds / r.recent.seconds,
                None,
            );
        }
        for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            add(
                &format!("single lookup {name}"),
                "ms",
                &|round| {
                    let last = round.singles.len().saturating_sub(1);
                    let index = (last as f64 * part) as usize;
                    let time = round.singles.get(index).copied().unwrap_or_default();
                    time.as_secs_f64() * 1e3
                },
                (part == 0.99).then_some(Target::AtMost(1.0)),
            );
        }
        Ok(report)
    }
}

impl LookupArguments {
    /// Bucket and keys of every request.
    fn requests(&self) -> Vec<(u64, Vec<u64>)> {
        let mut random = StdRng::seed_from_u64(11);
        let of_bucket = self.rows / BUCKETS;
        (0..self.lookups / self.keys)
            .map(|number| {
                let bucket = number as u64 % BUCKETS;
                let ids = (0..self.keys)
                    .map(|_| random.random_range(0..of_bucket) * BUCKETS + bucket)
                    .collect();
                (bucket, ids)
            })
            .collect()
    }

    /// Keys of every bucket, in batches.
    fn load(&self) -> impl Iterator<Item = (u64, Vec<u64>)> {
        let of_bucket: Vec<u64> = (0..self.rows / BUCKETS).collect();
        let batches: Vec<_> = of_bucket
            .chunks(LOAD_BATCH)
            .flat_map(|chunk| {
                let ids = |bucket| chunk.iter().map(|n| n * BUCKETS + bucket).collect();
                (0..BUCKETS)
                    .map(|bucket| (bucket, ids(bucket)))
                    .collect::<Vec<_>>()
            })
            .collect();
        batches.into_iter()
    }

    fn floor(
        &self,
        stage: &Stage,
        rows: &KeyedRows,
        requests: &[(u64, Vec<u64>)],
    ) -> Result<Usage> {
        let dir = stage.fresh_dir("rocksdb")?;
        std::fs::create_dir_all(&dir)?;
        let engine = RocksEngine::new(RocksConfig::default())?;
        let stores = (0..BUCKETS)
            .map(|bucket| engine.open(&dir.join(bucket.to_string())))
            .collect::<Result<Vec<_>, _>>()?;
        for (bucket, ids) in self.load() {
            let mut writes = KvWrites::default();
            for id in ids {
                let (mut key, mut row) = (Vec::new(), Vec::new());
                rows.key(id, &mut key);
                rows.row(id, 0, &mut row)?;
                writes.put(&key, 1, &row);
            }
            stores[bucket as usize].write(&writes, true)?;
        }
        let encoded: Vec<(u64, Vec<Vec<u8>>)> = requests
            .iter()
            .map(|(bucket, ids)| (*bucket, ids.iter().map(|id| key(rows, *id)).collect()))
            .collect();
        let this = std::process::id();
        let cpu_begin = cpu::cpu_seconds(this)?;
        let begin = Instant::now();
        let mut found = 0;
        for (bucket, keys) in &encoded {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            stores[*bucket as usize].multi_get(&keys, Reach::Disk, &mut |_, value| {
                found += usize::from(value.is_some());
            })?;
        }
        let usage = Usage {
            seconds: begin.elapsed().as_secs_f64(),
            cpu_seconds: cpu::cpu_seconds(this)? - cpu_begin,
        };
        ensure!(found == requests.len() * self.keys, "{found} rows found");
        Ok(usage)
    }

    fn server(
        &self,
        stage: &Stage,
        rows: &KeyedRows,
        requests: &[(u64, Vec<u64>)],
    ) -> Result<Round> {
        let server = stage.fresh_server(Durability::Os)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let descriptor = rows.table(i32::try_from(BUCKETS)?);
        let table = table::create(&mut connection, "lookup", &descriptor)?;
        let load: Vec<Frame> = self
            .load()
            .map(|(bucket, ids)| {
                put_request(table.table_id, i32::try_from(bucket)?, rows.batch(&ids, 0)?)
            })
            .collect::<Result<_>>()?;
        upsert::pump(&mut connection, &load, 16)?;
        let request = |(bucket, ids): &(u64, Vec<u64>)| {
            let keys = ids.iter().map(|id| key(rows, *id).into()).collect();
            lookup_request(table.table_id, i32::try_from(*bucket)?, keys)
        };
        let frames: Vec<Frame> = requests.iter().map(request).collect::<Result<_>>()?;
        pause(REST);
        let warm = &frames[..frames.len().min(100)];
        self.pump(&mut connection, warm)?;
        let (ours, found) = Usage::of(&server, || self.pump(&mut connection, &frames))?;
        ensure!(found == frames.len() * self.keys, "{found} rows found");
        let mut singles = Vec::with_capacity(self.singles);
        let all = requests
            .iter()
            .flat_map(|(bucket, ids)| ids.iter().map(move |id| (*bucket, *id)));
        for (bucket, id) in all.take(self.singles) {
            let frame = request(&(bucket, vec![id]))?;
            let begin = Instant::now();
            connection.send(&frame)?;
            let body = connection.receive()?.1;
            singles.push(begin.elapsed());
            ensure!(count_found(body)? == 1, "key {id} is not found");
        }
        singles.sort_unstable();
        upsert::pump(&mut connection, &load, 16)?;
        let (recent, found) = Usage::of(&server, || self.pump(&mut connection, &frames))?;
        ensure!(found == frames.len() * self.keys, "{found} rows found");
        server.kill()?;
        Ok(Round {
            floor: Usage::default(),
            ours,
            recent,
            redis: None,
            singles,
        })
    }

    /// Sends all requests; returns the number of rows found.
    fn pump(&self, connection: &mut WireConnection, frames: &[Frame]) -> Result<usize> {
        let (mut in_flight, mut found) = (0, 0);
        for frame in frames {
            if in_flight == self.window {
                found += count_found(connection.receive()?.1)?;
                in_flight -= 1;
            }
            connection.send(frame)?;
            in_flight += 1;
        }
        for _ in 0..in_flight {
            found += count_found(connection.receive()?.1)?;
        }
        Ok(found)
    }

    /// The same keys and rows in Redis; `None` if it is not installed.
    fn redis(
        &self,
        stage: &Stage,
        rows: &KeyedRows,
        requests: &[(u64, Vec<u64>)],
    ) -> Result<Option<Usage>> {
        let dir = stage.fresh_dir("redis")?;
        std::fs::create_dir_all(&dir)?;
        let Some(mut redis) = stage.as_server(|| Redis::start(&dir))? else {
            return Ok(None);
        };
        for (_, ids) in self.load() {
            let mut arguments = vec![b"MSET".to_vec()];
            for id in ids {
                let mut row = Vec::new();
                rows.row(id, 0, &mut row)?;
                arguments.push(key(rows, id));
                arguments.push(row);
            }
            redis.send(&arguments)?;
            redis.receive()?;
        }
        let commands: Vec<Vec<u8>> = requests
            .iter()
            .map(|(_, ids)| {
                let mut arguments = vec![b"MGET".to_vec()];
                arguments.extend(ids.iter().map(|id| key(rows, *id)));
                encode_command(&arguments)
            })
            .collect();
        let pid = redis.child.id();
        let cpu_begin = cpu::cpu_seconds(pid)?;
        let begin = Instant::now();
        let (mut in_flight, mut found) = (0, 0);
        for command in &commands {
            if in_flight == self.window {
                found += redis.receive()?;
                in_flight -= 1;
            }
            redis.stream.get_mut().write_all(command)?;
            in_flight += 1;
        }
        for _ in 0..in_flight {
            found += redis.receive()?;
        }
        let usage = Usage {
            seconds: begin.elapsed().as_secs_f64(),
            cpu_seconds: cpu::cpu_seconds(pid)? - cpu_begin,
        };
        ensure!(found == requests.len() * self.keys, "Redis found {found}");
        Ok(Some(usage))
    }
}

fn key(rows: &KeyedRows, id: u64) -> Vec<u8> {
    let mut key = Vec::new();
    rows.key(id, &mut key);
    key
}

fn count_found(body: Bytes) -> Result<usize> {
    let answer: pb::LookupResponse = decode(body)?;
    let mut found = 0;
    for bucket in &answer.buckets_resp {
        if let Some(code) = bucket.error_code {
            let message = bucket.error_message.as_deref().unwrap_or("");
            bail!("lookup: error {code}: {message}");
        }
        let values = bucket.values.iter();
        found += values.filter(|value| value.values.is_some()).count();
    }
    Ok(found)
}

/// A Redis server that keeps nothing, and a connection to it.
struct Redis {
    child: Child,
    stream: BufReader<TcpStream>,
}

impl Redis {
    fn start(dir: &std::path::Path) -> Result<Option<Self>> {
        // Redis takes no free port by itself.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let spawned = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string()])
            .arg("--dir")
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("start redis-server"),
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(Duration::from_secs(60)))?;
                let stream = BufReader::with_capacity(1 << 16, stream);
                return Ok(Some(Self { child, stream }));
            }
            if Instant::now() > deadline {
                // It has ended already, or is of no use.
                let _ = child.kill();
                let _ = child.wait();
                bail!("redis-server does not listen");
            }
            pause(Duration::from_millis(10));
        }
    }

    fn send(&mut self, arguments: &[Vec<u8>]) -> Result<()> {
        self.stream
            .get_mut()
            .write_all(&encode_command(arguments))?;
        Ok(())
    }

    /// Reads a reply; returns the number of values that are there.
    fn receive(&mut self) -> Result<usize> {
        let line = self.line()?;
        let (kind, rest) = line.split_at(1);
        match kind {
            "*" => (0..rest.parse::<usize>()?).map(|_| self.value()).sum(),
            "+" | ":" => Ok(0),
            _ => bail!("Redis says {line}"),
        }
    }

    fn value(&mut self) -> Result<usize> {
        let line = self.line()?;
        let length: i64 = line.strip_prefix('$').context("a value")?.parse()?;
        let Ok(length) = usize::try_from(length) else {
            return Ok(0);
        };
        let mut value = vec![0; length + 2];
        self.stream.read_exact(&mut value)?;
        Ok(1)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        ensure!(line.len() > 2, "Redis has closed the connection");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Nothing to do if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encode_command(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
    out
}
