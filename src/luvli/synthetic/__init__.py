"""Synthetic faces: a 3-D head becomes an image with exact points and visibility.

Nothing here is loaded before it is used: the renderer needs numba (the extra `train`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from luvli._lazy import lazy

if TYPE_CHECKING:
    from luvli.synthetic.render import Sample, SyntheticFaces, label_face, load_head, render_face
    from luvli.synthetic.turned.faces import TurnedFaces
    from luvli.synthetic.write import synthesize

__all__ = [
    "Sample",
    "SyntheticFaces",
    "TurnedFaces",
    "label_face",
    "load_head",
    "render_face",
    "synthesize",
]

__getattr__ = lazy(
    __name__,
    {
        "Sample": "render",
        "SyntheticFaces": "render",
        "TurnedFaces": "turned.faces",
        "label_face": "render",
        "load_head": "render",
        "render_face": "render",
        "synthesize": "write",
    },
    needs={"numba": "train"},
)
