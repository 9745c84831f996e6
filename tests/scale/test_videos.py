"""Videos in segments: cut at key frames, numbered through, tracks joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luvli.prediction.video import VideoReader
from luvli.scale.join_tracks import join_tracks, match_tracks
from luvli.scale.parts import Part
from luvli.scale.plan import Plan, open_plan
from luvli.scale.video_source import read_video_part, video_parts

av = pytest.importorskip("av", reason="needs PyAV")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty frames with a key frame at every twelfth, and B-frames between."""
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    rng = np.random.default_rng(0)
    still = rng.integers(0, 255, (64, 96, 3), dtype=np.uint8)
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=25, options={"g": "12", "bf": "2", "crf": "30"})
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for number in range(60):
            image = np.roll(still, number, axis=1)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        out.mux(stream.encode(None))
    return path


def test_segments_together_are_the_video(clip: Path) -> None:
    segments = video_parts(str(clip), least=20)
    assert len(segments) > 1 and sum(count for count, _ in segments) == 60
    frames = [
        frame
        for number, (count, about) in enumerate(segments)
        for frame in read_video_part(Part(number, "video", str(clip), count, about=about))
    ]
    whole = list(VideoReader(clip))
    assert [f.number for f in frames] == [f.number for f in whole] == list(range(60))
    assert [f.time for f in frames] == [f.time for f in whole]
    assert all((a.image == b.image).all() for a, b in zip(frames, whole, strict=True))


def test_a_short_video_is_one_part(clip: Path) -> None:
    ((count, about),) = video_parts(str(clip))
    assert (count, about["segments"], about["end"]) == (60, 1, None)


def _segment(boxes: dict[int, dict[int, tuple[float, float]]]) -> Any:
    """Rows of a segment: frame -> track -> centre of a square face."""
    from luvli.prediction.write import row_table

    corners = np.array([[-10.0, -10.0], [10.0, -10.0], [10.0, 10.0], [-10.0, 10.0]])
    return row_table(
        [
            {"image": "v.mp4", "status": "face", "frame": frame, "track": track,
             "points": (corners + centre).ravel()}
            for frame, faces in boxes.items()
            for track, centre in faces.items()
        ]
    )  # fmt: skip


def test_faces_keep_their_numbers_over_a_cut(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    about = [{"segment": i, "segments": 2, "first_frame": 2 * i} for i in range(2)]
    parts = [Part(i, "video", "v.mp4", 2, about=about[i]) for i in range(2)]
    plan = open_plan(str(tmp_path), {}, parts)
    assert plan == Plan(2, 4, True, False)
    first = _segment({0: {1: (50, 50), 2: (150, 50)}, 1: {1: (52, 50), 2: (152, 50)}})
    second = _segment({2: {1: (154, 51), 2: (300, 50)}, 3: {1: (155, 51), 3: (54, 50)}})
    for part, table in zip(parts, (first, second), strict=True):
        (tmp_path / part.output).parent.mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / part.output)
    assert match_tracks(second, [(1, _box(52)), (2, _box(152))], 2) == {1: 2, 2: 3, 3: 4}
    assert join_tracks(str(tmp_path), plan) == 2
    found = pq.read_table(tmp_path / parts[1].output)["track"].to_pylist()
    assert found == [2, 3, 2, 4]
    assert join_tracks(str(tmp_path), plan) == 0, "a second time changes nothing"


def _box(x: float) -> Any:
    from luvli.image.box import Box

    return Box(x - 10, 40, x + 10, 60)
