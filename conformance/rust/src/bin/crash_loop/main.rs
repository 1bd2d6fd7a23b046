//! `crash_loop BINARY [--kills N] [--seed S] [-- SERVER-OPTION…]`: writers of
//! the official Rust client live across `kill -9` of the server, those of log
//! tables and those of tables with a primary key.
//!
//! The ledger of what was acknowledged is kept here, outside the server. At the
//! end everything is read back: no acknowledged row may be missing, no row may
//! be there twice, no write may have failed, each writer's rows must be in
//! order in each bucket, and no row may differ from what a reader, which lived
//! through all of it as well, saw at that offset. Of a table with a primary
//! key every key must hold its last acknowledged version, the table must be the
//! fold of its changelog, the changelog must have the changes that were written,
//! each once and each with the row before it, and lookups on the way must have
//! found nothing older than what was acknowledged. Then the server is stopped
//! and started in order, and all is compared again. Tables created on the way
//! must exist. Each return must take less than five seconds: from the start of
//! the process until every writer had a row acknowledged that it appended
//! after that start.

mod keyed;
mod ledger;
mod reader;
mod server;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fluss::client::FlussConnection;
use fluss::metadata::{DataTypes, Schema, TableDescriptor, TablePath};
use mainstem_conformance::table;

use ledger::Ledger;
use server::Server;

/// The bound of the issue: above it, a return has failed.
const RETURN_WITHIN: Duration = Duration::from_secs(5);
/// From SIGTERM to the end of the process.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// The whole loop, whatever happens.
const LOOP_WITHIN: Duration = Duration::from_secs(300);
const WRITERS: usize = 4;
const BUCKETS: i32 = 4;

struct Options {
    binary: PathBuf,
    kills: u32,
    seed: u64,
    server_options: Vec<String>,
}

fn options() -> Option<Options> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Options {
        binary: PathBuf::from(arguments.next()?),
        kills: 60,
        seed: 1,
        server_options: Vec::new(),
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--kills" => options.kills = arguments.next()?.parse().ok()?,
            "--seed" => options.seed = arguments.next()?.parse().ok()?,
            "--" => options.server_options = arguments.by_ref().collect(),
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: crash_loop BINARY [--kills N] [--seed S] [-- SERVER-OPTION…]");
        return ExitCode::from(2);
    };
    println!(
        "crash loop: {} kills, seed {}, {WRITERS} writers of log tables, {} of tables with a primary key",
        options.kills,
        options.seed,
        keyed::WRITERS
    );
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("crash loop: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        tokio::time::timeout(LOOP_WITHIN, run(&options))
            .await
            .unwrap_or_else(|_| bail!("not done after {LOOP_WITHIN:?}"))
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crash loop: FAILED: {error:#}");
            eprintln!("run it again with --seed {}", options.seed);
            ExitCode::FAILURE
        }
    }
}

/// A small generator: the loop must be repeatable from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

async fn run(options: &Options) -> Result<()> {
    let mut server = Server::new(&options.binary, &options.server_options)?;
    let address = server.address();
    let outcome = crash_and_check(options, &mut server, &address).await;
    match &outcome {
        Ok(()) => server.remove_directory(),
        Err(_) => eprintln!("{}", server.last_words()),
    }
    outcome
}

async fn crash_and_check(options: &Options, server: &mut Server, address: &str) -> Result<()> {
    let mut dice = Dice(options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    server.start()?;
    server.wait_until_listening(RETURN_WITHIN).await?;
    let paths = create_tables(address).await?;

    // The writers of log tables, then those of tables with a primary key.
    let ledger = Arc::new(Ledger::new(WRITERS + keyed::WRITERS));
    let plan = keyed::Plan { seed: options.seed };
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let path = paths[number % paths.len()].clone();
            tokio::spawn(writer::run(
                address.to_string(),
                path,
                number,
                Arc::clone(&ledger),
            ))
        })
        .collect();
    writers.extend((0..keyed::WRITERS).map(|number| {
        tokio::spawn(keyed::writer::run(
            address.to_string(),
            number,
            WRITERS + number,
            plan,
            Arc::clone(&ledger),
        ))
    }));
    let probe = tokio::spawn(keyed::probe::follow(
        address.to_string(),
        WRITERS,
        plan,
        Arc::clone(&ledger),
    ));
    let reader = tokio::spawn(reader::follow(
        address.to_string(),
        paths[0].clone(),
        Arc::clone(&ledger),
    ));
    let tables = tokio::spawn(create_on_the_way(address.to_string(), Arc::clone(&ledger)));

    let mut returns = Vec::new();
    let mut listening = Vec::new();
    let mut first_lookups = Vec::new();
    let started = Instant::now();
    for kill in 1..=options.kills {
        // Some kills hit a server that is still coming back.
        let early = kill % 6 == 0;
        let pause = if early {
            2 + dice.below(60)
        } else {
            100 + dice.below(600)
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        server.kill()?;
        ledger.mark();
        let start = Instant::now();
        server.start()?;
        if kill % 6 == 5 {
            continue;
        }
        listening.push(server.wait_until_listening(RETURN_WITHIN).await?);
        first_lookups.push(keyed::probe::first_lookup(address, start, RETURN_WITHIN).await?);
        while !ledger.every_writer_is_past_its_mark() {
            ledger.fail_on_error()?;
            ensure!(
                start.elapsed() < RETURN_WITHIN,
                "kill {kill}: no new row acknowledged to every writer {RETURN_WITHIN:?} after the start"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        returns.push(start.elapsed());
        if kill % 10 == 0 {
            println!(
                "  {kill} kills, {:.0} s, {} rows and {} writes by key acknowledged",
                started.elapsed().as_secs_f64(),
                ledger.acknowledged_count(0..WRITERS),
                ledger.acknowledged_count(WRITERS..WRITERS + keyed::WRITERS)
            );
        }
    }
    ledger.stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.context("a writer's task")??;
    }
    ledger.fail_on_error()?;
    tables.await.context("the task that creates tables")??;
    let seen = reader.await.context("the reader's task")??;

    let lookups = probe.await.context("the task that looks up")??;

    let each: Vec<String> = first_lookups
        .iter()
        .map(|time| time.as_millis().to_string())
        .collect();
    println!("  first lookup after, in ms: {}", each.join(" "));
    print_returns("listening again after", &mut listening);
    print_returns("first lookup answered after", &mut first_lookups);
    print_returns("all writers served after", &mut returns);
    // One more return, so that the check reads recovered files only.
    server.kill()?;
    server.start()?;
    server.wait_until_listening(RETURN_WITHIN).await?;
    let check = Check {
        address,
        paths: &paths,
        ledger: &ledger,
        plan,
        seen: &seen,
    };
    let (kept, compared) = check.everything().await?;
    println!(
        "  {} kills: {} rows acknowledged, 0 lost, 0 duplicated, 0 write errors; {kept} rows seen by a reader, all kept; {} tables created, all there",
        options.kills,
        ledger.acknowledged_count(0..WRITERS),
        ledger.tables().len()
    );
    println!(
        "  {} writes by key acknowledged: {} keys, {} rows, {} changes, all as written; {lookups} lookups on the way, none stale",
        ledger.acknowledged_count(WRITERS..WRITERS + keyed::WRITERS),
        compared.keys,
        compared.rows,
        compared.changes
    );
    println!(
        "  (the client itself did not take a row {} times, while it had forgotten its tables)",
        ledger.not_taken.load(Ordering::SeqCst)
    );
    server.stop(STOP_WITHIN).await?;
    server.start()?;
    server.wait_until_listening(RETURN_WITHIN).await?;
    check.everything().await.context("after a clean restart")?;
    println!("  stopped and started in order: all the same");
    Ok(())
}

/// What must hold whenever the writers rest.
struct Check<'a> {
    address: &'a str,
    paths: &'a [TablePath],
    ledger: &'a Ledger,
    plan: keyed::Plan,
    seen: &'a reader::Stored,
}

impl Check<'_> {
    async fn everything(&self) -> Result<(usize, keyed::check::Compared)> {
        let connection = table::connect(self.address).await?;
        let stored = reader::read_everything(&connection, self.paths).await?;
        self.ledger.compare(WRITERS, &stored)?;
        let kept = reader::compare(self.seen, &stored)?;
        let listed = connection.get_admin()?.list_tables(table::DATABASE).await?;
        for name in self.ledger.tables() {
            ensure!(
                listed.contains(&name),
                "table {name} was created and is gone"
            );
        }
        let compared =
            keyed::check::everything(&connection, WRITERS, self.plan, self.ledger).await?;
        Ok((kept, compared))
    }
}

fn print_returns(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |share: usize| times.get((times.len().saturating_sub(1)) * share / 100);
    if let (Some(median), Some(slow), Some(worst)) = (at(50), at(95), at(100)) {
        println!(
            "  {what}: median {} ms, 95 % {} ms, slowest {} ms",
            median.as_millis(),
            slow.as_millis(),
            worst.as_millis()
        );
    }
}

/// Two log tables: one whose writers choose buckets by key, one without a key.
async fn create_tables(address: &str) -> Result<Vec<TablePath>> {
    let connection = table::connect(address).await?;
    let admin = connection.get_admin()?;
    admin.create_database(table::DATABASE, None, false).await?;
    let schema = Schema::builder()
        .column("writer", DataTypes::int().as_non_nullable())
        .column("sequence", DataTypes::bigint().as_non_nullable())
        .column("filler", DataTypes::string())
        .build()?;
    let mut paths = Vec::new();
    for (name, keys) in [("keyed", vec!["sequence".to_string()]), ("unkeyed", vec![])] {
        let path = table::path(name);
        let descriptor = TableDescriptor::builder()
            .schema(schema.clone())
            .distributed_by(Some(BUCKETS), keys)
            .build()?;
        table::create(&admin, &path, &descriptor).await?;
        paths.push(path);
    }
    keyed::create_tables(&connection).await?;
    Ok(paths)
}

/// A new table every 300 ms; those whose creation was acknowledged must stay.
async fn create_on_the_way(address: String, ledger: Arc<Ledger>) -> Result<()> {
    let descriptor = TableDescriptor::builder()
        .schema(Schema::builder().column("a", DataTypes::int()).build()?)
        .build()?;
    for number in 0.. {
        if ledger.stop.load(Ordering::SeqCst) {
            break;
        }
        let name = format!("made_{number}");
        // A new connection each time: a client that starts while the server is
        // away may fail, and then nothing was acknowledged.
        let attempt = async {
            let connection = FlussConnection::new(table::config(&address)).await?;
            let admin = connection.get_admin()?;
            admin
                .create_table(&table::path(&name), &descriptor, true)
                .await
        };
        if let Ok(Ok(())) = tokio::time::timeout(Duration::from_secs(5), attempt).await {
            ledger.table_created(name);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}
