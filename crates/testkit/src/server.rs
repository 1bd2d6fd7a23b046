//! A server as its users run it: a process.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::wait::{PATIENCE, until};
use crate::{Client, Wire};

/// How a server is started. Ports are free ones and HTTP is off unless set.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    executable: PathBuf,
    settings: Vec<(String, String)>,
    config_file: Option<String>,
    arguments: Vec<String>,
}

impl ServerOptions {
    /// The executable as cargo built it, with the default settings.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        Self {
            executable: executable.into(),
            settings: Vec::new(),
            config_file: None,
            arguments: Vec::new(),
        }
        .with("bind.listeners", "FLUSS://127.0.0.1:0")
        .with("mainstem.http.listen", "")
        // A machine that runs out of disk is not what is tested.
        .with("server.data-disk.write-limit-ratio", "1.0")
        .with("server.data-disk.write-recover-ratio", "0.99")
    }

    /// A setting, given as `-D`.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.settings.retain(|(known, _)| known != key);
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a setting at its default.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.settings.retain(|(known, _)| known != key);
        self
    }

    /// Text of a configuration file, given as `--config`.
    #[must_use]
    pub fn with_config_file(mut self, text: &str) -> Self {
        self.config_file = Some(text.to_owned());
        self
    }

    /// A further argument of the command line.
    #[must_use]
    pub fn with_argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Starts a server on a new data directory.
    pub fn start(&self) -> Server {
        let dir = TempDir::new().expect("a temporary directory");
        let mut server = Server {
            options: self.clone(),
            dir,
            child: None,
            listeners: Vec::new(),
            http: None,
            greeting: Vec::new(),
        };
        server.start_again();
        server
    }

    fn command(&self, data_dir: &Path) -> Command {
        let mut command = Command::new(&self.executable);
        command.arg("start").arg("--data-dir").arg(data_dir);
        for (key, value) in &self.settings {
            command.arg("-D").arg(format!("{key}={value}"));
        }
        command.args(&self.arguments);
        if let Some(text) = &self.config_file {
            let path = data_dir.with_extension("yaml");
            std::fs::write(&path, text).expect("the configuration is written");
            command.arg("--config").arg(path);
        }
        command
    }
}

/// Runs a server that must not start; returns its exit status and what it wrote
/// to standard error.
///
/// # Panics
/// If it does start.
pub fn failed_start(options: &ServerOptions, data_dir: &Path) -> (ExitStatus, String) {
    let child = options
        .command(data_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the executable runs");
    let mut child = KillOnDrop(child);
    let status = until("the end of a server that cannot start", || {
        child.0.try_wait().expect("the state of a child")
    });
    let mut errors = String::new();
    let mut pipe = child.0.stderr.take().expect("standard error is piped");
    pipe.read_to_string(&mut errors).expect("text");
    (status, errors)
}

#[derive(Debug)]
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with a data directory of its own. It can be killed, stopped and
/// started again on the same data.
#[derive(Debug)]
pub struct Server {
    options: ServerOptions,
    dir: TempDir,
    child: Option<KillOnDrop>,
    listeners: Vec<(String, SocketAddr)>,
    http: Option<SocketAddr>,
    greeting: Vec<String>,
}

impl Server {
    /// Starts the process and waits until it says that it is ready; how long
    /// that took.
    ///
    /// # Panics
    /// If it does not become ready, with what it wrote.
    pub fn start_again(&mut self) -> Duration {
        assert!(self.child.is_none(), "it runs already");
        let begin = Instant::now();
        let errors = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("a log file");
        let child = self
            .options
            .command(&self.data_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the executable runs");
        let mut child = KillOnDrop(child);
        let stdout = child.0.stdout.take().expect("standard output is piped");
        // Reading blocks; a server that says nothing must not block the test.
        let (sender, receiver) = sync_channel(64);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The test may be over: then nobody reads on.
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        self.listeners.clear();
        self.greeting.clear();
        self.http = None;
        let http_wanted = self
            .setting("mainstem.http.listen")
            .is_some_and(|text| !text.is_empty());
        let listeners_wanted = self
            .setting("bind.listeners")
            .map_or(1, |text| text.split(',').count());
        while self.listeners.len() < listeners_wanted || (http_wanted && self.http.is_none()) {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let Ok(line) = receiver.recv_timeout(left) else {
                panic!("the server did not become ready; it wrote:\n{}", self.log());
            };
            self.greeting.push(line.clone());
            self.read_greeting(&line);
        }
        self.child = Some(child);
        begin.elapsed()
    }

    fn read_greeting(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["clients", address, "(listener", name] => {
                let address = address.parse().expect("an address");
                self.listeners
                    .push((name.trim_end_matches(')').to_owned(), address));
            }
            ["metrics", url] => {
                let address = url
                    .trim_start_matches("http://")
                    .trim_end_matches("/metrics");
                self.http = Some(address.parse().expect("an address"));
            }
            _ => {}
        }
    }

    fn setting(&self, key: &str) -> Option<&str> {
        let found = self.options.settings.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Changes a setting for the next start.
    pub fn set(&mut self, key: &str, value: &str) {
        self.options = self.options.clone().with(key, value);
    }

    /// What it printed when it was ready, as far as it was read.
    pub fn greeting(&self) -> &[String] {
        &self.greeting
    }

    /// Address of the first listener.
    pub fn address(&self) -> SocketAddr {
        self.listeners[0].1
    }

    /// Address of a listener.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn listener(&self, name: &str) -> SocketAddr {
        let found = self.listeners.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("no listener {name}")).1
    }

    /// Address of HTTP, if that is on.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// A client of the first listener.
    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// A bare connection to the first listener.
    pub fn wire(&self) -> Wire {
        Wire::connect(self.address())
    }

    /// Where it keeps its data.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Directory of the log of a bucket.
    pub fn bucket_dir(&self, table_id: i64, partition_id: Option<i64>, bucket: i32) -> PathBuf {
        let mut path = self.data_dir().join("log").join(format!("t{table_id}"));
        if let Some(partition_id) = partition_id {
            path.push(format!("p{partition_id}"));
        }
        path.join(format!("b{bucket}"))
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("stderr.log")
    }

    /// What it wrote to standard error, over all starts.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// `kill -9`.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&mut self) {
        let child = self.child.take().expect("it runs");
        drop(child);
    }

    /// Asks it to stop, and waits until it has; how long that took.
    ///
    /// # Panics
    /// If it does not run, does not stop, or its exit status is not 0.
    pub fn stop(&mut self) -> Duration {
        let mut child = self.child.take().expect("it runs");
        let begin = Instant::now();
        kill_process(pid(&child.0), Signal::TERM).expect("a signal is sent");
        let status = until("the server to stop", || {
            child.0.try_wait().expect("the state of a child")
        });
        assert!(status.success(), "it ended with {status}:\n{}", self.log());
        begin.elapsed()
    }

    /// Stops and starts; how long the start took.
    pub fn restart(&mut self) -> Duration {
        self.stop();
        self.start_again()
    }

    /// Kills and starts; how long the start took.
    pub fn crash(&mut self) -> Duration {
        self.kill();
        self.start_again()
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| child.0.try_wait().is_ok_and(|status| status.is_none()))
    }

    /// Resident memory now.
    pub fn resident_bytes(&self) -> u64 {
        let status = self.proc("status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("a line");
        let kilobytes = line.trim().trim_end_matches(" kB");
        kilobytes.parse::<u64>().expect("a number") << 10
    }

    /// CPU time since its start.
    pub fn cpu_time(&self) -> Duration {
        let stat = self.proc("stat");
        // Behind the name, which may hold blanks, field 3 is the first.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        let ticks: u64 = [11, 12]
            .map(|at| fields[at].parse::<u64>().expect("a number"))
            .iter()
            .sum();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Open descriptors now.
    pub fn open_files(&self) -> usize {
        let path = format!("/proc/{}/fd", self.id());
        std::fs::read_dir(path).expect("the process runs").count()
    }

    fn proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.id());
        std::fs::read_to_string(path).expect("the process runs")
    }

    fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").0.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child = None;
        if !std::thread::panicking() {
            let log = self.log();
            assert!(
                !log.contains("panicked at"),
                "the server has panicked:\n{log}"
            );
        }
    }
}

fn pid(child: &Child) -> Pid {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.expect("a process id")
}
