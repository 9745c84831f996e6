"""A report a person reads in one go: `report.html`, `report.md`, `metrics.json` and
`predictions.parquet` in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from luvli.errors import InputError
from luvli.evaluation import plots
from luvli.evaluation.accuracy import FAILED_NME, NotMeasured
from luvli.evaluation.annotators import comparison, human_table
from luvli.evaluation.bootstrap import Interval
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.evaluation.labelled_parquet import write_predictions
from luvli.evaluation.metrics import Evaluation, SubsetMetrics, compute_metrics
from luvli.evaluation.paper_tables import tables_beside_paper
from luvli.evaluation.plot_style import PlotOptions
from luvli.evaluation.registry import METRICS, NORMALIZERS, SECTIONS, get_metric, quoted
from luvli.evaluation.table import (
    PagePart,
    Picture,
    Table,
    interval,
    listed_names,
    png,
    write_page,
)
from luvli.files import PathLike, write_text
from luvli.likelihood import MissingMethod

_PLOTS = {
    "Accuracy": ("ced", "landmarks"),
    "Uncertainty": ("coverage", "residuals", "whitened", "smallest-eigenvalue", "mean-ellipses",
                    "individual-ellipses"),
    "Trust": ("risk-coverage", "rank"),
}  # fmt: skip
_PEARSON = (
    "The paper (figure 4) prints 0.98 and 0.99 for 734 landmarks in a bin, and 0.84, 0.80 and 0.72 "
    "for 36."
)


def write_report(
    folder: PathLike,
    faces: LabelledFaces,
    *,
    annotators: PathLike | None = None,
    resamples: int = 1000,
) -> Evaluation:
    """Measure everything, write the four files into `folder`, and return the metrics.

    With a file of several people's labels, `annotators`, the report compares the model with them.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file: name a folder for the report.")
    evaluation = compute_metrics(faces, resamples=resamples)
    parts: list[PagePart] = [summary(evaluation), *evaluation.notes]
    for title, tables in report_sections(evaluation).items():
        parts += [f"## {title}", *tables, *pictures(_PLOTS.get(title, ()), [faces])]
    if annotators is not None:
        options = PlotOptions(annotators=Path(annotators))
        table = human_table(comparison(faces, annotators))
        parts += ["## People and model", table, *pictures(["human"], [faces], options)]
    write_predictions(target / "predictions.parquet", faces)
    write_page(target, "report", heading(evaluation), parts)
    write_text(target / "metrics.json", evaluation.to_json())
    return evaluation


def pictures(
    names: Sequence[str], sets: Sequence[LabelledFaces], options: PlotOptions | None = None
) -> list[Picture]:
    """Those plots of the registry that can be drawn of these faces and their likelihood."""
    drawn = []
    for name in names:
        entry = plots.PLOTS[name]
        numbers = "".join(f" (figure {n} of the paper)" for n in entry.numbers)
        try:
            drawn.append(Picture(entry.title + numbers, png(plots.draw_plot(name, sets, options))))
        except (NotMeasured, MissingMethod):
            continue
    return drawn


def report_folder(out: PathLike, faces: LabelledFaces) -> Path:
    """`out`, or a folder in it where `out` holds a report of another method or test set."""
    target = Path(out)
    own = (faces.method, faces.dataset, faces.subset)
    try:
        stored = Evaluation.read(target / "metrics.json")
    except InputError:
        return target  # none, or of another version: to be replaced
    if (stored.method, stored.dataset, stored.subset) == own:
        return target
    return target / "-".join(word.replace("/", "_") for word in own if word)


def heading(evaluation: Evaluation) -> str:
    """Title of a report."""
    where = " ".join(part for part in (evaluation.dataset, evaluation.subset) if part)
    return f"{evaluation.method} on {where}" if evaluation.dataset else evaluation.method


def summary(evaluation: Evaluation) -> str:
    """One line under the title."""
    text = (
        f"{evaluation.faces:,} faces, {evaluation.landmarks} landmarks each, "
        f"{evaluation.visible_landmarks:,} visible; {len(evaluation.failed)} without prediction."
    )
    if evaluation.missing:
        text += f" Not predicted, so not reported: {', '.join(evaluation.missing)}."
    return text


# --- tables ------------------------------------------------------------------------------


def quoted_table(evaluation: Evaluation, intervals: bool = True) -> Table:
    """What papers quote of this data set: the whole set and its parts."""
    columns = [get_metric(n) for n in quoted(evaluation.dataset) if n in evaluation.metrics]
    whole = SubsetMetrics(evaluation.faces, evaluation.metrics)

    def cell(values: Interval | None) -> str:
        return interval(values if intervals or values is None else Interval(values.value))

    notes = [
        f"Means over faces{' with 95 % bootstrap intervals' if intervals else ''}. NME (eq. 15) "
        "divides by all landmarks, NME_vis (eq. 20) by the visible ones."
    ]
    if evaluation.failed:
        notes.append(
            f"{len(evaluation.failed)} faces without a prediction count as {FAILED_NME:g} % in "
            "the means, as failures in FR and as nothing in AUC: "
            f"{listed_names(evaluation.failed)}."
        )
    if evaluation.unmeasurable:
        notes.append(
            f"{len(evaluation.unmeasurable)} faces have no measurable label and stand in no mean: "
            f"{listed_names(evaluation.unmeasurable)}."
        )
    return Table(
        "As papers quote it",
        ["", "faces", *(metric.title for metric in columns)],
        [
            [name, f"{part.faces:,}", *(cell(part.metrics.get(each.name)) for each in columns)]
            for name, part in ({evaluation.subset: whole} | evaluation.subsets).items()
        ],
        ["", "", *(metric.unit for metric in columns)],
        notes,
    )


def value_table(evaluation: Evaluation, section: str = "") -> Table:
    """The metrics of a section, or of all, that are one number without a normaliser: one to a
    line."""
    rows = [
        [metric.title, interval(evaluation.metrics[metric.name], metric.digits), metric.unit]
        for metric in METRICS.values()
        if metric.name in evaluation.metrics
        and not metric.normalizer
        and section in ("", metric.section)
    ]
    return Table(section or "All faces", ["metric", "value [95 % interval]", "unit"], rows)


def report_sections(evaluation: Evaluation) -> dict[str, list[Table]]:
    """The tables of a report, by section."""
    accuracy = [
        quoted_table(evaluation),
        _normalizer_table("All normalisers", evaluation.metrics),
        *(
            _normalizer_table(f"{name}: {part.faces:,} faces", part.metrics)
            for name, part in evaluation.subsets.items()
        ),
    ]
    parts = {"Accuracy": accuracy}
    for section in SECTIONS:
        tables = [value_table(evaluation, section), *_key_tables(evaluation, section)]
        parts.setdefault(section, []).extend(table for table in tables if table.rows)
    parts["Beside the paper"] = tables_beside_paper(evaluation)
    return {title: tables for title, tables in parts.items() if tables}


def _normalizer_table(title: str, metrics: Mapping[str, Interval]) -> Table:
    """Normalisers as rows, their metrics as columns."""
    kinds = [metric for metric in METRICS.values() if metric.normalizer == "box"]
    rows = [
        [text, *(interval(metrics.get(m.name.replace("_box", f"_{kind}"))) for m in kinds)]
        for kind, text in NORMALIZERS.items()
        if f"nme_{kind}" in metrics
    ]
    heads = [metric.title.replace(", box", "").replace("_box", "") for metric in kinds]
    return Table(title, ["normaliser", *heads], rows, ["", *(metric.unit for metric in kinds)])


def _key_tables(evaluation: Evaluation, section: str) -> list[Table]:
    """Metrics that are mappings: one table for all of a section that have the same keys."""
    measured = [name.partition(".") for name in evaluation.metrics]
    tables = []
    for by in dict.fromkeys(m.by for m in METRICS.values() if m.section == section and m.by):
        keys = {
            metric: [key for name, _, key in measured if name == metric.name]
            for metric in METRICS.values()
            if metric.section == section and metric.by == by
        }
        columns = [metric for metric in keys if keys[metric]]
        rows = [
            [
                key.replace("_", " "),
                *(interval(evaluation.metrics.get(f"{m.name}.{key}"), m.digits) for m in columns),
            ]
            for key in dict.fromkeys(key for metric in columns for key in keys[metric])
        ]
        notes = [_PEARSON] if by == "entry of Σ" else []
        heads, units = [m.title for m in columns], [m.unit for m in columns]
        tables.append(Table(f"By {by}", [by, *heads], rows, ["", *units], notes))
    return tables
