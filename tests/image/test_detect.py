"""Face detection on a real photograph, large, small, several, turned; other sources of boxes."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from luvli.data.formats import read_pts
from luvli.errors import InputError
from luvli.image import Box, affine, detect_faces, get_detector
from luvli.image.detect import YuNet, box_features, moved_rows, other_views, tight_box
from luvli.image.known_boxes import BoxesFromFile
from luvli.image.write import write_image
from luvli.image.yunet import YuNetNetwork

ImageArray = NDArray[np.uint8]


@pytest.fixture(scope="module")
def face(astronaut: ImageArray) -> Box:
    (found,) = detect_faces(astronaut)
    return found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Heights and widths of the images that the network is shown."""
    shown: list[tuple[int, ...]] = []
    run = YuNetNetwork.__call__

    def noted(self: YuNetNetwork, image: ImageArray, min_score: float) -> object:
        shown.append(image.shape[:2])
        return run(self, image, min_score)

    monkeypatch.setattr(YuNetNetwork, "__call__", noted)
    return shown


def resized(image: ImageArray, factor: float) -> ImageArray:
    method = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, None, fx=factor, fy=factor, interpolation=method))


def shifted(box: Box, x: float, y: float) -> Box:
    return Box(box.x0 + x, box.y0 + y, box.x1 + x, box.y1 + y)


def test_the_box_holds_eyes_nose_and_mouth_and_no_hair(face: Box) -> None:
    # Read off the photograph by eye: brows to chin, cheek to cheek.
    assert face.iou(Box(180, 88, 272, 178)) > 0.8


@pytest.mark.parametrize("factor", [0.12, 0.3, 2.0, 6.0])
def test_any_size(astronaut: ImageArray, face: Box, factor: float) -> None:
    (found,) = detect_faces(resized(astronaut, factor))
    assert found.iou(face.scaled(factor)) > (0.6 if factor < 0.2 else 0.8)


def test_several_faces_sorted_by_score(astronaut: ImageArray) -> None:
    part = astronaut[40:300, 100:360]
    blurred = cv2.GaussianBlur(part, (0, 0), 3)
    canvas = np.concatenate([blurred, part, np.ascontiguousarray(part[:, ::-1])], axis=1)
    scores = [box.score for box in detect_faces(canvas)]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)


def test_a_small_face_in_a_large_picture(astronaut: ImageArray, face: Box) -> None:
    canvas = np.full((1500, 2400, 3), 120, np.uint8)
    small = resized(astronaut, 0.4)
    canvas[900 : 900 + len(small), 1700 : 1700 + small.shape[1]] = small
    assert detect_faces(canvas)[0].iou(shifted(face.scaled(0.4), 1700, 900)) > 0.6


def test_tiles_find_small_faces_once_wherever_they_are(astronaut: ImageArray, face: Box) -> None:
    """50 pixels of 3000: too small for a look at the whole image; some lie across two tiles."""
    canvas = np.full((1500, 3000, 3), 120, np.uint8)
    factor = 50 / face.size
    small = resized(astronaut, factor)
    expected = []
    for x, y in ((5, 5), (930, 20), (880, 900), (1700, 700), (2700, 1200), (1400, 1380)):
        part = canvas[y : y + len(small), x : x + small.shape[1]]
        part[:] = small[: part.shape[0], : part.shape[1]]
        expected.append(shifted(face.scaled(factor), x, y))
    assert len(detect_faces(canvas)) < len(expected)
    found = detect_faces(canvas, small_faces=True)
    assert len(found) == len(expected)
    assert all(max(box.iou(other) for other in found) > 0.6 for box in expected)


def test_a_portrait_takes_one_look(astronaut: ImageArray, looks: list[tuple[int, ...]]) -> None:
    portrait = np.asarray(cv2.resize(astronaut[:300, 80:380], (640, 640)), np.uint8)
    assert len(detect_faces(portrait)) == 1 and looks == [(320, 320)]
    detect_faces(portrait, small_faces=True)
    assert looks[1:] == [(320, 320), (640, 640)]


def test_a_second_face_is_looked_for_where_it_may_be(
    astronaut: ImageArray, face: Box, looks: list[tuple[int, ...]]
) -> None:
    """One face and one weak candidate: the second look is at a part of the image."""
    canvas = np.full((900, 900, 3), 120, np.uint8)
    canvas[:400, :400] = resized(astronaut[40:240, 120:320], 2.0)
    small = resized(astronaut, 0.25)
    canvas[700 : 700 + len(small), 700 : 700 + small.shape[1]] = small
    found = detect_faces(canvas)
    assert len(found) == 2 and looks == [(320, 320), (320, 320)]
    assert min(found, key=lambda box: box.size).iou(shifted(face.scaled(0.25), 700, 700)) > 0.6


@pytest.mark.parametrize("view", [0, 1, 2], ids=["mirrored", "turned", "turned back"])
def test_other_views_find_the_same_face_in_the_same_place(astronaut: ImageArray, view: int) -> None:
    detector = YuNet()
    plain = detector.detect_raw(astronaut)[0]
    way = list(other_views(512, 512))[view]
    there = cv2.warpAffine(astronaut, way, (512, 512), borderMode=cv2.BORDER_REPLICATE)
    (seen, *_) = moved_rows(detector.detect_raw(np.asarray(there)), affine.invert(way))
    size = np.sqrt(plain[2] * plain[3])
    assert np.abs(seen[4:14] - plain[4:14]).max() < 0.13 * size  # eyes, 0.4 apart, are not swapped
    assert np.abs(seen[:2] + seen[2:4] / 2 - plain[:2] - plain[2:4] / 2).max() < 0.1 * size
    assert np.abs(np.log(seen[2:4] / plain[2:4])).max() < 0.15


def test_a_face_cut_by_the_border_or_in_the_dark(astronaut: ImageArray) -> None:
    assert len(detect_faces(np.ascontiguousarray(astronaut[85:185, 175:275]))) == 1
    assert len(detect_faces(astronaut // 12)) == 1


def test_no_face_gives_an_empty_list(rng: np.random.Generator) -> None:
    assert detect_faces(np.zeros((200, 300, 3), np.uint8)) == []
    assert detect_faces(rng.integers(0, 256, (240, 320, 3), np.uint8)) == []
    assert detect_faces(np.zeros((2, 2, 3), np.uint8)) == []


@pytest.mark.parametrize("name", ["yunet", "yunet-open"])
def test_the_map_to_tight_boxes_is_mirror_symmetric(name: str, rng: np.random.Generator) -> None:
    row = np.concatenate([[50, 60, 40, 50], rng.uniform(50, 100, 10), [0.9]])
    mirrored = moved_rows(row[None], affine.mirror(1))[0]
    detector = get_detector(name)
    assert isinstance(detector, YuNet)
    x0, y0, x1, y1 = tight_box(row, detector.edges)
    assert list(tight_box(mirrored, detector.edges)) == pytest.approx([-x1, y0, -x0, y1], abs=1e-9)
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


def test_unknown_detectors_are_refused() -> None:
    with pytest.raises(InputError, match=r"retina.*yunet"):
        get_detector("retina")


BOXES = [[5, 6, 70, 80], [1, 2, 30, 40]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.csv", "image,x0,y0,x1,y1,score\na.png,1,2,30,40,0.7\na.png,5,6,70,80,0.9\n"),
        ("b.json", json.dumps({"a.png": BOXES})),
        ("b.json", json.dumps({"faces": [{"image": "a.png", "box": box} for box in BOXES]})),
    ],
)
def test_boxes_from_a_file(name: str, text: str, tmp_path: Path, astronaut: ImageArray) -> None:
    (tmp_path / name).write_text(text)
    write_image(tmp_path / "a.png", astronaut)
    detector = BoxesFromFile(tmp_path / name)
    assert [list(box) for box in detect_faces(tmp_path / "a.png", detector=detector)] == BOXES
    assert detector(astronaut, "b.png") == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"a.png": 3}', '{"a.png": [[1,2,3]]}', '{"a.png": [[3,2,1,0]]}']
)
def test_bad_box_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "boxes.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"boxes\.json"):
        BoxesFromFile(path)(np.zeros((9, 9, 3), np.uint8), "a.png")
