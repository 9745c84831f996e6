"""The way of an image through the network: `preprocess`, `forward`, `postprocess`.

The loops over many images are here, too; what users call is `luvli.prediction.predictor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from luvli.errors import InputError
from luvli.face_measures import measure_fields
from luvli.faces import Faces
from luvli.image import affine
from luvli.image.box import Box
from luvli.image.detect import LARGE, MIN_SCORE, Detector, YuNet, get_detector
from luvli.image.photograph import Photograph
from luvli.image.read import ImageArray, ImageSource
from luvli.markup import get_markup, is_markup
from luvli.network.backend import Backend, no_faces
from luvli.network.model_info import ModelInfo
from luvli.prediction.crops import CroppedFaces, crop_again, inner, margin
from luvli.prediction.rotations import TURNS, TryRotations, detect_turned, is_doubtful
from luvli.trust.features import predicted_poses

T = TypeVar("T")

BATCH = 32
"""faces that go through the network together"""


class Pipeline:
    """A model with everything around it: detector, crops, the way back to image pixels.

    It is three steps: `preprocess` (read, detect, crop), `forward` (the network, in crop pixels)
    and `postprocess` (to image pixels, box refinement, assessment).
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

    def detect(
        self,
        image: ImageArray,
        name: str = "",
        min_score: float = MIN_SCORE,
        thorough: bool = True,
    ) -> list[Box]:
        """Tight landmark boxes of the faces in an image, best first. `thorough=False` skips the
        detector's last passes (`luvli.image.detect.YuNet`)."""
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
            if boxes is None:  # a detector of one's own may know the boxes of the whole image
                small = self.detector is None and not self.small_faces
                view = photograph.overview(LARGE) if small else photograph.at(1)
                found = self.detect(view.image, name, min_score)
                boxes = found if view.factor == 1 else [view.to_whole(box) for box in found]
            crops = [self.info.crop_for(box) for box in boxes]
        count = len(boxes)
        boxes, crops = boxes[:max_faces], crops[:max_faces]
        edge = margin(self.info)
        pixels = [
            photograph.warp(crop.wider(edge) if edge and box.detected else crop)
            for box, crop in zip(boxes, crops, strict=True)
        ]
        sizes = [photograph.size] * len(boxes)
        return CroppedFaces(list(boxes), crops, pixels, sizes, left_out=count - len(boxes))

    def forward(self, cropped: CroppedFaces) -> Faces:
        """The model on crops (S, S, 3), or on the middle of wider ones: faces in crop pixels,
        without boxes."""
        size = self.info.config.input_size
        views = [inner(wide, size) for wide in cropped.pixels]
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
        (`luvli.prediction.crops`).
        """
        if not cropped.boxes:
            return predictions
        faces = _to_image(predictions, cropped)
        again, second = crop_again(faces, cropped, self.info)
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

    # -- many images -------------------------------------------------------------------------

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
        left_out = [0] * len(sources)

        def predict(
            rows: Iterable[int], turns: Sequence[int]
        ) -> Iterator[tuple[int, tuple[Faces | InputError, int]]]:
            def crop(row: int) -> CroppedFaces:
                source = sources[row]
                if isinstance(source, InputError):
                    raise source
                known = None if boxes is None else boxes[row]
                cropped = self.preprocess(source, known, min_score, "", turns, max_faces)
                left_out[row] = cropped.left_out
                return cropped

            return ((row, (faces, left_out[row])) for row, faces in self.predict_each(rows, crop))

        results = dict(predict(range(len(sources)), TURNS if try_rotations is True else TURNS[:1]))
        if boxes is None and try_rotations == "auto":
            doubtful = [row for row, (faces, _) in results.items() if is_doubtful(faces)]
            for row, best in predict(doubtful, TURNS[1:]):
                if isinstance(best[0], Faces) and not is_doubtful(best[0]):
                    results[row] = best
        return list(results.values())

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
