//! Rules of the repository that no compiler checks: the direction of crate
//! edges, the size of files, and what sources may not mention.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Crates by layer; a crate may use lower layers only (ARCHITECTURE.md).
const LAYERS: [(&str, u8); 15] = [
    ("types", 0),
    ("env", 0),
    ("metrics", 0),
    ("protocol", 1),
    ("format", 1),
    ("net", 2),
    ("log", 2),
    ("meta", 2),
    ("kv", 2),
    ("kv-rocksdb", 3),
    ("tablet", 4),
    ("coordinator", 4),
    ("client", 4),
    ("console", 6),
    ("cli", 7),
];
/// Crates that only tests use.
const TEST_CRATES: [&str; 1] = ["testkit"];
/// Lines of code, tests left out, above which a file says at its top why it is
/// one thing.
const MAX_LINES: usize = 1_000;
/// Directories that hold no sources of ours.
const SKIPPED: [&str; 5] = ["target", ".git", "testdata", "generated", "node_modules"];

/// Checks all rules and lists every offence.
pub fn check() -> Result<()> {
    let root = &crate::workspace_root()?;
    let mut offences = Vec::new();
    check_edges(root, &mut offences)?;
    let mut sources = Vec::new();
    collect(root, &mut sources)?;
    for path in &sources {
        let shown = path
            .strip_prefix(root)
            .unwrap_or(path)
            .display()
            .to_string();
        let text = fs::read_to_string(path).unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == "rs") {
            check_length(&shown, &text, &mut offences);
        }
        check_words(&shown, &text, &mut offences);
    }
    if offences.is_empty() {
        println!("tidy: {} files, no offence", sources.len());
        return Ok(());
    }
    bail!("{} offences:\n{}", offences.len(), offences.join("\n"));
}

fn check_edges(root: &Path, offences: &mut Vec<String>) -> Result<()> {
    let layers: BTreeMap<&str, u8> = LAYERS.into_iter().collect();
    for entry in fs::read_dir(root.join("crates"))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let manifest = fs::read_to_string(path.join("Cargo.toml"))?;
        let own = layers.get(name.as_str()).copied();
        if own.is_none() && !TEST_CRATES.contains(&name.as_str()) {
            offences.push(format!(
                "crates/{name}: no layer; add it to xtask/src/tidy.rs"
            ));
        }
        let mut dev = false;
        for line in manifest.lines() {
            if let Some(section) = line.strip_prefix('[') {
                dev = section.starts_with("dev-dependencies");
            }
            let Some(used) = line.strip_prefix("mainstem-") else {
                continue;
            };
            let used = used.split(['.', ' ', '=']).next().unwrap_or_default();
            let Some(own) = own.filter(|_| !dev) else {
                continue;
            };
            match layers.get(used) {
                Some(layer) if *layer < own => {}
                _ => offences.push(format!("crates/{name}: may not use {used}")),
            }
        }
    }
    Ok(())
}

fn collect(dir: &Path, sources: &mut Vec<PathBuf>) -> Result<()> {
    const EXTENSIONS: [&str; 9] = [
        "rs", "md", "toml", "sh", "py", "java", "proto", "yml", "xml",
    ];
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_ref()) && !name.starts_with(".venv") {
                collect(&path, sources)?;
            }
        } else if path
            .extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
        {
            sources.push(path);
        }
    }
    Ok(())
}

fn check_length(shown: &str, text: &str, offences: &mut Vec<String>) {
    if shown.contains("/tests") || shown.ends_with("tests.rs") {
        return;
    }
    let code = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default()
        .lines()
        .count();
    if code > MAX_LINES {
        offences.push(format!("{shown}: {code} lines of code; split it by noun"));
    }
}

/// Words are put together here so that this file does not contain them.
fn check_words(shown: &str, text: &str, offences: &mut Vec<String>) {
    let words = [
        format!("/{}/", "work"),
        format!("/{}/.c", "root"),
        format!("/{}/helper", "tmp"),
        format!("{}!()", "todo"),
        format!("{}!()", "unimplemented"),
    ];
    for word in words {
        if text.contains(&word) {
            offences.push(format!("{shown}: contains '{word}'"));
        }
    }
}
