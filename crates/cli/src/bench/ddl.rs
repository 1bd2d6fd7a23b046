//! `bench ddl`: tables created one after another by one client.

use std::time::Instant;

use anyhow::{Result, ensure};
use mainstem_protocol::{ApiKey, messages as pb};

use super::Workload;
use super::batches::BatchSource;
use super::figure::{Figure, Target};
use super::report::Report;
use super::server::Durability;
use super::stage::Stage;
use super::table;
use super::wire::WireConnection;

/// Options of `mainstem bench ddl`.
#[derive(clap::Args, Clone, Debug)]
pub struct DdlArguments {
    /// Tables.
    #[arg(long, default_value_t = 100)]
    tables: usize,
    /// Buckets of each.
    #[arg(long, default_value_t = 4)]
    buckets: i32,
}

impl Workload for DdlArguments {
    fn measure(&self, stage: &Stage) -> Result<Report> {
        let mut report = stage.report("ddl");
        report.configured(
            "load",
            format!(
                "{} tables of {} buckets, each created when the metadata shows all leaders of \
                 the one before; a fresh server per round",
                self.tables, self.buckets
            ),
        );
        for durability in Durability::BOTH {
            let seconds = stage.rounds(&mut report, || self.create_all(stage, durability))?;
            let bound = match durability {
                Durability::Os => 0.5,
                Durability::Fsync => 1.5,
            };
            let name = format!("{}: all tables ready", durability.name());
            report.push(Figure::new(name, "s", seconds).with_target(Target::AtMost(bound)));
        }
        Ok(report)
    }
}

impl DdlArguments {
    fn create_all(&self, stage: &Stage, durability: Durability) -> Result<f64> {
        let server = stage.fresh_server(durability)?;
        let mut connection = WireConnection::open(server.address())?;
        table::create_database(&mut connection)?;
        let source = BatchSource::events()?;
        let descriptor = table::log_table(source.schema(), self.buckets);
        let begin = Instant::now();
        for number in 0..self.tables {
            table::create(&mut connection, &format!("table_{number}"), &descriptor)?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let request = pb::ListTablesRequest {
            database_name: Some(table::DATABASE.to_owned()),
        };
        let listed: pb::ListTablesResponse = connection.call(ApiKey::ListTables, &request)?;
        ensure!(
            listed.table_name.len() == self.tables,
            "{} tables",
            listed.table_name.len()
        );
        Ok(seconds)
    }
}
