"""Primary-key tables: types as values and keys, changelogs, partial updates,
merge engines, lookups, partitions, numbered columns."""

import datetime as dt
from decimal import Decimal

import fluss
import pyarrow as pa

import check
import keyed
from keyed import DELETE, INSERT, updated

UTC = dt.timezone.utc
INVALID_CONFIG = 39
DELETION_DISABLED = 57
NAN, INFINITY = float("nan"), float("inf")

# Type, samples; none of the samples of a key is null.
SCALARS = {
    "bool": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [-128, 127, 0]),
    "smallint": (pa.int16(), [-(2**15), 2**15 - 1]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, 0]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1, -1]),
    "float": (pa.float32(), [0.5, -INFINITY, INFINITY, 0.0, -0.0, NAN]),
    "double": (pa.float64(), [5e-324, -1.7976931348623157e308, 0.0, -0.0, NAN]),
    "string": (pa.string(), ["", "plain", "Grüße, 世界 🌊", "\0\n\t", "x" * 70_000]),
    "bytes": (pa.binary(), [b"", bytes(range(256)), b"\7" * 100_000]),
    "binary": (pa.binary(4), [b"\0\1\2\3", b"\xff" * 4]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1)]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1234567.89"), Decimal("-0.01"), Decimal("0.00")]),
    "wide_decimal": (
        pa.decimal128(38, 10),
        [Decimal("9" * 28 + "." + "9" * 10), Decimal("-" + "9" * 28 + "." + "9" * 10)],
    ),
    "time": (pa.time32("ms"), [dt.time(23, 59, 59, 999_000), dt.time(0, 0)]),
    "timestamp": (
        pa.timestamp("us"),
        [dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 456_789)],
    ),
    "timestamp_ltz": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(9999, 12, 30, 1, 1, 1, 1, UTC), dt.datetime(1970, 1, 1, tzinfo=UTC)],
    ),
}
NESTED = {
    "list": (pa.list_(pa.string()), [["", None, "x" * 1000], []]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], []]),
    "row": (
        pa.struct([("n", pa.int32()), ("names", pa.list_(pa.string()))]),
        [{"n": None, "names": ["n", None]}, {"n": -1, "names": []}],
    ),
    "deep": (
        pa.list_(pa.struct([("k", pa.string()), ("v", pa.list_(pa.int64()))])),
        [[{"k": "", "v": [-(2**63), None]}, None], []],
    ),
}


async def run(connection, path):
    print("primary-key tables", flush=True)
    await _values(connection, path)
    await _keys(connection, path)
    await _changes(connection, path)
    await _partial(connection, path)
    await _engines(connection, path)
    await _lookups(connection, path)
    await _partitions(connection, path)
    await _numbered(connection, path)
    check.cannot(
        "pyfluss 1.0.0 knows no aggregate functions, no OVERWRITE, no insert-if-not-exists, no"
        " full scan, no INDEXED rows, no other changelog than ARROW: tried by the Java client"
    )


async def _values(connection, path):
    types = SCALARS | NESTED
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False)] + [(n, t) for n, (t, _) in types.items()]
    )
    table = await keyed.create(connection, path("keyed_values"), schema, ["id"])
    count = max(len(samples) for _, samples in types.values())
    rows = [
        {"id": n} | {name: samples[n % len(samples)] for name, (_, samples) in types.items()}
        for n in range(count)
    ] + [dict.fromkeys(schema.names) | {"id": count}]
    keys = [[row["id"]] for row in rows]
    changed = [rows[(n + 1) % len(rows)] | {"id": n} for n in range(len(rows))]
    for written in (rows, changed):
        await keyed.upsert(table, written)
        for row, found in zip(written, await keyed.lookup(table, keys)):
            keyed.same_row(f"keyed_values: lookup of {row['id']}", row, found)
    read = await keyed.limit_scan(table, 3)
    check.equal("limit scan: columns", schema.names, read.column_names)
    for row, found in zip(changed[:3], read.to_pylist(), strict=True):
        keyed.same_row(f"keyed_values: limit scan, row {row['id']}", row, found)
    read = await keyed.limit_scan(table, 2, names=["string", "id"])
    check.equal(
        "limit scan of two columns",
        [{"string": row["string"], "id": row["id"]} for row in changed[:2]],
        read.to_pylist(),
    )
    await keyed.delete(table, keys)
    check.equal(
        "lookups of deleted rows", [None] * len(keys), await keyed.lookup(table, keys)
    )
    expected = [(INSERT, row) for row in rows]
    for before, after in zip(rows, changed):
        expected += updated(before, after)
    expected += [(DELETE, row) for row in changed]
    keyed.same_changes(
        "keyed_values", expected, await keyed.changes(connection, table, len(expected))
    )
    check.passed("every type inserted, updated, deleted; lookups, limit scans, changelog")


async def _keys(connection, path):
    for name, (kind, samples) in SCALARS.items():
        await _one_key(connection, path(f"key_{name}"), name, kind, samples, {})
    check.passed(f"{len(SCALARS)} key types: insert, lookup, update, delete, changelog")
    for format in ("paimon", "iceberg"):
        for name, (kind, samples) in SCALARS.items():
            # Iceberg's clients take neither these, nor a key without a byte.
            if format == "iceberg":
                if name in ("bool", "tinyint", "smallint", "timestamp_ltz"):
                    continue
                samples = [sample for sample in samples if sample not in ("", b"")]
            properties = {"table.datalake.format": format}
            where = path(f"{format}_key_{name}")
            await _one_key(connection, where, name, kind, samples, properties)
        check.passed(f"key types under the encoding of {format}")
    names = list(SCALARS)
    schema = pa.schema(
        [("v", pa.string())]
        + [pa.field(n, t, nullable=False) for n, (t, _) in SCALARS.items()]
    )
    table = await keyed.create(
        connection, path("key_of_all"), schema, names[::-1], bucket_count=2
    )
    rows = [
        {"v": str(n)} | {name: samples[n % len(samples)] for name, (_, samples) in SCALARS.items()}
        for n in range(10)
    ]
    await keyed.upsert(table, rows)
    keys = [{name: row[name] for name in names} for row in rows]
    for row, found in zip(rows, await keyed.lookup(table, keys)):
        keyed.same_row("key of all types", row, found)
    check.passed("one key of all types")


async def _one_key(connection, where, name, kind, samples, properties):
    # The key stands behind the value: its position must not matter.
    schema = pa.schema([("v", pa.int32()), pa.field("k", kind, nullable=False)])
    table = await keyed.create(
        connection, where, schema, ["k"], bucket_count=3, properties=properties
    )
    keys = [{"k": sample} for sample in samples]
    first = [{"v": n} | key for n, key in enumerate(keys)]
    second = [{"v": 100 + n} | key for n, key in enumerate(keys)]
    check.equal(f"{name}: empty table", [None] * len(keys), await keyed.lookup(table, keys))
    for rows in (first, second):
        await keyed.upsert(table, rows)
        for row, found in zip(rows, await keyed.lookup(table, keys)):
            keyed.same_row(f"{name} as key", row, found)
    await keyed.delete(table, keys[:1])
    found = await keyed.lookup(table, keys)
    check.equal(f"{name}: lookup of a deleted key", None, found[0])
    for row, got in zip(second[1:], found[1:]):
        keyed.same_row(f"{name} as key", row, got)
    changes = await keyed.changes(connection, table, 3 * len(keys) + 1)
    for n in range(len(keys)):
        expected = [(INSERT, first[n])] + updated(first[n], second[n])
        if n == 0:
            expected.append((DELETE, second[n]))
        got = [change for change in changes if change[1]["v"] % 100 == n]
        keyed.same_changes(f"{name} as key, sample {n}", expected, got)


AB = pa.schema([pa.field("a", pa.int32(), nullable=False), ("b", pa.string())])
ABC = pa.schema([pa.field("a", pa.int32(), nullable=False), ("b", pa.string()), ("c", pa.string())])


def ab(a, b):
    return {"a": a, "b": b}


def abc(a, b, c):
    return {"a": a, "b": b, "c": c}


async def _changes(connection, path):
    table = await keyed.create(connection, path("keyed_full"), AB, ["a"])
    await keyed.upsert(table, [ab(1, "v11"), ab(2, "v21"), ab(2, "v23")])
    await keyed.upsert(table, [ab(2, "v22"), ab(1, "v21")])
    await keyed.delete(table, [[1]])
    # No change, no record; an equal row is a change.
    await keyed.delete(table, [[1], [42]])
    await keyed.upsert(table, [ab(2, "v22"), ab(1, None)])
    expected = (
        [(INSERT, ab(1, "v11")), (INSERT, ab(2, "v21"))]
        + updated(ab(2, "v21"), ab(2, "v23"))
        + updated(ab(2, "v23"), ab(2, "v22"))
        + updated(ab(1, "v11"), ab(1, "v21"))
        + [(DELETE, ab(1, "v21"))]
        + updated(ab(2, "v22"), ab(2, "v22"))
        + [(INSERT, ab(1, None))]
    )
    got = await keyed.changes(connection, table, len(expected))
    keyed.same_changes("image FULL", expected, got)

    properties = {"table.changelog.image": "WAL"}
    table = await keyed.create(connection, path("keyed_wal"), AB, ["a"], properties=properties)
    await keyed.upsert(table, [ab(1, "v11"), ab(2, "v21"), ab(1, "v12")])
    await keyed.delete(table, [[1], [3]])
    expected = [
        ("+U", ab(1, "v11")),
        ("+U", ab(2, "v21")),
        ("+U", ab(1, "v12")),
        (DELETE, ab(1, "v12")),
    ]
    got = await keyed.changes(connection, table, len(expected))
    keyed.same_changes("image WAL", expected, got)
    check.passed("changelog: images FULL and WAL")

    behaviour = "table.delete.behavior"
    table = await keyed.create(
        connection, path("keyed_ignoring"), AB, ["a"], properties={behaviour: "IGNORE"}
    )
    await keyed.upsert(table, [ab(1, "stays")])
    await keyed.delete(table, [[1], [2]])
    check.equal("row that cannot be deleted", [ab(1, "stays")], await keyed.lookup(table, [[1]]))
    table = await keyed.create(
        connection, path("keyed_disabled"), AB, ["a"], properties={behaviour: "DISABLE"}
    )
    await keyed.upsert(table, [ab(1, "stays")])
    writer = table.new_upsert().create_writer()
    await check.fails_with(
        "a delete where deletes are disabled", DELETION_DISABLED, writer.delete([1]).wait()
    )
    check.equal("row that cannot be deleted", [ab(1, "stays")], await keyed.lookup(table, [[1]]))
    check.passed("delete behaviours IGNORE and DISABLE")


async def _partial(connection, path):
    table = await keyed.create(connection, path("keyed_partial"), ABC, ["a"])
    await keyed.upsert(table, [{"a": 1}, {"a": 2}, {"a": 2}], ["a"])
    await keyed.upsert(table, [{"a": 1, "b": "v11"}, {"a": 2, "b": "v21"}], ["a", "b"])
    await keyed.upsert(table, [{"a": 1, "c": "c3"}, {"a": 3, "c": "v211"}], ["c", "a"])
    await keyed.delete(table, [[1]], ["a", "b"])
    await keyed.delete(table, [[1]], ["a", "c"])
    expected = (
        [(INSERT, abc(1, None, None)), (INSERT, abc(2, None, None))]
        + updated(abc(1, None, None), abc(1, "v11", None))
        + updated(abc(2, None, None), abc(2, "v21", None))
        + updated(abc(1, "v11", None), abc(1, "v11", "c3"))
        + [(INSERT, abc(3, None, "v211"))]
        + updated(abc(1, "v11", "c3"), abc(1, None, "c3"))
        + [(DELETE, abc(1, None, "c3"))]
    )
    got = await keyed.changes(connection, table, len(expected))
    keyed.same_changes("partial updates", expected, got)
    check.passed("partial updates and deletes")


async def _engines(connection, path):
    engine = "table.merge-engine"
    table = await keyed.create(
        connection, path("keyed_first"), AB, ["a"], properties={engine: "first_row"}
    )
    await keyed.upsert(table, [ab(1, "v11"), ab(2, "v21"), ab(2, "v23")])
    await keyed.upsert(table, [ab(1, "later")])
    await keyed.delete(table, [[1]])
    await keyed.upsert(table, [ab(3, "v31")])
    expected = [(INSERT, ab(1, "v11")), (INSERT, ab(2, "v21")), (INSERT, ab(3, "v31"))]
    got = await keyed.changes(connection, table, len(expected))
    keyed.same_changes("first_row", expected, got)

    schema = pa.schema(
        [pa.field("a", pa.int32(), nullable=False), ("v", pa.int64()), ("b", pa.string())]
    )
    properties = {engine: "versioned", "table.merge-engine.versioned.ver-column": "v"}
    table = await keyed.create(
        connection, path("keyed_versioned"), schema, ["a"], properties=properties
    )

    def row(version, text):
        return {"a": 1, "v": version, "b": text}

    await keyed.upsert(table, [row(None, "null"), row(5, "five"), row(4, "four"), row(5, "again")])
    await keyed.upsert(table, [row(None, "null"), row(2**63 - 1, "last"), row(0, "zero")])
    await keyed.delete(table, [[1]])
    expected = (
        [(INSERT, row(None, "null"))]
        + updated(row(None, "null"), row(5, "five"))
        + updated(row(5, "five"), row(5, "again"))
        + updated(row(5, "again"), row(2**63 - 1, "last"))
    )
    got = await keyed.changes(connection, table, len(expected))
    keyed.same_changes("versioned", expected, got)

    # Columns without a function keep their last value that is not null.
    table = await keyed.create(
        connection, path("keyed_aggregated"), ABC, ["a"], properties={engine: "aggregation"}
    )
    await keyed.upsert(table, [abc(1, "u", "1"), abc(1, None, "2"), abc(1, "n", None)])
    await keyed.delete(table, [[1]])
    await keyed.upsert(table, [{"a": 1, "c": "3"}], ["a", "c"])
    expected = (
        [(INSERT, abc(1, "u", "1"))]
        + updated(abc(1, "u", "1"), abc(1, "u", "2"))
        + updated(abc(1, "u", "2"), abc(1, "n", "2"))
        + updated(abc(1, "n", "2"), abc(1, "n", "3"))
    )
    got = await keyed.changes(connection, table, len(expected))
    keyed.same_changes("aggregation", expected, got)
    descriptor = fluss.TableDescriptor(
        fluss.Schema(AB, primary_keys=["a"]),
        properties={engine: "first_row", "table.delete.behavior": "ALLOW"},
    )
    await check.fails_with(
        "first_row that allows deletes",
        INVALID_CONFIG,
        connection.get_admin().create_table(path("refused"), descriptor, False),
    )
    check.passed("merge engines: first_row, versioned, aggregation by default")


async def _lookups(connection, path):
    schema = pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False),
            pa.field("b", pa.string(), nullable=False),
            pa.field("c", pa.int64(), nullable=False),
            ("d", pa.string()),
        ]
    )
    for name, properties in {
        "keyed_prefix": {},
        "keyed_prefix_paimon": {"table.datalake.format": "paimon"},
    }.items():
        table = await keyed.create(
            connection,
            path(name),
            schema,
            ["a", "b", "c"],
            bucket_count=3,
            bucket_keys=["a", "b"],
            properties=properties,
        )
        rows = [
            {"a": a, "b": b, "c": c, "d": f"{a} {b} {c}"}
            for a in (1, 2, -(2**31))
            for b in ("", "a", "aaaaaaaa", "aaaaaaaaa")
            for c in (1, 2, 3)
        ]
        await keyed.upsert(table, rows)
        for start in range(0, len(rows), 3):
            prefix = {"a": rows[start]["a"], "b": rows[start]["b"]}
            found = await keyed.prefix_lookup(table, ["a", "b"], prefix)
            check.equal(f"{name}: {prefix}", rows[start : start + 3], found)
        found = await keyed.prefix_lookup(table, ["a", "b"], [3, "a"])
        check.equal(f"{name}: a prefix of nothing", [], found)
        keys = [{"a": row["a"], "b": row["b"], "c": row["c"]} for row in rows]
        check.equal(f"{name}: whole keys", rows, await keyed.lookup(table, keys))
    check.passed("prefix lookups")


async def _partitions(connection, path):
    admin = connection.get_admin()
    where = path("keyed_parts")
    schema = pa.schema(
        [
            pa.field("region", pa.string(), nullable=False),
            pa.field("id", pa.int32(), nullable=False),
            ("amount", pa.float64()),
        ]
    )
    await keyed.create(
        connection, where, schema, ["id", "region"], partition_keys=["region"], bucket_count=2
    )
    regions = ["eu", "us"]
    for region in regions:
        await admin.create_partition(where, {"region": region}, False)
    ids = [info.partition_id for info in await admin.list_partition_infos(where)]
    table = await connection.get_table(where)
    rows = [
        {"region": region, "id": n, "amount": n / 4} for n in range(20) for region in regions
    ]
    await keyed.upsert(table, rows)
    await keyed.delete(table, [{"id": 3, "region": "us"}])
    keys = [{"id": row["id"], "region": row["region"]} for row in rows]
    for row, found in zip(rows, await keyed.lookup(table, keys)):
        gone = (row["id"], row["region"]) == (3, "us")
        check.equal(f"row {row['id']} of {row['region']}", None if gone else row, found)
    found = await keyed.lookup(table, [{"id": 1, "region": "nowhere"}])
    check.equal("a key in a partition that is not there", [None], found)
    await keyed.changes(connection, table, 41, ids)
    check.passed("partitions: the same key in two of them, lookups, deletes, changelog")


async def _numbered(connection, path):
    schema = pa.schema(
        [pa.field("k", pa.string(), nullable=False), ("uid", pa.int64()), ("note", pa.string())]
    )
    table = await keyed.create(
        connection,
        path("keyed_numbers"),
        schema,
        ["k"],
        auto_increment="uid",
        properties={"table.auto-increment.cache-size": "5"},
    )

    def row(n, note):
        return {"k": f"k{n}", "uid": n, "note": note}

    columns = ["k", "note"]
    await keyed.upsert(table, [{"k": f"k{n}", "note": "one"} for n in range(1, 13)], columns)
    await keyed.upsert(table, [{"k": "k4", "note": "two"}], columns)
    expected = [(INSERT, row(n, "one")) for n in range(1, 13)]
    expected += updated(row(4, "one"), row(4, "two"))
    got = await keyed.changes(connection, table, len(expected))
    keyed.same_changes("auto-increment", expected, got)
    check.passed("auto-increment: numbers kept by updates, ranges of 5")
