//! A crash, or a failure, at every single step of what a tablet does with its disk.

use std::collections::BTreeMap;
use std::path::Path;

use mainstem_env::{Fault, FileSystem, Survival};
use mainstem_types::{DataType, Schema, TypeKind};

use super::bucket::{BIGINT, Bucket, DIR, Put, STRING};
use crate::Result;

/// Something that is done again, in the same process or in the next one, if it
/// fails.
type Step = fn(&mut Bucket) -> Result<()>;

fn put(bucket: &mut Bucket, sequence: i32, rows: &[&str]) -> Result<()> {
    let put = Put::new(rows).target(&[0, 2]).writer(1, sequence);
    bucket.try_put(put).map(|_| ())
}

/// Makes the store durable; from then on the changelog before it may be gone.
fn checkpoint(bucket: &mut Bucket) -> Result<()> {
    bucket.open()?;
    bucket.now_ms += 1;
    let now_ms = bucket.now_ms;
    bucket.tablet.lock().checkpoint(now_ms, 0)?;
    let durable = bucket.tablet.lock().writer.noted.offset;
    bucket.log.trim(durable);
    Ok(())
}

fn close(bucket: &mut Bucket) -> Result<()> {
    bucket.tablet.lock().close(0).map(|_| ())
}

fn open(bucket: &mut Bucket) -> Result<()> {
    bucket.open().map(|_| ())
}

fn lose_state(bucket: &mut Bucket) -> Result<()> {
    // A later try finds it gone.
    let _ = bucket.files.remove_file(&Path::new(DIR).join("state"));
    Ok(())
}

const LIFE: &[Step] = &[
    |bucket| put(bucket, 0, &["a", "b"]),
    |bucket| put(bucket, 1, &["a", "c", "d"]),
    checkpoint,
    |bucket| put(bucket, 2, &["e", "f", "g"]),
    |bucket| put(bucket, 3, &["b,null,x", "-c"]),
    close,
    open,
    |bucket| put(bucket, 4, &["h"]),
    checkpoint,
    checkpoint,
    |bucket| put(bucket, 5, &["-i", "j,1,y"]),
    close,
    open,
];

const REBUILD: &[Step] = &[
    |bucket| put(bucket, 0, &["a", "b"]),
    |bucket| put(bucket, 1, &["a", "c", "d,1,x"]),
    close,
    lose_state,
    open,
    |bucket| put(bucket, 2, &["b", "e"]),
    checkpoint,
    |bucket| put(bucket, 3, &["f"]),
    close,
    open,
];

fn bucket() -> Bucket {
    let schema = Schema::builder()
        .column("k", DataType::not_null(TypeKind::String))
        .column("id", BIGINT)
        .column("v", STRING)
        .primary_key(["k"])
        .auto_increment("id")
        .build()
        .unwrap();
    Bucket::new(schema, &[("table.auto-increment.cache-size", "3")])
}

/// Keys with values; numbers depend on what was tried in vain.
fn rows(bucket: &mut Bucket) -> BTreeMap<String, String> {
    let content = bucket.content();
    let mut numbers = std::collections::HashSet::new();
    let rows: BTreeMap<String, String> = content
        .into_values()
        .map(|row| {
            let fields: Vec<&str> = row.split(',').collect();
            assert!(
                numbers.insert(fields[1].to_owned()),
                "{row} has the number of another"
            );
            (fields[0].to_owned(), fields[2].to_owned())
        })
        .collect();
    assert_eq!(bucket.row_count(), rows.len() as i64);
    rows
}

/// Runs the steps; when one fails `recover` is called, and it must work then.
fn run(steps: &[Step], bucket: &mut Bucket, recover: &mut dyn FnMut(&mut Bucket)) {
    for (number, step) in steps.iter().enumerate() {
        if step(bucket).is_err() {
            recover(bucket);
            step(bucket).unwrap_or_else(|error| panic!("step {number}, again: {error}"));
        }
    }
}

fn wanted(steps: &[Step]) -> BTreeMap<String, String> {
    let mut bucket = bucket();
    run(steps, &mut bucket, &mut |_| panic!("nothing fails"));
    rows(&mut bucket)
}

#[test]
fn the_power_may_go_at_every_operation_of_the_file_system() {
    for steps in [LIFE, REBUILD] {
        let wanted = wanted(steps);
        let mut crashed = true;
        let mut number = 0;
        while crashed {
            number += 1;
            crashed = false;
            for seed in 0..12 {
                let mut bucket = bucket();
                bucket.files.fail(number, Fault::PowerLoss);
                let mut recover = |bucket: &mut Bucket| {
                    crashed = true;
                    let survivors = seed as usize % 3;
                    bucket.crash(|pending| pending.min(survivors), survival(seed));
                };
                run(steps, &mut bucket, &mut recover);
                bucket.crash(|_| 0, survival(seed));
                assert_eq!(rows(&mut bucket), wanted, "operation {number}, seed {seed}");
            }
        }
        assert!(number > 20, "{number} operations");
    }
}

fn survival(seed: u64) -> Survival {
    match seed {
        0 => Survival::Nothing,
        1 => Survival::Everything,
        seed => Survival::Seeded(seed),
    }
}

#[test]
fn every_operation_of_the_file_system_may_fail() {
    for steps in [LIFE, REBUILD] {
        let wanted = wanted(steps);
        for fault in [Fault::Io, Fault::DiskFull] {
            let mut failed = true;
            let mut number = 0;
            while failed {
                number += 1;
                failed = false;
                for seed in 0..12 {
                    let mut bucket = bucket();
                    bucket.files.fail(number, fault);
                    run(steps, &mut bucket, &mut |_| failed = true);
                    bucket.crash(|_| 0, survival(seed));
                    assert_eq!(rows(&mut bucket), wanted, "operation {number}, seed {seed}");
                }
            }
            assert!(number > 20, "{number} operations");
        }
    }
}

#[test]
fn every_call_of_the_engine_may_fail_or_be_the_last() {
    for steps in [LIFE, REBUILD] {
        let wanted = wanted(steps);
        for is_last in [false, true] {
            let mut failed = true;
            let mut number = 0;
            while failed {
                number += 1;
                failed = false;
                let mut bucket = bucket();
                bucket.plan.fail_from(Some(number));
                let mut recover = |bucket: &mut Bucket| {
                    failed = true;
                    bucket.plan.fail_from(None);
                    if is_last {
                        bucket.crash(|pending| pending / 2, Survival::Seeded(number));
                    }
                };
                run(steps, &mut bucket, &mut recover);
                bucket.plan.fail_from(None);
                bucket.crash(|_| 0, Survival::Nothing);
                assert_eq!(rows(&mut bucket), wanted, "call {number}");
            }
            assert!(number > 8, "{number} calls");
        }
    }
}
