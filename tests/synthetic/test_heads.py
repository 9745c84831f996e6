"""Heads: the built-in one, ICT FaceKit from both of its forms, and skin from photographs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("numba")

from luvli.data.formats import write_pts
from luvli.data.record import FaceRecord, Visibility
from luvli.errors import InputError
from luvli.markup import get_markup
from luvli.synthetic import load_head, render_face
from luvli.synthetic.heads.head import Head
from luvli.synthetic.heads.ict import load_ict
from luvli.synthetic.people.textures import random_texture
from luvli.synthetic.photographs import face_box, photographed_faces, skin_points, write_faces
from luvli.synthetic.raster.materials import BEARD, BROWS, LIPS, SCALP, Material
from luvli.synthetic.scene.picture import beside_face


@pytest.fixture(scope="module")
def ict_path(shared: Path) -> Path:
    path = shared / "data/ict_facekit.npz"
    if not path.exists():
        pytest.skip("needs ICT FaceKit in research data: LUVLI_SHARED=FOLDER make test")
    return path


@pytest.fixture(scope="module")
def head() -> Head:
    return load_head("procedural")


def check_head(head: Head) -> None:
    assert head.triangles.min() == 0
    assert head.triangles.max() < len(head.neutral)
    assert set(np.unique(head.part)) >= {
        Material.SKIN,
        Material.EYE,
        Material.TEETH,
        Material.MOUTH,
    }
    skin = np.unique(head.triangles[head.part == Material.SKIN])
    assert np.isin(head.landmarks, np.unique(head.triangles)).all()
    assert np.isin(head.landmarks[:60], skin).all()
    # the 68 points stand as in a front view, and the two halves mirror each other
    places = head.neutral[head.landmarks]
    assert np.allclose(places[get_markup("ibug68").flip] * (-1, 1, 1), places, atol=0.05)
    assert (np.diff(places[1:16, 0]) > 0).all()
    assert np.abs(places[0, 0] - places[1, 0]) < 0.15  # a face may be widest below its ears' roots
    assert places[27:31, 2].argmax() == 3
    assert places[8, 1] < places[57, 1] < places[33, 1] < places[39, 1] < places[19, 1]
    assert head.openness.min() >= 0
    assert head.openness.max() <= 1
    assert head.openness[head.landmarks[30]] > 0.8  # a nose tip sees most of the sky
    # regions follow the landmarks
    texel = head.regions.texture[head.landmarks].astype(int)
    maps = head.regions.maps[texel[:, 1], texel[:, 0]]
    # the brow hangs below its landmarks, which lie on its upper edge
    above, below = (
        head.regions.maps[texel[18:26, 1] + rows, texel[18:26, 0], BROWS] for rows in (-4, 4)
    )
    assert (below > 120).all() and (above < 40).all()
    assert maps[57, LIPS] > 60
    assert maps[8, BEARD] > 100
    assert maps[30, LIPS] == maps[30, BEARD] == 0
    assert (maps[17:68, SCALP] < 128).all()  # no hair grows on a face


def test_built_in_head(head: Head) -> None:
    check_head(head)
    assert len(head.identity) >= 20
    assert "jawOpen" in head.expression_names


def test_built_in_head_opens_its_mouth_and_shuts_its_eyes(head: Head) -> None:
    opened = head.deform(expression=head.weights(jawOpen=0.6))[head.landmarks]
    neutral = head.neutral[head.landmarks]
    assert opened[62, 1] - opened[66, 1] > neutral[62, 1] - neutral[66, 1] + 1.0
    assert np.allclose(opened[27:31], neutral[27:31], atol=0.05)
    shut = head.deform(expression=head.weights(eyeBlink=1.0))[head.landmarks]
    assert shut[37, 1] - shut[41, 1] < 0.4 * (neutral[37, 1] - neutral[41, 1])


def test_eyes_turn_about_their_middle(head: Head) -> None:
    ball = head.eyeballs[0]
    before = head.neutral[ball]
    turned, place = head.turn_eyes(head.neutral.copy(), 20.0, 0.0)
    after = turned[ball]
    middle = (before.min(axis=0) + before.max(axis=0)) / 2
    assert np.allclose(
        np.linalg.norm(before - middle, axis=1), np.linalg.norm(after - middle, axis=1), atol=1e-4
    )
    pupil = np.linalg.norm(place[ball], axis=1).argmin()
    way = after[pupil] - middle
    assert np.isclose(np.degrees(np.arctan2(way[0], way[2])), 20, atol=3)
    others = np.ones(len(turned), bool)
    for eye in head.eyeballs:
        others[eye] = False
    assert (turned[others] == head.neutral[others]).all()


def test_ict_head(ict_path: Path) -> None:
    check_head(load_ict(ict_path))


@pytest.mark.slow
def test_ict_head_from_its_obj_files(ict_path: Path, tmp_path: Path) -> None:
    with np.load(ict_path) as packed:
        neutral = packed["neutral"]
        shapes = {
            "generic_neutral_mesh": neutral,
            "identity000": neutral + packed["identity"][0].astype(np.float32),
            "jawOpen": neutral
            + packed["expression"][list(packed["expression_names"]).index("jawOpen")],
        }
        faces = packed["faces"] + 1
    rows = [" ".join(f"{v}/1/1" for v in face if v > 0) for face in faces]
    for name, shape in shapes.items():
        text = "\n".join(f"v {x:.6f} {y:.6f} {z:.6f}" for x, y, z in shape)
        (tmp_path / f"{name}.obj").write_text(text + "\n" + "\n".join(f"f {row}" for row in rows))
    folder, file = load_ict(tmp_path), load_ict(ict_path)
    assert (folder.triangles == file.triangles).all()
    assert (folder.part == file.part).all()
    assert folder.expression_names == ("jawOpen",)
    assert np.allclose(folder.neutral, file.neutral, atol=1e-5)
    assert np.allclose(folder.identity[0], file.identity[0], atol=1e-5)
    index = file.expression_names.index("jawOpen")
    assert np.allclose(folder.expression[0], file.expression[index], atol=1e-5)


def test_what_is_no_head_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="generic_neutral_mesh"):
        load_ict(tmp_path)
    np.savez(tmp_path / "other.npz", neutral=np.zeros(3))
    with pytest.raises(InputError, match=r"other\.npz"):
        load_ict(tmp_path / "other.npz")


def photographs(head: Head, folder: Path, colours: list[tuple[int, int, int]]) -> list[FaceRecord]:
    """Rendered faces that can lend their skins, with spots of a colour on nose and brows."""
    faces: list[FaceRecord] = []
    for seed in range(40):
        if len(faces) == len(colours):
            break
        sample = render_face(seed, size=384, pose=(0, 0, 0), occluders=False, effects=False)
        image = sample.image.copy()
        for x, y in np.round(sample.all_points[[30, *range(17, 27)]]).astype(int):
            cv2.circle(image, (int(x), int(y)), 5, colours[len(faces)], -1)
        path = folder / f"{seed}.png"
        cv2.imwrite(str(path), image[..., ::-1])
        face = sample.record.with_changes(
            points=sample.all_points,
            visibility=np.ones(68),
            image=path,
            covariance=np.tile(np.eye(2), (68, 1, 1)) if faces else None,
        )
        try:
            random_texture(head, write_faces([face], folder), np.random.default_rng(0))
        except InputError:  # this face is lit too hard, or too dark, to be used
            continue
        faces.append(face)
    return faces


def strongest(head: Head, photo: Any, channel: int, landmarks: list[int]) -> int:
    """How much stronger one colour is than the others, at these landmarks of a texture."""
    flat = np.round(head.regions.texture[head.landmarks[landmarks]]).astype(int)
    colours, weight = photo[..., :3].astype(int), photo[..., 3]
    stronger = colours[..., channel] - np.delete(colours, channel, axis=2).max(axis=2)
    return int(np.where(weight < 128, -255, stronger)[flat[:, 1], flat[:, 0]].max())


def test_skin_lands_on_its_landmark_and_brows_come_from_people(head: Head, tmp_path: Path) -> None:
    """What a model labels a little off must not be drawn as far beside the landmark."""
    by_people, by_model = photographs(head, tmp_path, [(0, 0, 255), (0, 255, 0)])

    def texture(faces: list[FaceRecord], seed: int) -> Any:
        return random_texture(head, write_faces(faces, tmp_path), np.random.default_rng(seed)).photo

    brows = list(range(17, 27))
    assert strongest(head, texture([by_people], 0), 2, [30]) > 80
    assert strongest(head, texture([by_model], 0), 1, brows) > 80
    for seed in range(4):
        assert strongest(head, texture([by_people, by_model], seed), 1, brows) < 20


def test_faces_of_a_list_lend_what_files_beside_them_lend(head: Head, tmp_path: Path) -> None:
    """Points that a model has found do the same as a `.pts` file; without points none is lent."""
    sample = render_face(1, size=128, pose=(0, 0, 0), occluders=False, effects=False)
    cv2.imwrite(str(tmp_path / "face.png"), sample.image[..., ::-1])
    known = sample.record.with_changes(
        points=sample.all_points, visibility=np.ones(68), image=tmp_path / "face.png"
    )
    unknown = known.with_changes(visibility=np.full(68, Visibility.UNLABELLED))
    listed, boxed = (write_faces([face], tmp_path) for face in (known, unknown))
    assert write_faces([known], tmp_path) == listed
    write_pts(tmp_path / "face.pts", sample.all_points)
    beside, from_list = (skin_points(photographed_faces(str(s))[0]) for s in (tmp_path, listed))
    assert beside is not None and from_list is not None
    assert np.allclose(beside, from_list, atol=0.01)
    alone = photographed_faces(boxed)[0]
    assert skin_points(alone) is None and face_box(alone) is not None
    with pytest.raises(InputError, match="no photograph with 68 points"):
        random_texture(head, boxed, np.random.default_rng(0))
    (tmp_path / "face.png").unlink()
    photographed_faces.cache_clear()
    with pytest.raises(InputError, match=r"names .*face\.png, which does not exist"):
        photographed_faces(listed)


def test_backgrounds_leave_the_face_out() -> None:
    rng = np.random.default_rng(0)
    image = np.zeros((200, 200, 3), np.uint8)
    image[60:160, 80:120] = 255  # the face
    box = np.array([80.0, 60.0, 120.0, 160.0])
    for _ in range(12):
        patch = beside_face(image, box, rng)
        assert patch is not None and patch.max() == 0
        assert 0.6 <= patch.shape[1] / patch.shape[0] <= 1 / 0.6
    filled = np.array([0.0, 0.0, 199.0, 199.0])
    assert beside_face(image, filled, rng) is None
    assert beside_face(image, None, rng) is image


def test_faces_wear_the_skin_of_photographs(lfpw: Path) -> None:
    plain = render_face(4, size=64, pose=(0, 0, 0))
    worn = render_face(4, size=64, pose=(0, 0, 0), textures=lfpw, backgrounds=lfpw)
    assert np.array_equal(plain.all_points, worn.all_points)
    assert (plain.image != worn.image).mean() > 0.5
