"""Skin from photographs: a face with 68 labelled points is unrolled onto the head's texture.

The head is posed to the photograph by its landmarks; what the pose leaves over is warped away,
so that every landmark's skin lands on the landmark. Broad light and shadow are divided out.
Where the camera did not see the skin, the other half of the face, and then plain skin of the
same tone, takes its place.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from luvli.data.formats import read_pts
from luvli.errors import InputError, require
from luvli.synthetic.backdrop import photographs
from luvli.synthetic.head import Head
from luvli.synthetic.regions import BROWS, HEIGHT, LIDS, LIPS, SPAN, WIDTH

_INNER = np.arange(17, 68)
_LINEAR = ((np.arange(256) / 255) ** 2.2).astype(np.float32)
_FOCAL = 3.0
"""focal length assumed for photographs, in units of their longer side"""


def random_texture(head: Head, folder: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """The skin of a random photograph in `folder`, and its tone.

    Returns (HEIGHT, WIDTH, 4) uint8: square roots of linear RGB, and the weight with which
    they count; and (3,) the linear tone of the skin. Photographs that are not labelled with
    68 points, or turned too far, are passed over.
    """
    files = _labelled(folder)
    for _ in range(40):
        found = _texture(head, files[rng.integers(len(files))])
        if found is not None:
            return found
    raise InputError(f"{folder} has hardly any frontal face with 68 points: add such photographs.")


@lru_cache(maxsize=4)
def _labelled(folder: str) -> tuple[Path, ...]:
    files = tuple(file for file in photographs(folder) if file.with_suffix(".pts").exists())
    if not files:
        raise InputError(f"{folder} holds no photograph with a .pts file beside it.")
    return files


@lru_cache(maxsize=96)
def _texture(head: Head, file: Path) -> tuple[Any, Any] | None:
    cv2 = require("cv2", "train")
    labelled = read_pts(file.with_suffix(".pts"), signed=False).points
    image = cv2.imread(str(file), cv2.IMREAD_COLOR)
    if image is None:
        raise InputError(f"{file} does not decode: take it out of the folder of textures.")
    if len(labelled) != 68 or np.ptp(labelled[:, 0]) < 60:
        return None
    pose = _fit(cv2, head, labelled, max(image.shape[:2]))
    if pose is None:
        return None
    rotation, project = pose
    places, normals, seen = head.unrolled
    coarse = 8
    columns, rows = np.meshgrid(np.arange(0, WIDTH, coarse), np.arange(0, HEIGHT, coarse))
    target = project(places[rows, columns].reshape(-1, 3))
    anchor = project(head.neutral[head.landmarks].astype(np.float64))
    residual = _spline(anchor, labelled - anchor, target)
    fine = (target + residual).reshape(*rows.shape, 2).astype(np.float32)
    way = cv2.resize(fine, (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)
    # resizing aligns cell edges; shift so that coarse sample k lies on texel 8 k
    move = np.array([[1, 0, -(coarse - 1) / 2], [0, 1, -(coarse - 1) / 2]])
    way = cv2.warpAffine(way, move, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REPLICATE)
    colours = cv2.remap(
        image[..., ::-1],
        way[..., 0],
        way[..., 1],
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    facing = np.clip((normals @ rotation[2] * -1 - 0.45) / 0.25, 0, 1) * seen
    height, width = image.shape[:2]
    x, y = way[..., 0], way[..., 1]
    inside = (x >= 2) & (y >= 2) & (x < width - 3) & (y < height - 3)
    weight = facing * inside * _face_window(head)
    light = _LINEAR[colours]
    return _finish(cv2, head, light, weight.astype(np.float32))


def _fit(cv2: Any, head: Head, points: Any, extent: int) -> Any:
    """Rotation and projection that lay the neutral head on the labelled points, or None."""
    model = head.neutral[head.landmarks].astype(np.float64)
    focal = _FOCAL * extent
    middle = points.mean(axis=0)
    camera = np.array([[focal, 0, middle[0]], [0, focal, middle[1]], [0, 0, 1]], np.float64)
    # OpenCV looks along z with y down: turn the head's axes first
    turned = model * (1, -1, -1)
    ok, turn, shift = cv2.solvePnP(
        turned[_INNER], points[_INNER].astype(np.float64), camera, None, flags=cv2.SOLVEPNP_EPNP
    )
    if ok:
        ok, turn, shift = cv2.solvePnP(
            turned[_INNER], points[_INNER], camera, None, turn, shift, True, cv2.SOLVEPNP_ITERATIVE
        )
    if not ok:
        return None
    rotation = cv2.Rodrigues(turn)[0] @ np.diag([1.0, -1.0, -1.0])
    yaw = np.degrees(np.arcsin(np.clip(rotation[0, 2], -1, 1)))
    pitch = np.degrees(np.arcsin(np.clip(rotation[1, 2], -1, 1)))

    def project(places: Any) -> Any:
        here = places @ rotation.T + shift.ravel()
        return focal * here[:, :2] / here[:, 2:] + middle

    off = np.linalg.norm(project(model)[_INNER] - points[_INNER], axis=1).mean()
    if abs(yaw) > 25 or abs(pitch) > 25 or off > 0.06 * np.ptp(points[:, 0]) or shift[2] < 0:
        return None
    return rotation, project


def _spline(anchor: Any, values: Any, at: Any) -> Any:
    """Thin-plate spline through `values` (k, 2) at `anchor` (k, 2), evaluated at (m, 2)."""
    scale = np.ptp(anchor, axis=0).max()

    def kernel(a: Any, b: Any) -> Any:
        square = _squares(a, b) / scale**2
        return square * np.log(square + 1e-9)

    k = len(anchor)
    system = np.zeros((k + 3, k + 3))
    system[:k, :k] = kernel(anchor, anchor) + 1e-4 * np.eye(k)
    system[:k, k:] = np.c_[np.ones(k), anchor / scale]
    system[k:, :k] = system[:k, k:].T
    solution = np.linalg.solve(system, np.concatenate([values, np.zeros((3, 2))]))
    result = kernel(at, anchor) @ solution[:k] + np.c_[np.ones(len(at)), at / scale] @ solution[k:]
    # far from all landmarks a spline runs away: there the pose alone is trusted
    far = np.sqrt(_squares(at, anchor).min(axis=1)) / scale
    return result * np.exp(-((far / 0.35) ** 4))[:, None]


def _squares(a: Any, b: Any) -> Any:
    """Squared distances between (m, 2) and (k, 2): (m, k)."""
    return (a[:, None, 0] - b[None, :, 0]) ** 2 + (a[:, None, 1] - b[None, :, 1]) ** 2


@lru_cache(maxsize=4)
def _face_window(head: Head) -> Any:
    """(HEIGHT, WIDTH) 1 on the face from just above the brows to the jaw, fading outside."""
    cv2 = require("cv2", "train")
    flat = head.regions.texture[head.landmarks]
    texel = HEIGHT / SPAN
    top = flat[17:27] - (0, 1.5 * texel)
    # the edge of a face in a photograph is already half background: stay inside it
    jaw = flat[1:16] + 0.2 * (flat[30] - flat[1:16]) * (1, 0.4)
    outline = np.concatenate([jaw, top[::-1]])
    window = np.zeros((HEIGHT, WIDTH), np.float32)
    cv2.fillPoly(window, [np.round(outline).astype(np.int32)], 1.0)
    window = cv2.erode(window, np.ones((5, 5)))
    return np.clip(cv2.GaussianBlur(window, (0, 0), 0.55 * texel) * 2 - 0.9, 0, 1)


@lru_cache(maxsize=4)
def _features(head: Head) -> Any:
    """(HEIGHT, WIDTH) where a face is not of the tone of its skin: lips, brows, eyes."""
    cv2 = require("cv2", "train")
    strongest = head.regions.maps[..., [LIPS, BROWS, LIDS]].max(axis=2)
    return cv2.dilate(strongest, np.ones((41, 41))) > 30


def _finish(cv2: Any, head: Head, light: Any, weight: Any) -> tuple[Any, Any] | None:
    """Fill in from the other half, divide broad light and shadow out, measure the tone."""
    mirrored, other = light[:, ::-1], weight[:, ::-1]
    take = np.clip(other - weight, 0, 1)[..., None]
    light = light * (1 - take) + mirrored * take
    weight = np.maximum(weight, other * 0.98)
    maps = head.regions.maps
    plain = (weight > 0.9) & (maps[..., LIPS] < 20) & (maps[..., BROWS] < 20)
    if plain.sum() < 2000:
        return None
    tone = np.median(light[plain], axis=0)
    natural = 1.15 < tone[0] / tone[1] < 3.2 and 0.45 < tone[2] / tone[1] < 1.2
    if not (natural and 0.05 < tone.mean() < 0.7):
        return None  # black-and-white, coloured light, or hardly any light
    texel = HEIGHT / SPAN
    # hair, hands and background are not skin: no weight where it is far off the tone
    features = _features(head)
    level = light @ np.full(3, 1 / 3, np.float32)
    ratio = (level + 0.01) / (tone.mean() + 0.01)
    odd = (ratio > np.exp(0.8)) | (ratio < np.exp(-0.8))
    foreign = cv2.dilate((odd & ~features).astype(np.float32), np.ones((9, 9)))
    weight = weight * (1 - np.clip(cv2.GaussianBlur(foreign, (0, 0), 0.25 * texel) * 1.5, 0, 1))
    plain &= weight > 0.9
    if plain.sum() < 2000:
        return None
    # broad shading, from skin alone
    mask = plain.astype(np.float32)
    small = cv2.resize(
        light * mask[..., None], (WIDTH // 8, HEIGHT // 8), interpolation=cv2.INTER_AREA
    )
    share = cv2.resize(mask, (WIDTH // 8, HEIGHT // 8), interpolation=cv2.INTER_AREA)
    sigma = 1.7 * texel / 8
    small, share = cv2.GaussianBlur(small, (0, 0), sigma), cv2.GaussianBlur(share, (0, 0), sigma)
    broad = (small + 0.05 * tone) / (share[..., None] + 0.05)
    shown = broad[plain[::8, ::8]].mean(axis=1)
    if np.std(np.log(shown + 0.01)) > 0.22:
        return None  # deep shadows, or hair, before the face
    gain = cv2.resize((tone / np.maximum(broad, 0.02)) ** 0.8, (WIDTH, HEIGHT))
    flattened = light * gain
    exposure = np.float32(np.clip(tone.mean(), 0.05, 0.55) / tone.mean())
    packed = np.sqrt(np.clip(flattened * exposure, 0, 1))
    texture = np.dstack([packed, weight]) * 255
    return np.ascontiguousarray(texture.astype(np.uint8)), (tone * exposure).astype(np.float32)


def unroll_surface(head: Head) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Place (h, w, 3), normal (h, w, 3) and presence (h, w) of the outermost skin of each texel."""
    from luvli.synthetic.head import Part
    from luvli.synthetic.raster import draw_triangles, vertex_normals

    triangles = np.ascontiguousarray(head.triangles[head.part == Part.SKIN])
    normals = np.zeros_like(head.neutral)
    vertex_normals(head.neutral, triangles, normals)
    flat = np.empty_like(head.neutral)
    flat[:, :2] = head.regions.texture
    flat[:, 2] = 1 + np.hypot(head.neutral[:, 0], head.neutral[:, 2])
    wide = np.ptp(flat[triangles, 0], axis=1) < 300  # not across the seam
    triangles = np.ascontiguousarray(triangles[wide])
    near = np.zeros((HEIGHT, WIDTH), np.float32)
    owner = np.full((HEIGHT, WIDTH), -1, np.int32)
    draw_triangles(flat, triangles, 0, True, near, owner)
    seen = owner >= 0
    y, x = np.nonzero(seen)
    a, b, c = (flat[triangles[owner[y, x], k], :2].astype(np.float64) for k in range(3))
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])
    u = ((x - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (y - a[:, 1])) / area
    v = ((b[:, 0] - a[:, 0]) * (y - a[:, 1]) - (x - a[:, 0]) * (b[:, 1] - a[:, 1])) / area
    weights = np.stack([1 - u - v, u, v], axis=1)
    result = []
    for values in (head.neutral, normals):
        layer = np.zeros((HEIGHT, WIDTH, 3), np.float32)
        layer[y, x] = np.einsum("mk,mkd->md", weights, values[triangles[owner[y, x]]])
        result.append(layer)
    return result[0], result[1], seen
