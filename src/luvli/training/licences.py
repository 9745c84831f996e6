"""Follows everything that a recipe learns from to a licence.

    for item in trace_licences(recipe): print(item)

A recipe whose own licence is open (`licence: Apache-2.0 ...`) is refused unless every image,
label, head, skin, background, box, starting weight and model that labels or teaches is open too.
What is fitted after training (calibration) must be traced by whoever fits it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from luvli.calibration.model_file import ModelFile
from luvli.data.sets import get_set
from luvli.errors import InputError
from luvli.models import model_names, read_card
from luvli.network.licence import is_open
from luvli.training.recipe import Recipe
from luvli.training.recipe_data import Source

HEADS = {True: "Apache-2.0 (built in)", False: "MIT (ICT FaceKit, USC)"}
"""by whether the head is procedural"""
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
    items: list[Ingredient] = []
    for name, source in recipe.data.sources.items():
        items += _of_source(f"data.sources.{name}", source, recipe)
    for name, source in recipe.data.validation.items():
        items += _of_source(f"data.validation.{name}", source, recipe)
    models = {f"stages.{name}.teacher": stage.teacher for name, stage in recipe.stages.items()}
    models["init"] = recipe.init
    return items + [_of_model(place, model) for place, model in models.items() if model]


def check_licence(recipe: Recipe) -> None:
    """Refuse a recipe with an open licence that learns from anything that is not open."""
    if not is_open(recipe.licence):
        return
    closed = [str(item) for item in trace_licences(recipe) if not item.open]
    if closed:
        raise InputError(
            f"{recipe.name} has the licence {recipe.licence!r}, but learns from "
            f"{'; '.join(closed)}. Leave that out, or set licence to 'research only'."
        )


def _of_source(place: str, source: Source, recipe: Recipe) -> Iterator[Ingredient]:
    if source.synthetic is not None:
        head = source.synthetic.head
        yield Ingredient(f"{place}.synthetic.head", head, HEADS[head == "procedural"])
        for name in source.synthetic.lenders():
            if name not in recipe.data.sources:  # a source is followed under its own name
                yield Ingredient(f"{place}.synthetic", f"folder {name}", UNKNOWN)
    else:
        info = get_set(str(source.set))
        own = info.licence == "yours"  # a folder: only the recipe can know
        licence = (source.licence or UNKNOWN) if own else info.licence
        yield Ingredient(place, f"{info.name} {source.path}", licence)
    yield Ingredient(f"{place}.boxes", source.boxes, DETECTORS[source.boxes])
    if source.relabel is not None and source.labeller is None:
        yield _of_model(f"{place}.relabel", source.relabel)


def _of_model(place: str, model: str) -> Ingredient:
    """A shipped model, by its card, or a model file, by what it says about itself."""
    name, path = model.partition("@")[0], Path(model)
    if name in model_names():
        return Ingredient(place, model, read_card(name).licence)
    known = path.suffix in (".onnx", ".safetensors") and path.is_file()
    return Ingredient(place, model, (ModelFile.read(path).info.licence if known else "") or UNKNOWN)
