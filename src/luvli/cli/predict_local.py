"""`luvli predict` on this machine: into files, or printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from luvli.cli.predict_report import print_json, report, report_licence, report_profile, watch
from luvli.files import folder_lock
from luvli.prediction.input_files import Inputs

if TYPE_CHECKING:
    from luvli.cli.predict_options import ModelOptions
    from luvli.prediction.job_settings import JobSettings


def predict_to_stdout(paths: Sequence[str], settings: JobSettings, model: ModelOptions) -> int:
    """Print the results as JSON -> the exit code."""
    inputs = Inputs(_files(paths))
    return int(print_json(model.predictor(), inputs, settings, "-" in paths))


def predict_to_files(
    paths: Sequence[str],
    camera: int | None,
    settings: JobSettings,
    given_folder: bool,
    model: ModelOptions,
    quiet: bool,
    profile: bool,
) -> int:
    """Do the job, tell what came of it -> the exit code.

    Where no folder was given, another one than the settings' is taken if that has other results.
    """
    from luvli.prediction.batch_job import BatchJob, free_folder, predict_paths
    from luvli.prediction.camera import camera_frames

    inputs = Inputs(_files(paths))
    predictor = model.predictor()
    settings = replace(settings, note=model.note(_files(paths), predictor.accept_threshold))
    if not given_folder:
        settings = free_folder(predictor, settings)
    seen: Any = (lambda items, *_: items) if quiet else watch
    if camera is not None:
        with folder_lock(settings.out):
            run = BatchJob(predictor, settings)
            typer.echo("Ctrl-C ends the recording.", err=True)
            run.camera(seen(camera_frames(camera), "frames", None), f"camera-{camera}", 30.0)
            summary = run.finish()
    else:
        try:
            summary = predict_paths(predictor, inputs, settings, seen)
        except KeyboardInterrupt:
            typer.secho(
                f"\nluvli: interrupted; what was finished is kept in {settings.out}: give the "
                "same command again to go on.",
                fg="yellow",
                err=True,
            )
            return 130
    report(summary, settings, quiet)
    if not quiet:
        report_licence(predictor.info)
    if profile:
        report_profile(summary.stopwatch)
    return 1 if summary.failed else 0


def _files(paths: Sequence[str]) -> list[str]:
    """Without standard input."""
    return [path for path in paths if path != "-"]
