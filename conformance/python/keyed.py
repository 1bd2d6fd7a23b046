"""Writes and reads by key, and changelogs. Each write waits for its acknowledgement."""

import asyncio
import time

import fluss
import pyarrow as pa

import check
import scan

INSERT, BEFORE, AFTER, DELETE = "+I", "-U", "+U", "-D"


async def create(connection, path, schema, keys, **options):
    """A table of one bucket, unless the options say otherwise."""
    admin = connection.get_admin()
    numbered = options.pop("auto_increment", None)
    options.setdefault("bucket_count", 1)
    # pyfluss takes None for a name.
    definition = (
        fluss.Schema(schema, primary_keys=keys)
        if numbered is None
        else fluss.Schema(schema, primary_keys=keys, auto_increment_column=numbered)
    )
    await admin.create_table(path, fluss.TableDescriptor(definition, **options), False)
    if "partition_keys" not in options:
        await scan.wait_until_ready(admin, path, options["bucket_count"])
    return await connection.get_table(path)


async def upsert(table, rows, columns=None):
    await _write(table, rows, columns, lambda writer, row: writer.upsert(row))


async def delete(table, rows, columns=None):
    await _write(table, rows, columns, lambda writer, row: writer.delete(row))


async def _write(table, rows, columns, call):
    builder = table.new_upsert()
    if columns is not None:
        builder = builder.partial_update_by_name(columns)
    writer = builder.create_writer()
    handles = [call(writer, row) for row in rows]
    await writer.flush()
    for handle in handles:
        await handle.wait()


async def lookup(table, keys):
    """The row of each key, or None. All are asked for at once: a lookup that
    stands alone waits 100 ms for others."""
    lookupers = [table.new_lookup().create_lookuper() for _ in keys]
    answers = [lookuper.lookup(key) for lookuper, key in zip(lookupers, keys)]
    return await asyncio.gather(*answers)


async def prefix_lookup(table, columns, prefix):
    lookuper = table.new_lookup().lookup_by(columns).create_lookuper()
    return await lookuper.lookup(prefix)


async def limit_scan(table, limit, bucket=0, names=None):
    """The first rows of a bucket, as an Arrow table."""
    place = fluss.TableBucket(table.get_table_info().table_id, bucket)
    builder = table.new_scan()
    if names is not None:
        builder = builder.project_by_name(names)
    return await builder.limit(limit).create_bucket_batch_scanner(place).to_arrow()


async def changes(connection, table, count, partitions=None):
    """All changes as (kind, row), `count` of them and not one more, bucket by
    bucket in offset order. Each -U stands right before its +U."""
    scanner = await table.new_scan().create_log_scanner()
    buckets = scan.buckets(table)
    if partitions is None:
        scanner.subscribe_buckets({bucket: fluss.EARLIEST_OFFSET for bucket in buckets})
    else:
        scanner.subscribe_partition_buckets(
            {(p, bucket): fluss.EARLIEST_OFFSET for p in partitions for bucket in buckets}
        )
    found = []
    deadline = time.monotonic() + scan.READ_WITHIN_S
    empty_polls = 0
    # Once more after the last, for changes that must not be there.
    while len(found) < count or empty_polls < 1:
        check.that(f"{len(found)} of {count} changes after 20 s", time.monotonic() < deadline)
        batch = await scanner.poll(200)
        empty_polls = 0 if batch.count() else empty_polls + 1
        for bucket, records in batch.items():
            place = (bucket.partition_id or -1, bucket.bucket_id)
            found += [(place, record.offset, record) for record in records]
    check.equal("changes in the changelog", count, len(found))
    found.sort(key=lambda change: change[:2])
    for position, (place, offset, record) in enumerate(found):
        if record.change_type == fluss.ChangeType.UpdateBefore:
            check.that(f"a +U behind the -U at {offset}", position + 1 < len(found))
            next_place, next_offset, following = found[position + 1]
            check.equal("place behind a -U", (place, offset + 1), (next_place, next_offset))
            check.equal("type behind a -U", AFTER, following.change_type.short_string())
    return [(record.change_type.short_string(), record.row) for _, _, record in found]


def updated(before, after):
    return [(BEFORE, before), (AFTER, after)]


def same_changes(what, expected, actual):
    check.equal(f"{what}: changes", len(expected), len(actual))
    for position, ((kind, row), (got_kind, got_row)) in enumerate(zip(expected, actual)):
        check.equal(f"{what}: type of change {position}", kind, got_kind)
        same_row(f"{what}: change {position}", row, got_row)


def same_row(what, expected, actual):
    """Cell by cell; NaN equals NaN, and −0.0 differs from 0.0."""
    check.that(f"{what}: a row", actual is not None)
    check.equal(f"{what}: columns", list(expected), list(actual))
    for name, value in expected.items():
        check.equal(f"{what}: column {name}", _plain(value), _plain(actual[name]))


def _plain(value):
    if isinstance(value, float):
        return check.plain(pa.scalar(value, pa.float64()))
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
