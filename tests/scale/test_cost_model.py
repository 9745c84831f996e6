"""The cost model of benchmarks/scale.py, fitted to runs that follow it exactly."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/scale.py"
START, IMAGE, MEGAPIXEL, FACE, EFFICIENCY = 21.0, 0.004, 0.016, 0.009, 0.92


@pytest.fixture(scope="module")
def scale() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("scale_benchmark", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def exact_run(scale: Any, megapixels: float, cores: int, images: tuple[int, int]) -> Any:
    """What a run would measure if the model were the truth; stages wait for a core, too."""
    rest = IMAGE + MEGAPIXEL * megapixels
    clock = [START + n * (rest + FACE) / (cores * EFFICIENCY) for n in images]
    waiting = 1.7 * images[1]
    stages = {"read": 0.1 * rest, "decode": 0.5 * rest, "detect": 0.3 * rest, "write": 0.1 * rest,
              "crop": 0.2 * FACE, "network": 0.8 * FACE}  # fmt: skip
    stages = {name: waiting * seconds for name, seconds in stages.items()}
    return scale.Run(clock[0], clock[1], images, rest + FACE, stages)


def test_exact_runs_give_their_coefficients_back(scale: Any) -> None:
    runs = [(mp, cores, exact_run(scale, mp, cores, (200, 800)))
            for mp in (0.3, 2.0) for cores in (1, 2)]  # fmt: skip
    model = scale.fit_cost_model(runs)
    np.testing.assert_allclose(model, [START, IMAGE, MEGAPIXEL, FACE, EFFICIENCY], rtol=1e-9)
    for megapixels, cores, run in runs:
        assert model.seconds(800, megapixels, cores) == pytest.approx(run.all)


def test_a_slow_run_costs_efficiency_and_no_work(scale: Any) -> None:
    """Twice as long on the clock with the same processor time."""
    runs = []
    for megapixels in (0.3, 2.0):
        run = exact_run(scale, megapixels, 2, (200, 800))
        run.few, run.all = 2 * run.few, 2 * run.all
        runs.append((megapixels, 2, run))
    model = scale.fit_cost_model(runs)
    np.testing.assert_allclose(
        model, [2 * START, IMAGE, MEGAPIXEL, FACE, EFFICIENCY / 2], rtol=1e-9
    )


def test_the_table_is_the_formula(scale: Any) -> None:
    model = scale.CostModel(36.0, 0.01, 0.02, 0.004, 0.5)
    rows = scale.cost_table(model, [0.3])
    assert [row[0] for row in rows] == ["1e+06", "1e+08", "1e+10"]
    # 10^6 images * 20 ms / 0.5 = 40,000 s of a core: 11.1 hours, 5.6 on two cores
    assert rows[0][1:4] == ["0.3 MP", "11 core-hours", "5.6 h"]
    # 10^10: 4e8 s of a core, over 1024 of them 108.5 hours
    assert rows[2][2] == "111,111 core-hours" and rows[2][-1] == "108.5 h"
