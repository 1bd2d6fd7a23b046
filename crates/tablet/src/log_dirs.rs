//! Where the logs of buckets lie: `t<table>[/p<partition>]/b<bucket>` below the
//! log directory. Only numbers: names of partitions may be longer than a file
//! name can be (known failure R08).

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use mainstem_env::FileSystem;
use mainstem_types::{BucketId, PartitionId, TableBucket, TableId};

/// The directory of a bucket.
pub fn directory(root: &Path, bucket: &TableBucket) -> PathBuf {
    let TableBucket {
        table_id,
        partition_id,
        bucket_id: BucketId(bucket),
    } = bucket;
    let mut path = table_directory(root, *table_id);
    if let Some(PartitionId(partition)) = partition_id {
        path.push(format!("p{partition}"));
    }
    path.push(format!("b{bucket}"));
    path
}

/// The directory of a table, with those of its buckets or partitions.
pub fn table_directory(root: &Path, table_id: TableId) -> PathBuf {
    root.join(format!("t{table_id}"))
}

/// The directories of the partitions that the buckets belong to.
pub fn partition_directories(root: &Path, buckets: &[TableBucket]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = buckets
        .iter()
        .filter(|bucket| bucket.partition_id.is_some())
        .filter_map(|bucket| directory(root, bucket).parent().map(Path::to_owned))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The directories of buckets, tables and partitions that no bucket of `wanted`
/// needs, children before their parents. Only names that [`directory`] gives:
/// whatever else a person may have put there is not ours to remove.
///
/// # Errors
/// A directory cannot be listed.
pub fn leftovers(
    files: &dyn FileSystem,
    root: &Path,
    wanted: &HashSet<PathBuf>,
) -> io::Result<Vec<PathBuf>> {
    let needed: HashSet<&Path> = wanted.iter().flat_map(|path| path.ancestors()).collect();
    let mut found = Vec::new();
    for table in directories(files, root, 't')? {
        for partition in directories(files, &table, 'p')? {
            found.extend(directories(files, &partition, 'b')?);
            found.push(partition);
        }
        found.extend(directories(files, &table, 'b')?);
        found.push(table);
    }
    found.retain(|path| !needed.contains(path.as_path()));
    Ok(found)
}

/// Those of the [`leftovers`] that are of tables and partitions whose ids are not below
/// these, which are the next ones that the catalog gives out. It cannot be the catalog
/// that they were made with.
pub fn unheard_of(
    leftovers: &[PathBuf],
    next_table: TableId,
    next_partition: PartitionId,
) -> impl Iterator<Item = &PathBuf> {
    leftovers.iter().filter(move |path| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        match name.first() {
            Some(b't') => number(path) >= next_table.0,
            Some(b'p') => number(path) >= next_partition.0,
            _ => false,
        }
    })
}

/// The number in a name that [`directories`] gave; the largest if it is larger.
fn number(path: &Path) -> i64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name[1..].parse().unwrap_or(i64::MAX)
}

/// Removes a directory with the files in it. The next start repeats what fails.
///
/// # Errors
/// A file or the directory cannot be removed.
pub fn remove(files: &dyn FileSystem, dir: &Path) -> io::Result<()> {
    for entry in files.list(dir)?.iter().filter(|entry| !entry.is_dir) {
        files.remove_file(&dir.join(&entry.name))?;
    }
    files.remove_dir(dir)
}

/// The directories in `path` that are named by this letter and a number.
fn directories(files: &dyn FileSystem, path: &Path, letter: char) -> io::Result<Vec<PathBuf>> {
    let entries = match files.list(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let is_ours = |name: &str| {
        let number = name.strip_prefix(letter).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let dirs = entries
        .into_iter()
        .filter(|entry| entry.is_dir && is_ours(&entry.name));
    Ok(dirs.map(|entry| path.join(entry.name)).collect())
}

#[cfg(test)]
mod tests {
    use mainstem_env::RealFileSystem;

    use super::*;

    #[test]
    fn what_belongs_to_no_bucket_is_found_and_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        let bucket = |table, partition: Option<i64>| TableBucket {
            table_id: TableId(table),
            partition_id: partition.map(PartitionId),
            bucket_id: BucketId(0),
        };
        for bucket in [
            bucket(1, None),
            bucket(2, Some(7)),
            bucket(2, Some(8)),
            bucket(3, None),
        ] {
            let path = directory(root, &bucket);
            std::fs::create_dir_all(&path).expect("creates");
            std::fs::write(path.join("x.log"), "x").expect("writes");
        }
        let wanted: HashSet<PathBuf> = [bucket(1, None), bucket(2, Some(7))]
            .iter()
            .map(|b| directory(root, b))
            .collect();
        for path in leftovers(&RealFileSystem, root, &wanted).expect("lists") {
            remove(&RealFileSystem, &path).expect("removes");
        }
        assert!(root.join("t1/b0/x.log").exists());
        assert!(root.join("t2/p7/b0/x.log").exists());
        assert!(!root.join("t2/p8").exists());
        assert!(!root.join("t3").exists());
        let none = leftovers(&RealFileSystem, &root.join("none"), &wanted).expect("lists");
        assert!(none.is_empty());
    }

    #[test]
    fn what_the_catalog_never_gave_out_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        let large = "t99999999999999999999";
        for path in ["t0/b0", "t1/p3/b0", "t1/p4/b0", "t2/b0", "tmp", "x2", large] {
            std::fs::create_dir_all(root.join(path)).expect("creates");
        }
        let all = leftovers(&RealFileSystem, root, &HashSet::new()).expect("lists");
        let found = |table, partition| {
            let found = unheard_of(&all, TableId(table), PartitionId(partition));
            let mut found: Vec<&Path> = found.map(PathBuf::as_path).collect();
            found.sort();
            found
        };
        let paths =
            |paths: &[&str]| -> Vec<PathBuf> { paths.iter().map(|path| root.join(path)).collect() };
        assert_eq!(found(3, 5), paths(&[large]));
        assert_eq!(found(2, 4), paths(&["t1/p4", "t2", large]));
        assert_eq!(found(0, 0).len(), 6);
    }
}
