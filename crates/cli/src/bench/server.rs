//! A server process that is measured.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::cpu;

/// When an acknowledged row is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Whenever the operating system writes it.
    Os,
    /// Before it is acknowledged.
    Fsync,
}

impl Durability {
    /// Both, in the order of reports.
    pub const BOTH: [Self; 2] = [Self::Os, Self::Fsync];

    /// Value of `mainstem.durability`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Fsync => "fsync",
        }
    }
}

/// A running server, ours or the floor program. It is killed when dropped.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    /// Open as long as the process runs: it may go on printing.
    _stdout: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Starts `mainstem start` on a free port and waits until it is ready.
    pub fn start(executable: &Path, data_dir: &Path, durability: Durability) -> Result<Self> {
        let mut command = Command::new(executable);
        command.arg("start").arg("--data-dir").arg(data_dir);
        for setting in [
            "bind.listeners=FLUSS://127.0.0.1:0".to_owned(),
            "mainstem.http.listen=".to_owned(),
            format!("mainstem.durability={}", durability.name()),
        ] {
            command.arg("-D").arg(setting);
        }
        Self::spawn(command, &log_path(data_dir))
    }

    /// Starts the floor program.
    pub fn start_floor(executable: &Path, dir: &Path, durability: Durability) -> Result<Self> {
        let mut command = Command::new(executable);
        command.args(["bench", "floor", "--dir"]).arg(dir);
        if durability == Durability::Fsync {
            command.arg("--fsync");
        }
        Self::spawn(command, &log_path(dir))
    }

    fn spawn(mut command: Command, log: &Path) -> Result<Self> {
        let errors = File::create(log).with_context(|| format!("create {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        let stdout = child.stdout.take().context("standard output is piped")?;
        let mut stdout = BufReader::new(stdout);
        match read_address(&mut stdout) {
            Ok(address) => Ok(Self {
                child,
                address,
                _stdout: stdout,
            }),
            Err(error) => {
                // It has ended already, or is of no use.
                let _ = child.kill();
                let _ = child.wait();
                let said = std::fs::read_to_string(log).unwrap_or_default();
                Err(error.context(said.lines().last().unwrap_or("no message").to_owned()))
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU seconds since its start.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu::cpu_seconds(self.child.id())
    }

    /// Resident memory now.
    pub fn resident_bytes(&self) -> Result<u64> {
        cpu::resident_bytes(self.child.id())
    }

    /// The most that it has been.
    pub fn peak_resident_bytes(&self) -> Result<u64> {
        cpu::peak_resident_bytes(self.child.id())
    }

    /// Asks it to stop, and returns how long that took.
    pub fn stop(mut self) -> Result<Duration> {
        let begin = Instant::now();
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("process id")?, Signal::TERM).context("send SIGTERM")?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the server ended with {status}");
        }
        Ok(begin.elapsed())
    }

    /// `kill -9`.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Nothing to do if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Beside the data, which the next run may remove.
fn log_path(dir: &Path) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(".stderr");
    PathBuf::from(name)
}

/// The floor prints an address; the server a greeting with one behind `clients`.
fn read_address(stdout: &mut impl BufRead) -> Result<SocketAddr> {
    let mut line = String::new();
    loop {
        line.clear();
        if stdout
            .read_line(&mut line)
            .context("read what the server prints")?
            == 0
        {
            bail!("the server has ended before it was ready");
        }
        let mut words = line.split_whitespace();
        let word = match words.next() {
            Some("clients") => words.next(),
            first => first,
        };
        if let Some(address) = word.and_then(|word| word.parse().ok()) {
            return Ok(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_the_greeting_and_in_the_floors_line() {
        let greeting = "mainstem 0.1.0 is ready after 9 ms, 4 buckets, data in /d\n  \
                        clients   127.0.0.1:4711  (listener FLUSS)\n  metrics   http://127.0.0.1:1\n";
        assert_eq!(read_address(&mut greeting.as_bytes()).unwrap().port(), 4711);
        assert_eq!(
            read_address(&mut "127.0.0.1:12\n".as_bytes())
                .unwrap()
                .port(),
            12
        );
        assert!(read_address(&mut "something else\n".as_bytes()).is_err());
    }
}
