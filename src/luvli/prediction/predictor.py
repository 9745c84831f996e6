"""`Predictor`: images in, faces out. `load` makes one from a name or a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError, unknown_choice
from luvli.faces import FaceLandmarks
from luvli.files import PathLike
from luvli.image.box import Box
from luvli.image.box_format import Boxes, BoxFormat, as_boxes, warn_of_misfits
from luvli.image.crop import Crop
from luvli.image.detect import LARGE, MIN_SCORE, Detector, get_detector
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray, ImageSource, Reduced, read_image
from luvli.image.source import AnyImage, Color, image_size, plain_source
from luvli.markup import get_markup, is_markup
from luvli.models import model_names, read_card
from luvli.network.backend import Backend, usable
from luvli.network.face_features import FaceArrays
from luvli.network.licence import is_open
from luvli.network.model_info import ModelInfo
from luvli.network.trust_tables import Judgement
from luvli.prediction import second_look
from luvli.prediction.backends import BackendName, open_backend
from luvli.prediction.in_image import FacesInImage

if TYPE_CHECKING:
    from luvli.prediction.live import Stream, TrackedFrame


BATCH = 32
"""faces that go through the network together in `predict_batch`"""


def load(
    model: PathLike = "luvli-68",
    backend: BackendName | None = None,
    threads: int | None = None,
    providers: Sequence[str] | None = None,
    small_faces: bool = False,
    licence: Literal["open"] | None = None,
) -> Predictor:
    """Load a model: a shipped one by name, or your own by path.

    Args:
        model: the name of a shipped model (`luvli models list`), or the path of a file. The file
            decides what runs it: ONNX Runtime for `.onnx`, PyTorch for `.safetensors`.
        backend: "onnx" (the default, needs no PyTorch) or "torch", for shipped models.
        threads: cores to use; all of them by default.
        providers: "cpu" and "cuda" in order of preference.
        small_faces: have the detector look closely at every large image, which takes longer.
        licence: "open" refuses weights that are for research only.
    """
    if isinstance(providers, str):
        providers = [providers]
    if licence not in (None, "open"):
        raise unknown_choice("licence", licence, ("open",))
    opened = open_backend(model, backend, threads, providers)
    if licence == "open" and not is_open(opened.info.licence):
        free = [name for name in model_names() if is_open(read_card(name).licence)]
        raise InputError(
            f"the licence of {model} is not open ({opened.info.licence}): use "
            f"{' or '.join(free) or 'a model of your own'}."
        )
    return Predictor(opened, small_faces=small_faces)


class Prepared(NamedTuple):
    """The faces of one image, ready for the network."""

    boxes: list[Box]
    crops: list[Crop]
    pixels: list[ImageArray]
    """each (S, S, 3); of detected faces somewhat more than the crop (`second_look`)"""


class Predictor:
    """A model with everything around it: detector, crops, the way back to image pixels.

    Safe to share between threads. All results are in image pixels.
    """

    def __init__(
        self, backend: Backend, detector: Detector | None = None, small_faces: bool = False
    ) -> None:
        """`detector` finds faces where no boxes are given; the model's own by default."""
        self.backend = backend
        self.small_faces = small_faces
        self.detector = detector
        self.accept_from: float | None = None
        """confidence from which faces are accepted (`luvli.trust.triage`); None: not asked"""
        config = backend.info.config
        if is_markup(config.markup) and get_markup(config.markup).size != config.landmarks:
            raise InputError(
                f"the model {backend.info.name} has {config.landmarks} landmarks, but its markup "
                f"{config.markup} has {get_markup(config.markup).size}: save it again."
            )

    def __repr__(self) -> str:
        """One line: which model, what it finds, what runs it."""
        config = self.info.config
        return (
            f"Predictor({self.info.name} {self.info.version}, {config.landmarks} points of "
            f"{config.markup}, {type(self.backend).__name__}, threads {self.backend.threads})"
        )

    def for_one_thread(self) -> Predictor:
        """The same for one of several threads that do whole images each: its network computes in
        the thread that calls it. Itself where the backend has no such way."""
        apart = getattr(self.backend, "for_one_thread", None)
        if apart is None or self.backend.threads == 1:
            return self
        made = copy(self)
        made.backend = apart()
        return made

    @property
    def info(self) -> ModelInfo:
        """Name, licence, configuration, calibration."""
        return self.backend.info

    def detect(self, image: ImageArray, name: str = "", min_score: float = MIN_SCORE) -> list[Box]:
        """Tight landmark boxes of the faces in an image, best first."""
        detector = self.detector or get_detector(self.info.detector, self.small_faces)
        found = (box for box in detector(image, name) if box.score >= min_score)
        return sorted(found, key=lambda box: -box.score)

    def predict(
        self,
        image: AnyImage,
        boxes: Boxes | None = None,
        min_score: float = MIN_SCORE,
        *,
        color: Color = "rgb",
        box_format: BoxFormat = "xyxy",
        relative_boxes: bool = False,
    ) -> list[FaceLandmarks]:
        """The faces in one image, best detection first; an empty list if there are none.

        Args:
            image: a path, bytes, an open file, a `PIL.Image`, an array (H, W, 3) or a PyTorch
                tensor (3, H, W). Arrays and tensors are uint8, or floats in 0..1.
            boxes: (n, 4) tight landmark boxes (see `luvli.image.box`), if you have them. The
                detector is then not used, and the faces come back in the order of the boxes.
            min_score: leave out detections below this score.
            color: channel order of arrays and tensors; "bgr" for OpenCV frames.
            box_format: "xyxy" (corners), "xywh" or "cxcywh" (corner or centre, then width, height).
            relative_boxes: whether boxes are fractions of the image's width and height, 0..1.

        Boxes outside the image are refused; implausible ones raise a `BoxWarning`.
        """
        return self.predict_batch(
            [image],
            None if boxes is None else [boxes],
            min_score,
            color=color,
            box_format=box_format,
            relative_boxes=relative_boxes,
        )[0]

    def predict_batch(
        self,
        images: Sequence[AnyImage],
        boxes: Sequence[Boxes] | None = None,
        min_score: float = MIN_SCORE,
        *,
        color: Color = "rgb",
        box_format: BoxFormat = "xyxy",
        relative_boxes: bool = False,
    ) -> list[list[FaceLandmarks]]:
        """`predict` for several images: they are read and searched in `threads` threads, and the
        faces of all of them go through the network together.

        The faces are the same as from `predict` in a loop. More cores make it faster; with
        `threads=1` there is little to gain. All results are held in memory; for folders of any
        size use the command `luvli predict`.
        """
        if isinstance(images, str | bytes | os.PathLike):
            raise InputError("predict_batch takes a list of images: use predict for one.")
        if boxes is not None and len(boxes) != len(images):
            raise InputError(f"{len(images)} images need {len(images)} lists of boxes.")
        if not isinstance(min_score, int | float | np.number) or not 0 <= min_score <= 1:
            raise InputError(f"min_score must lie in 0..1, got {min_score!r}.")
        sources = [plain_source(image, color) for image in images]
        given = [
            as_boxes(boxes[i], box_format, relative_boxes, image_size(source))
            if boxes is not None
            else None
            for i, source in enumerate(sources)
        ]
        jobs = [(source, chosen, min_score) for source, chosen in zip(sources, given, strict=True)]
        workers = min(self.backend.threads, len(jobs))
        if workers > 1:
            with ThreadPoolExecutor(workers) as pool:
                ready = list(pool.map(lambda job: self.prepare(*job), jobs))
        else:
            ready = [self.prepare(*job) for job in jobs]
        faces = iter(
            self.run(
                [pixels for one in ready for pixels in one.pixels],
                [crop for one in ready for crop in one.crops],
                [box for one in ready for box in one.boxes],
            )
        )
        results = [[next(faces) for _ in one.boxes] for one in ready]
        for i, (chosen, result) in enumerate(zip(given, results, strict=True)):
            # a `Box` knows its corners; rows of four numbers may be meant in another way
            if boxes is not None and chosen and not isinstance(boxes[i][0], Box):
                warn_of_misfits(
                    chosen,
                    [face.points for face in result],
                    [face.confidence for face in result],
                    box_format,
                )
        return results

    def prepare(
        self,
        source: ImageSource | Photograph,
        boxes: Sequence[Box] | None = None,
        min_score: float = MIN_SCORE,
        name: str = "",
    ) -> Prepared:
        """What the network is shown of an image: reads it, finds the faces, cuts them out.

        Of a large JPEG no more is decoded than the detector and the faces need.
        """
        name = name or (str(source) if isinstance(source, str | os.PathLike) else "")
        photograph = source if isinstance(source, Photograph) else Photograph(source)
        if boxes is None:
            boxes = self.find(photograph, name, min_score)
        crops = [self.crop(box) for box in boxes]
        edge = second_look.margin(self.info)
        pixels = [
            photograph.warp(crop.wider(edge) if edge and box.detected else crop)
            for box, crop in zip(boxes, crops, strict=True)
        ]
        return Prepared(list(boxes), crops, pixels)

    def look_at(self, photograph: Photograph) -> Reduced:
        """As much of an image as the detector needs; all of it for a detector of one's own,
        which may know the boxes."""
        return photograph.overview(LARGE) if self.detector is None else photograph.at(1)

    def find(
        self, photograph: Photograph, name: str = "", min_score: float = MIN_SCORE
    ) -> list[Box]:
        """Tight landmark boxes, best first, in pixels of the whole image."""
        seen = self.look_at(photograph)
        found = self.detect(seen.image, name, min_score)
        return found if seen.factor == 1 else [seen.to_whole(box) for box in found]

    def track(
        self,
        source: Stream,
        smooth: bool = False,
        rate: float = 25.0,
        min_score: float = MIN_SCORE,
        color: Color = "rgb",
    ) -> Iterator[TrackedFrame]:
        """Follow faces through a video: yields each frame together with its faces.

            for frame, faces in model.track("clip.mp4", smooth=True):
                frame.image, frame.time, [face.track for face in faces]

        Args:
            source: a video file, a camera number, a `cv2.VideoCapture`, or an iterable of frames:
                images of any kind that `predict` takes, or `luvli.prediction.video.Frame`.
            smooth: filter each landmark over time, weighted by how certain it is. For a file,
                frames then arrive up to about a second of video later: the filter looks ahead.
            rate: frames per second, for sources without timestamps.
            min_score: leave out detections below this score.
            color: channel order of frames that are arrays; "bgr" for OpenCV.

        Each face has a `track`, a number that stays with it for as long as it is followed, and a
        `time` in seconds. The detector does not run on every frame, so this is faster than
        calling `predict` on each.
        """
        from luvli.prediction.live import track_faces

        return track_faces(self, source, smooth, rate, min_score, color)

    def predict_crops(
        self, crops: Sequence[AnyImage] | NDArray[np.uint8], color: Color = "rgb"
    ) -> list[FaceLandmarks]:
        """One face for each image, which is a face crop already: square, any size.

        The crop should show what the model was trained with: the tight landmark box, made
        square and enlarged by `info.enlarge`. Results are in the pixels of each crop.
        """
        size = self.info.config.input_size
        ways: list[Crop] = []
        pixels: list[ImageArray] = []
        boxes: list[Box] = []
        for source in crops:
            image = read_image(plain_source(source, color))
            height, width = image.shape[:2]
            if height != width:
                raise InputError(f"a face crop must be square, got {width} x {height} pixels.")
            middle = (width - 1) / 2
            half = width / self.info.enlarge / 2
            boxes.append(Box(middle - half, middle - half, middle + half, middle + half))
            ways.append(Crop.from_square((middle, middle), width, size))
            pixels.append(image if width == size else ways[-1].warp(image))
        return self.run(pixels, ways, boxes)

    def crop(self, box: Box) -> Crop:
        """The window on the image that the model wants to see for a face in `box`."""
        return self.info.crop_for(box)

    def run(
        self, pixels: Sequence[ImageArray], crops: Sequence[Crop], boxes: Sequence[Box]
    ) -> list[FaceLandmarks]:
        """Crops' pixels through the network, and its predictions back to image pixels.

        Faces whose pixels hold more than the crop, as `prepare` cuts them, are looked at a second
        time where their landmarks do not fit the box (`luvli.prediction.second_look`).
        """
        if 0 < len(pixels) <= BATCH:
            return self._run_batch(pixels, crops, boxes)
        faces: list[FaceLandmarks] = []
        for start in range(0, len(pixels), BATCH):
            part = slice(start, start + BATCH)
            faces += self._run_batch(pixels[part], crops[part], boxes[part])
        return faces

    def _in_image(self, pixels: Sequence[ImageArray], crops: Sequence[Crop]) -> FacesInImage:
        """What the model says about crops, in image pixels."""
        found = self.backend(pixels[0][None] if len(pixels) == 1 else np.stack(pixels))
        if not usable(found):
            raise InputError(
                f"the model {self.info.name} gives no numbers for a face: leave the image out, or "
                "train the model again."
            )
        return FacesInImage.of(found, crops, self.info)

    def _run_batch(
        self, pixels: Sequence[ImageArray], crops: Sequence[Crop], boxes: Sequence[Box]
    ) -> list[FaceLandmarks]:
        """Faces of one batch; they are moved to the image all at once."""
        size = self.info.config.input_size
        found = self._in_image([second_look.first_view(seen, size) for seen in pixels], crops)
        points, covariance, visibility, occlusion, astray = found
        better = {
            i: box
            for i, seen in enumerate(pixels)
            if len(seen) > size
            and (box := second_look.better_box(boxes[i], points[i], visibility[i])) is not None
        }
        if better:
            again = [self.crop(box) for box in better.values()]
            cut = [
                second_look.cut_again(pixels[i], crops[i], crop)
                for i, crop in zip(better, again, strict=True)
            ]
            found.put(list(better), self._in_image(cut, again))
        config, trust = self.info.config, self.info.trust
        edges = np.array([(box.x0, box.y0, box.x1, box.y1) for box in boxes], dtype=np.float64)
        judge: list[dict[str, Any]] = [{}] * len(boxes)
        if trust is not None:
            shown = visibility if config.visibility_trained else None
            scores = [box.score for box in boxes]
            arrays = FaceArrays(points, covariance, shown, edges, scores, config.markup, astray)
            all_of_them = Judgement(trust, arrays, self.accept_from)
            judge = [{"_judge": partial(all_of_them, i)} for i in range(len(boxes))]
        return [
            FaceLandmarks._trusted(
                points=points[i],
                covariance=covariance[i],
                visibility=visibility[i],
                box=edges[i],
                score=box.score,
                markup=config.markup,
                visibility_trained=config.visibility_trained,
                covariance_trained=config.covariance_trained,
                occlusion=None if occlusion is None else occlusion[i],
                occlusion_trained=self.info.occlusion_trained,
                astray=None if astray is None else float(astray[i]),
                likelihood=self.info.likelihood,
                **judge[i],
            )
            for i, box in enumerate(boxes)
        ]
