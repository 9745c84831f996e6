"""What importing costs, and what it must not bring along."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import luvli
from luvli.errors import InputError

TELEMETRY = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")


def after(code: str) -> dict[str, object]:
    """Modules of a fresh interpreter that has run `code`."""
    script = (
        f"import sys\n{code}\nimport json\nprint(json.dumps({{'modules': sorted(sys.modules)}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_importing_luvli_is_light() -> None:
    found = after("import luvli")
    loaded = {str(name).split(".")[0] for name in found["modules"]}  # type: ignore[attr-defined]
    assert "luvli" in loaded
    assert not loaded & {
        "numpy",
        "cv2",
        "PIL",
        "onnxruntime",
        "pydantic",
        "torch",
        "scipy",
        "matplotlib",
    }


def test_loading_a_model_brings_neither_torch_nor_readers_of_data_sets() -> None:
    found = after("import luvli.prediction.predictor, luvli; luvli.load('luvli-68', threads=1)")
    names = {str(name) for name in found["modules"]}  # type: ignore[attr-defined]
    rooms = {".".join(name.split(".")[:2]) for name in names if name.startswith("luvli.")}
    assert "luvli.prediction" in rooms
    assert not rooms & {"luvli.data", "luvli.synthetic", "luvli.evaluation", "luvli.training"}
    assert not {name.split(".")[0] for name in names} & {"torch", "safetensors", "matplotlib", "av"}


def test_nothing_is_reported_about_the_machine(tmp_path: Path) -> None:
    """ONNX Runtime's telemetry would keep its events and a device number below the home folder."""
    environment = {name: value for name, value in os.environ.items() if name not in TELEMETRY}
    code = (
        "import numpy, luvli\n"
        "luvli.load('luvli-68', threads=1).predict(numpy.zeros((64, 64, 3), numpy.uint8))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert not [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name]


def test_unknown_attributes_are_missing_as_in_any_module() -> None:
    import luvli.image
    import luvli.network

    for module in (luvli, luvli.image, luvli.network):
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            module.nonsense  # noqa: B018
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import luvli.network
    from luvli.prediction import predictor

    monkeypatch.delitem(luvli.network.__dict__, "build", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"'torch'.*pip install 'luvli\[train\]'"):
        luvli.network.build  # noqa: B018
    monkeypatch.setattr(predictor, "find_spec", lambda name: None)
    (tmp_path / "m.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"m\.safetensors runs with PyTorch, which"):
        luvli.load(tmp_path / "m.safetensors")


def test_the_library_is_silent_until_asked(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    luvli.load("luvli-68", threads=1)
    assert capfd.readouterr() == ("", "")
    with caplog.at_level(logging.INFO, logger="luvli"):
        luvli.load("luvli-68", threads=1)
    assert "loaded luvli-68" in caplog.text
