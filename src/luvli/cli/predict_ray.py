"""`luvli predict --engine ray`: what the command line makes of a job on a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from luvli.cli.predict_report import SHOWN_FAILURES, report_licence, watch
from luvli.cli.tables import print_table

if TYPE_CHECKING:
    from luvli.cli.predict_options import ClusterOptions, ModelOptions
    from luvli.network.model_info import ModelInfo
    from luvli.prediction.job_settings import JobSettings
    from luvli.scale.ray_predict import ScaleJob, ScaleSummary


def predict_ray(
    paths: Sequence[str],
    out: str,
    settings: JobSettings,
    model: ModelOptions,
    cluster: ClusterOptions,
    quiet: bool,
    profile: bool,
) -> int:
    """Do the job, tell what came of it -> the exit code."""
    from luvli.errors import InputError, require
    from luvli.models import find_model
    from luvli.prediction.predictor import load
    from luvli.scale.ray_predict import FAILED, predict_on_ray

    if not paths:
        raise InputError("nothing to look at: give folders, files or URIs.")
    require("pyarrow", "scale")
    file = find_model(model.name, model.backend)
    info = load(file, threads=1).info
    if settings.min_confidence is not None and info.trust is None:
        raise InputError(f"{info.name} tells no confidence: leave --min-confidence out.")
    settings = replace(settings, out=Path(), format="parquet")
    job = _job(paths, out, settings, model, cluster, file, info)
    seen: Any = (lambda items, *_: items) if quiet else watch
    try:
        summary = predict_on_ray(job, seen)
    except KeyboardInterrupt:
        typer.secho(
            f"\nluvli: interrupted; finished parts are kept in {out}: give the same command again "
            "to go on.",
            fg="yellow",
            err=True,
        )
        return 130
    if not quiet:
        _tables(summary, profile)
    for sentence in summary.failures[:SHOWN_FAILURES]:
        typer.secho(f"luvli: {sentence}", fg="red", err=True)
    failed = summary.counts.failed
    if failed > SHOWN_FAILURES:
        more = f"and {failed - SHOWN_FAILURES:,} more, all named in {out}/{FAILED}."
        typer.secho(f"luvli: {more}", fg="red", err=True)
    if not quiet:
        report_licence(info)
        typer.echo(out)
    return 1 if failed else 0


def _job(
    paths: Sequence[str],
    out: str,
    settings: JobSettings,
    model: ModelOptions,
    cluster: ClusterOptions,
    file: Path,
    info: ModelInfo,
) -> ScaleJob:
    from luvli.scale.prepare import ReadSettings
    from luvli.scale.ray_predict import ScaleJob
    from luvli.scale.settings import WorkerSettings
    from luvli.scale.sources import SourceOptions

    accept_from = model.accept_from(info)
    note = json.loads(model.note([], accept_from))
    note.pop("inputs")
    columns = {"image_column": cluster.image_column, "name_column": cluster.name_column}
    target, *sources = (
        place if "://" in place else os.path.abspath(place)  # noqa: PTH100
        for place in (out, *paths)
    )
    read = ReadSettings(
        info,
        settings.min_score,
        model.small_faces,
        settings.try_rotations,
        detector=model.known_boxes(),
    )
    return ScaleJob(
        sources,
        target,
        WorkerSettings(
            target, file.read_bytes(), file.suffix, read, settings, model.provider, accept_from
        ),
        settings.identity() | note | columns,
        SourceOptions(cluster.image_column, cluster.name_column, cluster.part_size),
        cluster.address,
        model.threads,
        settings.overwrite,
    )


def _tables(summary: ScaleSummary, profile: bool) -> None:
    counts = summary.counts
    rows = [
        ("images and frames", counts.images),
        ("of these without a face", counts.without_face),
        ("of these failed", counts.failed),
        ("faces", counts.faces),
        ("accepted by the triage", counts.accepted),
        ("for review", counts.for_review),
        ("faces left out as unsure", counts.filtered),
        ("parts", summary.plan.parts),
        ("parts done by an earlier run", summary.done_before),
    ]
    shown = [[name, f"{count:,}"] for name, count in rows if count or name == "faces"]
    print_table(["", "count"], shown, title="summary")
    good = counts.images - counts.failed
    typer.echo(
        f"rows in {summary.plan.rows:,} = rows out {good:,} + failures {counts.failed:,}: complete"
    )
    if profile:
        total = sum(summary.seconds.values()) or 1.0
        times = [[s, f"{t:.2f} s", f"{t / total:.0%}"] for s, t in summary.seconds.items()]
        print_table(["stage", "time", "share"], times, title="all workers together")
