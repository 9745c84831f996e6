"""The shipped models: `NAME.onnx`, `NAME.safetensors` and a card, `NAME.json`, in this folder.

A card is what a user should know before trusting a model; `luvli models show NAME` prints it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from luvli.errors import InputError, unknown_choice
from luvli.files import PathLike, read_text, unreadable

FOLDER = Path(__file__).parent
SUFFIXES = {"onnx": ".onnx", "torch": ".safetensors"}
"""backend -> the kind of file it reads"""
DIGESTS = "digests.json"
"""which file each released version is, for recipes that name one"""


class CardTable(BaseModel):
    """One table of figures, each with the command that gives it."""

    model_config = ConfigDict(extra="forbid")

    title: str
    headings: list[str]
    rows: list[list[str]]
    note: str = ""
    """how it was measured: faces, normaliser, boxes"""
    command: str = ""


class Headline(BaseModel):
    """The few figures by which models are compared; all of them stand in the card's tables too."""

    model_config = ConfigDict(extra="forbid")

    nme_300w: float
    """held-out faces of LFPW and HELEN, image alone, % of the distance of the eyes"""
    nme_merl_rav: float
    """held-out faces of MERL-RAV, image alone, visible landmarks, % of the box"""
    milliseconds: float
    """landmarks of one face on one thread"""


class ModelCard(BaseModel):
    """What is known about a model: where it comes from, what it is for, how good it is."""

    model_config = ConfigDict(extra="forbid")

    name: str
    version: str
    summary: str
    licence: str
    """of the weights, with the reason"""
    intended_use: str
    limits: list[str]
    data: list[str]
    """the sets that it was trained on, with counts and licences"""
    recipe: str
    """the file to train it again, and what it amounts to"""
    architecture: str
    calibration: str
    headline: Headline | None = None
    tables: list[CardTable] = []
    """accuracy by subset with detector boxes and with given boxes, coverage, visibility
    accuracy, speed, size"""

    def markdown(self) -> str:
        """The card as a page."""
        sections = {
            "Licence of the weights": self.licence,
            "Intended use": self.intended_use,
            "Limits": "\n".join(f"- {item}" for item in self.limits),
            "Data": "\n".join(f"- {item}" for item in self.data),
            "Training": self.recipe,
            "Network": self.architecture,
            "Calibration": self.calibration,
        }
        parts = [f"# {self.name} {self.version}", self.summary]
        parts += [f"## {title}\n\n{text}" for title, text in sections.items()]
        parts += [_table(table) for table in self.tables]
        commands = dict.fromkeys(table.command for table in self.tables if table.command)
        parts += [f"Figures by `{command}`." for command in commands]
        return "\n\n".join(parts) + "\n"


def model_names() -> list[str]:
    """Names of the shipped models."""
    return sorted({path.stem for path in FOLDER.iterdir() if path.suffix in SUFFIXES.values()})


def find_model(name_or_path: PathLike, backend: str | None = None) -> Path:
    """A model file, from a shipped model's name or a path.

    A path wins where a file of that name exists. Of a shipped model the ONNX file comes first,
    because it needs no PyTorch; `backend` ("onnx" or "torch") asks for one kind of file.
    """
    if backend is not None and backend not in SUFFIXES:
        raise unknown_choice("backend", backend, SUFFIXES)
    if not isinstance(name_or_path, str | os.PathLike):
        raise InputError(
            f"a model is a name ({' or '.join(model_names())}) or the path of a file, not a "
            f"{type(name_or_path).__name__}."
        )
    path = Path(name_or_path)
    if path.suffix in SUFFIXES.values() or path.exists():
        return _check_kind(path, backend)
    for suffix in SUFFIXES.values() if backend is None else [SUFFIXES[backend]]:
        shipped = FOLDER / f"{path}{suffix}"
        if path.name == str(name_or_path) and shipped.is_file():
            return shipped
    files = f"the path of a model file ({' or '.join(SUFFIXES.values())})"
    raise InputError(f"{unknown_choice('model', str(path), model_names())} Or give {files}.")


def _check_kind(path: Path, backend: str | None) -> Path:
    if not path.is_file():
        raise unreadable(path)
    if path.suffix not in SUFFIXES.values():
        raise InputError(
            f"{path} is not a model file ({' or '.join(SUFFIXES.values())}): published checkpoints "
            "are converted with luvli models import."
        )
    if backend is not None and path.suffix != SUFFIXES[backend]:
        runtime, advice = "ONNX Runtime", "give the .safetensors file"
        if backend == "onnx":
            runtime = "PyTorch"
            advice = f"write an ONNX file with luvli export {path} --onnx {path.stem}.onnx"
        raise InputError(f"{path} is for {runtime}: leave the backend to the file, or {advice}.")
    return path


def known_digests() -> dict[str, dict[str, str]]:
    """Shipped model -> version -> SHA-256 of its `.safetensors` file, of all released versions."""
    digests: dict[str, dict[str, str]] = json.loads(read_text(FOLDER / DIGESTS))
    return digests


def read_card(name: str) -> ModelCard:
    """The card of a shipped model."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        cards = [each for each in model_names() if (FOLDER / f"{each}.json").is_file()]
        raise unknown_choice("model", name, cards)
    try:
        return ModelCard.model_validate_json(read_text(path))
    except ValidationError as error:
        first: Any = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path} is not a model card: at {place}, {first['msg']}.") from error


def _table(table: CardTable) -> str:
    rule = ["---"] + ["---:"] * (len(table.headings) - 1)
    rows = ["| " + " | ".join(row) + " |" for row in (table.headings, rule, *table.rows)]
    parts = (f"## {table.title}", "\n".join(rows), table.note)
    return "\n\n".join(part for part in parts if part)
