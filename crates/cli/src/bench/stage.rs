//! Where measurements take place: a directory, cores, and rounds.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::arguments::CommonArguments;
use super::cores::Cores;
use super::cpu::OtherProcesses;
use super::report::Report;
use super::server::{Durability, ServerProcess};

/// What other processes may use of a core while a round is measured.
const QUIET_SHARE: f64 = 0.10;
const QUIET_WINDOW: Duration = Duration::from_millis(300);
/// A measurement that has taken so long repeats no more rounds: it should end
/// within two minutes on a busy machine, too.
const REPEATS_WITHIN: Duration = Duration::from_secs(60);

/// See the module.
pub struct Stage {
    dir: WorkDir,
    executable: PathBuf,
    floor: PathBuf,
    cores: Cores,
    rounds: usize,
    begin: Instant,
    patience: Cell<Duration>,
}

/// What a server used for some work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Wall clock.
    pub seconds: f64,
    /// CPU time of the server.
    pub cpu_seconds: f64,
}

impl Stage {
    /// Prepares the directory.
    pub fn new(common: &CommonArguments, cores: Cores) -> Result<Self> {
        let this = std::env::current_exe().context("find this executable")?;
        Ok(Self {
            dir: WorkDir::create(&common.dir)?,
            executable: common.server.clone().unwrap_or_else(|| this.clone()),
            floor: this,
            cores,
            rounds: common.rounds as usize,
            begin: Instant::now(),
            patience: Duration::from_secs(common.patience).into(),
        })
    }

    /// A path for data, with nothing there.
    pub fn fresh_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.path.join(name);
        remove(&path)?;
        Ok(path)
    }

    /// Starts another process where servers run.
    pub fn as_server<T>(&self, spawn: impl FnOnce() -> Result<T>) -> Result<T> {
        self.cores.as_server(spawn)
    }

    /// A server over a data directory.
    pub fn server(&self, data_dir: &Path, durability: Durability) -> Result<ServerProcess> {
        self.cores
            .as_server(|| ServerProcess::start(&self.executable, data_dir, durability))
    }

    /// A server over an empty directory.
    pub fn fresh_server(&self, durability: Durability) -> Result<ServerProcess> {
        self.server(&self.fresh_dir("server")?, durability)
    }

    /// The floor program over an empty directory.
    pub fn fresh_floor(&self, durability: Durability) -> Result<ServerProcess> {
        let dir = self.fresh_dir("floor")?;
        self.cores
            .as_server(|| ServerProcess::start_floor(&self.floor, &dir, durability))
    }

    /// A report with the configuration that is the same for all workloads.
    pub fn report(&self, name: &'static str) -> Report {
        eprintln!("bench {name} …");
        let mut report = Report::new(name);
        report.configured("cores", self.cores.describe());
        report.configured("directory", self.dir.path.display().to_string());
        report.configured("rounds", self.rounds.to_string());
        report
    }

    /// Runs rounds. One during which other processes took too much is repeated;
    /// when as many again were disturbed, or time is short, disturbed ones count,
    /// and the report says so.
    pub fn rounds<T>(
        &self,
        report: &mut Report,
        mut round: impl FnMut() -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut results = Vec::new();
        let (mut repeated, mut disturbed, mut worst) = (0, 0, 0.0_f64);
        while results.len() < self.rounds {
            self.wait_until_quiet()?;
            let others = OtherProcesses::watch()?;
            let result = round()?;
            let share = others.share()?;
            if share > QUIET_SHARE {
                if repeated < self.rounds && self.begin.elapsed() < REPEATS_WITHIN {
                    repeated += 1;
                    continue;
                }
                disturbed += 1;
                worst = worst.max(share);
            }
            results.push(result);
        }
        if repeated > 0 {
            report
                .remarks
                .push(format!("{repeated} disturbed rounds were repeated"));
        }
        if disturbed > 0 {
            report.remarks.push(format!(
                "DISTURBED: in {disturbed} of {} rounds other processes took more than 10 % of a \
                 core, up to {:.0} %",
                self.rounds,
                worst * 100.0
            ));
        }
        Ok(results)
    }

    fn wait_until_quiet(&self) -> Result<()> {
        let begin = Instant::now();
        let mut left = self.patience.get();
        while left > Duration::ZERO {
            let others = OtherProcesses::watch()?;
            pause(QUIET_WINDOW);
            if others.share()? <= QUIET_SHARE {
                break;
            }
            left = self.patience.get().saturating_sub(begin.elapsed());
        }
        self.patience.set(left);
        Ok(())
    }
}

impl Usage {
    /// Measures some work of a server.
    pub fn of<T>(server: &ServerProcess, work: impl FnOnce() -> Result<T>) -> Result<(Self, T)> {
        let cpu_begin = server.cpu_seconds()?;
        let begin = Instant::now();
        let result = work()?;
        let seconds = begin.elapsed().as_secs_f64();
        let cpu_seconds = server.cpu_seconds()? - cpu_begin;
        Ok((
            Self {
                seconds,
                cpu_seconds,
            },
            result,
        ))
    }
}

/// Lets time pass, which is what is measured.
pub fn pause(duration: Duration) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the passing of time is the workload"
    )]
    std::thread::sleep(duration);
}

/// A directory that is removed at the end.
struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    fn create(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("mainstem-bench-{}", std::process::id()));
        remove(&path)?;
        std::fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            eprintln!("mainstem bench: {error:#}");
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
