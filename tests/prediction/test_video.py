"""Videos: frames, times, sound, following, smoothing, damage."""

from __future__ import annotations

import gc
import json
import resource
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import luvli
from luvli.errors import InputError
from luvli.faces import Faces
from luvli.prediction import tracking
from luvli.prediction.batch_job import BatchJob
from luvli.prediction.input_files import Input
from luvli.prediction.job_settings import JobSettings
from luvli.prediction.predictor import Predictor
from luvli.prediction.result import Result
from luvli.prediction.tracking import Tracker, smooth_tracks, track_frames
from luvli.prediction.video import Frame, VideoReader, VideoWriter

from .conftest import DiscBackend, DiscDetector, disc_image, write_video

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


def predict(predictor: Predictor, path: Path, out: Path, **settings: object) -> BatchJob:
    run = BatchJob(predictor, JobSettings(out, **settings))  # type: ignore[arg-type]
    run.video(Input(str(path), path.name))
    return run


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
    run = predict(discs, source, tmp_path / "out", draw=True)
    assert run.summary.failed == []
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


def test_odd_sizes_can_be_written(tmp_path: Path) -> None:
    image = disc_image([(60, 40, 25)], (121, 87))
    with VideoWriter(tmp_path / "odd.mp4", 25) as writer:
        for i in range(5):
            writer.write(image, i / 25)
    (time, first), *rest = decoded(tmp_path / "odd.mp4")
    assert (time, len(rest)) == (0.0, 4)
    assert first.shape == (88, 122, 3)
    assert np.abs(first[:87, :121].astype(int) - image).mean() < 4


def test_truncated_video_gives_what_it_has(discs: Predictor, tmp_path: Path) -> None:
    whole = write_video(tmp_path / "w.mp4", clip(60), options={"movflags": "faststart"})
    data = whole.read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(data[: len(data) * 6 // 10])
    run = predict(discs, cut, tmp_path / "out", draw=True)
    (sentence,) = run.summary.failed
    assert "cut.mp4 gives only" in sentence and "of 60 frames" in sentence
    assert 5 < run.summary.frames < 60
    assert len(decoded(tmp_path / "out/cut-landmarks.mp4")) == run.summary.frames


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
    run = predict(discs, path, tmp_path / "out", draw=True)
    (sentence,) = run.summary.failed
    assert "bad.mp4" in sentence and sentence.endswith("download it again.")
    run.finish()
    assert [path.name for path in (tmp_path / "out").glob("[!.]*")] == ["failed.txt"]


def test_sound_only_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        VideoReader(tmp_path / "none.mp4")
    with av.open(str(tmp_path / "tone.mp4"), "w") as out:
        stream = out.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.int16), "s16", "mono")
        frame.sample_rate = 44100
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    with pytest.raises(InputError, match="has no video stream"):
        VideoReader(tmp_path / "tone.mp4")


def test_video_without_faces(discs: Predictor, tmp_path: Path) -> None:
    source = write_video(tmp_path / "empty.mp4", clip(10, faces=False))
    run = predict(discs, source, tmp_path / "out", draw=True)
    assert (run.summary.failed, run.summary.frames, run.summary.faces) == ([], 10, 0)
    assert json.loads((tmp_path / "out/empty.json").read_text())["faces"] == []
    assert len(decoded(tmp_path / "out/empty-landmarks.mp4")) == 10


def test_interrupted_video_leaves_nothing(
    discs: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_video(tmp_path / "a.mp4", clip(20))
    seen = 0

    def stop(self: Tracker, image: NDArray[np.uint8]) -> Faces:
        nonlocal seen
        seen += 1
        if seen == 10:
            raise KeyboardInterrupt
        return Faces.empty("ibug68")

    monkeypatch.setattr(Tracker, "__call__", stop)
    with pytest.raises(KeyboardInterrupt):
        predict(discs, source, tmp_path / "out", draw=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".luvli-unfinished.jsonl"]


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


def test_glances_at_a_small_copy_give_full_size_boxes() -> None:
    """Between thorough looks the detector sees a small copy; boxes come back at full size."""
    detector = DiscDetector()
    tracker = Tracker(Predictor(DiscBackend(), detector))
    tracker.detections = 1  # the next one is on a small copy
    (face,) = tracker(disc_image([(900.0, 500.0, 150.0)], (1280, 960)))
    np.testing.assert_allclose(face.box, [750, 350, 1050, 650], atol=4)
    assert max(detector.sizes) == tracking.SMALL_SIDE
    tracker.detections = tracking.FULL_SIZE_EVERY
    tracker._since_detection = tracking.DETECT_EVERY
    tracker(disc_image([(900.0, 500.0, 150.0)], (1280, 960)))
    assert max(detector.sizes) == 1280


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

    def shaking(results: list[Result]) -> float:
        points = np.array([r.faces[0].points for r in results[5:60]])
        return float(np.sqrt((np.diff(points, axis=0) ** 2).mean()))

    assert shaking(smooth) < 0.3 * shaking(raw)


def test_smoothed_video_draws_the_smoothed_faces(tmp_path: Path) -> None:
    predictor = Predictor(DiscBackend(noise=0.8), DiscDetector())
    source = write_video(tmp_path / "a.mp4", clip(70), sound=True)
    run = predict(predictor, source, tmp_path / "out", draw=True, smooth=True)
    assert run.summary.failed == []
    assert len(decoded(tmp_path / "out/a-landmarks.mp4")) == 70
    assert sound_bytes(tmp_path / "out/a-landmarks.mp4") == sound_bytes(source)


def test_live_frames_are_smoothed_without_delay(tmp_path: Path) -> None:
    predictor = Predictor(DiscBackend(noise=0.8), DiscDetector())
    run = BatchJob(predictor, JobSettings(tmp_path / "out", draw=True, smooth=True))
    run.camera(frames(40, [(100, 100, 30)]), "camera-0", 30.0)
    run.finish()
    assert sorted(p.name for p in (tmp_path / "out").glob("[!.]*")) == [
        "camera-0-landmarks.mkv",
        "camera-0.json",
    ]


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
    run = BatchJob(predictor, JobSettings(tmp_path / "out", format="csv", draw=True, smooth=True))
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

    run.video(Input(str(source), source.name), watch)  # type: ignore[arg-type]
    look()  # after the second pass, which draws
    assert run.summary.frames == count and run.summary.failed == []
    blocks, resident = np.array(memory).T - np.array(memory[0])[:, None]
    kept = sys.getallocatedblocks()
    one = predictor.predict(disc_image([(48, 48, 14)], (96, 96)))
    assert sys.getallocatedblocks() - kept > 5 and len(one) == 1  # what the result of a frame takes
    assert blocks.max() < 2 * count
    assert resident[:-1].max() < 10e6  # following and smoothing; all frames would be 20e6
    assert resident[-1] < 120e6  # and the encoder
