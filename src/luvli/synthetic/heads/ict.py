"""Reads the ICT FaceKit morphable head: its folder of OBJ files, or one packed `.npz`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from luvli.data.formats.checked import load_arrays
from luvli.errors import InputError, brief
from luvli.files import PathLike, packaged_toml, read_text
from luvli.synthetic.arrays import Bytes, Doubles, Ints, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.regions import smoothstep
from luvli.synthetic.raster.materials import Material

_FACTS = packaged_toml(__package__, "ict.toml")
_PARTS, _VERTICES, _LANDMARKS = _FACTS["parts"], _FACTS["vertices"], np.array(_FACTS["landmarks"])
_SKIN = _PARTS["skin"][1]
"""the skin's vertices come first"""
_IDENTITIES = 32
"""modes read: each of the other 68 moves the face by less than 0.3 mm (root mean square)"""
_BEHIND = 7.0
"""teeth and gums with smaller z (cm) are out of sight in any open mouth"""

# Scans of young people in a studio vary too little. Beside the labels of the London portraits,
# rendered jaws were 2 mm slimmer on average, and both their breadth and the height of the brows
# varied by half as much again among people. Centimetres of one standard deviation:
_FULLNESS, _CHIN, _BROWS = 0.35, 0.30, 0.25
_USUAL_FULLNESS = 0.6
"""standard deviations by which people are fuller than the model's mean"""


class _Raw(NamedTuple):
    neutral: Singles
    """(n, 3)"""
    faces: Ints
    """(f, 4), -1 in a triangle's last place"""
    identity: Singles
    """(i, n, 3)"""
    expression: Singles
    """(e, n, 3)"""
    names: tuple[str, ...]


def load_ict(path: PathLike) -> Head:
    """The head at `path`: the folder `FaceXModel` of ICT FaceKit, or the packed `.npz`.

    Eye sockets, the inner iris shells and the back of the mouth are left out: no camera outside
    the head sees them.
    """
    source = Path(path)
    raw = _read_folder(source) if source.is_dir() else _read_packed(source)
    if raw.neutral.shape != (_VERTICES, 3):
        raise InputError(
            f"{source} has {len(raw.neutral)} vertices where ICT FaceKit has {_VERTICES}: "
            "use the full (not the light) model."
        )
    if (
        raw.identity.shape[1:] != raw.neutral.shape
        or raw.expression.shape != (len(raw.names), *raw.neutral.shape)
        or raw.faces.shape[1:] != (4,)
        or not ((raw.faces >= -1) & (raw.faces < _VERTICES)).all()
    ):
        raise InputError(f"{source} has arrays that do not fit each other: download it again.")
    return _assemble(raw)


def _assemble(raw: _Raw) -> Head:
    modes = _own_modes(raw.neutral)
    raw = raw._replace(
        neutral=raw.neutral + np.float32(_USUAL_FULLNESS) * modes[0],
        identity=np.concatenate([raw.identity, modes]),
    )
    four = raw.faces[raw.faces[:, 3] >= 0]
    triangles = np.concatenate([raw.faces[:, :3], four[:, [0, 2, 3]]])
    triangles, part = _visible(raw, triangles)
    kept, renumbered = np.unique(triangles, return_inverse=True)

    def flat(offsets: Singles) -> Singles:
        return np.ascontiguousarray(offsets[:, kept].reshape(len(offsets), -1), np.float32)

    return Head(
        name="ict",
        neutral=np.ascontiguousarray(raw.neutral[kept], np.float32),
        triangles=renumbered.reshape(-1, 3).astype(np.int32),
        part=part,
        identity=flat(raw.identity),
        expression=flat(raw.expression),
        expression_names=raw.names,
        landmarks=np.searchsorted(kept, _LANDMARKS).astype(np.int32),
        eyeballs=tuple(
            slice(*np.searchsorted(kept, _PARTS[f"{side}_eye"])) for side in ("right", "left")
        ),
    )


def _own_modes(neutral: Singles) -> Singles:
    """(3, n, 3) offsets of the vertices (n, 3): fuller jaw, longer chin, higher brows."""
    place, points = neutral[:_SKIN].astype(np.float64), neutral[_LANDMARKS].astype(np.float64)

    def around(some: Doubles, width: float) -> Doubles:
        square = ((place[:, None] - some[None]) ** 2).sum(axis=2).min(axis=1)
        return np.asarray(np.exp(-0.5 * square / width**2))

    modes: Singles = np.zeros((3, *neutral.shape), np.float32)
    skin = modes[:, :_SKIN]
    outward = place[:, :2] - (0.0, points[48:68, 1].mean())
    outward /= np.linalg.norm(outward, axis=1, keepdims=True) + 1.0
    skin[0, :, :2] = _FULLNESS * around(points[2:15], 2.2)[:, None] * outward
    lip, chin = points[57, 1], points[8, 1]
    skin[1, :, 1] = -_CHIN * smoothstep(0.0, 1.0, (lip - place[:, 1]) / (lip - chin))
    skin[2, :, 1] = _BROWS * around(points[17:27], 0.9)
    return modes


def _visible(raw: _Raw, triangles: Ints) -> tuple[Ints, Bytes]:
    """The triangles that a camera can see, and the `Material` of each."""
    nothing = 255
    part = np.full(len(triangles), nothing, np.uint8)
    last, front = triangles.max(axis=1), raw.neutral[triangles, 2].max(axis=1)
    for name, (low, high) in _PARTS.items():
        kind = Material[name.removeprefix("left_").removeprefix("right_").upper()]
        part[(last >= low) & (last < high)] = kind
        if kind == Material.EYE:  # the back of the balls turns never to the front
            middle = raw.neutral[low:high, 2].mean() - 0.4
            part[(last >= low) & (last < high) & (front < middle)] = nothing
    part[np.isin(part, (Material.TEETH, Material.GUMS)) & (front < _BEHIND)] = nothing
    return triangles[part < nothing], part[part < nothing]


def _read_packed(path: Path) -> _Raw:
    packed = load_arrays(path)
    try:
        return _Raw(
            packed["neutral"].astype(np.float32),
            packed["faces"].astype(np.int32),
            packed["identity"][:_IDENTITIES].astype(np.float32),
            packed["expression"].astype(np.float32),
            tuple(str(name) for name in packed["expression_names"]),
        )
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"{path} is not a packed ICT FaceKit head ({brief(error)}): "
            "give that file or the model's folder of OBJ files."
        ) from error


def _read_folder(folder: Path) -> _Raw:
    base = folder / "generic_neutral_mesh.obj"
    if not base.exists():
        raise InputError(
            f"{folder} has no generic_neutral_mesh.obj: give the FaceXModel folder of ICT FaceKit."
        )
    neutral = _read_obj(base, "v", 3)
    faces = _read_obj(base, "f", 4).astype(np.int32) - 1
    files = sorted(file for file in folder.glob("*.obj") if file != base)
    people = [file for file in files if re.fullmatch(r"identity\d+", file.stem)][:_IDENTITIES]
    moods = [file for file in files if not re.fullmatch(r"identity\d+", file.stem)]

    def offsets(shapes: list[Path]) -> Singles:
        modes = np.zeros((len(shapes), *neutral.shape), np.float32)
        for mode, file in zip(modes, shapes, strict=True):
            shape = _read_obj(file, "v", 3)
            if shape.shape != neutral.shape:
                raise InputError(
                    f"{file} has {len(shape)} vertices, its neutral head {len(neutral)}: "
                    "download the model again."
                )
            mode[:] = shape - neutral
        return modes

    names = tuple(file.stem for file in moods)
    return _Raw(neutral.astype(np.float32), faces, offsets(people), offsets(moods), names)


def _read_obj(path: Path, kind: Literal["v", "f"], width: int) -> Doubles:
    """(n, width) vertices ("v") or faces ("f"), counted from 1 and 0 in a triangle's last place."""
    lines = [line for line in read_text(path).splitlines() if line.startswith(f"{kind} ")]
    try:
        rows = [[float(word.split("/")[0]) for word in line.split()[1:]] for line in lines]
        return np.array([[*row, 0.0][:width] for row in rows]).reshape(-1, width)
    except ValueError as error:
        raise InputError(f"{path} is not a readable OBJ file ({error}).") from error
