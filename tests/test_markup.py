"""Point sets: partitions, mirrors, maps; the 68-point mirror against the pairs written out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from luvli.errors import InputError
from luvli.image import read_image
from luvli.markup import GROUPS, convert, get_markup, markup_names, mirrored, sources

ALL = ["ibug68", "wflw98", "cofw29", "aflw19", "menpo39"]

# Zero-based, written down from the definition of the 68 points, not from the code.
PAIRS_68 = (
    "0-16 1-15 2-14 3-13 4-12 5-11 6-10 7-9 17-26 18-25 19-24 20-23 21-22 31-35 32-34 36-45 37-44 "
    "38-43 39-42 40-47 41-46 48-54 49-53 50-52 55-59 56-58 60-64 61-63 65-67"
)


def test_built_in_sets_and_their_sizes() -> None:
    assert {name: get_markup(name).size for name in ALL} == {
        "ibug68": 68,
        "wflw98": 98,
        "cofw29": 29,
        "aflw19": 19,
        "menpo39": 39,
    }
    assert set(ALL) <= set(markup_names())


def test_unknown_name_lists_the_choices() -> None:
    with pytest.raises(InputError, match=r"did you mean 'ibug68'.*wflw98"):
        get_markup("ibug86")


@pytest.mark.parametrize("name", ALL)
def test_groups_and_parts_cover_every_landmark(name: str) -> None:
    markup = get_markup(name)
    everything = list(range(markup.size))
    assert set(markup.groups) == set(GROUPS)
    assert sorted(j for group in markup.groups.values() for j in group) == everything
    assert sorted({j for part in markup.parts.values() for j in part}) == everything
    assert len(set(markup.names)) == markup.size


@pytest.mark.parametrize("name", ALL)
def test_flip_is_an_involution_that_maps_groups_and_parts_to_their_mirrors(name: str) -> None:
    markup = get_markup(name)
    flip = markup.flip
    np.testing.assert_array_equal(flip[flip], np.arange(markup.size))
    for group in markup.groups.values():
        assert {int(flip[j]) for j in group} == set(group)
    for part, members in markup.parts.items():
        assert {int(flip[j]) for j in members} == set(markup.parts[mirrored(part)])
    assert {int(flip[j]) for j in markup.eyes[0]} == set(markup.eyes[1])
    right, left = markup.outer_eye_corners
    assert flip[right] == left


def test_flip_of_the_68_points_as_written_down() -> None:
    flip = np.arange(68)
    for pair in PAIRS_68.split():
        a, b = map(int, pair.split("-"))
        flip[a], flip[b] = b, a
    np.testing.assert_array_equal(get_markup("ibug68").flip, flip)
    assert flip[[55, 56, 57, 58, 59]].tolist() == [59, 58, 57, 56, 55]


@pytest.mark.parametrize("name", ALL)
def test_flip_maps_edges_to_edges_and_the_schematic_to_itself(name: str) -> None:
    markup = get_markup(name)
    edges = {frozenset(edge) for edge in markup.edges}
    assert {frozenset(int(markup.flip[j]) for j in edge) for edge in edges} == edges
    if name == "menpo39":  # one half of a face: its mirror image is drawn on the other side
        return
    np.testing.assert_allclose(
        markup.schematic[markup.flip] * (-1, 1), markup.schematic, atol=1e-12
    )


def test_the_flip_agrees_with_real_faces(lfpw: Path) -> None:
    """The mean of many labelled faces is nearly mirror-symmetric, if the pairs are right."""
    from luvli.data.formats import read_pts

    shapes = []
    for label in sorted(lfpw.glob("*.pts"))[::10]:
        points = read_pts(label, signed=False).points
        eyes = points[[36, 45]]
        angle = np.arctan2(*(eyes[1] - eyes[0])[::-1])
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        upright = (points - eyes.mean(axis=0)) @ turn.T / np.linalg.norm(eyes[1] - eyes[0])
        shapes.append(upright)
    mean = np.mean(shapes, axis=0)
    mean -= (mean[27, 0], 0)
    flip = get_markup("ibug68").flip
    # Right pairs give 0.013, the wrong lip pairs of a published table 0.42.
    assert np.abs(mean[flip] * (-1, 1) - mean).max() < 0.03


def test_conversion_from_98_to_68_keeps_names_where_both_have_them() -> None:
    wflw, ibug = get_markup("wflw98"), get_markup("ibug68")
    table = [members[0] for members in sources("wflw98", "ibug68")]
    for j, source in enumerate(table):
        if ibug.names[j] in wflw.names and "jaw" not in ibug.names[j]:
            assert wflw.names[source] == ibug.names[j]
    assert table[:17] == list(range(0, 33, 2))
    assert table[ibug.flip[40]] == wflw.flip[table[40]]


@pytest.mark.parametrize("target", ["ibug68", "cofw29", "aflw19"])
def test_conversion_commutes_with_the_mirror(target: str, rng: np.random.Generator) -> None:
    points = rng.normal(size=(4, 98, 2))
    flip, there = get_markup("wflw98").flip, get_markup(target).flip
    one = convert(points[:, flip], "wflw98", target)
    other = convert(points, "wflw98", target)[:, there]
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_conversion_refuses_wrong_counts_and_unknown_ways() -> None:
    with pytest.raises(InputError, match=r"98.*68"):
        convert(np.zeros((68, 2)), "wflw98", "ibug68")
    with pytest.raises(InputError, match="no map from aflw19 to wflw98"):
        convert(np.zeros((19, 2)), "aflw19", "wflw98")


def test_command_draws_the_schematic(luvli: Callable[..., Result], tmp_path: Path) -> None:
    result = luvli("data", "markup", "ibug68", "--out", tmp_path / "m.png")
    assert result.exit_code == 0, result.output
    picture = read_image(tmp_path / "m.png")
    assert picture.shape == (1200, 1200, 3)
    assert (picture < 128).all(axis=2).sum() > 500  # numbers


def test_command_refuses_an_unknown_set(luvli: Callable[..., Result]) -> None:
    result = luvli("data", "markup", "ibug67")
    assert result.exit_code == 2 and "ibug68" in result.output
