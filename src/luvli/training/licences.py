"""Follows everything that a recipe learns from to a licence.

    for item in trace_licences(recipe): print(item)

A recipe whose own licence is open (`licence: Apache-2.0 ...`) is refused unless every image,
label, head, skin, background, box, starting weight and model that labels or teaches is open too.
What is fitted after training (calibration) must be traced by whoever fits it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from luvli.data.sets import get_set
from luvli.errors import InputError
from luvli.files import unreadable
from luvli.models import model_names, read_card
from luvli.network.licence import is_open
from luvli.training.recipe import Recipe, Source, Synthetic, stage_of

HEADS = {"procedural": "Apache-2.0 (built in)", "ict": "MIT (ICT FaceKit, USC)"}
DETECTORS = {
    "labels": "Apache-2.0 (around the source's own labels)",
    "detector": "research only (YuNet is MIT; its box map is fitted to LFPW labels)",
    "detector-open": "MIT (YuNet; its box map is fitted to rendered heads and London portraits)",
}
UNKNOWN = "not stated"


class Ingredient(NamedTuple):
    """One thing that a recipe learns from."""

    place: str
    """where the recipe names it"""
    what: str
    licence: str

    @property
    def open(self) -> bool:
        """Whether anyone may use it for anything."""
        return is_open(self.licence)

    def __str__(self) -> str:
        return f"{self.place}: {self.what}: {self.licence}"


def trace_licences(recipe: Recipe) -> list[Ingredient]:
    """Everything that decides what the weights become, each with its licence.

    Sets that are only watched count too: a checkpoint is chosen by them.
    """
    found: list[Ingredient] = []
    sources = {f"data.sources.{name}": source for name, source in recipe.data.sources.items()}
    watched = {f"data.validation.{name}": part for name, part in recipe.data.validation.items()}
    for place, source in {**sources, **watched}.items():
        found += _of_source(place, source, recipe)
    for name, stage in recipe.stages.items():
        if stage.teacher is not None:
            found.append(_of_model(f"stages.{name}.teacher", stage.teacher))
    if recipe.init is not None:
        found.append(_of_model("init", recipe.init))
    return found


def check_licence(recipe: Recipe) -> None:
    """Refuse a recipe with an open licence that learns from anything that is not open."""
    if not is_open(recipe.licence):
        return
    closed = [item for item in trace_licences(recipe) if not item.open]
    if closed:
        raise InputError(
            f"{recipe.name} has the licence {recipe.licence!r}, but learns from "
            f"{'; '.join(str(item) for item in closed)}. Leave that out, or set licence to "
            "'research only'."
        )


def _of_source(place: str, source: Source, recipe: Recipe) -> Iterator[Ingredient]:
    if source.synthetic is not None:
        yield from _of_rendering(f"{place}.synthetic", source.synthetic, recipe)
    else:
        info = get_set(str(source.set))
        own = info.licence == "yours"  # a folder: only the recipe can know
        licence = (source.licence or UNKNOWN) if own else info.licence
        yield Ingredient(place, f"{info.name} {source.path}", licence)
    yield Ingredient(f"{place}.boxes", source.boxes, DETECTORS[source.boxes])
    if source.relabel is not None and stage_of(source.relabel) is None:
        yield _of_model(f"{place}.relabel", source.relabel)


def _of_rendering(place: str, synthetic: Synthetic, recipe: Recipe) -> Iterator[Ingredient]:
    kind = "procedural" if synthetic.head == "procedural" else "ict"
    yield Ingredient(f"{place}.head", synthetic.head, HEADS[kind])
    for what in ("textures", "backgrounds", "turned"):
        for name in synthetic.photographs(what):
            if name not in recipe.data.sources:  # a source is followed under its own name
                yield Ingredient(f"{place}.{what}", f"folder {name}", UNKNOWN)


def _of_model(place: str, model: str) -> Ingredient:
    if model in model_names():
        return Ingredient(place, model, read_card(model).licence)
    return Ingredient(place, model, _licence_in_file(Path(model)))


def _licence_in_file(path: Path) -> str:
    """What a model file says of itself; only its header is read. Nothing if it is not there."""
    if path.suffix != ".safetensors" or not path.is_file():
        return UNKNOWN
    try:
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        info = json.loads(header.get("__metadata__", {}).get("info", "{}"))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise InputError(f"{path} is not a model file: its header cannot be read.") from error
    return str(info.get("licence") or UNKNOWN)
