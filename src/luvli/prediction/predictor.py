"""`Predictor`: images in, faces out. `load` makes one from a name or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError
from luvli.face_measures import measure_fields
from luvli.faces import Faces
from luvli.files import PathLike
from luvli.image import affine
from luvli.image.box import Box
from luvli.image.box_format import Boxes, BoxFormat, BoxSource, warn_of_misfits
from luvli.image.detect import LARGE, MIN_SCORE, Detector, YuNet, get_detector
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray, ImageSource, Reduced, read_image
from luvli.image.source import AnyImage, Color, name_of, plain_source
from luvli.markup import get_markup, is_markup
from luvli.network.backend import Backend, no_faces
from luvli.network.model_info import ModelInfo
from luvli.prediction import refine
from luvli.prediction.arguments import Options, as_sources
from luvli.prediction.backends import BackendName, check_licence, open_backend
from luvli.prediction.cropped import CroppedFaces
from luvli.prediction.rotations import TURNS, TryRotations, detect_turned, is_doubtful
from luvli.trust.features import predicted_poses
from luvli.trust.trust import Trust

if TYPE_CHECKING:
    from luvli.prediction.streams import Stream
    from luvli.prediction.tracking import TrackedFrame

T = TypeVar("T")

BATCH = 32
"""faces that go through the network together"""


def load(
    model: PathLike = "luvli-68",
    backend: BackendName | None = None,
    threads: int | None = None,
    providers: Sequence[str] | None = None,
    small_faces: bool = False,
    licence: Literal["open"] | None = None,
    **unknown: Any,
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
    for name in unknown:
        meant = {"license": 'licence="open"', "device": 'providers="cuda"'}.get(name)
        choose = f"write {meant}" if meant else "see help(luvli.load)"
        raise InputError(f"load has no option {name!r}: {choose}.")
    if isinstance(providers, str):
        providers = [providers]
    opened = open_backend(model, backend, threads, providers)
    check_licence(licence, opened.info.licence, str(model))
    return Predictor(opened, small_faces=small_faces)


class Predictor:
    """A model with everything around it: detector, crops, the way back to image pixels.

    `predict` is three steps: `preprocess` (read, detect, crop), `forward` (the network, in crop
    pixels) and `postprocess` (to image pixels, box refinement, assessment). A predictor is never
    changed after it was made and may be shared between threads. Results are in image pixels.
    """

    def __init__(
        self,
        backend: Backend,
        detector: Detector | None = None,
        small_faces: bool = False,
        accept_threshold: float | None = None,
    ) -> None:
        """`detector` finds faces where no boxes are given; the model's own by default. Faces with a
        confidence of `accept_threshold` or more are accepted; None: no triage."""
        self.backend = backend
        self.detector = detector
        self.small_faces = small_faces
        self.accept_threshold = accept_threshold
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

    @property
    def info(self) -> ModelInfo:
        """Name, licence, configuration, calibration."""
        return self.backend.info

    def with_triage(self, max_failure_rate: float) -> Predictor:
        """The same predictor with triage: `faces.accepted` holds the faces to accept so that, with
        95 % confidence, at most `max_failure_rate` of them failed.

        The bound is for faces like those that the model was calibrated on.
        """
        trust = self.info.trust or Trust()
        threshold = trust.threshold(max_failure_rate, self.info.name).threshold
        return Predictor(self.backend, self.detector, self.small_faces, threshold)

    # -- the public calls --------------------------------------------------------------------

    def predict(
        self,
        image: AnyImage,
        boxes: Boxes | None = None,
        min_score: float = MIN_SCORE,
        *,
        color: Color = "rgb",
        box_format: BoxFormat = "xyxy",
        box_source: BoxSource = "tight",
        relative_boxes: bool = False,
        try_rotations: TryRotations = "auto",
        white_level: int | None = None,
        min_confidence: float = 0.0,
    ) -> Faces:
        """The faces in one image, best detection first; an empty `Faces` if there are none.

        Args:
            image: a path, bytes, an open file, a `PIL.Image`, an array (H, W, 3) or a PyTorch
                tensor (3, H, W). Arrays and tensors are uint8, uint16, or floats in 0..1.
            boxes: (n, 4) tight landmark boxes (see `luvli.image.box`), if you have them. The
                detector is then not used, and the faces come back in the order of the boxes.
            min_score: leave out detections below this score.
            color: channel order of arrays and tensors; "bgr" for OpenCV frames.
            box_format: "xyxy" (corners), "xywh" or "cxcywh" (corner or centre, then width, height).
            box_source: the detector that drew the boxes, unless they are tight: "yunet",
                "insightface", "retinaface", "dlib", "haar" or "mediapipe".
            relative_boxes: whether boxes are fractions of the image's width and height, 0..1.
            try_rotations: look for faces in all four orientations of the image: True, False, or
                "auto": where there is no face with a confidence of 0.5 or more.
            min_confidence: leave out faces with less confidence, 0..1.
            white_level: value of white in a uint16 array; 4095 for a camera of 12 bits.

        Boxes outside the image are refused; implausible ones raise a `BoxWarning`.
        """
        return self.predict_batch(
            [image],
            None if boxes is None else [boxes],
            min_score,
            color=color,
            box_format=box_format,
            box_source=box_source,
            relative_boxes=relative_boxes,
            try_rotations=try_rotations,
            min_confidence=min_confidence,
            white_level=white_level,
        )[0]

    @overload
    def predict_batch(
        self, images: Sequence[AnyImage], boxes: Sequence[Boxes] | None = ...,
        min_score: float = ..., *, errors: Literal["raise"] = ..., **options: Any,
    ) -> list[Faces]: ...  # fmt: skip
    @overload
    def predict_batch(
        self, images: Sequence[AnyImage], boxes: Sequence[Boxes] | None = ...,
        min_score: float = ..., *, errors: Literal["return"], **options: Any,
    ) -> list[Faces | InputError]: ...  # fmt: skip
    def predict_batch(
        self,
        images: Sequence[AnyImage],
        boxes: Sequence[Boxes] | None = None,
        min_score: float = MIN_SCORE,
        *,
        errors: Literal["raise", "return"] = "raise",
        **options: Any,
    ) -> Any:
        """`predict`, whose options it takes too, for several images: they are read and searched in
        `threads` threads, and the faces of all of them go through the network together.

        The faces are the same as from `predict` in a loop. With `errors="return"` an image that
        cannot be read gives its `InputError` in place of its faces, and the others are done. More
        cores make it faster; with `threads=1` there is little to gain. All results are held in
        memory; for folders of any size use the command `luvli predict`.
        """
        chosen = Options(min_score=min_score, **options)
        chosen.check_model(self.info)
        sources, tight = as_sources(images, boxes, chosen, errors)
        results = self.predict_sources(sources, tight, chosen.min_score, chosen.try_rotations)
        for i, faces in enumerate(results):
            if isinstance(faces, InputError):
                if errors == "raise":
                    raise faces
                continue
            # a `Box` knows its corners; rows of four numbers may be meant in another way
            if boxes is not None and tight and len(faces) and not isinstance(boxes[i][0], Box):
                warn_of_misfits(
                    tight[i], faces.points, faces.confidence, chosen.box_format, name_of(images[i])
                )
            if chosen.min_confidence:
                results[i] = faces[faces.confidence >= chosen.min_confidence]
        return results

    def track(
        self,
        source: Stream,
        smooth: bool = False,
        rate: float = 25.0,
        min_score: float = MIN_SCORE,
        color: Color = "rgb",
        track: bool = True,
    ) -> Iterator[TrackedFrame]:
        """Track faces through a video: yields each frame together with its faces.

            for frame, faces in model.track("clip.mp4", smooth=True):
                frame.image, frame.time, faces.track

        Args:
            source: a video file, a camera number, a `cv2.VideoCapture`, or an iterable of frames:
                images of any kind that `predict` takes, or `luvli.prediction.video.Frame`.
            smooth: filter each landmark over time, weighted by how certain it is. For a file,
                frames then arrive up to about a second of video later: the filter looks ahead.
            rate: frames per second, for sources without timestamps.
            min_score: leave out detections below this score.
            color: channel order of frames that are arrays; "bgr" for OpenCV.
            track: with False each frame is predicted by itself, as in the paper's video demo.

        `faces.track` are numbers that stay with each face for as long as it is tracked,
        `faces.time` are seconds. The detector does not run on every frame, so this is faster than
        calling `predict` on each.
        """
        from luvli.prediction.tracking import track_faces

        return track_faces(self, source, smooth, rate, min_score, color, track)

    def predict_crops(
        self, crops: Sequence[AnyImage] | NDArray[np.uint8], color: Color = "rgb"
    ) -> Faces:
        """One face for each image, which is a face crop already: square, any size.

        The crop should show what the model was trained with: the tight landmark box, made
        square and enlarged by `info.enlarge`. Results are in the pixels of each crop.
        """
        images = (read_image(plain_source(source, color)) for source in crops)
        return self.predict_cropped([CroppedFaces.of_crops(images, self.info)])[0]

    def detect(
        self,
        image: ImageArray,
        name: str = "",
        min_score: float = MIN_SCORE,
        thorough: bool = True,
    ) -> list[Box]:
        """Tight landmark boxes of the faces in an image, best first; not `thorough`: without the
        detector's last looks (`luvli.image.detect.YuNet`)."""
        detector = self.detector or get_detector(self.info.detector, self.small_faces)
        if isinstance(detector, YuNet):
            boxes = detector(image, name, thorough)
        else:
            boxes = detector(image, name)
        return sorted((box for box in boxes if box.score >= min_score), key=lambda box: -box.score)

    # -- the three steps ---------------------------------------------------------------------

    def preprocess(
        self,
        source: ImageSource | Photograph,
        boxes: Sequence[Box] | None = None,
        min_score: float = MIN_SCORE,
        name: str = "",
        turns: Sequence[int] = (0,),
        max_faces: int | None = None,
    ) -> CroppedFaces:
        """Reads an image, detects the faces unless `boxes` are given, and crops the best of them.

        The detector looks at the image after each of the quarter `turns`. Of a large JPEG no more
        is decoded than the detector and the faces need.
        """
        photograph = source if isinstance(source, Photograph) else Photograph(source)
        name = name or photograph.name
        if boxes is None and tuple(turns) != (0,):
            boxes, crops = detect_turned(self, photograph.whole(), name, min_score, turns)
        else:
            boxes = self.find(photograph, name, min_score) if boxes is None else boxes
            crops = [self.info.crop_for(box) for box in boxes]
        count = len(boxes)
        boxes, crops = boxes[:max_faces], crops[:max_faces]
        edge = refine.margin(self.info)
        pixels = [
            photograph.warp(crop.wider(edge) if edge and box.detected else crop)
            for box, crop in zip(boxes, crops, strict=True)
        ]
        sizes = [photograph.size] * len(boxes)
        return CroppedFaces(list(boxes), crops, pixels, sizes, left_out=count - len(boxes))

    def find(
        self, photograph: Photograph, name: str = "", min_score: float = MIN_SCORE
    ) -> list[Box]:
        """Tight landmark boxes, best first, in pixels of the whole image."""
        view = self.detector_view(photograph)
        boxes = self.detect(view.image, name, min_score)
        return boxes if view.factor == 1 else [view.to_whole(box) for box in boxes]

    def detector_view(self, photograph: Photograph) -> Reduced:
        """As much of an image as the detector needs; all of it for small faces, and for a
        detector of one's own, which may know the boxes."""
        if self.detector is None and not self.small_faces:
            return photograph.overview(LARGE)
        return photograph.at(1)

    def forward(self, cropped: CroppedFaces) -> Faces:
        """The model on crops (S, S, 3), or on the middle of wider ones: faces in crop pixels,
        without boxes."""
        size = self.info.config.input_size
        views = [refine.inner(wide, size) for wide in cropped.pixels]
        if not views:
            return no_faces(self.info)
        windows = cropped.windows
        parts = [slice(i, i + BATCH) for i in range(0, len(views), BATCH)]
        return Faces.concatenate(
            [self.backend(np.stack(views[part]), windows[part]) for part in parts]
        )

    def postprocess(self, predictions: Faces, cropped: CroppedFaces) -> Faces:
        """Predictions in crop pixels -> faces in image pixels with boxes, scores, confidence.

        Faces whose landmarks do not fit the detector's box are cropped and predicted again
        (`luvli.prediction.refine`).
        """
        if not cropped.boxes:
            return predictions
        faces = _to_image(predictions, cropped)
        again, second = refine.crop_again(faces, cropped, self.info)
        if again:
            rows = np.arange(len(faces))
            rows[again] = len(faces) + np.arange(len(again))
            refined = _to_image(self.forward(second), second)
            faces = Faces.concatenate([faces, refined])[rows]
        trust, measures, poses = self.info.trust, self.info.measures, predicted_poses(faces)
        changes: dict[str, Any] = {}
        if trust is not None:
            changes |= trust.decisions(faces, poses, self.accept_threshold)
        if measures is not None:
            changes |= measure_fields(faces, poses, measures)
        return replace(faces, **changes)

    # -- several images ----------------------------------------------------------------------

    def predict_sources(
        self,
        sources: Sequence[ImageSource | Photograph | InputError],
        boxes: Sequence[Sequence[Box]] | None = None,
        min_score: float = MIN_SCORE,
        try_rotations: TryRotations = "auto",
    ) -> list[Faces | InputError]:
        """What `predict_batch` does for plain images: the faces of each, or why there are none."""
        return [faces for faces, _ in self.predict_best(sources, boxes, min_score, try_rotations)]

    def predict_best(
        self,
        sources: Sequence[ImageSource | Photograph | InputError],
        boxes: Sequence[Sequence[Box]] | None = None,
        min_score: float = MIN_SCORE,
        try_rotations: TryRotations = "auto",
        max_faces: int | None = None,
    ) -> list[tuple[Faces | InputError, int]]:
        """The `max_faces` best faces of each image, or why there are none, and how many others were
        detected: a hostile image shows thousands, which would be cropped and predicted."""

        def predict(
            rows: Iterable[int], turns: Sequence[int]
        ) -> Iterator[tuple[Faces | InputError, int]]:
            left_out: dict[int, int] = {}

            def crop(row: int) -> CroppedFaces:
                source = sources[row]
                if isinstance(source, InputError):
                    raise source
                known = None if boxes is None else boxes[row]
                cropped = self.preprocess(
                    source, known, min_score, turns=turns, max_faces=max_faces
                )
                left_out[row] = cropped.left_out
                return cropped

            return ((faces, left_out.get(row, 0)) for row, faces in self.predict_each(rows, crop))

        turns = TURNS if try_rotations is True else TURNS[:1]
        results = list(predict(range(len(sources)), turns))
        if boxes is None and try_rotations == "auto":
            doubtful = [row for row, (faces, _) in enumerate(results) if is_doubtful(faces)]
            for row, (faces, others) in zip(doubtful, predict(doubtful, TURNS[1:]), strict=True):
                if isinstance(faces, Faces) and not is_doubtful(faces):
                    results[row] = faces, others
        return results

    def predict_each(
        self, items: Iterable[T], crop: Callable[[T], CroppedFaces], batch_size: int = BATCH
    ) -> Iterator[tuple[T, Faces | InputError]]:
        """Each item with the faces predicted on what `crop` makes of it, or with its error: the one
        loop that runs a model, in evaluation, calibration and training too.

        `crop` runs in as many threads as the model has; the faces of `batch_size` items go through
        the network together.
        """

        def attempt(item: T) -> CroppedFaces | InputError:
            try:
                return crop(item)
            except InputError as error:
                return error

        waiting = iter(items)
        while batch := list(islice(waiting, batch_size)):
            workers = min(self.backend.threads, len(batch))
            if workers > 1:
                with ThreadPoolExecutor(workers) as pool:
                    crops = list(pool.map(attempt, batch))
            else:
                crops = list(map(attempt, batch))
            usable = [one for one in crops if isinstance(one, CroppedFaces)]
            faces = iter(self.predict_cropped(usable))
            for item, one in zip(batch, crops, strict=True):
                yield item, one if isinstance(one, InputError) else next(faces)

    def predict_cropped(self, parts: Sequence[CroppedFaces]) -> list[Faces]:
        """`forward` and `postprocess` for the crops of several images: the faces of each."""
        if not parts:
            return []
        if len(parts) == 1:
            return [self.postprocess(self.forward(parts[0]), parts[0])]
        cropped = CroppedFaces.join(parts)
        faces = self.postprocess(self.forward(cropped), cropped)
        ends = np.cumsum([len(part.boxes) for part in parts]).tolist()
        return [faces[end - len(part.boxes) : end] for part, end in zip(parts, ends, strict=True)]


def _to_image(faces: Faces, cropped: CroppedFaces) -> Faces:
    """Faces in crop pixels moved to their images, with boxes and scores."""
    windows = cropped.windows
    back = affine.invert(windows.affines)
    return replace(
        faces,
        points=affine.apply(back, faces.points),
        covariance=affine.push_covariance(back, faces.covariance),
        boxes=windows.boxes,
        scores=windows.scores,
        image_size=np.array(cropped.sizes),
    )
