"""One rule for which detection is a face."""

from __future__ import annotations

from luvli.image.box import Box
from luvli.image.match import SAME_FACE, best_match

FACE = Box(20, 20, 80, 80)


def test_the_nearest_box_is_the_face_and_distant_or_huge_ones_are_not() -> None:
    own, other, wide = Box(15, 15, 85, 85), Box(200, 0, 300, 90), Box(0, 0, 300, 300)
    assert best_match(FACE, [other, wide, own]) is own
    assert best_match(FACE, [other, wide]) is None
    assert best_match(FACE, []) is None


def test_the_limit_is_intersection_over_union() -> None:
    for inside, found in ((0.99, True), (1.01, False)):
        side = 60 / SAME_FACE**0.5 * inside  # a square around the face: IoU = 60^2 / side^2
        around = Box(50 - side / 2, 50 - side / 2, 50 + side / 2, 50 + side / 2)
        assert (best_match(FACE, [around]) is not None) == found
