"""What the formats share: checked JSON, loss warnings, names of landmarks."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter, ValidationError

from luvli.data.record import IMAGE_NAME, FaceRecord
from luvli.errors import InputError, LossWarning
from luvli.files import PathLike, read_text
from luvli.markup import get_markup, is_markup, markup_by_size, markup_names

Model = TypeVar("Model", bound=BaseModel)
Parsed = TypeVar("Parsed")


@overload
def parse_json(path: PathLike, model: type[Model], what: str) -> Model: ...
@overload
def parse_json(path: PathLike, model: TypeAdapter[Parsed], what: str) -> Parsed: ...
def parse_json(path: PathLike, model: Any, what: str) -> Any:
    """Read a JSON file into a pydantic model or type, or say which field is wrong."""
    source = Path(path)
    try:
        data = json.loads(read_text(source))
        if isinstance(model, TypeAdapter):
            return model.validate_python(data)
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise InputError(
            f"{source} is not {what}: at {place}, {first['msg'].lower()}; export it again."
        ) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{source} is not valid JSON ({error}): export it again.") from error


def default_markup(count: int) -> str:
    """The built-in markup with this many points, or a name that says only the count."""
    known = markup_by_size(count)
    return known.name if known else f"points{count}"


def landmark_names(markup: str, count: int) -> list[str]:
    """Names of the landmarks, or their numbers where the markup is not known."""
    if is_markup(markup) and get_markup(markup).size == count:
        return list(get_markup(markup).names)
    return [str(j) for j in range(count)]


def markup_of_names(names: Sequence[str]) -> str:
    """The markup whose landmarks have these names, else the default for the count."""
    for markup in markup_names():
        if list(get_markup(markup).names) == list(names):
            return markup
    return default_markup(len(names))


def warn_lost(path: PathLike, what: str) -> None:
    """Say aloud what the format could not hold."""
    warnings.warn(f"{path}: {what}", LossWarning, stacklevel=3)


def warn_if_predictions(path: PathLike, records: Iterable[FaceRecord], title: str) -> None:
    """Label formats have no place for a model's covariance and probabilities."""
    if any(r.covariance is not None or r.visibility_probability is not None for r in records):
        warn_lost(path, f"{title} cannot hold covariances or probabilities; they are left out.")


def image_name(record: FaceRecord) -> str:
    """How an image is called in a file: with forward slashes, on every system.

    Labels that were read without their images may know the name all the same (`IMAGE_NAME`).
    """
    return record.image.as_posix() if record.image else str(record.attributes.get(IMAGE_NAME, ""))


def row_name(record: FaceRecord) -> str:
    """What a face goes by in a format that knows only images: its image, or else its id."""
    return image_name(record) or record.face_id


def listed(array: NDArray[Any] | None) -> Any:
    """Nested lists for JSON, NaN as null."""
    if array is None:
        return None
    values = array.astype(object)
    values[np.isnan(array)] = None
    return values.tolist()


def floats(values: Any) -> NDArray[np.float64]:
    """The inverse of `listed`: null as NaN."""
    return np.array(values, dtype=np.float64)


def finite(value: float) -> float:
    """A float that is a place; for use in parsers that must not let NaN through."""
    if not math.isfinite(value):
        raise InputError("a coordinate is NaN or infinite.")
    return value
