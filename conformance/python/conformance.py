#!/usr/bin/env python3
"""conformance.py HOST:PORT: the official Python client creates, writes and
reads tables on the server there, and compares every value. Ends with status 1
at the first wrong one. Uses the database conformance_python."""

import asyncio
import sys
import time
import traceback

import fluss

import all_types
import check
import primary_key
import tables

DATABASE = "conformance_python"


def path(table):
    return fluss.TablePath(DATABASE, table)


async def run(server):
    config = fluss.Config({"bootstrap.servers": server, "writer.acks": "all"})
    config.writer_batch_timeout_ms = 10
    connection = await fluss.FlussConnection.create(config)
    await tables.databases(connection, DATABASE)
    await all_types.run(connection, path)
    await tables.partitions(connection, path)
    await tables.offsets(connection, path)
    await tables.buckets(connection, path)
    await tables.filters(connection, path)
    await primary_key.run(connection, path)
    check.cannot("pyfluss 1.0.0 has no ALTER TABLE: ADD COLUMN is tried by Rust and Java")
    await connection.get_admin().drop_database(DATABASE, False, True)
    await connection.close()


def main():
    if len(sys.argv) != 2:
        print("usage: conformance.py HOST:PORT", file=sys.stderr)
        return 2
    start = time.monotonic()
    try:
        asyncio.run(run(sys.argv[1]))
    except (check.Wrong, fluss.FlussError) as wrong:
        traceback.print_exc()
        print(f"pyfluss 1.0.0: WRONG: {wrong}", file=sys.stderr)
        return 1
    print(f"pyfluss 1.0.0: all passed in {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
