"""Everything that a recipe learns from: whether it is there, and what its licence allows.

    for item in ingredients(recipe): print(item)

A recipe whose own licence is open (`licence: Apache-2.0 ...`) is refused unless every image,
label, head, skin, background, box, starting weight and teacher (or model that labels) is open too.
What is fitted after training (calibration) must be traced by whoever fits it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from luvli.calibration.model_file import ModelFile
from luvli.data.sets import get_set
from luvli.errors import InputError
from luvli.files import PathLike, unreadable
from luvli.models import find_model, known_digests, model_names, read_card
from luvli.network.licence import is_open
from luvli.training.recipe import Recipe
from luvli.training.recipe_data import Data, Source

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
    find: Callable[[], Path] | None = None
    """gives its path, or raises `InputError` where it is not there; None for what is built in"""

    @property
    def open(self) -> bool:
        """Whether anyone may use it for anything."""
        return is_open(self.licence)

    def __str__(self) -> str:
        return f"{self.place}: {self.what}: {self.licence}"


def ingredients(recipe: Recipe) -> list[Ingredient]:
    """Everything that decides what the weights become.

    Sets that are only watched count too: a checkpoint is chosen by them. What `stage:NAME` names is
    made by the run itself.
    """
    data = recipe.data
    items: list[Ingredient] = []
    for part, sources in (("sources", data.sources), ("validation", data.validation)):
        for name, source in sources.items():
            items += _of_source(f"data.{part}.{name}", source, data)
    models = {f"stages.{name}.teacher": stage.teacher for name, stage in recipe.stages.items()}
    models["init"] = recipe.init
    return items + [_of_model(place, model) for place, model in models.items() if model]


def check_recipe_licence(recipe: Recipe) -> None:
    """Refuse a recipe with an open licence that learns from anything that is not open."""
    if not is_open(recipe.licence):
        return
    closed = [str(item) for item in ingredients(recipe) if not item.open]
    if closed:
        raise InputError(
            f"{recipe.name} has the licence {recipe.licence!r}, but learns from "
            f"{'; '.join(closed)}. Leave that out, or set licence to 'research only'."
        )


def check_files(recipe: Recipe, resumed: bool = False) -> None:
    """Refuse a recipe that names models or folders that are not there.

    Called before anything is read, detected, rendered or cached. A `resumed` run has its weights
    already.
    """
    for item in ingredients(recipe):
        if item.find is not None and not (resumed and item.place == "init"):
            item.find()


def source_folder(place: str, source: Source, data: Data) -> Path:
    """The folder of a data set, if it is there."""
    if source.path == "." and "root" not in data.model_fields_set:
        # else everything below the folder that one happens to stand in would be learnt from
        raise InputError(
            "data.root was not set: --set data.root=FOLDER names the folder of your faces."
        )
    return _existing(place, source.path, data)


def _existing(place: str, path: str, data: Data) -> Path:
    whole = Path(data.root).expanduser() / path
    if not whole.exists():
        raise InputError(
            f"{whole} does not exist: {place} is read from it; name the folder above it with "
            "--set data.root=FOLDER."
        )
    return whole


def model_file(name: PathLike) -> Path:
    """The file of a shipped model, by its name or NAME@VERSION, or the path itself.

    It must be there. A version is that of one file: any other one is refused by its digest.
    """
    if Path(name).is_file():
        return Path(name)
    model, at, version = str(name).partition("@")
    if Path(name).suffix and not at:
        raise unreadable(Path(name))
    path = find_model(model, "torch")  # refuses an unknown name with those that there are
    if at and (known := known_digests()[model]).get(version) != (digest := _digest(path)):
        shipped = next((v for v, other in known.items() if other == digest), "unknown")
        raise InputError(
            f"{model} {version} is needed, but the file that is shipped is version {shipped} (by "
            f"its digest): train {version} with the recipe {model} and name its file."
        )
    return path


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _of_source(place: str, source: Source, data: Data) -> Iterator[Ingredient]:
    if source.synthetic is not None:
        head, built_in = source.synthetic.head, source.synthetic.head == "procedural"
        find = None if built_in else partial(_existing, f"{place}.synthetic", head, data)
        yield Ingredient(f"{place}.synthetic.head", head, HEADS[built_in], find)
        for name in source.synthetic.lenders():
            if name not in data.sources:  # a source is followed under its own name
                find = partial(_existing, f"{place}.synthetic", name, data)
                yield Ingredient(f"{place}.synthetic", f"folder {name}", UNKNOWN, find)
    else:
        info = get_set(str(source.set))
        own = info.licence == "yours"  # a folder: only the recipe can know
        licence = (source.licence or UNKNOWN) if own else info.licence
        find = partial(source_folder, place, source, data)
        yield Ingredient(place, f"{info.name} {source.path}", licence, find)
    yield Ingredient(f"{place}.boxes", source.boxes, DETECTORS[source.boxes])
    if source.relabel is not None and source.labeller is None:
        yield _of_model(f"{place}.relabel", source.relabel)


def _of_model(place: str, model: str) -> Ingredient:
    """A shipped model, by its card, or a model file, by what it says about itself."""
    name, path = model.partition("@")[0], Path(model)
    licence = ""
    if name in model_names():
        licence = read_card(name).licence
    elif path.suffix in (".onnx", ".safetensors") and path.is_file():
        licence = ModelFile.read(path).info.licence
    return Ingredient(place, model, licence or UNKNOWN, partial(model_file, model))
