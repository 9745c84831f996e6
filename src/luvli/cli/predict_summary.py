"""What `luvli predict` prints at its end: faces, counts, failures, files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from luvli.cli.output import complain, print_paths, print_table, say

if TYPE_CHECKING:
    from luvli.faces import FaceLandmarks
    from luvli.prediction.job import Summary
    from luvli.prediction.settings import JobSettings

_SHOWN_FAILURES = 20


def print_summary(summary: Summary, settings: JobSettings) -> None:
    """The images if they are few, a summary, failures, and where everything is."""
    counts = summary.counts
    if 0 < counts["images"] == len(summary.examples):
        rows = [
            [row.image, f"{number}", f"{face.score:.2f}", trust_text(face), *_figures(face)]
            for row in summary.examples
            for number, face in enumerate(row.faces, 1)
        ]
        rows += [[row.image, "none", *[""] * 4] for row in summary.examples if not len(row.faces)]
        print_table(["image", "face", "score", "confidence", "uncertainty", "hidden"], rows)
    lines = [
        ("images", counts["images"]),
        ("of these without a face", counts["without_face"]),
        ("videos", summary.videos),
        ("frames", counts["frames"]),
        ("done by an earlier run", summary.resumed),
        ("faces", counts["faces"]),
        ("accepted by the triage", counts["accepted"]),
        ("for review", counts["for_review"]),
        ("faces left out as unsure", counts["filtered"]),
        (f"other files in the folders{_endings(summary.skipped)}", summary.skipped.total()),
        ("failed", max(counts["failed"], len(summary.failed))),
    ]
    shown = [[name, f"{count:,}"] for name, count in lines if count or name == "faces"]
    print_table(["", "count"], shown, title="summary")
    if summary.rows:
        good = counts["images"] + counts["frames"]
        say(f"images in {summary.rows:,} = done {good:,} + failed {counts['failed']:,}")
    failed = list(summary.failed)
    for sentence in failed[:_SHOWN_FAILURES]:
        complain(sentence)
    if len(failed) > _SHOWN_FAILURES:
        more = len(failed) - _SHOWN_FAILURES
        complain(f"and {more:,} more, all named in {settings.out}/failed.txt.")
    if settings.format == "coco":
        say("COCO has no place for covariances and probabilities: they were left out.")
    print_paths(summary.written)
    if settings.draw or settings.format in ("pts", "parts"):
        say(f"everything is in {settings.out}")


def _endings(skipped: Counter[str]) -> str:
    """The commonest endings of files that were left out, in brackets.

    >>> _endings(Counter({".txt": 3, "": 1})), _endings(Counter())
    (' (.txt, no ending)', '')
    """
    names = [ending or "no ending" for ending, _ in skipped.most_common()]
    more = ", ..." if len(names) > 4 else ""
    return f" ({', '.join(names[:4])}{more})" if names else ""


def trust_text(face: FaceLandmarks) -> str:
    """The confidence, and what the triage makes of it."""
    from luvli.face_landmarks import confidence_text

    decision = {None: "", True: ", accepted", False: ", for review"}[face.accepted]
    return f"{confidence_text(face.confidence)}{decision}"


def _figures(face: FaceLandmarks) -> list[str]:
    """Typical uncertainty in pixels, and how many landmarks the head itself hides."""
    spread = f"{face.uncertainty.mean():.1f} px" if face.covariance_trained else "not trained"
    hidden = int((~face.visible()).sum())
    return [spread, f"{hidden} of {len(face)}" if face.visibility_trained else "not trained"]
