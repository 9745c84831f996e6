"""Names of a package that are looked up on first use (PEP 562), so that importing stays quick.

if TYPE_CHECKING:                       # for readers and type checkers
    from luvli.network.model import LUVLi

__getattr__ = lazy(__name__, {"LUVLi": "model"}, needs={"torch": "train"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any

from luvli.errors import require


def lazy(
    package: str,
    homes: Mapping[str, str],
    *,
    needs: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> Callable[[str], Any]:
    """A package's `__getattr__`: `homes` tells which of its modules each name is from.

    `needs` are packages, with the extra that brings them, which must be there first: whoever
    lacks one reads how to install it. The names in `without` do without them.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if name not in without:
            for module, extra in (needs or {}).items():
                require(module, extra)
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # next time without this function
        return value

    return find
