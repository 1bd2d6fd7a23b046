"""Every data type, in every compression and with statistics: appended as Arrow
batches, as rows and from pandas, read whole and projected, all compared."""

import datetime as dt
from decimal import Decimal

import fluss
import pandas as pd
import pyarrow as pa

import check
import columns as cols
import scan

COMPRESSION = "table.log.arrow.compression.type"
VARIANTS = {
    "every_type_default": {},
    "every_type_none": {COMPRESSION: "NONE"},
    "every_type_lz4": {COMPRESSION: "LZ4_FRAME"},
    "every_type_zstd": {COMPRESSION: "ZSTD"},
    "every_type_statistics": {"table.statistics.columns": "*"},
}


async def run(connection, path):
    admin = connection.get_admin()
    columns = cols.every_type()
    data = cols.table_of(columns)
    print(
        f"every type: {data.num_columns} columns, {data.num_rows} rows, {len(VARIANTS)} tables",
        flush=True,
    )
    for name, properties in VARIANTS.items():
        table = await _create(connection, path(name), data.schema, properties)
        check.equal(
            "types that the server returns",
            ["bigint NOT NULL"] + [column.fluss_type for column in columns],
            table.get_table_info().get_schema().get_column_types(),
        )
        writer = table.new_append().create_writer()
        # Each half in its own batch, so that reads cross a batch border.
        half = data.num_rows // 2
        for part in (data.slice(0, half), data.slice(half)):
            writer.write_arrow(part)
            await writer.flush()
        scan.same_table(name, data, await scan.arrow(table))
        await _projected(table, name, data)
        check.passed(f"{name}: Arrow batches, all columns, projections")
    await _rows(connection, path)
    await _pandas(connection, path)
    await admin.drop_table(path("every_type_none"))
    check.cannot("pyfluss 1.0.0 has no CHAR (Arrow has none) and no log formats but ARROW")
    check.cannot("pyfluss 1.0.0 writes ZSTD at level 3 only")


async def _create(connection, path, schema, properties=None):
    admin = connection.get_admin()
    descriptor = fluss.TableDescriptor(
        fluss.Schema(schema), bucket_count=1, properties=properties or {}
    )
    await admin.create_table(path, descriptor, False)
    await scan.wait_until_ready(admin, path)
    return await connection.get_table(path)


async def _projected(table, name, data):
    names = data.column_names
    projections = [[column] for column in names]
    projections += [names[::-1], names[::2], [names[-1], names[0], names[len(names) // 2]]]
    for projection in projections:
        scan.same_table(
            f"{name}, {len(projection)} columns",
            data.select(projection),
            await scan.arrow(table, projection),
        )


async def _rows(connection, path):
    """Python values, row by row, as dictionaries and as lists, nested ones too."""
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            ("flag", pa.bool_()),
            ("tiny", pa.int8()),
            ("big", pa.int64()),
            ("single", pa.float32()),
            ("number", pa.float64()),
            ("text", pa.string()),
            ("blob", pa.binary()),
            ("fixed", pa.binary(4)),
            ("amount", pa.decimal128(20, 4)),
            ("small_amount", pa.decimal128(9, 2)),
            ("day", pa.date32()),
            ("moment", pa.time32("ms")),
            ("wall", pa.timestamp("us")),
            ("instant", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.string())),
            ("scores", pa.map_(pa.string(), pa.int32())),
            ("profile", pa.struct([("age", pa.int32()), ("names", pa.list_(pa.string()))])),
        ]
    )
    table = await _create(connection, path("python_rows"), schema)
    utc = dt.timezone.utc
    rows = [
        {
            "id": 0,
            "flag": True,
            "tiny": -128,
            "big": -(2**63),
            "single": 0.5,
            "number": -1.7976931348623157e308,
            "text": "Grüße, 世界 🌊",
            "blob": bytes(range(256)),
            "fixed": b"\0\1\2\3",
            "amount": Decimal("-9999999999999999.9999"),
            "small_amount": Decimal("1234567.89"),
            "day": dt.date(1, 1, 1),
            "moment": dt.time(23, 59, 59, 999_000),
            "wall": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
            "instant": dt.datetime(9999, 12, 30, 21, 59, 59, 1, tzinfo=utc),
            "tags": ["", None, "x" * 1000],
            "scores": [("a", 1), ("b", None)],
            "profile": {"age": None, "names": ["n", None]},
        },
        dict.fromkeys(schema.names) | {"id": 1},
        {
            "id": 2,
            "flag": False,
            "tiny": 127,
            "big": 2**63 - 1,
            "single": float("inf"),
            "number": 5e-324,
            "text": "",
            "blob": b"",
            "fixed": b"\xff" * 4,
            "amount": Decimal("0.0001"),
            "small_amount": Decimal("-0.01"),
            "day": dt.date(9999, 12, 31),
            "moment": dt.time(0, 0),
            "wall": dt.datetime(1, 1, 1),
            "instant": dt.datetime(1970, 1, 1, tzinfo=utc),
            "tags": [],
            "scores": [],
            "profile": {"age": -1, "names": []},
        },
    ]
    writer = table.new_append().create_writer()
    handles = [
        writer.append(rows[0]),
        writer.append({"id": 1}),
        writer.append([rows[2][name] for name in schema.names]),
    ]
    for handle in handles:
        await handle.wait()
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    found = await scan.records(scanner, len(rows))
    for expected, record in zip(rows, found[(None, 0)]):
        for name in schema.names:
            check.equal(
                f"python_rows: {name} of row {record.offset}", expected[name], record.row[name]
            )
    check.passed("rows of Python values, nested ones too")
    check.cannot(
        "pyfluss 1.0.0 refuses Python datetimes before 1970 with a fraction of a millisecond"
        " (in Arrow batches they passed above)"
    )


async def _pandas(connection, path):
    frame = pd.DataFrame({"id": range(100), "name": [f"row {n}" for n in range(100)]})
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = await _create(connection, path("from_pandas"), schema)
    writer = table.new_append().create_writer()
    writer.write_pandas(frame)
    await writer.flush()
    scanner = await table.new_scan().create_record_batch_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    read = await scanner.to_pandas()
    check.equal("ids of a data frame", list(frame["id"]), list(read["id"]))
    check.equal("names of a data frame", list(frame["name"]), list(read["name"]))
    check.passed("pandas, both ways")
