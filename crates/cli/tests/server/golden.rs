//! The recorded exchanges of a reference cluster against this server.
//!
//! Before a request is sent, the tables, partitions, rows and databases are made
//! that its answer presupposes, and the ids in it are those that they have here.
//! Compared is the shape of the answer: the kind of frame, the code and where it
//! stands, the entries per bucket in their order, and which fields are present.

mod expected;
mod prepare;
mod requests;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mainstem_protocol::ApiKey;
use mainstem_testkit::golden::{self, Exchange, Kind};
use mainstem_testkit::{Answer, Wire};

use self::expected::{MORE_FIELDS, NOT_BUILT, OTHER_CODES, OTHER_INNER_CODES, SKIPPED};
use self::prepare::Cluster;
use self::requests::{batches, body_for, lines};
use crate::support::assert_all_right;

/// What an answer is, apart from the fields of a success.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Error(i32),
    Failure,
    Silence,
}

fn recorded(exchange: &Exchange) -> Outcome {
    match exchange.kind {
        Kind::Ok => Outcome::Success,
        Kind::Error => Outcome::Error(exchange.error_code.expect("a code")),
        Kind::Failure => Outcome::Failure,
        Kind::Unanswered => Outcome::Silence,
    }
}

fn is_built(exchange: &Exchange) -> bool {
    let key = exchange.api_key.and_then(ApiKey::from_code);
    key.is_some_and(|key| !NOT_BUILT.contains(&key))
}

/// What this server must answer.
fn wanted(exchange: &Exchange) -> Outcome {
    let other = OTHER_CODES.iter().find(|(seq, ..)| *seq == exchange.seq);
    match (other, recorded(exchange)) {
        (Some((_, 0, _)), _) => Outcome::Success,
        (Some((_, code, _)), _) => Outcome::Error(*code),
        (None, Outcome::Failure) => Outcome::Failure,
        // Whatever the reference knows and this server does not is refused.
        (None, _) if !is_built(exchange) => Outcome::Error(2),
        (None, outcome) => outcome,
    }
}

fn outcome(answer: &Answer) -> Outcome {
    match answer {
        Answer::Success { .. } => Outcome::Success,
        Answer::Error { code, .. } => Outcome::Error(*code),
        Answer::Failure { .. } => Outcome::Failure,
        Answer::Closed => Outcome::Silence,
    }
}

/// Fields whose values are part of the shape.
const COMPARED: [&str; 6] = [
    "bucket_id",
    "error_code",
    "is_log_table",
    "result",
    "exists",
    "filtered_end_offset",
];

/// Fields that release 1.0.0 has and the recorded server had not, or that this
/// server sends where it need not.
const MORE: [&str; 9] = [
    "challenge",
    "bucket_count",
    "bucket_count_epoch",
    "isr",
    "bucket_epoch",
    "leader_epoch",
    "rack",
    "error_message",
    "remote_data_dir",
];

fn last(path: &str) -> &str {
    path.rsplit('.')
        .find(|part| part.parse::<usize>().is_err())
        .unwrap_or(path)
}

/// Path without positions, for lists whose length depends on what else exists.
fn without_positions(path: &str) -> String {
    let name = |part: &str| {
        if part.parse::<usize>().is_ok() {
            "*".to_owned()
        } else {
            part.to_owned()
        }
    };
    path.split('.').map(name).collect::<Vec<_>>().join(".")
}

fn is_per_bucket(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::ProduceLog
            | ApiKey::FetchLog
            | ApiKey::PutKv
            | ApiKey::Lookup
            | ApiKey::PrefixLookup
            | ApiKey::ListOffsets
            | ApiKey::GetTableStats
            | ApiKey::LimitScan
    )
}

/// The entry of a bucket as it is with a code instead of a success.
fn refused(entry: &str, code: i32) -> String {
    let bucket = entry.find("bucket_id").map_or("", |at| &entry[at..]);
    let bucket: Vec<&str> = bucket.split(' ').take(3).collect();
    let partition = if entry.contains("partition_id") {
        "partition_id "
    } else {
        ""
    };
    format!("{partition}{} error_code = {code} ", bucket.join(" "))
}

/// The comparable form of a success: a line per field, or per bucket of an answer
/// about buckets. Their order is free (wire.md §4.8), and that of the recorded
/// servers is one of hashes.
fn shape(
    key: ApiKey,
    exchange: &Exchange,
    lines: Vec<(String, String)>,
    theirs: bool,
) -> Vec<String> {
    let replaced = OTHER_INNER_CODES
        .iter()
        .find(|(seq, ..)| *seq == exchange.seq);
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    for (path, mut value) in lines {
        let name = last(&path).to_owned();
        let is_more = |(seq, field, _): &(u64, &str, &str)| *seq == exchange.seq && *field == name;
        if MORE.contains(&&*name) || MORE_FIELDS.iter().any(is_more) {
            continue;
        }
        if let Some((_, from, to, _)) = replaced
            && theirs
            && name == "error_code"
            && value == from.to_string()
        {
            value = to.to_string();
        }
        let value = if COMPARED.contains(&&*name) {
            format!("{name} = {value}")
        } else {
            name
        };
        // Fields of one entry of a list of buckets stand together.
        let group = match path.rfind("buckets_resp.") {
            Some(at) if is_per_bucket(key) => {
                let end = path[at + 13..]
                    .find('.')
                    .map_or(path.len(), |dot| at + 13 + dot);
                path[..end].to_owned()
            }
            _ => without_positions(&path),
        };
        let line = shown.entry(group).or_default();
        if is_per_bucket(key) || line.is_empty() {
            line.push_str(&value);
            line.push(' ');
        }
    }
    if is_per_bucket(key) {
        let mut entries: Vec<String> = shown.into_values().collect();
        if let Some((_, 0, to, _)) = replaced.filter(|_| theirs) {
            entries = entries.iter().map(|entry| refused(entry, *to)).collect();
        }
        entries.sort();
        return entries;
    }
    shown
        .into_iter()
        .map(|(path, value)| format!("{path}: {value}"))
        .collect()
}

fn differences(key: ApiKey, exchange: &Exchange, answer: &Answer) -> Option<String> {
    let Answer::Success { body, .. } = answer else {
        return None;
    };
    if exchange.kind != Kind::Ok || key == ApiKey::ApiVersions {
        return None;
    }
    let ours = shape(key, exchange, lines(key, body.clone()), false);
    let theirs = shape(key, exchange, lines(key, exchange.success_body()), true);
    // Of an open list this server may hold what the recorded one did not.
    let same = if is_per_bucket(key) {
        ours == theirs
    } else {
        theirs.iter().all(|line| ours.contains(line))
    };
    if !same {
        return Some(format!("{ours:#?} instead of {theirs:#?}"));
    }
    if key != ApiKey::FetchLog {
        return None;
    }
    // The log may have grown since: the recorded batches come first.
    let ours = batches(body.clone());
    let theirs = batches(exchange.success_body());
    let same = ours
        .iter()
        .zip(&theirs)
        .all(|(ours, theirs)| ours.starts_with(theirs));
    (!same).then(|| format!("has the batches {ours:?} instead of {theirs:?}"))
}

/// Sends one request on a connection in the state that the recorded one was in.
fn send(cluster: &Cluster, exchange: &Exchange, key: Option<ApiKey>) -> Answer {
    let mut wire: Wire = cluster.connect(exchange);
    let Some(key) = key.filter(|_| is_built(exchange)) else {
        assert!(wire.send_bytes(&exchange.request));
        return wire.receive();
    };
    wire.call(
        key.code(),
        exchange.api_version,
        &body_for(cluster, exchange, key),
    )
}

fn replay(name: char, count: usize) {
    let mut cluster = Cluster::start(name);
    let mut wrong = Vec::new();
    let mut replayed = 0;
    for exchange in golden::exchanges()
        .into_iter()
        .filter(|exchange| exchange.cluster == name)
    {
        if SKIPPED.iter().any(|(seqs, _)| seqs.contains(&exchange.seq)) {
            continue;
        }
        let key = exchange.api_key.and_then(ApiKey::from_code);
        if let Some(key) = key.filter(|_| is_built(&exchange)) {
            cluster.prepare(&exchange, key);
        }
        let answer = send(&cluster, &exchange, key);
        if let (Some(ApiKey::ScanKv), Answer::Success { body, .. }) = (key, &answer)
            && exchange.kind == Kind::Ok
        {
            cluster.note_scan(&exchange, body);
        }
        if let Some(key) = key.filter(|_| is_built(&exchange)) {
            cluster.restore(&exchange, key);
        }
        let (wanted, got) = (wanted(&exchange), outcome(&answer));
        let text = format!(
            "{} {} ({})",
            exchange.seq,
            key.map_or("a strange key", ApiKey::name),
            exchange.note
        );
        if wanted != got {
            wrong.push(format!("{text}: {wanted:?} is wanted, not {answer:?}"));
        } else if let Some(differences) = key.and_then(|key| differences(key, &exchange, &answer)) {
            wrong.push(format!("{text}: {differences}"));
        }
        replayed += 1;
    }
    assert_all_right(&wrong);
    assert_eq!(replayed, count, "exchanges replayed");
}

#[test]
fn cluster_a_is_answered_as_recorded_or_better() {
    replay('a', 153);
}

#[test]
fn cluster_b_is_answered_as_recorded_or_better() {
    replay('b', 471);
}

#[test]
fn exceptions_are_about_exchanges_that_exist_and_differ() {
    let exchanges = golden::exchanges();
    let find = |seq: u64| {
        let found = exchanges.iter().find(|exchange| exchange.seq == seq);
        found.unwrap_or_else(|| panic!("there is no exchange {seq}"))
    };
    let mut skipped = BTreeSet::new();
    for seq in SKIPPED.iter().flat_map(|(seqs, _)| seqs.iter()) {
        assert!(is_built(find(*seq)), "{seq} is refused anyway");
        assert!(skipped.insert(*seq), "{seq} is skipped twice");
    }
    for (seq, code, _) in OTHER_CODES {
        let other = if *code == 0 {
            Outcome::Success
        } else {
            Outcome::Error(*code)
        };
        assert_ne!(recorded(find(*seq)), other, "{seq} is no exception");
        assert!(!skipped.contains(seq), "{seq} is skipped");
    }
    for (seq, theirs, ..) in OTHER_INNER_CODES {
        let codes = &find(*seq).inner_error_codes;
        assert!(
            codes.contains(theirs) || *theirs == 0 && codes.is_empty(),
            "{seq}"
        );
    }
    for exchange in exchanges.iter().filter(|exchange| !is_built(exchange)) {
        let other = OTHER_CODES.iter().any(|(seq, ..)| *seq == exchange.seq);
        assert!(
            !other || exchange.api_key.is_none(),
            "{} is refused anyway",
            exchange.seq
        );
    }
}

/// Longest wait of a replayed fetch that finds nothing.
const SHORT_WAIT: Duration = Duration::from_millis(20);
