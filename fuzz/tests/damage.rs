//! Runs every target on recorded bytes, on random damage to them, and on noise:
//! what a fuzzer does, for a few seconds, everywhere.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use mainstem_fuzz::*;

type Target = fn(&[u8]);

const ROUNDS: usize = 20_000;
/// For targets that start a server.
const FEW_ROUNDS: usize = 2_000;

/// xorshift64: the same damage in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Turns bits, overwrites, cuts, repeats and inserts.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = self.next() as u8,
                2 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][self.below(5)],
                3 => bytes.truncate(at),
                4 => {
                    let end = (at + self.below(40)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => bytes.insert(at, self.next() as u8),
            }
        }
    }
}

fn run(target: Target, seeds: &[Vec<u8>]) {
    run_rounds(target, seeds, ROUNDS);
}

fn run_rounds(target: Target, seeds: &[Vec<u8>], rounds: usize) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    assert!(!seeds.is_empty());
    seeds.iter().for_each(|seed| target(seed));
    for _ in 0..rounds {
        let mut bytes = match random.below(8) {
            0 => (0..random.below(300))
                .map(|_| random.next() as u8)
                .collect(),
            _ => seeds[random.below(seeds.len())].clone(),
        };
        random.damage(&mut bytes);
        target(&bytes);
    }
}

fn crate_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates")
        .join(path)
}

/// Whole frames of one direction.
fn frames(direction: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(crate_file("protocol/testdata/exchanges.jsonl")).unwrap();
    let field = format!("\"{direction}\":\"");
    text.lines()
        .filter_map(|line| line.split_once(&field)?.1.split_once('"'))
        .map(|(base64, _)| from_base64(base64))
        .collect()
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        bits = bits << 6 | u32::from(digit(letter));
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// Bodies, each behind the byte that chooses its API.
fn bodies(direction: &str, header: usize) -> Vec<Vec<u8>> {
    let requests = frames("request");
    let chosen = frames(direction);
    // Lines without an answer would shift them against each other.
    let same = requests.len() == chosen.len();
    chosen
        .iter()
        .enumerate()
        .filter(|(_, frame)| frame.len() > header)
        .map(|(index, frame)| {
            let key = match same {
                true => u16::from_be_bytes([requests[index][4], requests[index][5]]),
                false => 1000 + (index % 67) as u16,
            };
            let api = key.wrapping_sub(1000) as u8;
            [&[api], &frame[header..]].concat()
        })
        .collect()
}

fn log_files() -> Vec<Vec<u8>> {
    let directory = crate_file("format/testdata/log");
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| fs::read(path).unwrap())
        .collect()
}

#[test]
fn frames_of_a_connection() {
    run(frame, &[frames("request"), frames("response")].concat());
}

#[test]
fn bodies_of_requests() {
    run(requests, &bodies("request", 12));
}

#[test]
fn bodies_of_responses() {
    run(responses, &bodies("response", 9));
}

#[test]
fn log_batches() {
    run(log_batch, &log_files());
}

#[test]
fn arrow_messages_and_rows_of_sound_batches() {
    let mut arrow = vec![vec![0, 1]];
    let mut rows = vec![vec![0, 1]];
    for file in log_files() {
        let Some(batch) = first_batch(&Bytes::from(file)) else {
            continue;
        };
        let header = batch.header();
        let choice = u8::from(!header.is_append_only());
        let head = [choice, header.record_count as u8];
        if let Ok(message) = batch.arrow_message() {
            arrow.push([&head[..], &message].concat());
        }
        rows.push([&head[..], &batch.records()].concat());
    }
    run(arrow_metadata, &arrow);
    run(row_batch, &rows);
}

#[test]
fn kv_batches() {
    run(kv_batch, &bodies("request", 12));
}

#[test]
fn rows_of_every_format() {
    let seeds: Vec<Vec<u8>> = (0..3_u8)
        .flat_map(|format| [10, 60, 200].map(|length| [vec![format], vec![0; length]].concat()))
        .collect();
    run(row, &seeds);
}

#[test]
fn keys_of_every_encoding() {
    let seeds: Vec<Vec<u8>> = (0..=255_u8)
        .flat_map(|choice| {
            [
                vec![choice, 1],
                vec![choice, 3, b'a', b'b', b'c', 2, 1, b'x', 4],
                vec![choice; 40],
            ]
        })
        .collect();
    run(key, &seeds);
}

#[test]
fn puts_into_tables_of_every_engine() {
    let seeds: Vec<Vec<u8>> = (0..8).map(put_seed).collect();
    run(put, &seeds);
}

#[test]
fn requests_about_rows() {
    let recorded = bodies("request", 12);
    let mut seeds = vec![request_seed(); 100];
    for (number, body) in recorded.iter().enumerate().take(200) {
        let body = &body[1..];
        let length = (body.len() as u16).to_le_bytes();
        seeds.push([&[number as u8], &length[..], body].concat());
    }
    run_rounds(row_requests, &seeds, FEW_ROUNDS);
}

#[test]
fn predicates() {
    run(
        predicate,
        &[
            vec![0, 2, 1, 3, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            vec![1; 64],
        ],
    );
}
