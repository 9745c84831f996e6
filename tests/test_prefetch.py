"""Things made ready by another thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from luvli.errors import InputError
from luvli.prefetch import prefetch


def test_prefetching_passes_errors_and_stops_when_left() -> None:
    made = []

    def numbers() -> Iterator[int]:
        for i in range(1000):
            made.append(i)
            yield i
            if i == 500:
                raise InputError("five hundred")

    with pytest.raises(InputError, match="five hundred"):
        list(prefetch(numbers()))
    made.clear()
    for i in prefetch(numbers()):
        if i == 10:
            break
    assert len(made) < 20
