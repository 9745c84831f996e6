"""What people wear (clothes, hats, glasses, masks) and hold before their faces.

All are small meshes in head (or body) coordinates. They hide landmarks from outside, so a
landmark behind one is externally occluded: it keeps its place and counts as visible.
"""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np

from luvli.synthetic.arrays import Doubles, Ints, Real, Singles
from luvli.synthetic.heads.scalp import Skull, cell_of
from luvli.synthetic.raster.materials import Material
from luvli.synthetic.scene.shapes import Mesh, ball, join_meshes, random_colour, sheet, tube


def garment(neck: Singles, rng: np.random.Generator) -> Mesh:
    """Shoulders and chest below the neck point (3,), in body coordinates."""
    high = rng.choice([0.0, 1.5, 4.0], p=[0.45, 0.35, 0.2])
    #        height, half-width, half-depth, forward
    profile = np.array([
        (1.2 + high, 6.3, 6.2, 0.3), (0.5 * high, 7.4, 7.2, 0.0), (-1.8, 10.5, 8.0, -0.8),
        (-3.6, 15.5, 8.8, -1.2), (-5.6, 19.0, 9.6, -1.2), (-9.0, 21.5, 11.0, -0.6),
        (-16.0, 22.5, 12.0, 0.5), (-45.0, 21.5, 12.5, 0.5),
    ])  # fmt: skip
    fine = np.linspace(0, len(profile) - 1, 22)
    height, wide, deep, forward = (
        np.interp(fine, np.arange(len(profile)), profile[:, k]) for k in range(4)
    )
    build = rng.uniform(0.85, 1.12)
    angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)[None]
    squarish = 1 + 0.10 * np.cos(2 * angle) ** 2
    scoop = rng.uniform(0, 3.5) * np.exp(-((fine / 3.5) ** 2))  # a neckline lower in front
    x = build * wide[:, None] * np.sin(angle) * squarish
    z = deep[:, None] * np.cos(angle) * squarish + forward[:, None]
    y = height[:, None] - scoop[:, None] * np.clip(np.cos(angle), 0, 1) ** 2
    folds = rng.normal(0, 0.5, y.shape)
    for _ in range(2):
        folds = (np.roll(folds, 1, 1) + folds + np.roll(folds, -1, 1)) / 3
    folds[0] = 0
    y, z = y + folds, z + folds
    points = np.stack([x, y, z], axis=-1) + np.asarray(neck)
    main, second = random_colour(rng), random_colour(rng)
    colour = np.broadcast_to(main, points.shape).copy()
    if rng.random() < 0.4:  # a jacket over a shirt
        open_width = rng.uniform(0.35, 0.6) * (height[0] - height)[:, None] + 1.0
        shirt = (np.abs(x) < np.maximum(8 - open_width, 1.0)) & (np.cos(angle) > 0)
        colour[shirt] = second
    place = np.stack([angle / (2 * np.pi) * 700 + 0 * y, (height[:, None] - y[0]) * 9], axis=-1)
    texture = place.reshape(-1, 2).astype(np.float32)
    return replace(sheet(points, colour, closed=True), part=Material.CLOTH, texture=texture)


def hat(skull: Skull, brow: float, rng: np.random.Generator) -> Mesh:
    """A beanie, cap or brimmed hat that sits above height `brow`, a little tilted."""
    colour = random_colour(rng)
    rings, sectors = 12, 40
    edge = rng.uniform(1.6, 4.0)  # centimetres above the brows at the front
    angle = np.linspace(-np.pi, np.pi, sectors, endpoint=False)
    lowest = brow + edge - rng.uniform(1.0, 4.0) * (1 - np.cos(angle)) / 2
    polar = np.linspace(0.02, 1, rings)[:, None]
    reach = 11.0
    lift = np.clip((lowest - skull.centre[1]) / reach, -0.5, 0.9)
    vertical = 1 - polar * (1 - lift[None])
    flat = np.sqrt(np.clip(1 - vertical**2, 0, 1))
    unit = np.stack([flat * np.sin(angle), vertical, flat * np.cos(angle)], axis=-1)
    radius: Real = skull.radius.ravel()[cell_of(unit)]
    for _ in range(2):
        radius = (np.roll(radius, 1, 1) + radius + np.roll(radius, -1, 1)) / 3
        radius[1:-1] = (radius[:-2] + radius[1:-1] + radius[2:]) / 3
    puff = rng.uniform(0.7, 1.6)
    points = skull.centre + unit * (radius + puff)[..., None]
    parts = [sheet(points, colour, closed=True, gloss=0.0)]
    kind = rng.choice(["beanie", "cap", "brim"], p=[0.4, 0.35, 0.25])
    if kind != "beanie":
        span = angle if kind == "brim" else np.linspace(-1.0, 1.0, 16)
        rim = np.stack([np.interp(span, angle, points[-1, :, k]) for k in range(3)], axis=-1)
        out = rng.uniform(4.0, 7.5) * (np.cos(span * 1.45) ** 0.7 if kind == "cap" else 1.0)
        droop = np.full(len(span), -0.8) * rng.uniform(0, 2)
        far = rim + np.stack([np.sin(span) * out, droop, np.cos(span) * out], axis=-1)
        grid = np.stack([rim, (rim + far) / 2, far])
        parts.append(sheet(grid, 0.8 * colour, closed=kind == "brim", gloss=0.0))
    return join_meshes(parts)


def glasses(points: Doubles, rng: np.random.Generator) -> tuple[Mesh, Mesh]:
    """Frame and lenses, fitted to the 68 landmarks (68, 3) in head coordinates."""
    colour = random_colour(rng) * 0.6
    metal = rng.random() < 0.35
    thick = rng.uniform(0.06, 0.1) if metal else rng.uniform(0.12, 0.24)
    width, height = rng.uniform(2.3, 3.0), rng.uniform(1.5, 2.4)
    square = rng.uniform(2.0, 4.0)
    front = points[[36, 45, 27]].max(axis=0)[2] + rng.uniform(0.4, 1.0)
    turn = np.linspace(0, 2 * np.pi, 25)[:-1]
    frame: list[Mesh] = []
    lenses: list[Mesh] = []
    ends: list[tuple[Doubles, Doubles]] = []
    for eye in (slice(36, 42), slice(42, 48)):
        middle = points[eye].mean(axis=0)
        side = np.sign(middle[0])
        centre = np.array([middle[0] + 0.15 * side, middle[1] - 0.3, front])
        c, s = np.cos(turn), np.sin(turn)
        x = width * np.sign(c) * np.abs(c) ** (2 / square)
        y = height * np.sign(s) * np.abs(s) ** (2 / square)
        bow = -0.05 * (centre[0] + x) ** 2 + 0.05 * centre[0] ** 2  # the front is curved
        rim = centre + np.stack([x, y, bow], axis=1)
        frame.append(tube(np.concatenate([rim, rim[:2]]), thick, colour, 6, gloss=0.5))
        inner = centre + 0.02 * (rim - centre)
        lenses.append(sheet(np.stack([inner, rim]), (0.0, 0.0, 0.0), closed=True, gloss=0.0))
        ends.append((rim[np.argmax(side * rim[:, 0])], rim[np.argmin(side * rim[:, 0])]))
    bridge = np.stack([ends[0][1], (ends[0][1] + ends[1][1]) / 2 + (0, 0.4, 0.3), ends[1][1]])
    frame.append(tube(bridge, thick, colour, 6, gloss=0.5))
    for outer, _ in ends:
        side = np.sign(outer[0])
        ear = np.array([points[0 if side < 0 else 16][0] + 0.5 * side, outer[1] - 0.3, -0.5])
        hinge = np.array([ear[0], outer[1], outer[2] - 2.5])
        frame.append(tube(np.stack([outer, hinge, ear]), 1.2 * thick, colour, 6, gloss=0.5))
    return join_meshes(frame), join_meshes(lenses)


def mask(vertices: Singles, skin: Ints, points: Doubles, rng: np.random.Generator) -> Mesh:
    """A cloth or surgical mask over nose, mouth and chin (sometimes under the nose)."""
    columns, rows = 23, 14
    side = np.linspace(-1, 1, columns)[None]
    down = np.linspace(0, 1, rows)[:, None]
    under_nose = rng.random() < 0.15
    bridge = points[33 if under_nose else 28][1] + (-0.2 if under_nose else rng.uniform(-0.8, 0.4))
    top = bridge + (points[[2, 14]][:, 1].mean() + 0.6 - bridge) * np.abs(side) ** 1.5
    bottom = points[8][1] - 0.6 + (points[[4, 12]][:, 1].mean() - points[8][1] + 0.6) * side**2
    y = top + (bottom - top) * down
    angle = np.radians(60) * side + 0 * y
    near = vertices[skin]
    angle_of = np.arctan2(near[:, 0], near[:, 2])
    radius_of = np.hypot(near[:, 0], near[:, 2])
    front = np.abs(angle_of) < np.radians(70)
    angle_of, radius_of, height_of = angle_of[front], radius_of[front], near[front, 1]
    column = ((angle_of / np.radians(60) + 1) / 2 * (columns - 1)).round().astype(int)
    row_top = np.interp(column, np.arange(columns), top[0])
    row_bottom = np.interp(column, np.arange(columns), bottom[0])
    row = ((height_of - row_top) / (row_bottom - row_top) * (rows - 1)).round().astype(int)
    good = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    radius = np.zeros((rows, columns))
    np.maximum.at(radius, (row[good], column[good]), radius_of[good])
    for _ in range(3):  # empty cells, then the tension of the cloth
        radius = np.maximum(cv2.blur(radius, (3, 3), borderType=cv2.BORDER_REPLICATE), radius)
    radius += 0.35 + 0.12 * np.sin(down * rng.uniform(9, 16)) * rng.integers(0, 2)
    grid = np.stack([radius * np.sin(angle), y, radius * np.cos(angle)], axis=-1)
    surgical = np.array([0.35, 0.55, 0.75]) if rng.random() < 0.5 else np.array([0.75, 0.75, 0.75])
    colour = surgical if rng.random() < 0.5 else random_colour(rng)
    parts = [sheet(grid, colour, gloss=0.0)]
    for edge in (0, columns - 1):
        ear = np.array([np.sign(edge - 1) * abs(points[0][0]) * 1.12, points[1][1] + 0.5, -0.5])
        for at in (0, rows - 1):
            parts.append(tube(np.stack([grid[at, edge], ear]), 0.08, 0.9 * colour, 5, gloss=0.0))
    return join_meshes(parts)


def hand(points: Doubles, tone: Singles, rng: np.random.Generator) -> Mesh:
    """Fingers and a palm before some part of the face, the arm coming from below."""
    target = points[rng.choice([3, 4, 6, 8, 10, 12, 13, 51, 57, 30, 48, 54])]
    out = target - np.array([0.0, target[1] * 0.3, -2.0])
    out = out / np.linalg.norm(out)
    knuckle = target + out * rng.uniform(1.0, 2.0) - np.array([0, rng.uniform(1, 4), 0])
    up = np.array([rng.normal(0, 0.5), 1.0, rng.normal(0, 0.2)])
    up /= np.linalg.norm(up)
    across = np.cross(up, out)
    across /= np.linalg.norm(across)
    parts = []
    bend = rng.uniform(-0.1, 0.6)
    for k in range(4):
        base = knuckle + across * (k - 1.5) * 1.75
        reach = (5.5, 6.6, 6.2, 4.8)[k] * rng.uniform(0.85, 1.0)
        spread = across * (k - 1.5) * rng.uniform(0.0, 0.25)
        middle = base + (up + spread) * reach * 0.5
        tip = middle + (up + spread - bend * out) * reach * 0.5
        parts.append(tube(np.stack([base, middle, tip]), (0.95, 0.85, 0.68), tone, 10, gloss=0.05))
    wrist = knuckle - up * 8.0 + out * 1.0
    for side in (across, -across):
        palm = np.stack([knuckle + side, wrist + side])
        parts.append(tube(palm, (2.2, 2.0), tone, 10, gloss=0.05))
    thumb = np.stack(
        [wrist + across * 2, knuckle + across * 4.2, knuckle + across * 4.4 + up * 2.5]
    )
    parts.append(tube(thumb, (1.2, 1.0, 0.8), tone, 10, gloss=0.05))
    sleeve = random_colour(rng)
    colour = tone if rng.random() < 0.5 else sleeve
    parts.append(tube(np.stack([wrist, wrist - up * 14]), (3.0, 4.2), colour, 12))
    return join_meshes(parts)


def microphone(points: Doubles, rng: np.random.Generator) -> Mesh:
    """A microphone before mouth or chin, held from below."""
    head = points[57] + np.array([rng.normal(0, 2.0), rng.uniform(-4, 0.5), rng.uniform(3.0, 6.0)])
    colour = random_colour(rng) * 0.5
    away = np.array([rng.normal(0, 0.6), -1.0, rng.uniform(0.0, 0.8)])
    size = rng.uniform(1.8, 2.8)
    stick = np.stack([head + away * size * 0.8, head + away * 22])
    handle = tube(stick, 0.55 * size, 0.5 * colour, 12)
    return join_meshes([ball(head, (size, size, size), colour), handle])
