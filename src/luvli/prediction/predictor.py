"""`Predictor`: images in, faces out. `load` makes one from a name or a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from luvli.errors import InputError, unknown_choice
from luvli.faces import Faces
from luvli.files import PathLike
from luvli.image.box import Box
from luvli.image.box_format import Boxes, BoxFormat, BoxSource, warn_of_misfits
from luvli.image.detect import MIN_SCORE
from luvli.image.read import read_image
from luvli.image.source import AnyImage, Color, name_of, plain_source
from luvli.models import find_model, model_names, read_card
from luvli.network.backend import Backend
from luvli.network.licence import is_open
from luvli.prediction.arguments import Options, as_sources, check_share
from luvli.prediction.crops import CroppedFaces
from luvli.prediction.pipeline import Pipeline
from luvli.prediction.rotations import TryRotations
from luvli.trust.trust import Trust

if TYPE_CHECKING:
    from luvli.prediction.streams import Stream
    from luvli.prediction.tracking import TrackedFrame


BackendName = Literal["onnx", "torch"]
"""ONNX Runtime for `.onnx`, PyTorch for `.safetensors`"""

logger = logging.getLogger(__name__)


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
    path = find_model(model, backend)
    if path.suffix == ".onnx":
        from luvli.prediction.onnx_backend import OnnxBackend

        opened: Backend = OnnxBackend(path, threads, providers)
    else:
        if find_spec("torch") is None:
            raise InputError(
                f"{path} runs with PyTorch, which is not installed: pip install 'luvli[train]', "
                "or give the model's .onnx file."
            )
        from luvli.network.inference import CropPredictor

        opened = CropPredictor.load(path, threads, (providers or ("cpu",))[0])
    info = opened.info
    _check_licence(licence, info.licence, str(model))
    # weights can be whole and overflow all the same: a model that gives no numbers is refused
    ramp = np.linspace(0, 255, info.config.input_size).astype(np.uint8)
    opened(np.tile(ramp[None, :, None, None], (1, 1, len(ramp), 3)))
    logger.info("loaded %s %s from %s, %d threads", info.name, info.version, path, opened.threads)
    return Predictor(opened, small_faces=small_faces)


def _check_licence(wanted: str | None, licence: str, model: str) -> None:
    """Refuse a model whose licence is not open, where an "open" one is wanted."""
    if wanted not in (None, "open"):
        raise unknown_choice("licence", wanted, ("open",))
    if wanted == "open" and not is_open(licence):
        free = [name for name in model_names() if is_open(read_card(name).licence)]
        raise InputError(
            f"the licence of {model} is not open ({licence}): use "
            f"{' or '.join(free) or 'a model of your own'}."
        )


class Predictor(Pipeline):
    """A loaded model with its face detector and crops. Results are in image pixels.

    A predictor never changes and may be shared between threads.
    """

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
        """`predict` for several images, with the same options. They are decoded and searched in
        `threads` threads, and all faces go through the network together.

        The faces are the same as from `predict` in a loop. With `errors="return"`, an
        image that cannot be read gives its `InputError` instead of faces. All results are held in
        memory; for large folders use the command `luvli predict`.
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
        from luvli.prediction.smooth import smooth_tracks
        from luvli.prediction.streams import check_stream, stream_frames
        from luvli.prediction.tracking import Tracker, track_frames

        check_stream(source, rate, color)  # now, not at the first frame
        check_share("min_score", min_score)
        if smooth and not track:
            raise InputError("smoothing needs tracks: leave out track=False, or smooth=True.")
        frames = stream_frames(source, rate, color)
        if not track:
            alone = partial(self.predict, min_score=min_score, try_rotations=False)
            return track_frames(frames, alone)
        tracked = track_frames(frames, Tracker(self, min_score))
        return smooth_tracks(tracked, isinstance(source, str | os.PathLike)) if smooth else tracked

    def predict_crops(
        self, crops: Sequence[AnyImage] | NDArray[np.uint8], color: Color = "rgb"
    ) -> Faces:
        """One face for each image, which is a face crop already: square, any size.

        The crop should show what the model was trained with: the tight landmark box, made
        square and enlarged by `info.enlarge`. Results are in the pixels of each crop.
        """
        images = (read_image(plain_source(source, color)) for source in crops)
        return self.predict_cropped([CroppedFaces.of_crops(images, self.info)])[0]
