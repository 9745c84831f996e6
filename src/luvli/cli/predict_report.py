"""What `luvli predict` and `luvli demo` tell on the terminal."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from luvli.cli.tables import print_table
from luvli.files import one_line
from luvli.progress import track

if TYPE_CHECKING:
    from luvli.faces import FaceLandmarks
    from luvli.network.model_info import ModelInfo
    from luvli.prediction.input_files import Inputs
    from luvli.prediction.job_settings import JobSettings, JobSummary
    from luvli.prediction.predictor import Predictor
    from luvli.prediction.stopwatch import Stopwatch

SHOWN_FAILURES = 20
SHOWN_IMAGES = 12


def watch(items: Iterable[Any], description: str, total: int | None) -> Iterable[Any]:
    """Progress in images, parts of a source or frames of a video per second."""
    unit = description if description in ("images", "parts") else "frames"
    return track(items, description, total, unit)


def refuse_options(given: dict[str, Any], why: str) -> None:
    """Options that do not fit together are refused, not ignored."""
    from luvli.errors import InputError

    for name, value in given.items():
        if value is not None and value is not False:
            raise InputError(f"{name} cannot be used here, {why}: leave it out.")


def print_json(
    predictor: Predictor, inputs: Inputs, settings: JobSettings, from_stdin: bool
) -> bool:
    """Results as one JSON array on standard output -> whether something went wrong."""
    from itertools import chain

    from luvli.prediction.to_stdout import image_records, json_array, video_records

    wrong = bool(inputs.problems)
    for sentence in inputs.problems:
        typer.secho(f"luvli: {one_line(sentence)}", fg="red", err=True)

    def noted(records: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        nonlocal wrong
        for record in records:
            if "error" in record:
                wrong = True
                typer.secho(f"luvli: {one_line(record['error'])}", fg="red", err=True)
            yield record

    images: Iterable[tuple[str, Any]] = ((item.path, item.path) for item in inputs)
    if from_stdin:
        images = chain([("-", sys.stdin.buffer.read())], images)
    records = image_records(
        predictor, images, settings.wants, settings.min_score, settings.try_rotations
    )
    frames = (
        video_records(predictor, video.path, settings.wants, settings.min_score, settings.smooth)
        for video in inputs.videos
    )
    for piece in json_array(noted(chain(records, chain.from_iterable(frames)))):
        sys.stdout.write(piece)
    sys.stdout.flush()
    return wrong


def report(summary: JobSummary, settings: JobSettings, quiet: bool = False) -> None:
    """Summary table, the images if they are few, failures, and where everything is."""
    from luvli.prediction.journal import FAILED

    if not quiet:
        _tables(summary)
    for sentence in summary.failed[:SHOWN_FAILURES]:
        typer.secho(f"luvli: {one_line(sentence)}", fg="red", err=True)
    if len(summary.failed) > SHOWN_FAILURES:
        more = len(summary.failed) - SHOWN_FAILURES
        where = settings.out / FAILED
        typer.secho(f"luvli: and {more:,} more, all named in {where}.", fg="red", err=True)
    if quiet:
        return
    if settings.format == "coco":
        typer.echo("COCO has no place for covariances and probabilities: they were left out.")
    for path in summary.written:
        typer.echo(one_line(str(path)))
    if settings.draw or settings.format == "pts":
        typer.echo(f"everything is in {settings.out}")


def report_licence(info: ModelInfo) -> None:
    """One line: what the model may be used for, and which one anyone may use."""
    from luvli.models import model_names, read_card
    from luvli.network.licence import is_open

    if is_open(info.licence):
        typer.echo(f"model: {info.name}, free for any use ({info.licence})")
        return
    free = [name for name in model_names() if is_open(read_card(name).licence)]
    other = f"; --model {free[0]} is free for any use" if free else ""
    typer.echo(f"model: {info.name}, {info.licence}{other}")


def _tables(summary: JobSummary) -> None:
    if 0 < summary.images <= SHOWN_IMAGES:
        rows = [
            [result.image, f"{number}", f"{face.score:.2f}", trust(face), *face_figures(face)]
            for result in summary.examples
            for number, face in enumerate(result.faces, 1)
        ]
        rows += [[r.image, "none", *[""] * 4] for r in summary.examples if not r.faces]
        print_table(["image", "face", "score", "confidence", "uncertainty", "hidden"], rows)
    counts = [
        ("images", summary.images),
        ("of these without a face", summary.without_face),
        ("done by an earlier run", summary.resumed),
        ("videos", summary.videos),
        ("frames", summary.frames),
        ("faces", summary.faces),
        ("accepted by the triage", summary.accepted),
        ("for review", summary.for_review),
        ("faces left out as unsure", summary.filtered),
        ("files of before that were left in the folder", summary.left_over),
        (f"other files in the folders{kinds(summary.skipped)}", summary.skipped.total()),
        ("failed", len(summary.failed)),
    ]
    shown = [[name, f"{count:,}"] for name, count in counts if count or name == "faces"]
    print_table(["", "count"], shown, title="summary")


def kinds(skipped: Counter[str]) -> str:
    """The commonest endings of files that were left out, in brackets.

    >>> kinds(Counter({".txt": 3, "": 1})), kinds(Counter())
    (' (.txt, no ending)', '')
    """
    names = [ending or "no ending" for ending, _ in skipped.most_common()]
    more = ", ..." if len(names) > 4 else ""
    return f" ({', '.join(names[:4])}{more})" if names else ""


def trust(face: FaceLandmarks) -> str:
    """The confidence, and what the triage makes of it."""
    if face.confidence is None:
        return "not told"
    verdict = {None: "", True: ", accepted", False: ", for review"}[face.accepted]
    return f"{face.confidence:.2f}{verdict}"


def report_profile(stopwatch: Stopwatch) -> None:
    """Seconds of each stage, summed over the threads, and its share of them."""
    total = sum(stopwatch.seconds.values()) or 1.0
    rows = [
        [stage, f"{seconds:.2f} s", f"{seconds / total:.0%}"]
        for stage, seconds in stopwatch.seconds.items()
    ]
    title = f"images: {total:.2f} s in all threads, {stopwatch.elapsed:.2f} s on the clock"
    print_table(["stage", "time", "share"], rows, title=title)


def face_figures(face: FaceLandmarks) -> list[str]:
    """Typical uncertainty in pixels, and how many landmarks the head itself hides."""
    spread = f"{face.uncertainty.mean():.1f} px" if face.covariance_trained else "not trained"
    hidden = int((~face.visible()).sum())
    return [spread, f"{hidden} of {len(face)}" if face.visibility_trained else "not trained"]


def face_table(face: FaceLandmarks, title: str) -> None:
    """Mean, smallest and largest uncertainty, and the least sure landmarks by name."""
    spread = face.uncertainty
    rows = [
        ["detection score", f"{face.score:.2f}"],
        ["landmarks", f"{len(face)}"],
        ["hidden by the head itself", face_figures(face)[1]],
        ["mean uncertainty", f"{spread.mean():.2f} px"],
        ["smallest", f"{spread.min():.2f} px"],
        ["largest", f"{spread.max():.2f} px"],
    ]
    rows += [[f"least sure: {name}", f"{value:.2f} px"] for name, value in face.least_sure()]
    print_table(["face", ""], rows, title=title)
