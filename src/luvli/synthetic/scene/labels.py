"""Where the 68 points are in the image, and the three classes of visibility, from geometry.

A landmark is hidden by the head itself when the ray from the camera to it meets the head's
surface first. Two tolerances stand between exact rays and what people label: a surface that is
less than its `GRAZE` nearer than the landmark does not hide it (it is the landmark's own fold of
skin), and a point that peeks out by less than that is not called hidden either.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.data.record import Visibility
from luvli.image.polyline import points_along
from luvli.synthetic.arrays import Bools, Doubles, Ints, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.regions import smoothstep
from luvli.synthetic.raster.triangles import SAMPLES, SCALP_HAIR, surface_depth
from luvli.synthetic.scene.pose import Camera

JawConvention = Literal["outline", "3d"]

GRAZE = np.full(68, 0.35)
"""(68,) centimetres; more where the landmark sits in a fold: jaw, eyes, mouth"""
GRAZE[:17], GRAZE[27:31], GRAZE[31:36] = 0.8, 0.8, 0.12
GRAZE[36:48], GRAZE[48:60], GRAZE[60:68], GRAZE[33] = 1.1, 0.3, 0.8, 0.6
_TURNED = (5.0, 40.0)
"""degrees of yaw over which the near jaw moves from a front view's outline to the face's end"""
_LIFTED = 15.0
"""degrees by which a camera looks at the face from below when the jaw's underside is a surface"""
_CONTACT = 0.35
"""centimetres that a covering object may lie deeper than the landmark (hair on slanted skin)"""


class Labels(NamedTuple):
    """The truth about the 68 landmarks of one image."""

    points: Doubles
    """(68, 2) image pixels, also for hidden landmarks"""
    points_3d: Doubles
    """(68, 3) camera coordinates in centimetres (x right, y up, z to the camera)"""
    self_occluded: Bools
    """(68,)"""


def place_landmarks(
    head: Head, vertices: Singles, triangles: Ints, camera: Camera, jaw: JawConvention
) -> Labels:
    """Landmarks of a head with camera coordinates `vertices` (n, 3).

    `triangles` are the surfaces that can hide something: the head without what it wears.
    """
    screen = camera.project(vertices, SAMPLES)
    index, nudge = head.landmarks.copy(), np.zeros((68, 3))
    place = vertices[index].astype(np.float64)
    if jaw == "outline":
        index[:17], gone, nudge[:17, :2], stayed = outline(head, vertices, screen)
        edge = _over_the_edge(head, vertices, camera)
        place[:17] = vertices[index[:17]] + stayed[:, None] * edge
    # a point of the outline lies on the horizon, where rounding decides what is before what:
    # it is hidden only if something also hides the place just outside of it
    hidden = hidden_behind(screen[index] + nudge, screen, triangles)
    pixels = camera.project(place)[:, :2]
    if jaw == "outline":
        hidden[:17] |= gone
        for half, side, upper in (
            (slice(0, 9), slice(0, 8), slice(1, 5)),
            (slice(8, 17), slice(9, 17), slice(12, 16)),
        ):
            # people stop labelling a side of the jaw as a whole, not point by point, and
            # share out evenly what has no places of its own
            hidden[side] |= hidden[upper].sum() >= 3
            both = np.column_stack([pixels[half], place[half]])
            even = points_along(pixels[half], np.linspace(0, 1, 9).tolist(), both)
            pixels[half], place[half] = even[:, :2], even[:, 2:]
    return Labels(pixels, place, hidden)


def outline(head: Head, vertices: Singles, screen: Singles) -> tuple[Ints, Bools, Doubles, Doubles]:
    """Slide jaw points over the skin to where people label them.

    Returns (17,) vertices, (17,) whether no contour of the jaw is left, (17, 2) a short way
    outwards on the screen, 2 % of the face's height, and (17,) how far each stayed at its
    place, from 1 to 0.

    On the side that turns away, each jaw point moves inwards (`Head.jaw_paths`) to the
    outermost vertex on the screen. Where that is the end of the path, the contour of the face
    at this height is no longer its jaw, and the point is self-occluded. On the side that turns
    to the camera, it moves back to the ear and the edge of the jaw as they come into view.
    """
    paths, row = head.jaw_paths, np.arange(17)
    chin, brow = screen[head.landmarks[8], :2], screen[head.landmarks[27], :2]
    height = np.linalg.norm(chin - brow)
    down = (chin - brow) / (height + 1e-6)
    right = np.array([down[1], -down[0]])  # across the face, to the image's right when upright
    middle = 8 - row
    outward = np.where(middle[:, None] > 0, -right, right)
    reach = np.einsum("jmd,jd->jm", screen[paths.inwards, :2], outward)
    best = reach.argmax(axis=1)
    best[reach[row, best] < reach[:, 0] + 0.002 * height] = 0
    last = paths.inwards.shape[1] - 1
    gone = (best >= last) & (middle != 0)
    # towards the chin the contour runs level, and leaving the face means going down
    level = np.clip((np.abs(middle) - 1) / 4, 0, 1)[:, None]
    nudge = 0.02 * height * (level * outward + (1 - level) * down)
    across = vertices[head.landmarks[16]] - vertices[head.landmarks[0]]
    turn = np.degrees(np.arcsin(across[2] / np.linalg.norm(across)))  # > 0: point 16 is nearer
    share = smoothstep(*_TURNED, np.where(middle > 0, -turn, turn))
    back = np.round(share * (paths.back.shape[1] - 1)).astype(int)
    index = np.where(back > 0, paths.back[row, back], paths.inwards[row, best])
    stayed = np.where(back > 0, 1 - 0.5 * share, 1 - best / last)
    return index.astype(np.int32), gone & (back == 0), nudge, stayed


def _over_the_edge(head: Head, vertices: Singles, camera: Camera) -> Doubles:
    """(17, 3) from each jaw landmark to where the face ends before the neck, in centimetres.

    A camera level with the face sees the jaw's underside so flat that people label its far end
    as the outline; one below sees it as a surface of its own, and they label the bend before it.
    For one above, the outline is what lies outermost on the screen.
    """
    own = vertices[head.landmarks[:17]].astype(np.float64)
    bend, underside = head.jaw_paths.edge(vertices).astype(np.float64).transpose(1, 0, 2)
    up = vertices[head.landmarks[27]].astype(np.float64) - own[8]
    to_camera = np.array([0.0, 0.0, camera.distance]) - own[8]
    lift = -(up @ to_camera) / (np.linalg.norm(up) * np.linalg.norm(to_camera))
    level = np.clip(1 - np.degrees(np.arcsin(lift)) / _LIFTED, 0, 1)
    ways = np.stack([own, bend, bend + level * (underside - bend)])  # (3, 17, 3)
    pixels = camera.project(ways)[..., :2]
    along = np.gradient(pixels[0], axis=0)
    reach = pixels[..., 1] * along[:, 0] - pixels[..., 0] * along[:, 1]
    return np.asarray(ways[reach.argmax(axis=0), np.arange(17)] - own)


def hidden_behind(
    points: Doubles, screen: Singles, triangles: Ints, graze: Doubles | float = GRAZE
) -> Bools:
    """(k,) whether a surface lies more than `graze` centimetres before each point.

    `points` (k, 3) and the vertices `screen` (n, 3) are x, y in sample units and inverse depth.
    """
    found = surface_depth(np.ascontiguousarray(points[:, :2], np.float64), screen, triangles)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / points[:, 2] - 1.0 / found > graze)


def covered(
    points: Doubles, depth: Doubles, nearness: Singles, owner: Ints, first: int, radius: float
) -> Bools:
    """(k,) whether objects cover more than half of a small disc around each landmark.

    `points` (k, 2) and `radius` in pixels, `depth` (k,) in centimetres; the samples of objects
    have an `owner` (h, w) of `first` or more, or `SCALP_HAIR`; `nearness` (h, w) holds their
    inverse depths. Points outside the image are not covered by anything.
    """
    height, width = nearness.shape
    reach = int(np.ceil(radius * SAMPLES))
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disc = dx**2 + dy**2 <= (radius * SAMPLES) ** 2
    centre = np.round(points * SAMPLES + (SAMPLES - 1) / 2).astype(int)
    x, y = centre[:, :1] + dx[disc], centre[:, 1:] + dy[disc]
    inside = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    x, y = x.clip(0, width - 1), y.clip(0, height - 1)
    before = nearness[y, x] * (depth[:, None] + _CONTACT) > 1.0
    whose = owner[y, x]
    hit = ((whose >= first) | (whose == SCALP_HAIR)) & before & inside
    share = hit.sum(axis=1) / np.maximum(inside.sum(axis=1), 1)
    within = (centre >= 0).all(axis=1) & (centre < (width, height)).all(axis=1)
    return np.asarray((share > 0.5) & within)


def visibility(labels: Labels, externally: Bools) -> NDArray[np.int8]:
    """(68,) `Visibility` classes; what the head hides counts before what an object hides."""
    classes = np.where(externally, Visibility.EXTERNALLY_OCCLUDED, Visibility.UNOCCLUDED)
    return np.where(labels.self_occluded, Visibility.SELF_OCCLUDED, classes).astype(np.int8)
