"""Rendered faces: reproducible, rightly labelled, like MERL-RAV in what they hide."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")

from luvli.data.record import Visibility
from luvli.errors import InputError
from luvli.synthetic import SyntheticFaces, label_face, load_head, render_face
from luvli.synthetic import render as render_module
from luvli.synthetic.photographs import photographs
from luvli.synthetic.scene.stage import Worn

# Self-occluded landmarks in MERL-RAV, per cent.
MERL_RAV = {"frontal": 1.00, "lefthalf": 10.11, "righthalf": 9.37, "left": 38.94, "right": 37.54}


def test_a_sample_is_whole() -> None:
    sample = render_face(3, size=96, pose="profile")
    assert sample.image.shape == (96, 96, 3)
    assert sample.image.dtype == np.uint8
    assert sample.image.std() > 5
    hidden = sample.record.visibility == Visibility.SELF_OCCLUDED
    assert hidden.any()
    assert np.isnan(sample.record.points[hidden]).all()
    assert np.isfinite(sample.all_points).all()
    assert (sample.record.points[~hidden] == sample.all_points[~hidden]).all()
    assert (sample.record.box == sample.record.tight_box).all()
    assert sample.record.attributes["pose"] in ("left", "right")


def test_equal_seeds_give_equal_faces() -> None:
    faces = SyntheticFaces(count=5, size=64, seed=8)
    again = pickle.loads(pickle.dumps(faces))
    for i in (4, 0):  # in whatever order
        assert (faces[i].image == again[i].image).all()
        assert np.array_equal(faces[i].record.points, again[i].record.points, equal_nan=True)
    assert (faces[-1].image == faces[4].image).all()
    assert (faces[0].image != faces[1].image).any()
    assert (faces[0].image != SyntheticFaces(count=5, size=64, seed=9)[0].image).any()


def test_a_set_is_a_sequence() -> None:
    faces = SyntheticFaces(count=3, size=32)
    assert len(faces) == 3
    assert [sample.record.face_id for sample in faces] == ["0-0", "0-1", "0-2"]
    assert len(faces[1:]) == 2
    with pytest.raises(IndexError):
        faces[3]


def test_the_convention_of_the_jaw_changes_labels_only() -> None:
    outline, bone = (render_face(5, size=64, pose=(40, 0, 0), jaw=jaw) for jaw in ("outline", "3d"))
    assert (outline.image == bone.image).all()
    assert (outline.all_points[:17] != bone.all_points[:17]).any()
    assert (outline.all_points[17:] == bone.all_points[17:]).all()


@pytest.mark.parametrize(
    "pose", [(120, 0, 0), (-120, 20, 30), (0, 90, 0), (0, -90, 0), (60, 80, 90)]
)
def test_any_pose_renders(pose: tuple[float, float, float]) -> None:
    sample = render_face(2, size=48, pose=pose)
    assert sample.pose == pose
    assert np.isfinite(sample.all_points).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pose": "sideways"}, "frontal"),
        ({"pose": (0, 0)}, "yaw, pitch, roll"),
        ({"pose": (150, 0, 0)}, "120"),
        ({"jaw": "bone"}, "outline"),
        ({"head": "nowhere.npz"}, "does not exist"),
        ({"backgrounds": "nowhere"}, "nowhere"),
        ({"textures": "nowhere"}, "nowhere"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        for seed in range(4):  # some faces of a set with photographs have drawn backgrounds
            render_face(seed, size=32, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("opacity", "expected"), [(0.05, False), (0.95, True)])
def test_dark_glass_hides_eyes_and_clear_glass_does_not(
    opacity: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from luvli.synthetic.scene import worn_objects

    def dress(head, person, posed, occluders, rng):  # type: ignore[no-untyped-def]
        frame, lenses = worn_objects.glasses(posed.own[head.landmarks].astype(float), rng)
        return Worn([frame], [], lenses, opacity, (0.01, 0.01, 0.01))

    monkeypatch.setattr(render_module, "_dress", dress)
    sample = render_face(21, size=128, pose=(0, 0, 0))
    eyes = sample.record.visibility[[37, 38, 40, 41, 43, 44, 46, 47]]
    assert (eyes == Visibility.EXTERNALLY_OCCLUDED).all() == expected
    assert sample.record.visibility[57] == Visibility.UNOCCLUDED


def test_a_mask_hides_the_mouth_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    from luvli.synthetic.scene import worn_objects

    def dress(head, person, posed, occluders, rng):  # type: ignore[no-untyped-def]
        skin = np.unique(head.triangles[head.part == 0])
        points = posed.own[head.landmarks].astype(float)
        return Worn([worn_objects.mask(posed.own, skin, points, rng)], [])

    monkeypatch.setattr(render_module, "_dress", dress)
    classes = render_face(22, size=128, pose=(0, 0, 0)).record.visibility
    assert (classes[48:60] == Visibility.EXTERNALLY_OCCLUDED).all()
    assert (classes[[37, 44]] == Visibility.UNOCCLUDED).all()


def hidden_share(head: str, pose: str, count: int) -> float:
    model = load_head(head)
    hidden = [label_face((77, i), model, pose=pose).self_occluded for i in range(count)]
    return 100 * float(np.mean(hidden))


@pytest.mark.parametrize("pose", list(MERL_RAV))
def test_built_in_faces_hide_as_much_as_merl_rav(pose: str) -> None:
    assert abs(hidden_share("procedural", pose, 60) - MERL_RAV[pose]) < 5


@pytest.mark.slow
@pytest.mark.parametrize("pose", list(MERL_RAV))
def test_ict_faces_hide_as_much_as_merl_rav(pose: str, shared: Path) -> None:
    share = hidden_share(str(shared / "data/ict_facekit.npz"), pose, 150)
    assert abs(share - MERL_RAV[pose]) < 3


def test_numba_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, luvli.synthetic, luvli.cli.data_synthesize; "
    code += "sys.exit(any(name in sys.modules for name in ('numba', 'torch', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_photographs_can_be_listed_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "one.jpg").touch()
    (tmp_path / "two.jpg").touch()
    listed = tmp_path / "some.txt"
    listed.write_text("two.jpg\n")
    assert photographs(str(listed)) == (tmp_path / "two.jpg",)
    listed.write_text("two.jpg\nthree.jpg\n")
    with pytest.raises(InputError, match=r"names .*three\.jpg, which does not exist"):
        photographs(str(listed))
