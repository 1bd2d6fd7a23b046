//! One core for servers, another for the client.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Which core is whose; `None` = the scheduler decides.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    pinned: Option<Pinned>,
}

#[derive(Clone, Copy, Debug)]
struct Pinned {
    server: usize,
    client: usize,
}

impl Cores {
    /// The first two cores that this process may use, and this thread, with all
    /// that it starts, on the client's. On a machine with one core, or `unpinned`,
    /// nothing is done.
    pub fn choose(unpinned: bool) -> Result<Self> {
        let allowed = sched_getaffinity(None).context("ask for the cores")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let pinned = match (cores.next(), cores.next()) {
            (Some(server), Some(client)) if !unpinned => Some(Pinned { server, client }),
            _ => None,
        };
        let cores = Self { pinned };
        cores.back_to_client()?;
        Ok(cores)
    }

    /// Runs `spawn` on the server's core, which the process that it starts
    /// inherits.
    pub fn as_server<T>(&self, spawn: impl FnOnce() -> Result<T>) -> Result<T> {
        if let Some(Pinned { server, .. }) = self.pinned {
            pin(server)?;
        }
        let spawned = spawn();
        self.back_to_client()?;
        spawned
    }

    fn back_to_client(&self) -> Result<()> {
        self.pinned
            .map_or(Ok(()), |Pinned { client, .. }| pin(client))
    }

    /// For the report.
    pub fn describe(&self) -> String {
        match self.pinned {
            Some(Pinned { server, client }) => {
                format!("server on core {server}, client on core {client}")
            }
            None => "not pinned".to_owned(),
        }
    }
}

fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("pin to core {core}"))
}
