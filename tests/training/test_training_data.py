"""Sources: who is held out, what teaches visibility, pseudo-labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_faces import face_record
from PIL import Image

from luvli.data.dataset import CropDataset
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.sets import load_set
from luvli.errors import InputError
from luvli.markup import get_markup
from luvli.network import build, save_model
from luvli.synthetic import SyntheticFaces
from luvli.synthetic.photographs import photographed_faces
from luvli.training.batch import (
    TrainingFaces,
    visibility_labels,
)
from luvli.training.ingredients import source_folder
from luvli.training.recipe import Recipe
from luvli.training.recipe_data import Data, Source
from luvli.training.sources import (
    group_of,
    hold_out,
    load_source,
)

MakeRecipe = Callable[..., Recipe]


PEOPLE = [f"Ann_Lee_{i}{j}" for i in range(6) for j in range(2)]
PEOPLE += [f"Bob {i}" for i in range(8)] + [f"Cy-{i}" for i in range(5)]
CUT_OUT = [f"image{i:05d}_{j}" for i in range(100) for j in range(1, 4)]


@pytest.mark.parametrize(
    ("names", "group", "amount", "groups", "fewest"),
    [
        (PEOPLE, "person", 6, {"Ann_Lee", "Bob", "Cy"}, 6),
        (CUT_OUT, "photo", 0.3, {f"image{i:05d}.jpg" for i in range(100)}, 30),
        (["image_0001", "image_0002"], "photo", 1, {"image_0001.jpg", "image_0002.jpg"}, 1),
    ],
)
def test_people_and_photographs_are_never_torn_apart(
    names: list[str], group: str, amount: float, groups: set[str], fewest: int
) -> None:
    """Two or fewer digits number a face of a photograph, four a photograph."""
    faces = [face_record(name) for name in names]
    assert {group_of(face, group) for face in faces} == groups
    kept, held = hold_out(faces, amount, group)
    sides = [{group_of(face, group) for face in side} for side in (kept, held)]
    assert sides[0].isdisjoint(sides[1]) and len(held) >= fewest


def test_what_is_held_out_depends_on_each_name_alone() -> None:
    faces = [face_record(f"f{i}") for i in range(400)]
    kept, held = hold_out(faces, 0.1)
    names = {r.face_id for r in held}
    assert 20 < len(held) < 60 and len(kept) + len(held) == 400
    # whatever else is there, and in whatever order
    few = [*faces[::-3], *(face_record(f"g{i}") for i in range(50))]
    fewer = {r.face_id for r in hold_out(few, 0.1)[1]}
    assert fewer & {r.face_id for r in faces} == names & {r.face_id for r in few}
    # the first by hash, as with a number, and a larger share holds the smaller one
    assert {r.face_id for r in hold_out(faces, len(held))[1]} == names
    assert names < {r.face_id for r in hold_out(faces, 0.2)[1]}
    hashes = {f"f{i}": hashlib.sha256(f"f{i}.jpg".encode()).hexdigest() for i in range(400)}
    assert names == {name for name, digest in hashes.items() if int(digest, 16) < 0.1 * 16**64}


@pytest.mark.parametrize(
    ("use", "visibility", "labelled"),
    [
        ("labelled", [-1, 0, 1, 2], [0, 1, 1, 1]),
        ("paper", [0, 0, 1, 2], [1, 1, 1, 1]),
        ("ignore", [-1, -1, 1, 2], [0, 0, 0, 0]),
    ],
)
def test_what_labels_teach_about_visibility(
    use: str, visibility: list[int], labelled: list[int]
) -> None:
    classes = np.array([-1, 0, 1, 2], np.int8)
    read, known = visibility_labels(classes, use)  # type: ignore[arg-type]
    assert read.tolist() == visibility
    assert known.tolist() == labelled  # type: ignore[comparison-overlap]
    assert classes.tolist() == [-1, 0, 1, 2]  # the records' own labels stay


def test_frontal_sets_teach_visibility_where_the_face_is_frontal(tmp_path: Path) -> None:
    picture = tmp_path / "x.png"
    Image.fromarray(np.zeros((100, 100, 3), np.uint8)).save(picture)
    frontal = get_markup("ibug68").schematic
    half_profile = frontal + np.eye(68)[:, 30:31] * (0.4, 0.0)  # its nose tip aside
    faces = [face_record("x", points=50 + 30 * p, image=picture) for p in (frontal, half_profile)]
    crops = CropDataset(faces, 64)
    samples = [
        TrainingFaces([crops], [Source(set="folder", visibility="frontal")])[0, 0, i]
        for i in range(2)
    ]
    assert [sample["visibility_labelled"].all() for sample in samples] == [True, False]


def test_offset_limit_and_hold_out_of_a_source(small_recipe: MakeRecipe) -> None:
    plain = load_source("mine", small_recipe().data.sources["mine"], small_recipe().data)
    assert (len(plain.train), len(plain.held_out)) == (16, 4)
    changed = small_recipe(
        data={"sources": {"mine": {"offset": [2.0, -1.0], "limit": 10, "hold_out": 0}}}
    )
    moved = load_source("mine", changed.data.sources["mine"], changed.data)
    assert len(moved.train) == 10
    before = {r.face_id: r for r in (*plain.train, *plain.held_out)}
    for face in moved.train:
        shift = (face.points - before[face.face_id].points)[face.visible]
        assert np.allclose(shift, (2.0, -1.0))


@pytest.mark.parametrize("damaged", [False, True])
def test_faces_that_the_detector_cannot_give_boxes_are_counted(
    damaged: bool, astronaut: np.ndarray, tmp_path: Path
) -> None:
    """Where it finds none, and with `skip_bad` where the image cannot be read."""
    from luvli.image import detect_faces

    Image.fromarray(astronaut).save(tmp_path / "a.png")
    if damaged:
        (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:5000])
    else:
        Image.fromarray(np.zeros_like(astronaut)).save(tmp_path / "b.png")
    (box,) = detect_faces(tmp_path / "a.png")
    points = box.array[:2] + (get_markup("ibug68").schematic + 1) / 2 * (box.width, box.height)
    faces = [face_record(n, points=points, image=tmp_path / f"{n}.png") for n in ("a", "b")]
    named = r"b\.png is damaged .*--skip-bad"
    if damaged:
        with pytest.raises(InputError, match=named):
            with_detector_boxes(faces, tmp_path)
    said = r"1 images cannot be read .*b\.png" if damaged else "does not find 1 of 2 faces"
    for _ in range(2):  # the second time from the cache
        with pytest.warns(UserWarning, match=said):
            (kept,) = with_detector_boxes(faces, tmp_path, skip_bad=damaged)
        assert kept.box_kind == "detector" and kept.image == tmp_path / "a.png"
        assert np.allclose(kept.box, box.array)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=named if damaged else "boxes: labels"):
        with_detector_boxes(faces[1:], tmp_path)


def test_faces_of_another_markup_are_converted_or_refused(small_recipe: MakeRecipe) -> None:
    data = small_recipe().data
    fewer = small_recipe().network.model_copy(update={"markup": "aflw19", "landmarks": 19})
    part = load_source("mine", data.sources["mine"], data, fewer)
    assert {len(face.points) for face in part.train} == {19}
    more = small_recipe().network.model_copy(update={"markup": "wflw98", "landmarks": 98})
    with pytest.raises(InputError, match=r"--set network.markup=ibug68 --set network.landmarks=68"):
        load_source("mine", data.sources["mine"], data, more)
    wrong = small_recipe().network.model_copy(update={"landmarks": 67})
    with pytest.raises(InputError, match=r"--set network.landmarks=68"):
        load_source("mine", data.sources["mine"], data, wrong)


def test_rendered_faces_wear_no_skin_of_held_out_photographs(
    small_recipe: MakeRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = {"set": None, "synthetic": {"faces": 1, "size": 64, "backgrounds": "mine"}}
    recipe = small_recipe(data={"sources": {"drawn": drawn}})
    mine = load_source("mine", recipe.data.sources["mine"], recipe.data)
    assert mine.held_out
    used: list[str] = []

    def note(folder: Path, faces: SyntheticFaces, **_: object) -> int:
        used.append(str(faces.backgrounds))
        raise InputError("nothing is drawn here")

    monkeypatch.setattr("luvli.training.sources.synthesize", note)
    with pytest.raises(InputError, match="nothing is drawn"):
        load_source("drawn", recipe.data.sources["drawn"], recipe.data)
    listed = {face.image.name for face in photographed_faces(used[0])}
    assert listed == {r.image.name for r in mine.train if r.image is not None}
    assert not listed & {r.image.name for r in mine.held_out if r.image is not None}


def test_parquet_is_learnt_from_like_the_folder_that_it_was_made_of(
    small_recipe: MakeRecipe, faces_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same faces with the same labels and pixels, and the same ones held out; bad rows are
    named, or skipped."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (extra scale)")
    from luvli.data.formats.label_parquet import write_label_shards

    monkeypatch.setenv("LUVLI_CACHE", str(tmp_path / "cache"))
    shards, faces = tmp_path / "shards", load_set("folder", faces_folder)
    files = write_label_shards(shards, faces, file_faces=8, group_faces=4)
    for hold in (4, 0.3):
        packed = {"set": "parquet", "path": str(shards), "hold_out": hold}
        data = small_recipe(data={"sources": {"mine": {"hold_out": hold}, "packed": packed}}).data
        one, other = (load_source(name, data.sources[name], data) for name in data.sources)
        for side in ("train", "held_out"):
            for a, b in zip(getattr(one, side), getattr(other, side), strict=True):
                assert a.face_id == b.face_id
                np.testing.assert_array_equal(a.points, b.points)
                np.testing.assert_array_equal(a.visibility, b.visibility)
                assert a.image.read_bytes() == b.image.read_bytes()
    for file in files[1:]:
        file.unlink()
    table = parquet.read_table(files[0])
    images = table["image"].to_pylist()
    column = [[None, *images[1:]]]
    table = table.set_column(table.schema.get_field_index("image"), table.field("image"), column)
    parquet.write_table(table, files[0])
    with pytest.raises(InputError, match=r"00000\.parquet#0 has no image"):
        load_set("parquet", shards)
    with pytest.warns(UserWarning, match=r"1 problems skipped, 7 faces are left"):
        assert len(load_set("parquet", shards, skip_bad=True)) == 7


def test_one_bad_face_ends_no_training_with_skip_bad(
    small_recipe: MakeRecipe, faces_folder: Path, tmp_path: Path
) -> None:
    """Neither among training, nor held-out, nor watched faces, with a teacher and relabelling."""
    import shutil

    from luvli.training.loop import train

    faces = shutil.copytree(faces_folder, tmp_path / "faces")
    labels = (faces / "face03.pts").read_text().splitlines()
    (faces / "face03.pts").write_text("\n".join([*labels[:9], "x y", *labels[10:]]))
    for name in ("face05", "face06", "face07", "face09", "face12"):  # both sides of the hold-out
        content = (faces / f"{name}.png").read_bytes()
        (faces / f"{name}.png").write_bytes(content[:300])
    (faces / "face08.png").unlink()
    torch.manual_seed(0)
    teacher = tmp_path / "teacher.safetensors"
    save_model(teacher, build(small_recipe().network), {"enlarge": 1.3})
    mine = {"skip_bad": True, "hold_out": 0.3}
    data = {
        "root": str(faces),
        "sources": {"mine": mine, "again": {"set": "folder", **mine, "relabel": str(teacher)}},
        "validation": {"watched": {"set": "folder", "skip_bad": True}},
    }
    stage = {"epochs": 1, "teacher": str(teacher)}
    recipe = small_recipe(data=data, stages={"heatmaps": None, "luvli": stage})
    with pytest.warns(UserWarning, match=r"face0\d") as warned:
        train(recipe, tmp_path / "run")
    said = " ".join(str(warning.message) for warning in warned)
    assert "face03.pts" in said and "faces are left out, their images cannot be used" in said
    assert "face05.png" in said  # one that only the crops notice
    data["sources"] = {"mine": {**mine, "skip_bad": False}}
    with pytest.raises(InputError, match=r"face03\.pts has a row that is not two numbers"):
        train(small_recipe(data=data), tmp_path / "refused")


def test_faces_of_ones_own_are_not_looked_for_just_anywhere(tmp_path: Path) -> None:
    """Without data.root, all that lies below the present folder would be learnt from."""
    mine = Source(set="folder")
    with pytest.raises(InputError, match=r"data\.root was not set: --set data\.root=FOLDER"):
        source_folder("mine", mine, Data(sources={"mine": mine}))
    here = Data(root=str(tmp_path), sources={"mine": mine})
    assert source_folder("mine", mine, here) == tmp_path
