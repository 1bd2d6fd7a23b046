"""Databases, tables, partitions, offsets, limits, filters, buckets."""

import time

import fluss
import pyarrow as pa

import check
import scan

DATABASE_NOT_EXIST = 4
DATABASE_EXISTS = 6
TABLE_NOT_EXIST = 7
TABLE_EXISTS = 8
NOT_PARTITIONED = 37
PARTITION_NOT_EXIST = 36
INVALID_TIMESTAMP = 38
PARTITION_EXISTS = 42


async def databases(connection, database):
    print("databases and tables", flush=True)
    admin = connection.get_admin()
    await admin.drop_database(database, True, True)
    descriptor = fluss.DatabaseDescriptor("tables of the Python client", {"owner": "conformance"})
    await admin.create_database(database, descriptor, False)
    await check.fails_with(
        "create the database again",
        DATABASE_EXISTS,
        admin.create_database(database, None, False),
    )
    await admin.create_database(database, None, True)
    info = (await admin.get_database_info(database)).get_database_descriptor()
    check.equal("comment of the database", "tables of the Python client", info.comment)
    check.equal("its properties", {"owner": "conformance"}, info.get_custom_properties())
    check.that("the database is listed", database in await admin.list_databases())
    check.that("the database exists", await admin.database_exists(database))
    await check.fails_with(
        "describe a database that is not there",
        DATABASE_NOT_EXIST,
        admin.get_database_info("no_such_database"),
    )
    check.that("there are servers", len(await admin.get_server_nodes()) > 0)

    path = fluss.TablePath(database, "lifecycle")
    descriptor = fluss.TableDescriptor(
        fluss.Schema(pa.schema([pa.field("a", pa.int32(), nullable=False), ("b", pa.string())])),
        bucket_count=3,
        bucket_keys=["a"],
        comment="a table",
        properties={"table.log.ttl": "3 d"},
        custom_properties={"team": "storage"},
    )
    await admin.create_table(path, descriptor, False)
    await check.fails_with(
        "create the table again", TABLE_EXISTS, admin.create_table(path, descriptor, False)
    )
    info = await admin.get_table_info(path)
    check.equal("buckets", 3, info.num_buckets)
    check.equal("bucket keys", ["a"], info.get_bucket_keys())
    check.equal("comment", "a table", info.comment)
    check.equal("property", "3 d", info.get_properties().get("table.log.ttl"))
    check.equal("custom properties", {"team": "storage"}, info.get_custom_properties())
    check.equal("tables", ["lifecycle"], await admin.list_tables(database))
    await admin.drop_table(path)
    await check.fails_with("drop it again", TABLE_NOT_EXIST, admin.drop_table(path))
    check.that("the table is gone", not await admin.table_exists(path))
    check.passed("create, describe, list, drop")


async def partitions(connection, path):
    print("partitions", flush=True)
    admin = connection.get_admin()
    path = path("partitioned")
    schema = pa.schema([("id", pa.int32()), ("region", pa.string()), ("amount", pa.float64())])
    descriptor = fluss.TableDescriptor(
        fluss.Schema(schema), partition_keys=["region"], bucket_count=2, bucket_keys=["id"]
    )
    await admin.create_table(path, descriptor, False)
    regions = ["asia", "eu", "us"]
    for region in regions:
        await admin.create_partition(path, {"region": region}, False)
    await check.fails_with(
        "create a partition again",
        PARTITION_EXISTS,
        admin.create_partition(path, {"region": "eu"}, False),
    )
    infos = await admin.list_partition_infos(path)
    check.equal("partitions", regions, sorted(info.partition_name for info in infos))
    check.equal(
        "one partition",
        ["eu"],
        [i.partition_name for i in await admin.list_partition_infos(path, {"region": "eu"})],
    )
    deadline = time.monotonic() + 10
    for region in regions:
        while True:
            try:
                await admin.list_partition_offsets(
                    path, region, [0, 1], fluss.OffsetSpec.latest()
                )
                break
            except fluss.FlussError:
                check.that("partitions are ready within 10 s", time.monotonic() < deadline)
                time.sleep(0.02)
    table = await connection.get_table(path)
    writer = table.new_append().create_writer()
    written = {region: [] for region in regions}
    for number in range(60):
        for region in regions:
            row = {"id": number, "region": region, "amount": None if number % 7 == 0 else number / 4}
            writer.append(row)
            written[region].append(row)
    # Arrow batches of one partition each.
    for region in regions:
        rows = [{"id": 60 + n, "region": region, "amount": 0.5} for n in range(5)]
        writer.write_arrow_batch(pa.RecordBatch.from_pylist(rows, schema))
        written[region] += rows
    await writer.flush()
    scanner = await table.new_scan().create_log_scanner()
    names = {info.partition_id: info.partition_name for info in infos}
    scanner.subscribe_partition_buckets(
        {(partition, bucket): fluss.EARLIEST_OFFSET for partition in names for bucket in (0, 1)}
    )
    found = await scan.records(scanner, 3 * 65)
    read = {region: [] for region in regions}
    for (partition, _), records in found.items():
        read[names[partition]] += [record.row for record in records]
    for region in regions:
        check.equal(
            f"rows of partition {region}",
            written[region],
            sorted(read[region], key=lambda row: row["id"]),
        )
    check.passed("create, list, write and read three partitions")

    await admin.drop_partition(path, {"region": "us"}, False)
    await check.fails_with(
        "drop it again", PARTITION_NOT_EXIST, admin.drop_partition(path, {"region": "us"}, False)
    )
    await admin.drop_partition(path, {"region": "us"}, True)
    check.equal("partitions left", 2, len(await admin.list_partition_infos(path)))
    flat = fluss.TablePath(path.database_name, "not_partitioned")
    await admin.create_table(flat, fluss.TableDescriptor(fluss.Schema(schema)), False)
    await check.fails_with(
        "list the partitions of a table without",
        NOT_PARTITIONED,
        admin.list_partition_infos(flat),
    )
    check.passed("drop")
    check.cannot("pyfluss 1.0.0 does not create partitions while writing")


async def offsets(connection, path):
    print("offsets, limit scan", flush=True)
    admin = connection.get_admin()
    path = path("offsets")
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    await admin.create_table(
        path, fluss.TableDescriptor(fluss.Schema(schema), bucket_count=1), False
    )
    await scan.wait_until_ready(admin, path)

    async def offset(spec):
        return (await admin.list_offsets(path, [0], spec))[0]

    table = await connection.get_table(path)
    writer = table.new_append().create_writer()

    async def append(start, end):
        for number in range(start, end):
            writer.append([number, f"row {number}"])
        await writer.flush()

    check.equal("latest, empty", 0, await offset(fluss.OffsetSpec.latest()))
    await append(0, 10)
    # The two batches must not share a millisecond, nor the question with the
    # second one: a timestamp after the server's clock is refused.
    time.sleep(0.02)
    await append(10, 25)
    time.sleep(0.02)
    check.equal("earliest", 0, await offset(fluss.OffsetSpec.earliest()))
    check.equal("latest", 25, await offset(fluss.OffsetSpec.latest()))
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    rows = (await scan.records(scanner, 25))[(None, 0)]
    check.equal("ids", list(range(25)), [row.row["id"] for row in rows])
    times = [row.timestamp for row in rows]
    check.that("the second batch is later than the first", times[9] < times[10])
    for what, stamp, expected in [
        ("long before", times[0] - 1_000_000, 0),
        ("of the first batch", times[0], 0),
        ("just after the first batch", times[9] + 1, 10),
        ("of the second batch", times[10], 10),
        ("just after the second batch", times[24] + 1, 25),
    ]:
        check.equal(f"offset {what}", expected, await offset(fluss.OffsetSpec.timestamp(stamp)))
    await check.fails_with(
        "the offset of a timestamp in an hour",
        INVALID_TIMESTAMP,
        admin.list_offsets(path, [0], fluss.OffsetSpec.timestamp(times[24] + 3_600_000)),
    )
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, 13)
    ids = []
    deadline = time.monotonic() + 20
    while len(ids) < 12 and time.monotonic() < deadline:
        ids += [record.row["id"] for record in await scanner.poll(200)]
    check.equal("ids from the middle of a batch", list(range(13, 25)), ids)
    check.passed("earliest, latest, timestamp, start in the middle")

    bucket = fluss.TableBucket(table.get_table_info().table_id, 0)
    read = await table.new_scan().limit(5).create_bucket_batch_scanner(bucket).to_arrow()
    check.equal("the last five rows", list(range(20, 25)), read.column("id").to_pylist())
    read = await (
        table.new_scan()
        .project_by_name(["name"])
        .limit(3)
        .create_bucket_batch_scanner(bucket)
        .to_arrow()
    )
    check.equal(
        "the last three names",
        {"name": ["row 22", "row 23", "row 24"]},
        read.to_pydict(),
    )
    check.passed("limit scan")


async def filters(connection, path):
    print("filters", flush=True)
    admin = connection.get_admin()
    path = path("filtered")
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    descriptor = fluss.TableDescriptor(
        fluss.Schema(schema), bucket_count=1, properties={"table.statistics.columns": "*"}
    )
    await admin.create_table(path, descriptor, False)
    await scan.wait_until_ready(admin, path)
    table = await connection.get_table(path)
    writer = table.new_append().create_writer()
    for first in (0, 100, 200):
        for number in range(first, first + 10):
            writer.append([number, None if first == 100 else f"name {number:03}"])
        await writer.flush()
    cases = {
        "id >= 200": (fluss.col("id") >= 200, [200]),
        "id < 105": (fluss.col("id") < 105, [0, 100]),
        "name is null": (fluss.col("name").is_null(), [100]),
        "id in (3, 203)": (fluss.col("id").is_in([3, 203]), [0, 200]),
        "name starts with 'name 20'": (fluss.col("name").starts_with("name 20"), [200]),
    }
    for what, (predicate, firsts) in cases.items():
        scanner = await table.new_scan().filter(predicate).create_log_scanner()
        scanner.subscribe(0, fluss.EARLIEST_OFFSET)
        expected = [number for first in firsts for number in range(first, first + 10)]
        ids = []
        deadline = time.monotonic() + 20
        while len(ids) < len(expected) and time.monotonic() < deadline:
            ids += [record.row["id"] for record in await scanner.poll(200)]
        # Nothing else may follow.
        ids += [record.row["id"] for record in await scanner.poll(200)]
        check.equal(f"ids where {what}", expected, ids)
    check.passed("batches without a match stay on the server")


async def buckets(connection, path):
    print("buckets", flush=True)
    admin = connection.get_admin()
    path = path("keyed")
    schema = pa.schema([("key", pa.int64()), ("text", pa.string())])
    descriptor = fluss.TableDescriptor(
        fluss.Schema(schema), bucket_count=4, bucket_keys=["key"]
    )
    await admin.create_table(path, descriptor, False)
    await scan.wait_until_ready(admin, path, 4)
    table = await connection.get_table(path)
    writer = table.new_append().create_writer()
    writer.write_arrow(
        pa.table({"key": [n % 100 for n in range(1000)], "text": [f"row {n}" for n in range(1000)]})
    )
    await writer.flush()
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe_buckets({bucket: fluss.EARLIEST_OFFSET for bucket in range(4)})
    found = await scan.records(scanner, 1000)
    homes, texts = {}, set()
    for (_, bucket), records in found.items():
        for record in records:
            home = homes.setdefault(record.row["key"], bucket)
            check.equal(f"bucket of key {record.row['key']}", home, bucket)
            texts.add(record.row["text"])
    check.equal("keys", 100, len(homes))
    check.equal("rows", 1000, len(texts))
    check.equal("buckets used", 4, len(set(homes.values())))
    check.passed("bucket key: one bucket for each key")
