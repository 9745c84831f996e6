"""From the unrolled colours of a photograph to a texture: skin alone, under even light."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np

from luvli.synthetic.arrays import Bools, Bytes, Real, Singles
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.regions import HEIGHT, TEXEL, WIDTH
from luvli.synthetic.raster.materials import BROWS, LIDS, LIPS

_MIN_SKIN = 2000
"""texels of plain skin that are needed to estimate a tone"""


class Texture(NamedTuple):
    """The skin of one photograph."""

    photo: Bytes
    """(HEIGHT, WIDTH, 4) square roots of linear RGB, and the weight with which they count"""
    tone: Singles
    """(3,) linear RGB"""


@lru_cache(maxsize=4)
def face_window(head: Head) -> Singles:
    """(HEIGHT, WIDTH) 1 on the face from just above the brows to the jaw, fading outside."""
    flat = head.regions.texture[head.landmarks]
    top = flat[17:27] - (0, 1.5 * TEXEL)
    # the edge of a face in a photograph is already half background: stay inside it
    jaw = flat[1:16] + 0.2 * (flat[30] - flat[1:16]) * (1, 0.4)
    outline = np.concatenate([jaw, top[::-1]])
    window = np.zeros((HEIGHT, WIDTH), np.float32)
    cv2.fillPoly(window, [np.round(outline).astype(np.int32)], 1.0)
    window = np.asarray(cv2.erode(window, np.ones((5, 5))), np.float32)
    soft = cv2.GaussianBlur(window, (0, 0), 0.55 * TEXEL)
    return np.asarray(np.clip(soft * 2 - 0.9, 0, 1), np.float32)


@lru_cache(maxsize=4)
def features_window(head: Head) -> Singles:
    """(HEIGHT, WIDTH) 1 on eyes, brows and lips and half a centimetre around, fading outside."""
    flat = np.round(head.regions.texture[head.landmarks]).astype(np.int32)
    window = np.zeros((HEIGHT, WIDTH), np.float32)
    cv2.fillPoly(window, [flat[36:42], flat[42:48], flat[48:60]], 1.0)
    window = np.maximum(window, head.regions.maps[..., BROWS] > 40).astype(np.float32)
    around = 2 * round(0.5 * TEXEL) + 1
    grown = cv2.dilate(window, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (around, around)))
    return np.asarray(cv2.GaussianBlur(grown, (0, 0), 0.12 * TEXEL), np.float32)


@lru_cache(maxsize=4)
def _features(head: Head) -> Bools:
    """(HEIGHT, WIDTH) where a face is not of the tone of its skin: lips, brows, eyes."""
    strongest = head.regions.maps[..., [LIPS, BROWS, LIDS]].max(axis=2)
    return np.asarray(cv2.dilate(strongest, np.ones((41, 41))) > 30)


def finish_texture(head: Head, light: Singles, weight: Singles) -> Texture | None:
    """A texture from linear colours (HEIGHT, WIDTH, 3) and their weight, or None.

    Fills in from the other half, leaves out what is no skin, and divides broad light out.
    """
    other = weight[:, ::-1]
    take = np.clip(other - weight, 0, 1)[..., None]
    light = (light * (1 - take) + light[:, ::-1] * take).astype(np.float32)
    weight = np.maximum(weight, other * np.float32(0.98))
    maps = head.regions.maps
    plain = (weight > 0.9) & (maps[..., LIPS] < 20) & (maps[..., BROWS] < 20)
    if plain.sum() < _MIN_SKIN:
        return None
    tone = np.median(light[plain], axis=0)
    natural = 1.15 < tone[0] / tone[1] < 3.2 and 0.45 < tone[2] / tone[1] < 1.2
    if not (natural and 0.05 < tone.mean() < 0.7):
        return None  # black-and-white, coloured light, or hardly any light
    weight = (weight * (1 - _foreign(head, light, tone))).astype(np.float32)
    plain &= weight > 0.9
    gain = _even_light(light, tone, plain) if plain.sum() >= _MIN_SKIN else None
    if gain is None:
        return None
    exposure = np.float32(np.clip(tone.mean(), 0.05, 0.55) / tone.mean())
    packed = np.sqrt(np.clip(light * gain * exposure, 0, 1))
    photo = (np.dstack([packed, weight]) * 255).astype(np.uint8)
    return Texture(np.ascontiguousarray(photo), (tone * exposure).astype(np.float32))


def _foreign(head: Head, light: Singles, tone: Real) -> Singles:
    """(HEIGHT, WIDTH) 1 where hair, hands or background stand before the skin, by their colour."""
    level = light @ np.full(3, 1 / 3, np.float32)
    ratio = (level + 0.01) / (tone.mean() + 0.01)
    odd = (ratio > np.exp(0.8)) | (ratio < np.exp(-0.8))
    spread = cv2.dilate((odd & ~_features(head)).astype(np.float32), np.ones((9, 9)))
    soft = np.asarray(cv2.GaussianBlur(spread, (0, 0), 0.25 * TEXEL), np.float32)
    return np.asarray(np.clip(soft * np.float32(1.5), 0, 1), np.float32)


def _even_light(light: Singles, tone: Real, plain: Bools) -> Real | None:
    """(HEIGHT, WIDTH, 3) what divides broad shading out; None under deep shadows or hair."""

    def broadly(layer: Singles) -> Singles:
        small = cv2.resize(layer, (WIDTH // 8, HEIGHT // 8), interpolation=cv2.INTER_AREA)
        return np.asarray(cv2.GaussianBlur(small, (0, 0), 1.7 * TEXEL / 8), np.float32)

    mask = plain.astype(np.float32)
    share = broadly(mask)[..., None]
    broad = (broadly(light * mask[..., None]) + 0.05 * tone) / (share + 0.05)
    shown = broad[plain[::8, ::8]].mean(axis=1)
    if np.std(np.log(shown + 0.01)) > 0.22:
        return None
    return np.asarray(cv2.resize((tone / np.maximum(broad, 0.02)) ** 0.8, (WIDTH, HEIGHT)))
