"""What people hold: PIL images, open files, BGR frames, tensors; boxes in every usual format."""

from __future__ import annotations

import io
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import luvli
from luvli.errors import BoxWarning, InputError
from luvli.image.box import Box
from luvli.image.detect import YuNet
from luvli.image.write import write_image
from luvli.prediction.predictor import Predictor
from luvli.prediction.video import Frame

from .conftest import disc_image, write_video

DISC = (100.0, 80.0, 30.0)
TIGHT = (70.0, 50.0, 130.0, 110.0)


def test_every_way_to_hold_an_image_gives_the_same_faces(discs: Predictor, tmp_path: Path) -> None:
    image = disc_image([DISC])
    write_image(tmp_path / "a.png", image)
    expected = discs.predict(image)
    assert len(expected) == 1
    assert discs.predict(Image.fromarray(image)) == expected
    with (tmp_path / "a.png").open("rb") as stream:
        assert discs.predict(stream) == expected
        with pytest.raises(InputError, match=r"seek\(0\)"):
            discs.predict(stream)
    with (tmp_path / "a.png").open(encoding="utf-8") as text, pytest.raises(InputError, match="rb"):
        discs.predict(text)
    assert discs.predict((tmp_path / "a.png").read_bytes()) == expected
    assert discs.predict(cv2.imread(str(tmp_path / "a.png")), color="bgr") == expected
    twelve_bits = np.rint(image.astype(np.float64) / 255 * 4095).astype(np.uint16)
    assert discs.predict(twelve_bits, white_level=4095) == expected


def test_tensors_of_both_layouts(discs: Predictor) -> None:
    torch = pytest.importorskip("torch")
    image = disc_image([DISC])
    expected = discs.predict(image)
    tensor = torch.from_numpy(image)
    assert discs.predict(tensor) == expected
    assert discs.predict(tensor.permute(2, 0, 1)) == expected
    assert discs.predict(tensor.permute(2, 0, 1)[None].float() / 255) == expected
    assert len(discs.predict((tensor.float() / 255).bfloat16())) == 1
    with pytest.raises(InputError, match="predict_batch"):
        discs.predict(torch.stack([tensor, tensor]))


@pytest.mark.parametrize(
    ("image", "options", "sentence"),
    [
        (None, {}, r"cv2\.imread"),
        (io.StringIO("text"), {}, r'open\(path, "rb"\)'),
        ({}, {}, "cannot be a dict"),
        (["a.png", "b.png"], {}, "predict_batch for several"),
        ("https://somewhere/a.jpg", {}, "is an address: download"),
        (disc_image([]).transpose(2, 0, 1), {}, "put the channels last"),
        (disc_image([])[None], {}, "use predict_batch"),
        (disc_image([]), {"color": "rbg"}, "rgb, bgr"),
        (disc_image([]), {"min_score": 7}, r"min_score must lie in 0\.\.1, got 7"),
        (disc_image([]), {"boxes": [(400, 50, 460, 110)]}, "lies outside the image of 320 x 240"),
        (disc_image([]), {"boxes": [(130, 50, 70, 110)]}, "xywh"),
        (disc_image([]), {"boxes": [(0.2, 0.2, 0.4, 0.4)]}, "relative_boxes=True"),
        (disc_image([]), {"boxes": [(np.nan, 0, 1, 1)]}, "finite"),
        (disc_image([]), {"boxes": [70, 50, 130, 110]}, r"\[\[x0, y0, x1, y1\]\]"),
        (disc_image([]), {"boxes": [TIGHT], "box_source": "mtcnn"}, "box source.*mtcnn.*dlib"),
    ],
)
def test_what_is_no_image_and_no_box_gets_a_sentence(
    discs: Predictor, image: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        discs.predict(image, **options)


def test_options_that_do_not_exist_are_refused(discs: Predictor) -> None:
    with pytest.raises(TypeError, match="colour"):
        discs.predict_batch([disc_image([])], colour="bgr")
    with pytest.raises(InputError, match="takes a list of images"):
        discs.predict_batch("photo.jpg")


def test_boxes_in_every_format_are_the_same_box(discs: Predictor) -> None:
    image = disc_image([DISC])  # 320 x 240
    expected = discs.predict(image, boxes=[TIGHT])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert discs.predict(image, boxes=[(70, 50, 60, 60)], box_format="xywh") == expected
        assert discs.predict(image, boxes=[(100, 80, 60, 60)], box_format="cxcywh") == expected
        share = (np.array(TIGHT) + 0.5) / (320, 240, 320, 240)
        (face,) = discs.predict(image, boxes=[share], relative_boxes=True)
    np.testing.assert_allclose(face.points, expected[0].points, atol=1e-9)


def test_unlikely_boxes_raise_a_warning(discs: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "face.png"
    write_image(path, disc_image([DISC]))
    for box, sentence in (
        ((40, 70, 160, 90), "too long for a face"),
        ((-90, -90, 30, 30), "mostly outside"),
        # x, y, width, height taken for corners: still a box, but not the one the landmarks fill
        ((20, 20, 115, 190), r"box 0 of .*face\.png .* does not fit"),
    ):
        with pytest.warns(BoxWarning, match=sentence) as told:
            discs.predict(path, boxes=[box])
        assert told[0].filename == __file__  # the caller's line, not one of ours


@pytest.mark.parametrize("source", ["yunet", "haar"])
def test_rectangles_of_other_detectors(astronaut: NDArray[np.uint8], source: Any) -> None:
    """Passed as they are, they give the face that our own detector gives."""
    if source == "yunet":
        x, y, width, height = YuNet().detect_raw(astronaut)[0][:4]
    else:
        cascade = cv2.CascadeClassifier(cv2.data.haarcascades + "haarcascade_frontalface_alt2.xml")
        faces = cascade.detectMultiScale(cv2.cvtColor(astronaut, cv2.COLOR_RGB2GRAY), 1.1, 4)
        x, y, width, height = max(faces, key=lambda face: face[2])
    model = luvli.load("luvli-68-fast", threads=1)
    (own,) = model.predict(astronaut)
    rows = [(x, y, width, height)]
    (face,) = model.predict(astronaut, boxes=rows, box_format="xywh", box_source=source)
    size = Box(*own.box).size
    assert np.linalg.norm(face.points - own.points, axis=1).mean() < 0.02 * size
    assert Box(*face.box).iou(Box(*own.box)) > 0.8


def test_sides_taken_for_a_corner_are_told_by_the_confidence(astronaut: NDArray[np.uint8]) -> None:
    """A small square beside the face passes every look at the box alone."""
    model = luvli.load("luvli-68", threads=1)
    (x0, y0, x1, y1) = model.predict(astronaut)[0].box
    cut = np.ascontiguousarray(astronaut[int(y0) - 80 :, int(x0) - 60 :])
    (face,) = model.predict(cut)
    (x0, y0, x1, y1) = face.box
    beside = (x0, y1, x1, y1 + (y1 - y0))  # neck and collar
    with warnings.catch_warnings():  # a Box cannot be meant in another way
        warnings.simplefilter("error")
        model.predict(cut, boxes=[face.box])
        model.predict(cut, boxes=[Box(*beside)])
    with pytest.warns(BoxWarning, match='hardly holds a face .*box_format="xywh"'):
        model.predict(cut, boxes=[(x0, y0, x1 - x0, y1 - y0)])
    with pytest.warns(BoxWarning, match=r'hardly holds a face .*x1, y1 need box_format="xyxy"'):
        model.predict(cut, boxes=[face.box], box_format="xywh")  # the hint is not what was said
    with pytest.raises(InputError, match=r"\[face\.box for face in faces\]"):
        model.predict(cut, boxes=[face])  # type: ignore[list-item]
    crop = face.crop(cut)
    assert model.predict_crops([crop[:, :, ::-1]], color="bgr") == model.predict_crops([crop])


def test_what_is_no_model_gets_a_sentence() -> None:
    with pytest.raises(InputError, match=r"unknown model 'luvli-98': did you mean 'luvli-68'\?"):
        luvli.load("luvli-98")
    with pytest.raises(InputError, match=r"no option 'license': write licence="):
        luvli.load("luvli-68", license="open")
    with pytest.raises(InputError, match=r"a model is a name .* not a NoneType"):
        luvli.load(None)  # type: ignore[arg-type]
    assert luvli.load("luvli-68", providers="cpu", threads=1).backend.threads == 1


def test_frames_are_followed_by_a_generator(discs: Predictor) -> None:
    images = [disc_image([(60 + 4 * i, 80, 30), (240, 150, 40)]) for i in range(8)]
    seen = list(discs.track(iter(images), rate=10))
    assert [frame.number for frame, _ in seen] == list(range(8))
    assert repr(seen[1].frame) == f"Frame(number=1, time=0.100, image {images[0].shape[1]} x " + (
        f"{images[0].shape[0]})"
    )
    assert [round(frame.time, 6) for frame, _ in seen] == [i / 10 for i in range(8)]
    for i, (frame, faces) in enumerate(seen):
        assert frame.image is not None and sorted(face.track or 0 for face in faces) == [1, 2]
        left = min(faces, key=lambda face: face.points[:, 0].mean())
        assert left.time == frame.time
        assert left.points[:, 0].mean() == pytest.approx(60 + 4 * i, abs=1)
    timed = [Frame(i, 0.5 * i, image) for i, image in enumerate(images)]
    assert [frame.time for frame, _ in discs.track(timed, smooth=True)] == [
        0.5 * i for i in range(8)
    ]


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        (None, {}, "a video cannot be a NoneType: give a video file, the number of a camera"),
        (3.5, {}, "a video cannot be a float"),
        (True, {}, "a video cannot be a bool"),
        (b"bytes of a video", {}, "a video cannot be a bytes"),
        (io.BytesIO(b"1"), {}, "a video cannot be a BytesIO"),
        (np.zeros((40, 50, 3), np.uint8), {}, r"\(40, 50, 3\) is one image, not a video"),
        ("https://example.com/a.mp4", {}, "is an address: download the video"),
        ("rtsp://camera/1", {}, r"rtsp://camera/1 is an address: .* cv2.VideoCapture\(address\)"),
        (cv2.VideoCapture("nowhere.mp4"), {}, "the cv2.VideoCapture is not open"),
        ([], {"rate": 0}, "rate must be a number of frames a second above 0, got 0"),
        ([], {"rate": float("nan")}, "rate must be a number"),
        ([], {"rate": "25"}, "rate must be a number"),
        ([], {"min_score": 7}, r"min_score must lie in 0\.\.1, got 7"),
        ([], {"color": "brg"}, "unknown color 'brg': did you mean"),
    ],
)
def test_what_is_no_video_gets_a_sentence_at_once(
    discs: Predictor, source: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        discs.track(source, **options)


def test_a_wrong_frame_is_named_and_those_before_it_are_given(discs: Predictor) -> None:
    good = disc_image([(60, 80, 30)])
    seen = discs.track(iter([good, np.zeros((9, 9, 7), np.uint8)]))
    assert next(seen).frame.number == 0
    with pytest.raises(InputError, match=r"frame 1: the array must have shape"):
        next(seen)
    with pytest.raises(InputError, match=r"frame 0: the image is None"):
        list(discs.track([Frame(0, 0.0, None)]))  # type: ignore[arg-type]


def test_a_camera_may_be_read_in_a_thread(
    discs: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Camera:
        left = 3

        def isOpened(self) -> bool:  # OpenCV's name
            return True

        def read(self) -> tuple[bool, Any]:
            self.left -= 1
            return self.left >= 0, disc_image([(60, 80, 30)])

        def release(self) -> None:
            pass

    monkeypatch.setattr("cv2.VideoCapture", lambda number: Camera())
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(lambda: list(discs.track(0))).result()
    assert [len(faces) for _, faces in seen] == [1, 1, 1]


def test_opencv_captures_are_followed_as_bgr(discs: Predictor, tmp_path: Path) -> None:
    red = np.zeros((120, 160, 3), np.uint8)
    red[..., 0] = 255
    path = write_video(tmp_path / "a.mp4", ((i / 25, red) for i in range(5)))
    seen = [frame for frame, _ in discs.track(cv2.VideoCapture(str(path)), rate=50)]
    assert [(frame.number, frame.time) for frame in seen] == [(i, i / 50) for i in range(5)]
    assert all(frame.image[..., 0].mean() > 200 > 60 > frame.image[..., 2].mean() for frame in seen)


def test_a_video_that_breaks_off_is_said(discs: Predictor, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 255, (60, *disc_image([]).shape), dtype=np.uint8)
    path = write_video(
        tmp_path / "a.mp4",
        ((i / 30, image) for i, image in enumerate(noise)),
        options={"movflags": "faststart"},
    )
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    with pytest.warns(
        UserWarning, match=r"a\.mp4 gives only \d+ of 60 frames.*: faces are of what could be read"
    ) as told:
        seen = list(discs.track(path))
    assert 0 < len(seen) < 60 and told[0].filename == __file__
