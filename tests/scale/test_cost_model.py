"""The cost model of benchmarks/scale.py, fitted to runs that follow it exactly."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/scale.py"


def test_exact_runs_give_their_coefficients_back(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("scale_benchmark", SCRIPT)
    assert spec is not None and spec.loader is not None
    scale = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, scale)  # dataclasses look their module up
    spec.loader.exec_module(scale)
    model = scale.CostModel(21.0, 0.004, 0.016, 0.009, 0.92)
    runs = []
    for megapixels, faces in scale.KINDS:
        for cores in (1, 2):
            clock = tuple(model.seconds(n, megapixels, cores, faces) for n in (200, 800))
            work = 0.004 + 0.016 * megapixels + 0.009 * faces
            runs.append(((megapixels, faces), cores, scale.Run((200, 800), clock, work)))
    np.testing.assert_allclose(scale.fit_cost_model(runs), model, rtol=1e-9)
    # 10^6 images * 20 ms / 0.5 = 40,000 s of a core: 5.6 hours on two cores
    row = scale.cost_table(scale.CostModel(36.0, 0.01, 0.02, 0.004, 0.5), 0.3)[0]
    assert row[:2] == ["1e+06", "5.6 h"]
