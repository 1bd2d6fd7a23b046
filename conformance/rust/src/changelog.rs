//! The changelog of a primary-key table: expected changes, bounded reads of
//! all of it, and the table that it folds to.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fluss::client::{EARLIEST_OFFSET, FlussAdmin, FlussTable, LogScanner, TableScan};
use fluss::metadata::DataType;
use fluss::record::ChangeType;
use fluss::rpc::message::OffsetSpec;

use crate::scan::{self, Read};
use crate::value::Value;
use crate::{check, table};

const READ_WITHIN: Duration = Duration::from_secs(30);

/// A change and the row that it carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub kind: ChangeType,
    pub row: Vec<Value>,
}

fn change(kind: ChangeType, row: &[Value]) -> Change {
    Change {
        kind,
        row: row.to_vec(),
    }
}

/// `+I`
pub fn inserted(row: &[Value]) -> Change {
    change(ChangeType::Insert, row)
}

/// `-U` and `+U`
pub fn updated(before: &[Value], after: &[Value]) -> [Change; 2] {
    [
        change(ChangeType::UpdateBefore, before),
        change(ChangeType::UpdateAfter, after),
    ]
}

/// `+U` alone, as the WAL image has it.
pub fn after(row: &[Value]) -> Change {
    change(ChangeType::UpdateAfter, row)
}

/// `-D`
pub fn deleted(row: &[Value]) -> Change {
    change(ChangeType::Delete, row)
}

/// The whole changelog is `expected`, read with all columns and then with each
/// of `projections`. For tables of one bucket, where there is one order.
pub async fn expect(
    admin: &FlussAdmin,
    table: &FlussTable<'_>,
    expected: &[Change],
    projections: &[&[usize]],
) -> Result<()> {
    let read = read(admin, table, expected.len(), None).await?;
    compare(expected, &read)?;
    for &columns in projections {
        let narrow: Vec<Change> = expected
            .iter()
            .map(|change| Change {
                kind: change.kind,
                row: columns.iter().map(|&c| change.row[c].clone()).collect(),
            })
            .collect();
        let read = self::read(admin, table, expected.len(), Some(columns)).await?;
        compare(&narrow, &read).with_context(|| format!("columns {columns:?}"))?;
    }
    Ok(())
}

fn compare(expected: &[Change], read: &[Read]) -> Result<()> {
    for (position, (expected, read)) in expected.iter().zip(read).enumerate() {
        let what = format!("change {position}, at offset {}", read.offset);
        check::equal(&format!("{what}: type"), &expected.kind, &read.change)?;
        check::equal(
            &format!("{what}: columns"),
            &expected.row.len(),
            &read.cells.len(),
        )?;
        for (column, (expected, read)) in expected.row.iter().zip(&read.cells).enumerate() {
            check::equal(&format!("{what}: column {column}"), expected, read)?;
        }
    }
    check::equal("changes", &expected.len(), &read.len())
}

/// All changes of a table, `count` of them and not one more, in the order of
/// (partition, bucket, offset). Each −U stands right before its +U.
pub async fn read(
    admin: &FlussAdmin,
    table: &FlussTable<'_>,
    count: usize,
    projection: Option<&[usize]>,
) -> Result<Vec<Read>> {
    let (scanner, types, ends) = start(admin, table, projection).await?;
    let start = Instant::now();
    let mut reads: Vec<Read> = Vec::new();
    while reads.len() < count {
        if start.elapsed() > READ_WITHIN {
            bail!("{} of {count} changes after {READ_WITHIN:?}", reads.len());
        }
        reads.extend(scan::poll_changes(&scanner, &types).await?);
    }
    // Batches without a change may stand at the end, and hide one too many.
    if !complete(&reads, &ends) {
        reads.extend(scan::poll_changes(&scanner, &types).await?);
    }
    check::equal("changes in the changelog", &count, &reads.len())?;
    reads.sort_by_key(|read| (read.partition, read.bucket, read.offset));
    paired(&reads)?;
    Ok(reads)
}

/// All changes of a table, however many. Each bucket is read to its end, but
/// for batches without a change that may stand there.
pub async fn to_the_end(admin: &FlussAdmin, table: &FlussTable<'_>) -> Result<Vec<Read>> {
    const EMPTY_POLLS: usize = 3;
    let (scanner, types, ends) = start(admin, table, None).await?;
    let start = Instant::now();
    let mut reads: Vec<Read> = Vec::new();
    let mut empty_polls = 0;
    while !complete(&reads, &ends) && empty_polls < EMPTY_POLLS {
        check::that(
            "the changelog is read within 30 s",
            start.elapsed() < READ_WITHIN,
        )?;
        let more = scan::poll_changes(&scanner, &types).await?;
        empty_polls = if more.is_empty() { empty_polls + 1 } else { 0 };
        reads.extend(more);
    }
    reads.sort_by_key(|read| (read.partition, read.bucket, read.offset));
    paired(&reads)?;
    Ok(reads)
}

async fn start(
    admin: &FlussAdmin,
    table: &FlussTable<'_>,
    projection: Option<&[usize]>,
) -> Result<(LogScanner, Vec<DataType>, HashMap<Place, i64>)> {
    let mut types = scan::types(table);
    let mut scan: TableScan<'_> = table.new_scan();
    if let Some(columns) = projection {
        types = columns.iter().map(|&c| types[c].clone()).collect();
        scan = scan.project(columns)?;
    }
    let scanner = scan.create_log_scanner()?;
    let ends = ends(admin, table).await?;
    for &(partition, bucket) in ends.keys() {
        match partition {
            None => scanner.subscribe(bucket, EARLIEST_OFFSET).await?,
            Some(id) => {
                scanner
                    .subscribe_partition(id, bucket, EARLIEST_OFFSET)
                    .await?;
            }
        }
    }
    Ok((scanner, types, ends))
}

type Place = (Option<i64>, i32);

async fn ends(admin: &FlussAdmin, table: &FlussTable<'_>) -> Result<HashMap<Place, i64>> {
    let info = table.get_table_info();
    let path = info.get_table_path();
    let buckets: Vec<i32> = (0..info.get_num_buckets()).collect();
    let mut ends = HashMap::new();
    if info.is_partitioned() {
        for partition in admin.list_partition_infos(path).await? {
            let name = partition.get_partition_name();
            table::wait_for_partition(admin, path, &name, &buckets).await?;
            let offsets = admin
                .list_partition_offsets(path, &name, &buckets, OffsetSpec::Latest)
                .await?;
            let id = Some(partition.get_partition_id());
            ends.extend(offsets.into_iter().map(|(bucket, end)| ((id, bucket), end)));
        }
    } else {
        let offsets = admin
            .list_offsets(path, &buckets, OffsetSpec::Latest)
            .await?;
        ends.extend(
            offsets
                .into_iter()
                .map(|(bucket, end)| ((None, bucket), end)),
        );
    }
    Ok(ends)
}

/// The last record of every bucket stands right before the bucket's end.
fn complete(reads: &[Read], ends: &HashMap<Place, i64>) -> bool {
    let mut next: HashMap<Place, i64> = HashMap::new();
    for read in reads {
        let due = next.entry((read.partition, read.bucket)).or_default();
        *due = (*due).max(read.offset + 1);
    }
    ends.iter()
        .all(|(place, end)| next.get(place).copied().unwrap_or(0) == *end)
}

fn paired(reads: &[Read]) -> Result<()> {
    for (position, read) in reads.iter().enumerate() {
        if position > 0 {
            let before = &reads[position - 1];
            let same = (before.partition, before.bucket) == (read.partition, read.bucket);
            check::that(
                &format!("offset {} follows {}", read.offset, before.offset),
                !same || before.offset < read.offset,
            )?;
        }
        if read.change == ChangeType::UpdateBefore {
            let next = reads.get(position + 1);
            check::that(
                &format!(
                    "the -U at offset {} is followed by its +U: {next:?}",
                    read.offset
                ),
                next.is_some_and(|next| {
                    next.change == ChangeType::UpdateAfter
                        && next.offset == read.offset + 1
                        && next.bucket == read.bucket
                }),
            )?;
        }
    }
    Ok(())
}

/// The rows by key that a changelog leaves. Every −U and −D must show the row
/// as it was, a +I must find none.
pub fn fold(reads: &[Read], key: &[usize]) -> Result<HashMap<Vec<Value>, Vec<Value>>> {
    let mut rows: HashMap<Vec<Value>, Vec<Value>> = HashMap::new();
    for read in reads {
        let id: Vec<Value> = key.iter().map(|&c| read.cells[c].clone()).collect();
        let what = format!("bucket {}, offset {}, key {id:?}", read.bucket, read.offset);
        match read.change {
            ChangeType::Insert => {
                let old = rows.insert(id, read.cells.clone());
                check::equal(&format!("{what}: row before a +I"), &None, &old)?;
            }
            ChangeType::UpdateBefore => {
                check::equal(
                    &format!("{what}: row before a -U"),
                    &Some(&read.cells),
                    &rows.get(&id),
                )?;
            }
            ChangeType::UpdateAfter => {
                rows.insert(id, read.cells.clone());
            }
            ChangeType::Delete => {
                let old = rows.remove(&id);
                check::equal(
                    &format!("{what}: row before a -D"),
                    &Some(&read.cells),
                    &old.as_ref(),
                )?;
            }
            ChangeType::AppendOnly => bail!("{what}: an append in a changelog"),
        }
    }
    Ok(rows)
}
