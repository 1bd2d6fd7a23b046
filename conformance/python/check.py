"""Comparisons that end the program at the first wrong value and say which."""

import struct

import fluss
import pyarrow as pa


class Wrong(Exception):
    """Something differs from what it must be."""


def equal(what, expected, actual):
    if expected != actual:
        raise Wrong(f"{what}\n  expected: {_short(expected)}\n  actual:   {_short(actual)}")


def that(what, condition):
    if not condition:
        raise Wrong(what)


async def fails_with(what, code, call):
    """The awaitable must fail with this Fluss error code."""
    try:
        await call
    except fluss.FlussError as error:
        if error.error_code == code:
            return
        raise Wrong(f"{what}: expected error {code}, got {error.error_code}: {error}") from error
    raise Wrong(f"{what}: succeeded, expected error {code}")


def passed(what):
    print(f"  ok    {what}", flush=True)


def cannot(what):
    print(f"  cannot {what}", flush=True)


def plain(scalar):
    """An Arrow scalar of any type as something that compares by value: floats
    by their bits (NaN equals NaN, −0.0 differs from 0.0), times and timestamps
    as integers of their unit, so that no year is too far for Python."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_float32(kind):
        return struct.pack("<f", scalar.as_py())
    if pa.types.is_float64(kind):
        return struct.pack("<d", scalar.as_py())
    if pa.types.is_date32(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return scalar.value
    if pa.types.is_map(kind):
        # A map's scalar is a list of key-value structs.
        return [(plain(entry["key"]), plain(entry["value"])) for entry in scalar.values]
    if pa.types.is_list(kind):
        return [plain(item) for item in scalar.values]
    if pa.types.is_struct(kind):
        return {field.name: plain(scalar[field.name]) for field in kind}
    return scalar.as_py()


def _short(value):
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:600]}… ({len(text)} characters)"
