"""The base of every typed configuration here: unknown keys are refused with the nearest one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


def check_keys(model: type[BaseModel], given: Any) -> Any:
    """`given` unchanged, or an error that names the unknown key and the nearest known one."""
    if isinstance(given, dict):
        for key in given:
            if key not in model.model_fields:
                raise ValueError(unknown_key(str(key), list(model.model_fields)))
    return given


def unknown_key(key: str, known: list[str]) -> str:
    """The sentence for a key that does not exist.

    >>> unknown_key("epoch", ["epochs", "loss"])
    "unknown key 'epoch': did you mean 'epochs'?"
    """
    near = get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f": did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
    return f"unknown key {key!r}{hint}"


class StrictConfig(BaseModel):
    """Frozen, typed, and strict about its keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _known_keys_only(cls, given: Any) -> Any:
        return check_keys(cls, given)
