"""Videos: frames, times, sound, following, smoothing, damage."""

from __future__ import annotations

import csv
import gc
import json
import resource
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import luvli
from luvli.image.read import read_image
from luvli.prediction import tracking, video_writer
from luvli.prediction.executors import InProcess
from luvli.prediction.inputs import Inputs
from luvli.prediction.job import PredictJob, record_camera
from luvli.prediction.predictor import Predictor
from luvli.prediction.settings import JobSettings
from luvli.prediction.smooth import smooth_tracks
from luvli.prediction.tracking import TrackedFrame, Tracker, track_frames
from luvli.prediction.video import Frame, VideoReader
from luvli.prediction.video_output import draw_video

from .conftest import DiscBackend, DiscDetector, disc_image, write_video
from .jobs import faces_in, run

av = pytest.importorskip("av", reason="needs PyAV")


def place(time: float) -> tuple[float, float]:
    return 160 + 80 * np.sin(2 * time), 120 + 20 * np.cos(3 * time)


def clip(
    count: int, step: float = 1 / 30, faces: bool = True
) -> Iterator[tuple[float, NDArray[np.uint8]]]:
    for i in range(count):
        yield i * step, disc_image([(*place(i * step), 30)] if faces else [])


def frames(count: int, discs: list[tuple[float, float, float]]) -> Iterator[Frame]:
    for i in range(count):
        yield Frame(i, i / 30, disc_image(discs))


def decoded(path: Path) -> list[tuple[float, NDArray[np.uint8]]]:
    return [(frame.time, frame.image) for frame in VideoReader(path)]


def sound_bytes(path: Path) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(p) for p in container.demux(container.streams.audio[0]) if p.size]


# -- files -----------------------------------------------------------------------------------


def test_uneven_times_and_sound_are_kept(discs: Predictor, tmp_path: Path) -> None:
    times = np.cumsum([0, *np.tile([0.02, 0.05, 0.1], 10)])
    source = write_video(
        tmp_path / "a.mkv", ((t, disc_image([(*place(t), 30)])) for t in times), sound=True
    )
    summary = run(discs, source, tmp_path / "out", draw=True)
    assert not summary.failed
    drawn = decoded(tmp_path / "out/a-landmarks.mkv")
    np.testing.assert_allclose([t for t, _ in drawn], times, atol=0.002)
    assert sound_bytes(tmp_path / "out/a-landmarks.mkv") == sound_bytes(source)
    rows = json.loads((tmp_path / "out/a.json").read_text())["faces"]
    assert [row["frame"] for row in rows] == list(range(31))
    for row in rows:
        centre = np.mean([np.min(row["points"], 0), np.max(row["points"], 0)], axis=0)
        np.testing.assert_allclose(centre, place(row["time"]), atol=1.0)
        assert row["track"] == 1
    assert np.abs(drawn[5][1].astype(int) - decoded(source)[5][1]).max() > 100  # something is drawn


def test_phone_videos_stand_upright(tmp_path: Path) -> None:
    upright = disc_image([(60, 40, 25), (100, 150, 12)], (128, 192))
    lying = np.ascontiguousarray(np.rot90(upright))
    path = write_video(tmp_path / "phone.mp4", ((i / 30, lying) for i in range(3)))
    data = bytearray(path.read_bytes())
    matrix = data.index(b"tkhd") + 44  # "show turned clockwise by 90 degrees"
    data[matrix : matrix + 36] = struct.pack(">9i", 0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    image = decoded(path)[0][1]
    assert image.shape == upright.shape
    assert np.abs(image.astype(int) - upright).mean() < 4


def test_truncated_video_gives_what_it_has(discs: Predictor, tmp_path: Path) -> None:
    whole = write_video(tmp_path / "w.mp4", clip(60), options={"movflags": "faststart"})
    data = whole.read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(data[: len(data) * 6 // 10])
    summary = run(discs, cut, tmp_path / "out", draw=True)
    (sentence,) = summary.failed
    assert "cut.mp4 gives only" in sentence and "of 60 frames" in sentence
    assert 5 < summary.counts["frames"] < 60
    assert len(decoded(tmp_path / "out/cut-landmarks.mp4")) == summary.counts["frames"]


@pytest.mark.parametrize("kind", ["noise", "empty", "no index", "text"])
def test_unreadable_videos_are_named_and_nothing_is_written(
    kind: str, discs: Predictor, tmp_path: Path
) -> None:
    path = tmp_path / "bad.mp4"
    data = write_video(tmp_path / "w.mp4", clip(20)).read_bytes()
    path.write_bytes(
        {
            "noise": np.random.default_rng(0).bytes(5000),
            "empty": b"",
            "no index": data[: len(data) // 2],
            "text": b"hello",
        }[kind]
    )
    summary = run(discs, path, tmp_path / "out", draw=True)
    (sentence,) = summary.failed
    assert "bad.mp4" in sentence and sentence.endswith("download it again.")
    assert [path.name for path in (tmp_path / "out").glob("[!.]*")] == ["failed.txt"]


# -- following -------------------------------------------------------------------------------


def test_faces_are_followed_and_seldom_looked_for() -> None:
    detector = DiscDetector()
    tracker = Tracker(Predictor(DiscBackend(), detector))
    for i in range(90):
        one, two = (285.0, 40.0 + i), place(i / 30) - np.array([40.0, 0.0])
        found = tracker(disc_image([(*one, 20), (*two, 30)]))
        assert found.track.tolist() == [1, 2]
        for face, centre in zip(found, (one, two), strict=True):
            middle = (face.points.min(axis=0) + face.points.max(axis=0)) / 2
            np.testing.assert_allclose(middle, centre, atol=1.0)
    assert detector.calls == 90 // tracking.DETECT_EVERY


def test_lost_faces_end_and_new_ones_begin() -> None:
    tracker = Tracker(Predictor(DiscBackend(), DiscDetector()))
    numbers = []
    for i in range(60):
        shown = [(80, 80, 30)] if not 20 <= i < 40 else []
        if i >= 10:
            shown.append((240, 150, 25))  # new while another is followed
        numbers.append(tracker(disc_image(shown)).track.tolist())
    assert numbers[0] == [1]
    assert all(2 in found for found in numbers[10 + tracking.DETECT_EVERY :])
    assert all(1 not in found for found in numbers[24:])  # gone within a few frames
    assert numbers[-1] == [2, 3]  # came back: a new number


def test_no_more_faces_are_predicted_than_may_be_tracked() -> None:
    """The best detection comes first: a crowd in a frame must not cost more than the limit."""
    crowd = disc_image([(60, 60, 20), (160, 60, 30), (260, 60, 25)])
    all_of_them = Tracker(Predictor(DiscBackend(), DiscDetector()))(crowd)
    tracker = Tracker(Predictor(DiscBackend(), DiscDetector()), max_faces=2)
    np.testing.assert_array_equal(tracker(crowd).points, all_of_them.points[:2])
    for _ in range(tracking.DETECT_EVERY + 2):
        assert tracker(crowd).track.tolist() == [1, 2]


def test_a_face_that_is_cut_away_is_given_up_at_once(astronaut: NDArray[np.uint8]) -> None:
    """Not only when the detector looks the next time, half a second later."""
    face = np.ascontiguousarray(astronaut[40:240, 120:320])
    grey = np.full_like(face, 80)
    model = luvli.load("luvli-68", threads=1)
    for before in (2, 9):
        seen = [len(faces) for _, faces in model.track([face] * before + [grey] * 6)]
        assert seen[:before] == [1] * before
        assert sum(seen[before:]) <= 2 and not any(seen[before + 2 :])


def test_results_of_smoothing_keep_order_and_faces() -> None:
    """Faces that come and go, smoothed with a delay, end up in their own frames."""
    predictor = Predictor(DiscBackend(noise=1.0), DiscDetector())
    tracker = Tracker(predictor)

    def shown() -> Iterator[Frame]:
        for i in range(130):
            discs = [(80.0, 80.0, 30.0)] if i < 70 else []
            discs += [(240.0, 150.0, 25.0)] if i >= 40 else []
            yield Frame(i, i / 30, disc_image(discs))

    raw = list(track_frames(shown(), tracker))
    smooth = list(smooth_tracks(raw))
    assert [item.frame.number for item in smooth] == list(range(130))
    for one, other in zip(raw, smooth, strict=True):
        assert one.faces.track.tolist() == other.faces.track.tolist()
        assert set(other.faces.time) <= {other.frame.time}
    moved = [
        np.abs(a.points - b.points).max()
        for one, other in zip(raw, smooth, strict=True)
        for a, b in zip(one.faces, other.faces, strict=True)
    ]
    assert 0.5 < max(moved) < 12  # smoothed, and never another face

    def shaking(results: list[TrackedFrame]) -> float:
        points = np.array([r.faces[0].points for r in results[5:60]])
        return float(np.sqrt((np.diff(points, axis=0) ** 2).mean()))

    assert shaking(smooth) < 0.3 * shaking(raw)


def test_live_frames_are_smoothed_without_delay(tmp_path: Path) -> None:
    predictor = Predictor(DiscBackend(noise=0.8), DiscDetector())
    settings = JobSettings(str(tmp_path / "out"), draw=True, smooth=True)
    summary = record_camera(predictor, settings, frames(40, [(100, 100, 30)]), "camera-0", 30.0)
    assert (summary.counts["frames"], summary.counts["faces"]) == (40, 40)
    files = sorted(p.name for p in (tmp_path / "out").glob("[!.]*"))
    assert files == ["camera-0-landmarks.mp4", "camera-0.json"]
    assert len(decoded(tmp_path / "out/camera-0-landmarks.mp4")) == 40


# -- measures --------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"part_size": 12, "smooth": True}])
def test_measures_of_a_video_over_time(
    settings: dict[str, Any], discs: Predictor, tmp_path: Path
) -> None:
    """The table has the measures of the faces in the same run; the plot is a picture."""
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    source = cut_clip(tmp_path / "a$x_.mp4", 36)
    summary = run(discs, source, tmp_path / "out", measures=True, **settings)
    names = ["a$x_-measures.csv", "a$x_-measures.png", "a$x_.json"]
    assert sorted(path.name for path in summary.written) == names and not summary.failed
    faces = luvli.read(tmp_path / "out/a$x_.json")
    table = list(csv.DictReader((tmp_path / "out/a$x_-measures.csv").read_text().splitlines()))
    assert [int(row["frame"]) for row in table] == list(range(36))
    np.testing.assert_allclose([float(row["time"]) for row in table], faces.time)
    assert {row["track"] for row in table} == {"1"}
    for name, measure in faces.measures.items():
        for column, wanted in ((name, measure.value), (f"{name}_std", measure.std)):
            np.testing.assert_allclose(
                [float(row[column]) for row in table], wanted, atol=2e-5, err_msg=name
            )
    assert read_image(tmp_path / "out/a$x_-measures.png").std() > 10


# -- segments --------------------------------------------------------------------------------


def cut_clip(path: Path, count: int = 48) -> Path:
    """A key frame at every twelfth frame."""
    with av.open(str(path), "w") as out:
        options = {"g": "12", "sc_threshold": "0", "bf": "2"}
        stream = out.add_stream("libx264", rate=30, options=options)
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for _, image in clip(count):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        out.mux(stream.encode(None))
    return path


def test_segments_give_every_frame_once_and_as_in_the_whole(tmp_path: Path) -> None:
    path = cut_clip(tmp_path / "a.mp4")
    segments = VideoReader(path).segments(12)
    assert [segment.frames for segment in segments] == [12, 12, 12, 12]
    joined = [frame for segment in segments for frame in VideoReader(path, segment)]
    whole = list(VideoReader(path))
    assert [f.number for f in joined] == [f.number for f in whole] == list(range(48))
    np.testing.assert_allclose([f.time for f in joined], [f.time for f in whole], atol=1e-9)
    for one, other in zip(joined, whole, strict=True):
        np.testing.assert_array_equal(one.image, other.image)
    assert len(VideoReader(path).segments(40)) == 1


@pytest.mark.parametrize("smooth", [False, True])
def test_a_video_in_parts_gives_the_rows_of_a_whole_one(
    discs: Predictor, tmp_path: Path, smooth: bool
) -> None:
    path = cut_clip(tmp_path / "a.mp4")
    run(discs, path, tmp_path / "whole", smooth=smooth)
    summary = run(discs, path, tmp_path / "cut", part_size=12, smooth=smooth)
    assert (summary.parts, summary.counts["frames"], summary.videos) == (4, 48, 1)
    whole, cut = (faces_in(tmp_path / name / "a.json") for name in ("whole", "cut"))
    for one, other in zip(whole, cut, strict=True):
        assert [one[key] for key in ("frame", "time", "track")] == [
            other[key] for key in ("frame", "time", "track")
        ]
        np.testing.assert_allclose(one["points"], other["points"], atol=0.6)


def test_parts_of_a_video_are_files_with_joined_tracks(discs: Predictor, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    path = cut_clip(tmp_path / "a.mp4")
    for _ in range(2):  # the second run finds everything done
        summary = run(discs, path, tmp_path / "out", format="parts", part_size=12)
        assert (summary.counts["frames"], summary.counts["faces"], summary.videos) == (48, 48, 1)
    files = sorted((tmp_path / "out").glob("part-*.parquet"))
    assert len(files) == 4
    rows = [row for file in files for row in parquet.read_table(file).to_pylist()]
    assert [row["frame"] for row in rows] == list(range(48))
    assert {row["track"] for row in rows} == {1}


# -- names and containers ----------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["h264", "mpeg4"])
def test_draw_video_keeps_frames_and_sound(
    codec: str, discs: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where FFmpeg was built without an encoder of H.264."""
    if codec == "mpeg4":
        monkeypatch.delitem(video_writer.ENCODERS, "libx264")
    source = write_video(tmp_path / "a.mp4", clip(20), sound=True)
    draw_video(source, tmp_path / "out.mp4", discs)
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert container.streams.video[0].codec_context.name == codec
    drawn, plain = decoded(tmp_path / "out.mp4"), decoded(source)
    np.testing.assert_allclose([t for t, _ in drawn], [t for t, _ in plain], atol=0.002)
    assert sound_bytes(tmp_path / "out.mp4") == sound_bytes(source)
    assert np.abs(drawn[5][1].astype(int) - plain[5][1]).max() > 100


# -- long videos -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_long_video_in_constant_memory(tmp_path: Path) -> None:
    """Neither results (Python's memory blocks) nor images (resident) pile up by the frame."""
    status = Path("/proc/self/statm")
    if not status.is_file():
        pytest.skip("reads the memory in use from /proc")
    count, every = 1000, 250
    images = (disc_image([(48 + 9 * np.sin(i / 20), 48, 14)], (96, 96)) for i in range(count))
    source = write_video(tmp_path / "long.mp4", ((i / 30, p) for i, p in enumerate(images)))
    predictor = Predictor(DiscBackend(markup="aflw19"), DiscDetector())
    settings = JobSettings(str(tmp_path / "out"), "csv", draw=True, smooth=True, part_size=250)
    memory: list[tuple[int, int]] = []

    def look() -> None:
        resident = int(status.read_text().split()[1]) * resource.getpagesize()
        gc.collect()
        memory.append((sys.getallocatedblocks(), resident))

    def watch(items: Iterator[Frame], _: str, __: int | None) -> Iterator[Frame]:
        for number, item in enumerate(items):
            if number % every == every - 1:
                look()
            yield item

    job = PredictJob(Inputs([source]), settings)
    summary = job.run(InProcess(predictor), watch)  # type: ignore[arg-type]
    look()  # after the second pass, which draws
    assert summary.counts["frames"] == count and not summary.failed
    blocks, resident = np.array(memory).T - np.array(memory[0])[:, None]
    kept = sys.getallocatedblocks()
    one = predictor.predict(disc_image([(48, 48, 14)], (96, 96)))
    assert sys.getallocatedblocks() - kept > 5 and len(one) == 1  # what the result of a frame takes
    assert blocks.max() < 2 * count
    assert resident[:-1].max() < 10e6  # following and smoothing; all frames would be 20e6
    assert resident[-1] < 120e6  # and the encoder
