"""The commands about model files: export, models, demo."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result as CliResult

from luvli.errors import InputError
from luvli.image.read import ImageArray
from luvli.prediction.predictor import Predictor, load

Command = Callable[..., CliResult]


def test_export_command(luvli: Command, tiny: dict[str, Path], tmp_path: Path) -> None:
    target = tmp_path / "again.onnx"
    done = luvli("export", tiny["torch"], "--onnx", target)
    assert done.exit_code == 0, done.output
    assert "differs from PyTorch by at most" in " ".join(done.output.split())
    assert target.read_bytes() == tiny["onnx"].read_bytes()
    for arguments, message in (
        ((tiny["onnx"], "--onnx", target), "is for ONNX Runtime"),
        (
            (tiny["torch"], "--onnx", target, "--int8", tmp_path / "no"),
            "too few to set 8-bit ranges",
        ),
        ((tmp_path / "no.safetensors", "--onnx", target), "does not exist"),
    ):
        done = luvli("export", *arguments)
        assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output


def test_models_command(luvli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import luvli.models as models

    card = {
        "name": "toy", "version": "1", "summary": "A toy.", "licence": "MIT",
        "intended_use": "Tests.", "limits": ["Everything."], "data": ["Nothing."],
        "recipe": "None.", "architecture": "Small.", "calibration": "None.",
        "headline": {"nme_300w": 3.21, "nme_merl_rav": 4.5, "milliseconds": 7.25},
        "tables": [{"title": "Accuracy", "headings": ["set", "NME"], "rows": [["a", "3.1"]],
                    "note": "Percent.", "command": "luvli evaluate"}],
    }  # fmt: skip
    (tmp_path / "toy.json").write_text(json.dumps(card))
    (tmp_path / "toy.onnx").write_bytes(b"x" * 2_000_000)
    monkeypatch.setattr(models, "FOLDER", tmp_path)
    listed = luvli("models", "list")
    assert listed.exit_code == 0 and "toy" in listed.output and "2.0 MB" in listed.output
    row = next(line for line in listed.output.splitlines() if "toy" in line)
    assert all(word in row for word in ("any", "3.21 %", "4.50 %", "7.2 ms"))
    shown = luvli("models", "show", "toy")
    assert all(word in shown.output for word in ("Everything.", "3.1", "Accuracy", "MIT"))
    page = luvli("models", "show", "toy")  # no terminal: Markdown
    assert "| a | 3.1 |" in page.output and page.output.startswith("# toy 1\n")
    wrong = luvli("models", "show", "tou")
    assert wrong.exit_code == 2 and "did you mean 'toy'" in wrong.output
    card["licence"] = 3
    (tmp_path / "toy.json").write_text(json.dumps(card))
    assert "at licence" in " ".join(luvli("models", "show", "toy").output.split())


def test_research_weights_are_refused_where_an_open_licence_is_asked_for(
    tiny: dict[str, Path], shipped: Predictor, tmp_path: Path
) -> None:
    from luvli.network import load_model, save_model

    with pytest.raises(InputError, match="research only"):
        load(licence="open")
    for path in tiny.values():  # says nothing about its licence
        with pytest.raises(InputError, match="not open"):
            load(path, licence="open")
    network, info = load_model(tiny["torch"])
    save_model(tmp_path / "free.safetensors", network, {**info, "licence": "Apache-2.0"})
    assert load(tmp_path / "free.safetensors", licence="open").info.licence == "Apache-2.0"
    with pytest.raises(InputError, match="one of open"):
        load(licence="free")  # type: ignore[arg-type]


def test_a_model_is_asked_with_the_detector_of_its_training(
    tiny: dict[str, Path], tmp_path: Path, astronaut: ImageArray
) -> None:
    from luvli.image.detect import detect_faces, get_detector
    from luvli.network import load_model, save_model

    network, info = load_model(tiny["torch"])
    save_model(tmp_path / "free.safetensors", network, {**info, "detector": "yunet-open"})
    (own,) = load(tmp_path / "free.safetensors").predict(astronaut)
    (open_box,) = detect_faces(astronaut, detector=get_detector("yunet-open"))
    (plain_box,) = detect_faces(astronaut)
    assert np.allclose(own.box, open_box.array) and not np.allclose(own.box, plain_box.array)
    save_model(tmp_path / "odd.safetensors", network, {**info, "detector": "dlib"})
    with pytest.raises(InputError, match="detector"):
        load(tmp_path / "odd.safetensors")


def test_shipped_card_is_complete(shipped: Predictor, luvli: Command) -> None:
    from luvli.models import FOLDER, read_card

    card = read_card("luvli-68")
    assert card.version == shipped.info.version
    assert "research" in card.licence.lower()
    assert len(card.tables) >= 4 and all(table.rows and table.note for table in card.tables)
    for suffix in (".onnx", ".safetensors"):
        assert (FOLDER / f"luvli-68{suffix}").stat().st_size < 12e6


def test_demo_needs_no_extra(
    luvli: Command, shipped: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "skimage", None)
    done = luvli("demo", "--out", tmp_path / "demo")
    assert done.exit_code == 0, done.output
    assert re.search(r"confidence +(> )?0\.\d\d", done.output)
    assert "least sure" in done.output and "mean uncertainty" in done.output
    written = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert written == ["astronaut.json", "astronaut.png"]


def test_int8_and_its_cost_on_labelled_faces(
    luvli: Command, tiny: dict[str, Path], lfpw: Path, tmp_path: Path
) -> None:
    """Ranges from images, costs from labels; an untrained network will do."""
    onnx_package = pytest.importorskip("onnx", reason="needs onnx")
    faces = tmp_path / "faces"
    faces.mkdir()
    for label in sorted(lfpw.glob("*.pts"))[:9]:
        image = next(p for p in lfpw.glob(f"{label.stem}.*") if p != label)
        (faces / label.name).symlink_to(label)
        (faces / image.name).symlink_to(image)
    model = tmp_path / "copy.safetensors"
    model.write_bytes(tiny["torch"].read_bytes())
    from luvli.prediction.predictor import load

    small = tmp_path / "small.onnx"
    arguments = ("--int8", faces, "--labels", faces)
    done = luvli("export", model, "--onnx", small, *arguments)
    assert done.exit_code == 0, done.output
    assert "NME_inter-ocular" in done.output and "inside the 95 % ellipse" in done.output
    info = load(small).info
    assert info.precision == "int8"
    kinds = {node.op_type for node in onnx_package.load(small).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
