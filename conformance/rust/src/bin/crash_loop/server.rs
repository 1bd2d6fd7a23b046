//! The server process: started on one port and one data directory, killed
//! without warning.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub struct Server {
    binary: PathBuf,
    options: Vec<String>,
    directory: PathBuf,
    port: u16,
    child: Option<Child>,
    remove: bool,
}

impl Server {
    pub fn new(binary: &Path, options: &[String]) -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("mainstem-crash-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory)
            .with_context(|| format!("create {}", directory.display()))?;
        // The port is free now, and stays ours: nobody else asks for it by number.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Ok(Self {
            binary: binary.to_path_buf(),
            options: options.to_vec(),
            directory,
            port,
            child: None,
            remove: false,
        })
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("server.log")
    }

    pub fn start(&mut self) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())?;
        let child = Command::new(&self.binary)
            .arg("start")
            .arg("--data-dir")
            .arg(self.directory.join("data"))
            .arg("-D")
            .arg(format!("bind.listeners=FLUSS://127.0.0.1:{}", self.port))
            .arg("-D")
            .arg("mainstem.http.listen=")
            // Whether this machine's disk is nearly full is not the question.
            .arg("-D")
            .arg("server.data-disk.write-limit-ratio=1.0")
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", self.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// SIGKILL, and the process is gone when this returns.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("no server to kill")?;
        if let Some(status) = child.try_wait()? {
            bail!("the server ended by itself ({status})");
        }
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM, and the server ends by itself, without an error.
    pub async fn stop(&mut self, within: Duration) -> Result<()> {
        let mut child = self.child.take().context("no server to stop")?;
        // Every shell can do it; a program named kill is not on every machine.
        let asked = Command::new("sh")
            .args(["-c", "kill -TERM \"$0\"", &child.id().to_string()])
            .status()?;
        let start = Instant::now();
        while asked.success() && start.elapsed() < within {
            if let Some(status) = child.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                bail!("the server ended with {status} when it was asked to stop");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        child.kill()?;
        child.wait()?;
        bail!("the server does not stop within {within:?}")
    }

    /// How long it took until the port accepted connections.
    pub async fn wait_until_listening(&mut self, within: Duration) -> Result<Duration> {
        let start = Instant::now();
        loop {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(start.elapsed());
            }
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                bail!("the server ended by itself ({status})");
            }
            if start.elapsed() > within {
                bail!("the server does not listen after {within:?}");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The end of the server's log, for a person who looks into a failure.
    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(30)..].join("\n");
        format!(
            "the server's files and log are kept in {}; the log ends:\n{tail}",
            self.directory.display()
        )
    }

    pub fn remove_directory(&mut self) {
        self.remove = true;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if self.remove {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}
