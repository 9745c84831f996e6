"""Seeded damage: what disks, transfers and people who mean harm do to files."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

NUMBERS = (
    "nan", "NaN", "inf", "-inf", "Infinity", "1e308", "-1e308", "1e999", "1e-320", "0", "-0", "-1",
    "2147483648", "-9223372036854775809", "18446744073709551616", "9" * 5000, "0x10", "1_0", "",
    "null", "true", "1e5", "3.5", "[]", "{}", '"x"', "\u0661", "1,5",
)  # fmt: skip
"""what stands where a number should"""
VALUES: tuple[Any, ...] = (
    None, True, "", "x", "../../../etc/passwd", "\x00", "\ud800", [], {}, [[]], [None], [1, 2, 3],
    {"a": 1}, -1, 0, 1, 3, 10**30, -(10**30), 1e308, -1e308, float("nan"), float("inf"), 0.5,
    "9" * 400, [[1.0, 2.0]] * 68, [0.0] * 4, "laplace", "ibug68", "points3",
)  # fmt: skip
"""what stands where any value of a JSON should"""
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")

Mutator = Callable[[random.Random, bytes], bytes]


def flip_bits(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    length = rng.choice((1, 2, 4, 16, 200))
    filler = rng.choice((b"\xff", b"\x00", b"\x7f", b"\x80", None))
    new = rng.randbytes(length) if filler is None else filler * length
    return (data[:start] + new + data[start + length :])[: len(data)]


def header(rng: random.Random, data: bytes) -> bytes:
    """The beginning of a file says how large everything is."""
    limit = min(len(data), 160)
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 4))):
        changed[rng.randrange(limit)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(changed)


def truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def insert(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + rng.randbytes(rng.choice((1, 3, 64))) + data[start:]


def remove(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice((1, 3, 64, 1000)) :]


def repeat(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    part = data[start : start + rng.choice((1, 8, 300))]
    return data[:start] + part * rng.choice((2, 3, 50)) + data[start:]


def numbers(rng: random.Random, data: bytes) -> bytes:
    """Other numbers than a reader expects."""
    found = list(_NUMBER.finditer(data))
    if not found:
        return flip_bits(rng, data)
    for match in sorted(rng.sample(found, min(len(found), rng.choice((1, 1, 3)))), reverse=True,
                        key=lambda m: m.start()):  # fmt: skip
        new = rng.choice(NUMBERS).encode()
        data = data[: match.start()] + new + data[match.end() :]
    return data


def lines(rng: random.Random, data: bytes) -> bytes:
    """Lines lost, doubled, swapped, joined."""
    rows = data.split(b"\n")
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows))
    way = rng.randrange(4)
    if way == 0:
        del rows[i]
    elif way == 1:
        rows.insert(i, rows[j])
    elif way == 2:
        rows[i], rows[j] = rows[j], rows[i]
    else:
        rows[i : i + 2] = [b"".join(rows[i : i + 2])]
    return b"\n".join(rows)


def json_values(rng: random.Random, data: bytes) -> bytes:
    """One to three values of a JSON replaced by something else, or their keys lost."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return numbers(rng, data)
    for _ in range(rng.choice((1, 1, 3))):
        content = _edited(rng, content)
    return json.dumps(content).encode()


def _edited(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        changed = dict(value)
        if rng.random() < 0.15:
            del changed[key]
        else:
            changed[key] = _edited(rng, value[key])
        return changed
    if isinstance(value, list) and value and rng.random() < 0.8:
        i = rng.randrange(len(value))
        if rng.random() < 0.15:
            return value[:i] + value[i + 1 :]
        return [*value[:i], _edited(rng, value[i]), *value[i + 1 :]]
    return rng.choice(VALUES)


def nested(rng: random.Random, data: bytes) -> bytes:
    """Deeper than any stack."""
    del data
    opening = rng.choice((b"[", b'{"faces":', b'{"a":[', b"- ", b"<a>", b"(", b"[[["))
    return opening * rng.choice((1000, 100_000))


BINARY: tuple[Mutator, ...] = (
    flip_bits, flip_bits, overwrite, header, header, truncate, insert, remove, repeat,
)  # fmt: skip
TEXT: tuple[Mutator, ...] = (
    numbers, numbers, numbers, lines, lines, flip_bits, truncate, insert, remove, repeat, nested,
)  # fmt: skip
JSON: tuple[Mutator, ...] = (json_values, json_values, json_values, numbers, truncate, flip_bits,
                             nested)  # fmt: skip


def mutated(data: bytes, mutators: tuple[Mutator, ...], seed: int) -> bytes:
    """The same damage for the same seed; usually one kind, sometimes several."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 2))):
        data = rng.choice(mutators)(rng, data) or b"\x00"
    return data
