//! The machine that figures were measured on.

use std::fs;

/// Processor, cores, memory, kernel, in one line. What is not known is left out.
pub fn describe() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = cpu
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let mut parts = Vec::new();
    if !model.is_empty() {
        parts.push(model.to_owned());
    }
    parts.push(format!("{cores} cores"));
    if let Some(kib) = kib {
        parts.push(format!("{:.0} GiB", kib as f64 / 1024.0 / 1024.0));
    }
    parts.push(format!("Linux {}", kernel.trim()));
    parts.join(", ")
}
