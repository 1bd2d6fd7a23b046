"""One column per data type and unit, with the samples it is tried with:
extremes, odd values and nulls. Arrow has no CHAR, so this client has none."""

import struct
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

NAN, INFINITY = float("nan"), float("inf")
DAY_END_MS = 86_399_999
# 9999-12-31T23:59:59 and 0001-01-01T00:00:00.
LATEST_S, EARLIEST_S = 253_402_300_799, -62_135_596_800
PAIR = pa.struct([("n", pa.int32()), ("label", pa.string())])


@dataclass
class Column:
    name: str
    type: pa.DataType
    samples: list
    fluss_type: str
    nullable: bool = True

    def array(self, rows):
        """The samples, repeated up to `rows`."""
        values = [self.samples[n % len(self.samples)] for n in range(rows)]
        return pa.array(values, self.type)


def _single(value):
    """The nearest value of single precision."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _floats(largest, smallest):
    return [-largest, largest, NAN, INFINITY, -INFINITY, 0.0, -0.0, smallest, None]


def _decimals(precision, scale):
    largest = Decimal((0, (9,) * precision, -scale))
    smallest = Decimal((0, (1,), -scale))
    return [largest, largest.copy_negate(), Decimal((0, (0,), -scale)), smallest, None]


def _timestamps(unit):
    """Integers of the unit, some before 1970. 64 bits of nanoseconds reach
    from 1677 to 2262."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    samples = [0, None, -per_second, -1, 1_700_000_000 * per_second + per_second // 3]
    if unit == "ns":
        return samples + [2**63 - 1, -(2**63) + 1_000_000]
    return samples + [LATEST_S * per_second, EARLIEST_S * per_second]


def _times(unit):
    """Integers of the unit; the wire never has more than milliseconds."""
    if unit == "s":
        return [0, 86_399, 43_200, None]
    per_ms = {"ms": 1, "us": 10**3, "ns": 10**6}[unit]
    return [0, DAY_END_MS * per_ms, per_ms, None]


def scalars():
    single_max = _single(3.4028234663852886e38)
    columns = [
        Column("bool", pa.bool_(), [True, False, None], "boolean"),
        Column("tinyint", pa.int8(), [-(2**7), 2**7 - 1, 0, None], "tinyint"),
        Column("smallint", pa.int16(), [-(2**15), 2**15 - 1, None], "smallint"),
        Column("int", pa.int32(), [-(2**31), 2**31 - 1, None], "int"),
        Column("bigint", pa.int64(), [-(2**63), 2**63 - 1, None], "bigint"),
        Column("float", pa.float32(), _floats(single_max, _single(1e-45)), "float"),
        Column("double", pa.float64(), _floats(1.7976931348623157e308, 5e-324), "double"),
        Column(
            "string",
            pa.string(),
            ["", "plain", None, "Grüße, 世界 🌊", "\0\n\t\"'\\", "x" * 70_000],
            "string",
        ),
        Column("bytes", pa.binary(), [b"", bytes(range(256)), None, b"\7" * 100_000], "bytes"),
        Column("binary_1", pa.binary(1), [b"\0", b"\xff", None], "binary(1)"),
        Column("binary_16", pa.binary(16), [bytes(range(16)), None, b"\xff" * 16], "binary(16)"),
        Column(
            "date",
            pa.date32(),
            [0, -719_162, 2_932_896, -1, -(2**31), 2**31 - 1, None],
            "date",
        ),
    ]
    # Both kinds: 64 bits up to precision 18, 128 bits above.
    for precision, scale in [(1, 0), (10, 2), (18, 18), (18, 0), (19, 0), (38, 10), (38, 38)]:
        columns.append(
            Column(
                f"decimal_{precision}_{scale}",
                pa.decimal128(precision, scale),
                _decimals(precision, scale),
                f"decimal({precision},{scale})",
            )
        )
    names = {"s": "(0)", "ms": "(3)", "us": "(6)", "ns": "(9)"}
    for unit, precision in names.items():
        time = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        columns.append(
            Column(f"time_{unit}", time, _times(unit), "time" if unit == "s" else f"time{precision}")
        )
        suffix = "" if unit == "us" else precision
        columns.append(
            Column(
                f"timestamp_{unit}", pa.timestamp(unit), _timestamps(unit), f"timestamp{suffix}"
            )
        )
        columns.append(
            Column(
                f"timestamp_ltz_{unit}",
                pa.timestamp(unit, "UTC"),
                _timestamps(unit),
                f"timestamp_ltz{suffix}",
            )
        )
    return columns


def nested(flat):
    """Arrays and maps of every scalar type, rows, and all of them in each other."""
    columns = []
    for scalar in flat:
        columns.append(
            Column(
                f"array_{scalar.name}",
                pa.list_(scalar.type),
                [scalar.samples, None, [], [None, None]],
                f"array<{scalar.fluss_type}>",
            )
        )
        columns.append(
            Column(
                f"map_string_{scalar.name}",
                pa.map_(pa.string(), scalar.type),
                [[(f"k{n}", sample) for n, sample in enumerate(scalar.samples)], None, []],
                f"map<string NOT NULL,{scalar.fluss_type}>",
            )
        )
    pair = "row<n: int, label: string>"
    columns += [
        Column(
            "map_int_row",
            pa.map_(pa.int32(), PAIR),
            [
                [
                    (-(2**31), {"n": 1, "label": "one"}),
                    (2**31 - 1, {"n": None, "label": None}),
                    (0, None),
                ],
                None,
                [],
            ],
            f"map<int NOT NULL,{pair}>",
        ),
        Column(
            "map_date_array",
            pa.map_(pa.date32(), pa.list_(pa.int64())),
            [[(-1, [-(2**63), None]), (1, []), (2, None)], None],
            "map<date NOT NULL,array<bigint>>",
        ),
        Column(
            "map_string_map",
            pa.map_(pa.string(), pa.map_(pa.string(), pa.float64())),
            [[("outer", [("", NAN)]), ("empty", [])], None],
            "map<string NOT NULL,map<string NOT NULL,double>>",
        ),
        Column(
            "array_array",
            pa.list_(pa.list_(pa.int32())),
            [[[1, None, 3], [], None], None, []],
            "array<array<int>>",
        ),
        Column(
            "array_row",
            pa.list_(PAIR),
            [[{"n": -1, "label": ""}, {"n": None, "label": None}, None], None],
            f"array<{pair}>",
        ),
        Column(
            "array_map",
            pa.list_(pa.map_(pa.string(), pa.int32())),
            [[[("k", None)], [], None], None],
            "array<map<string NOT NULL,int>>",
        ),
        Column(
            "row_pair",
            PAIR,
            [
                {"n": 2**31 - 1, "label": "max"},
                None,
                {"n": None, "label": None},
                {"n": -(2**31), "label": ""},
            ],
            pair,
        ),
    ]
    longest = max(len(scalar.samples) for scalar in flat)
    fields = ", ".join(f"f_{scalar.name}: {scalar.fluss_type}" for scalar in flat)
    columns.append(
        Column(
            "row_all",
            pa.struct([(f"f_{scalar.name}", scalar.type) for scalar in flat]),
            [
                {f"f_{s.name}": s.samples[n % len(s.samples)] for s in flat}
                for n in range(longest)
            ]
            + [None],
            f"row<{fields}>",
        )
    )
    return columns


def not_null():
    return [
        Column("int_not_null", pa.int32(), [-(2**31), 2**31 - 1], "int NOT NULL", False),
        Column("string_not_null", pa.string(), ["", "never null"], "string NOT NULL", False),
    ]


def every_type():
    flat = scalars()
    return flat + not_null() + nested(flat)


def table_of(columns):
    """An Arrow table in which every sample of every column occurs, behind an
    `id`; the last row is null wherever that is allowed."""
    rows = max(len(column.samples) for column in columns)
    fields = [pa.field("id", pa.int64(), nullable=False)]
    arrays = [pa.array(range(rows + 1), pa.int64())]
    for column in columns:
        fields.append(pa.field(column.name, column.type, nullable=column.nullable))
        last = pa.array([None if column.nullable else column.samples[0]], column.type)
        arrays.append(pa.concat_arrays([column.array(rows), last]))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
