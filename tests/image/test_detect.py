"""Face detection on real photographs, large, small, several, turned; other sources of boxes."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from luvli.data.formats import read_pts
from luvli.errors import InputError
from luvli.image import Box, detect_faces, get_detector
from luvli.image.detect import YuNet, _hints, box_features, tight_box
from luvli.image.known_boxes import BoxesFromFile, WholeImage

ImageArray = NDArray[np.uint8]


@pytest.fixture(scope="module")
def face(astronaut: ImageArray) -> Box:
    found = detect_faces(astronaut)
    assert len(found) == 1
    return found[0]


def resized(image: ImageArray, factor: float) -> ImageArray:
    method = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, None, fx=factor, fy=factor, interpolation=method))


def test_the_box_holds_eyes_nose_and_mouth_and_no_hair(face: Box) -> None:
    # Read off the photograph by eye: brows to chin, cheek to cheek.
    assert face.iou(Box(180, 88, 272, 178)) > 0.8


@pytest.mark.parametrize("factor", [0.12, 0.3, 2.0, 6.0])
def test_any_size(astronaut: ImageArray, face: Box, factor: float) -> None:
    found = detect_faces(resized(astronaut, factor))
    assert len(found) == 1
    assert found[0].iou(face.scaled(factor)) > (0.6 if factor < 0.2 else 0.8)


def test_several_faces_sorted_by_score(astronaut: ImageArray) -> None:
    part = astronaut[40:300, 100:360]
    blurred = cv2.GaussianBlur(part, (0, 0), 3)
    canvas = np.concatenate([blurred, part, np.ascontiguousarray(part[:, ::-1])], axis=1)
    found = detect_faces(canvas)
    assert len(found) == 3
    scores = [box.score for box in found]
    assert scores == sorted(scores, reverse=True)


def test_a_small_face_in_a_large_picture(astronaut: ImageArray, face: Box) -> None:
    canvas = np.full((1500, 2400, 3), 120, np.uint8)
    small = resized(astronaut, 0.4)
    canvas[900 : 900 + len(small), 1700 : 1700 + small.shape[1]] = small
    expected = face.scaled(0.4)
    moved = Box(expected.x0 + 1700, expected.y0 + 900, expected.x1 + 1700, expected.y1 + 900)
    assert detect_faces(canvas)[0].iou(moved) > 0.6


def test_tiles_find_small_faces_once_wherever_they_are(astronaut: ImageArray, face: Box) -> None:
    """50 pixels of 3000: too small for a look at the whole image; some lie across two tiles."""
    canvas = np.full((1500, 3000, 3), 120, np.uint8)
    factor = 50 / face.size
    small = resized(astronaut, factor)
    expected = []
    for x, y in ((5, 5), (930, 20), (880, 900), (1700, 700), (2700, 1200), (1400, 1380)):
        part = canvas[y : y + len(small), x : x + small.shape[1]]
        part[:] = small[: part.shape[0], : part.shape[1]]
        x0, y0, x1, y1 = face.scaled(factor)
        expected.append(Box(x0 + x, y0 + y, x1 + x, y1 + y))
    assert len(detect_faces(canvas)) < len(expected)
    found = detect_faces(canvas, small_faces=True)
    assert len(found) == len(expected)
    assert all(max(box.iou(other) for other in found) > 0.6 for box in expected)


def test_a_second_face_is_looked_for_where_it_may_be(
    astronaut: ImageArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One face and one weak candidate: the second look is at a part of the image."""
    canvas = np.full((900, 900, 3), 120, np.uint8)
    canvas[:400, :400] = resized(astronaut[40:240, 120:320], 2.0)
    small = resized(astronaut, 0.25)
    canvas[700 : 700 + len(small), 700 : 700 + small.shape[1]] = small
    shown: list[tuple[int, ...]] = []
    run = YuNet._look_at

    def noted(self: YuNet, image: ImageArray, window: tuple[int, int, int, int]) -> object:
        shown.append(window)
        return run(self, image, window)

    monkeypatch.setattr(YuNet, "_look_at", noted)
    found = detect_faces(canvas)
    assert len(found) == 2 and len(shown) == 1
    x0, y0, x1, y1 = shown[0]
    assert x0 < 740 < 770 < x1 and y0 < 710 < 740 < y1 and (x1 - x0, y1 - y0) == (320, 320)


@pytest.mark.parametrize("view", [0, 1, 2], ids=["mirrored", "turned", "turned back"])
def test_other_views_find_the_same_face_in_the_same_place(astronaut: ImageArray, view: int) -> None:
    from luvli.image.detect import YuNet, _other_views

    detector = YuNet()
    plain = detector.detect_raw(astronaut)[0]
    (seen, *_) = detector._look_through(astronaut, list(_other_views(astronaut))[view])
    size = np.sqrt(plain[2] * plain[3])
    assert np.abs(seen[4:14] - plain[4:14]).max() < 0.13 * size  # eyes, 0.4 apart, are not swapped
    assert np.abs(seen[:2] + seen[2:4] / 2 - plain[:2] - plain[2:4] / 2).max() < 0.1 * size
    assert np.abs(np.log(seen[2:4] / plain[2:4])).max() < 0.15


def test_a_face_cut_by_the_border(astronaut: ImageArray) -> None:
    assert len(detect_faces(np.ascontiguousarray(astronaut[85:185, 175:275]))) == 1


def test_no_face_gives_an_empty_list(rng: np.random.Generator) -> None:
    assert detect_faces(np.zeros((200, 300, 3), np.uint8)) == []
    assert detect_faces(rng.integers(0, 256, (240, 320, 3), np.uint8)) == []
    assert detect_faces(np.zeros((2, 2, 3), np.uint8)) == []


def test_mirror_image_gives_the_mirrored_box(astronaut: ImageArray, face: Box) -> None:
    found = detect_faces(np.ascontiguousarray(astronaut[:, ::-1]))[0]
    assert found.iou(Box(511 - face.x1, face.y0, 511 - face.x0, face.y1)) > 0.9


def test_the_map_itself_is_mirror_symmetric(rng: np.random.Generator) -> None:
    row = np.concatenate([[50, 60, 40, 50], rng.uniform(50, 100, 10), [0.9]])
    points = row[4:14].reshape(5, 2)[[1, 0, 2, 4, 3]] * (-1, 1)
    mirrored = np.concatenate([[-50 - 40, 60, 40, 50], points.ravel(), [0.9]])
    x0, y0, x1, y1 = tight_box(row)
    assert list(tight_box(mirrored)) == pytest.approx([-x1, y0, -x0, y1], abs=1e-9)
    assert len(box_features(row)[0]) == 13


@pytest.mark.slow
def test_lfpw_faces_are_found_and_mapped(lfpw: Path) -> None:
    """Every fourth LFPW face: found, and the tight box met as docs/detection.md says."""
    overlaps = []
    for label in sorted(lfpw.glob("*.pts"))[::4]:
        truth = Box.around(read_pts(label, signed=False).points)
        found = detect_faces(label.with_suffix(".jpg"))
        overlaps.append(max((box.iou(truth) for box in found), default=0.0))
    assert np.mean(np.array(overlaps) > 0.5) > 0.99
    assert np.mean(overlaps) > 0.87


def test_whole_image(astronaut: ImageArray) -> None:
    assert get_detector("whole-image")(astronaut) == [Box(50.7, 50.7, 460.3, 460.3)]
    assert list(WholeImage(margin=0)(astronaut)[0]) == [-0.5, -0.5, 511.5, 511.5]


@pytest.mark.parametrize("kind", ["csv", "mapping", "faces"])
def test_boxes_from_a_file(kind: str, tmp_path: Path, astronaut: ImageArray) -> None:
    path = tmp_path / ("boxes.csv" if kind == "csv" else "boxes.json")
    if kind == "csv":
        path.write_text("image,x0,y0,x1,y1,score\na.png,1,2,30,40,0.5\na.png,5,6,70,80,0.9\n")
    elif kind == "mapping":
        path.write_text(json.dumps({"a.png": [[5, 6, 70, 80], [1, 2, 30, 40]]}))
    else:
        faces = [
            {"image": "a.png", "box": [5, 6, 70, 80]},
            {"image": "a.png", "box": [1, 2, 30, 40]},
        ]
        path.write_text(json.dumps({"faces": faces}))
    detector = BoxesFromFile(path)
    assert [list(box) for box in detector(astronaut, "some/where/a.png")] == [
        [5, 6, 70, 80],
        [1, 2, 30, 40],
    ]
    assert detector(astronaut, "b.png") == []


def test_boxes_reach_detect_faces_by_the_pictures_name(
    tmp_path: Path, astronaut: ImageArray
) -> None:
    from luvli.image.write import write_image

    write_image(tmp_path / "a.png", astronaut)
    (tmp_path / "boxes.json").write_text(json.dumps({"a.png": [[5, 6, 70, 80]]}))
    found = detect_faces(tmp_path / "a.png", detector=BoxesFromFile(tmp_path / "boxes.json"))
    assert [list(box) for box in found] == [[5, 6, 70, 80]]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"a.png": 3}', '{"a.png": [[1,2,3]]}', '{"a.png": [[3,2,1,0]]}']
)
def test_bad_box_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "boxes.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"boxes\.json"):
        BoxesFromFile(path)(np.zeros((9, 9, 3), np.uint8), "a.png")


def test_unknown_detector_lists_the_choices() -> None:
    with pytest.raises(InputError, match="yunet"):
        get_detector("retina")


@pytest.mark.parametrize(
    ("score", "head", "pixel", "asks"),
    [
        (0.12, 90.0, 1.0, True),
        (0.05, 90.0, 1.0, False),  # a large head would be seen more clearly
        (0.05, 40.0, 1.0, True),
        (0.05, 90.0, 2.0, True),  # 45 pixels of the first look
        (0.05, 110.0, 2.0, False),
    ],
)
def test_a_faint_hint_counts_where_it_is_small(
    score: float, head: float, pixel: float, asks: bool
) -> None:
    face, hint = np.zeros((2, 15))
    face[[2, 3, 14]] = 200, 250, 0.9
    hint[[0, 2, 3, 14]] = 400, head, head, score
    assert _hints(np.stack([face, hint]), pixel).tolist() == [False, asks]
    hint[0] = 50  # part of the face itself
    hint[1] = 50
    assert not _hints(np.stack([face, hint]), pixel).any()
