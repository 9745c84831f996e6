"""A short version of the long attack (`make hostile`): a few damaged files for every reader."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from hostile.fuzz import attack, good_file
from hostile.mutate import BINARY, JSON, TEXT, mutated
from hostile.readers import all_readers

READERS = all_readers()
TRIES = 6


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    """Any exception but ours fails; the seeds differ from those of the long version."""
    reader = READERS[name]
    good = good_file(reader, tmp_path)
    first = 1_000_000 + zlib.crc32(name.encode()) % 1000
    outcomes = [attack(reader, good, tmp_path, seed) for seed in range(first, first + TRIES)]
    assert [outcome for outcome in outcomes if outcome.kind == "failed"] == []


def test_damage_is_seeded_and_does_damage() -> None:
    content = b'{"faces": [{"points": [[1.0, 2.5], [3, 4]]}]}\n' * 3
    for mutators in (BINARY, TEXT, JSON):
        made = [mutated(content, mutators, seed) for seed in range(200)]
        assert made == [mutated(content, mutators, seed) for seed in range(200)]
        assert sum(new != content for new in made) > 150 and all(made)
