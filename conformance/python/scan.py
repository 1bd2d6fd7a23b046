"""Bounded reads, and the checks that every read must pass."""

import time

import fluss
import pyarrow as pa

import check

READ_WITHIN_S = 20


def buckets(table):
    return list(range(table.get_table_info().num_buckets))


async def wait_until_ready(admin, path, count=1):
    """A new table answers once its buckets have leaders."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return await admin.list_offsets(path, list(range(count)), fluss.OffsetSpec.latest())
        except fluss.FlussError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


async def arrow(table, names=None):
    """All rows of a table without partitions as one Arrow table."""
    scan = table.new_scan()
    if names is not None:
        scan = scan.project_by_name(names)
    scanner = await scan.create_record_batch_log_scanner()
    scanner.subscribe_buckets({bucket: fluss.EARLIEST_OFFSET for bucket in buckets(table)})
    return await scanner.to_arrow()


async def records(scanner, count):
    """`count` records by (partition, bucket), in offset order without a gap."""
    found = {}
    seen = 0
    deadline = time.monotonic() + READ_WITHIN_S
    while seen < count:
        check.that(f"{seen} of {count} rows after 20 s", time.monotonic() < deadline)
        batch = await scanner.poll(200)
        for bucket, rows in batch.items():
            place = (bucket.partition_id, bucket.bucket_id)
            for row in rows:
                kept = found.setdefault(place, [])
                check.equal(f"offset in {place}", len(kept), row.offset)
                check.equal("change type", fluss.ChangeType.AppendOnly, row.change_type)
                kept.append(row)
                seen += 1
    check.equal("rows", count, seen)
    return found


def same_table(what, expected, actual):
    """Both Arrow tables have the same columns and values, cell by cell."""
    check.equal(f"{what}: columns", expected.column_names, actual.column_names)
    check.equal(f"{what}: rows", expected.num_rows, actual.num_rows)
    for name in expected.column_names:
        wanted = expected.column(name).combine_chunks()
        got = actual.column(name).combine_chunks()
        for row in range(expected.num_rows):
            check.equal(
                f"{what}: column {name} of row {row}",
                check.plain(_one(wanted, row)),
                check.plain(_one(got, row)),
            )


def _one(column, row):
    return column.chunk(0)[row] if isinstance(column, pa.ChunkedArray) else column[row]
