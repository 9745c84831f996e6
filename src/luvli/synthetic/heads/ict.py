"""Reads the ICT FaceKit morphable head: its folder of OBJ files, or one packed `.npz`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luvli.data.formats.common import load_arrays
from luvli.errors import InputError, brief
from luvli.files import PathLike, read_text
from luvli.synthetic.arrays import Bytes, Doubles, Ints, Singles
from luvli.synthetic.heads.head import Eyeball, Head
from luvli.synthetic.heads.own_modes import USUAL_FULLNESS, own_modes
from luvli.synthetic.raster.materials import Material

# The 68 Multi-PIE landmarks as vertices of the ICT topology. Some are not the model's own, which
# lie elsewhere than people label them: the jaw (0, 16) begins 0.05 of the eyes' distance below the
# eyes, where the ear is rooted; brows (17 to 26) are 5 mm lower, as those of the London portraits;
# the floor of the nose (31 to 35) is in the crease between nose and lip, 2 mm higher than on the
# lip; the lids (37, 38, 41, 43, 44, 46) stand at thirds of their length; the lips (56, 58, 61, 63,
# 65, 67) in the columns of the upper one's peaks (50, 52).
_LANDMARKS = [
    *(1884, 1888, 1052, 367, 1719, 1722, 2199, 1447, 966),
    *(3661, 4390, 3927, 3924, 2608, 3272, 4088, 4084),
    *(270, 1009, 1031, 2040, 2002, 4202, 4236, 3251, 3229, 2511),
    *(978, 4527, 4942, 4857, 68, 2076, 4558, 4270, 2309),
    *(1507, 1540, 1536, 1528, 1518, 1513, 3742, 3750, 3754, 3721, 3727, 3732),
    *(5708, 5695, 2081, 0, 4275, 6200, 6213, 6346, 6508, 5518, 6004, 5841),
    *(5702, 5736, 5533, 6241, 6207, 6485, 5517, 5981),
]

# Ranges of vertices in the fixed topology (first, one past the last).
_SKIN = (0, 11248)
_MOUTH = (11248, 13294)
_GUMS = (14062, 17039)
_TEETH = (17039, 21451)
_LEFT_EYE = (21451, 22221)
_RIGHT_EYE = (23021, 23791)
_VERTICES = 24591
_IDENTITIES = 32
"""modes read: each of the other 68 moves the face by less than 0.3 mm (root mean square)"""
_BEHIND = 7.0
"""teeth and gums with smaller z (cm) are out of sight in any open mouth"""


class _Raw(NamedTuple):
    neutral: Singles
    faces: Ints
    identity: Singles
    expression: Singles
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
    moves = raw.identity.shape[1:], raw.expression.shape[1:]
    if (
        moves != (raw.neutral.shape,) * 2
        or raw.faces.shape[1:] != (4,)
        or not ((raw.faces >= -1) & (raw.faces < _VERTICES)).all()
        or len(raw.names) != len(raw.expression)
    ):
        raise InputError(f"{source} has arrays that do not fit each other: download it again.")
    return _assemble(raw)


def _assemble(raw: _Raw) -> Head:
    raw = _with_own_modes(raw)
    quads = raw.faces
    four = quads[:, 3] >= 0
    triangles = np.concatenate([quads[:, :3], quads[four][:, [0, 2, 3]]])
    part = np.full(len(triangles), 255, np.uint8)
    first = triangles.max(axis=1)
    for kind, (low, high) in (
        (Material.SKIN, _SKIN),
        (Material.MOUTH, _MOUTH),
        (Material.GUMS, _GUMS),
        (Material.TEETH, _TEETH),
        (Material.EYE, _LEFT_EYE),
        (Material.EYE, _RIGHT_EYE),
    ):
        part[(first >= low) & (first < high)] = kind
    inside = np.isin(part, (Material.TEETH, Material.GUMS))
    part[inside & (raw.neutral[triangles, 2].max(axis=1) < _BEHIND)] = 255
    for low, high in (_LEFT_EYE, _RIGHT_EYE):  # the back of the balls turns never to the front
        middle = raw.neutral[low:high, 2].mean() - 0.4
        behind = (first >= low) & (first < high)
        part[behind & (raw.neutral[triangles, 2].max(axis=1) < middle)] = 255
    triangles, part = triangles[part < 255], part[part < 255]
    triangles, part = _coarsen(raw, triangles, part)
    kept, renumbered = np.unique(triangles, return_inverse=True)
    triangles = renumbered.reshape(-1, 3).astype(np.int32)
    position = np.full(_VERTICES, -1, np.int64)
    position[kept] = np.arange(len(kept))

    def flat(offsets: Singles) -> Singles:
        return np.ascontiguousarray(offsets[:, kept].reshape(len(offsets), -1), np.float32)

    def ball(span: tuple[int, int], corners: tuple[int, int]) -> Eyeball:
        inside = position[span[0] : span[1]]
        inside = inside[inside >= 0]
        return Eyeball(slice(int(inside.min()), int(inside.max()) + 1), corners)

    return Head(
        name="ict",
        neutral=np.ascontiguousarray(raw.neutral[kept], np.float32),
        triangles=triangles,
        part=part,
        identity=flat(raw.identity),
        expression=flat(raw.expression),
        expression_names=raw.names,
        landmarks=position[_LANDMARKS].astype(np.int32),
        eyeballs=(ball(_RIGHT_EYE, (36, 39)), ball(_LEFT_EYE, (45, 42))),
    )


def _with_own_modes(raw: _Raw) -> _Raw:
    """The head with the shapes of `own_modes` among its identities, and of the usual fullness."""
    modes = np.zeros((3, *raw.neutral.shape), np.float32)
    modes[:, : _SKIN[1]] = own_modes(raw.neutral[: _SKIN[1]], np.array(_LANDMARKS, np.int32))
    neutral = raw.neutral + np.float32(USUAL_FULLNESS) * modes[0]
    return raw._replace(neutral=neutral, identity=np.concatenate([raw.identity, modes]))


def _coarsen(raw: _Raw, triangles: Ints, part: Bytes) -> tuple[Ints, Bytes]:
    """Merge vertices where the model is finer than an image: everywhere but at the features.

    Vertices in one cell of a grid become the first of them; triangles that lose a corner go.
    Around eyes, nose and mouth every vertex stays. Both halves are treated alike, and what an
    opening jaw moves apart is kept apart.
    """
    place = raw.neutral
    index = np.arange(len(place))
    x, y, z = np.abs(place[:, 0]), place[:, 1], place[:, 2]
    features = place[_LANDMARKS[27:]]
    skin = index < _SKIN[1]
    near = np.zeros(len(place), bool)
    distance = np.linalg.norm(place[skin, None] - features[None], axis=2).min(axis=1)
    near[skin] = distance < 1.2
    cell = np.zeros(len(place))
    cell[skin & ~near] = 0.45
    cell[skin & ((z < 1.5) | (y < -9.5))] = 0.9
    cell[skin & (x > 6.9) & (z < 2.2) & (y > -4) & (y < 6)] = 0.35  # ears
    for (low, high), width in ((_MOUTH, 0.4), (_GUMS, 0.35), (_TEETH, 0.18)):
        cell[low:high] = width
    cell[x < 1e-3] = 0  # the seam between the halves stays as it is
    cell[_LANDMARKS] = 0
    jaw: Doubles = np.zeros(len(place))
    if "jawOpen" in raw.names:
        jaw = (raw.expression[raw.names.index("jawOpen"), :, 1] < -1.0).astype(np.float64)
    merged = index.copy()
    grid = np.flatnonzero(cell)
    size = cell[grid]
    row = np.floor(np.stack([x[grid], y[grid], z[grid]]) / size)
    key = np.stack([np.sign(place[grid, 0]), *row, size, jaw[grid]], axis=1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    merged[grid] = grid[first[inverse.ravel()]]
    corners = merged[triangles].astype(np.int32)
    a, b, c = corners.T
    whole = (a != b) & (b != c) & (c != a)
    return corners[whole], part[whole]


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
    neutral, faces = _read_obj(base, with_faces=True)
    identity_files = [folder / f"identity{i:03d}.obj" for i in range(_IDENTITIES)]
    identity_files = [file for file in identity_files if file.exists()]
    expression_files = sorted(
        file
        for file in folder.glob("*.obj")
        if file != base and not re.fullmatch(r"identity\d+", file.stem)
    )

    def offsets(files: list[Path]) -> Singles:
        shapes = []
        for file in files:
            shape, _ = _read_obj(file, with_faces=False)
            if shape.shape != neutral.shape:
                raise InputError(
                    f"{file} has {len(shape)} vertices, its neutral head {len(neutral)}: "
                    "download the model again."
                )
            shapes.append(shape - neutral)
        return np.array(shapes, np.float32).reshape(len(files), len(neutral), 3)

    return _Raw(
        neutral,
        faces,
        offsets(identity_files),
        offsets(expression_files),
        tuple(file.stem for file in expression_files),
    )


def _read_obj(path: Path, with_faces: bool) -> tuple[Singles, Ints]:
    """Vertices (n, 3) and, if asked for, faces (f, 4) with -1 in a triangle's last place."""
    vertices: list[list[str]] = []
    faces: list[list[int]] = []
    for line in read_text(path).splitlines():
        if line.startswith("v "):
            vertices.append(line.split()[1:4])
        elif with_faces and line.startswith("f "):
            corner = [int(word.split("/")[0]) - 1 for word in line.split()[1:5]]
            faces.append([*corner, -1][:4])
    try:
        return np.array(vertices, np.float32).reshape(-1, 3), np.array(faces, np.int32).reshape(
            -1, 4
        )
    except ValueError as error:
        raise InputError(f"{path} is not a readable OBJ file ({error}).") from error
