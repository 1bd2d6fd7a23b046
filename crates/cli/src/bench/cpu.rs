//! CPU time and memory of processes, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Clock ticks of `/proc` per second.
fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// CPU seconds that a process has used, user and system, all threads.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let stat = Stat::parse(&text).context("unexpected /proc/PID/stat")?;
    Ok(stat.own_ticks as f64 / ticks_per_second())
}

/// Resident memory of a process now.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmRSS:")
}

/// The most that it has been.
pub fn peak_resident_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: u32, key: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let kib = line
        .and_then(|rest| rest.split_whitespace().next())
        .context(key.to_owned())?;
    Ok(kib.parse::<u64>()? * 1024)
}

struct Stat {
    parent: u32,
    own_ticks: u64,
    /// Of children that have ended and were waited for.
    children_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name, in parentheses, may contain anything.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // `rest` begins with field 3 of proc(5).
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(number(4)?).ok()?,
            own_ticks: number(14)? + number(15)?,
            children_ticks: number(16)? + number(17)?,
        })
    }
}

/// Watches what processes other than this one and its children use.
pub struct OtherProcesses {
    begin: Instant,
    ticks: HashMap<u32, u64>,
}

impl OtherProcesses {
    /// Begins to watch.
    pub fn watch() -> Result<Self> {
        Ok(Self {
            begin: Instant::now(),
            ticks: ticks_by_process()?,
        })
    }

    /// CPU time that they have used since, as a share of one core.
    pub fn share(&self) -> Result<f64> {
        let elapsed = self
            .begin
            .elapsed()
            .max(Duration::from_millis(1))
            .as_secs_f64();
        let now = ticks_by_process()?;
        let used: u64 = now
            .iter()
            .map(|(pid, ticks)| ticks.saturating_sub(self.ticks.get(pid).copied().unwrap_or(0)))
            .sum();
        Ok(used as f64 / ticks_per_second() / elapsed)
    }
}

/// Kernel threads are left out: writing back and sending is part of the work.
/// Processes that have ended count with their parent.
fn ticks_by_process() -> Result<HashMap<u32, u64>> {
    const KTHREADD: u32 = 2;
    let this = std::process::id();
    let mut ticks = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // It may have ended since it was listed.
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        let Some(stat) = Stat::parse(&text) else {
            continue;
        };
        if [pid, stat.parent].contains(&this) || [pid, stat.parent].contains(&KTHREADD) {
            continue;
        }
        ticks.insert(pid, stat.own_ticks + stat.children_ticks);
    }
    Ok(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_parentheses_does_not_shift_the_fields() {
        let text = "7 (a) b (c)) S 5 7 7 0 -1 4194560 100 0 0 0 12 34 56 78 20 0 1 0 99 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            (stat.parent, stat.own_ticks, stat.children_ticks),
            (5, 46, 134)
        );
    }

    #[test]
    fn this_process_uses_memory_and_is_not_among_the_others() {
        let this = std::process::id();
        assert!(resident_bytes(this).unwrap() > 100_000);
        assert!(peak_resident_bytes(this).unwrap() >= resident_bytes(this).unwrap() / 2);
        assert!(!ticks_by_process().unwrap().contains_key(&this));
    }
}
