//! CPU time and memory of processes, from `/proc`.

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
    ticks: u64,
}

impl OtherProcesses {
    /// Begins to watch.
    pub fn watch() -> Result<Self> {
        Ok(Self {
            begin: Instant::now(),
            ticks: other_ticks()?,
        })
    }

    /// CPU time that they have used since, as a share of one core.
    pub fn share(&self) -> Result<f64> {
        let elapsed = self.begin.elapsed().max(Duration::from_millis(1));
        let used = other_ticks()?.saturating_sub(self.ticks) as f64 / ticks_per_second();
        Ok(used / elapsed.as_secs_f64())
    }
}

fn other_ticks() -> Result<u64> {
    let text = fs::read_to_string("/proc/stat")?;
    let all = busy_ticks(&text).context("unexpected /proc/stat")?;
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // It may have ended since it was listed.
        if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat"))
            && let Some(stat) = Stat::parse(&text)
        {
            processes.push((pid, stat));
        }
    }
    Ok(all.saturating_sub(ticks_of_the_bench(std::process::id(), &processes)))
}

/// What is to be taken from the work of all cores to get that of others: this
/// process, its children, and kernel threads, since writing back and sending is
/// part of what is measured. The sum over all others would miss those that have
/// ended meanwhile.
fn ticks_of_the_bench(this: u32, processes: &[(u32, Stat)]) -> u64 {
    const KTHREADD: u32 = 2;
    processes
        .iter()
        .map(|(pid, stat)| match stat.parent {
            _ if *pid == this => stat.own_ticks + stat.children_ticks,
            parent if parent == this || parent == KTHREADD => stat.own_ticks,
            _ => 0,
        })
        .sum()
}

/// User, nice and system time of all cores.
fn busy_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace();
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()? + next()?)
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
    fn the_cores_are_busy_with_user_nice_and_system_time() {
        let text = "cpu  10 20 30 4000 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(busy_ticks(text), Some(60));
        assert_eq!(busy_ticks("intr 1"), None);
    }

    #[test]
    fn the_bench_is_this_process_its_children_and_the_kernel() {
        let process = |parent, own_ticks, children_ticks| Stat {
            parent,
            own_ticks,
            children_ticks,
        };
        let processes = [
            (1, process(0, 1, 10)),
            (2, process(0, 100, 0)),
            (3, process(2, 1_000, 0)),
            (70, process(1, 10_000, 100_000)),
            (71, process(70, 1_000_000, 0)),
            (80, process(1, 10_000_000, 0)),
        ];
        assert_eq!(ticks_of_the_bench(70, &processes), 1_111_000);
    }

    #[test]
    fn memory_of_a_process_is_found() {
        let this = std::process::id();
        assert!(resident_bytes(this).unwrap() > 100_000);
        assert!(peak_resident_bytes(this).unwrap() >= resident_bytes(this).unwrap() / 2);
    }
}
