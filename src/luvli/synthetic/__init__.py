"""Synthetic faces: a 3-D head becomes a picture with exact points and visibility.

Nothing here is loaded before it is used: the renderer needs numba (the extra `train`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luvli.synthetic.faces import SyntheticFaces
    from luvli.synthetic.render import Sample, label_face, load_head, render_face
    from luvli.synthetic.write import synthesize

__all__ = ["Sample", "SyntheticFaces", "label_face", "load_head", "render_face", "synthesize"]

_HOME = {
    "Sample": "render",
    "SyntheticFaces": "faces",
    "label_face": "render",
    "load_head": "render",
    "render_face": "render",
    "synthesize": "write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from luvli.errors import require

    require("numba", "train")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
