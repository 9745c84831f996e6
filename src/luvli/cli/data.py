"""`luvli data`: the data sets of the paper, on your disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.data_convert import convert
from luvli.cli.data_markup import markup
from luvli.cli.data_profile import profile
from luvli.cli.data_synthesize import synthesize
from luvli.cli.options import Json, Seed, SetFolder, SetName, SkipBad, Split, Verbs, set_part

data = Verbs(name="data")

SHOWN = 5
"""problems that `check` names"""
COLUMNS, SIZE = 4, 220
"""faces in a row of `show`, and their height in pixels"""


@data.callback()
def about() -> None:
    """Look at data sets: which there are, whether yours is whole, what its labels look like."""


@data.command("list")
def list_sets() -> None:
    """The paper's overview of data sets (Table 1), and how they are called here.

    "self" and "ext." say which hidden landmarks a set can teach: hidden by the head itself,
    hidden by something else. F/P: frontal and profile faces have different points. T: labelled
    as if the head were transparent. Sets without a name are not read.
    """
    from luvli.cli.tables import print_table
    from luvli.data.sets.check import HEADINGS, overview

    print_table(HEADINGS, overview())


@data.command()
def check(
    name: SetName,
    root: SetFolder,
    split: Split = None,
    decode: Annotated[
        bool, typer.Option("--decode", help="Also decode every image (slow, thorough).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Count a data set and compare it with the paper's Tables 1 and 2.

    Names what is missing or unreadable. Exit code 0: whole; 1: something is wrong or
    missing; 2: the folder does not hold this data set.

    Example: `luvli data check w300 data/300w --decode`
    """
    from luvli.cli.tables import print_table
    from luvli.data.sets.check import check_set
    from luvli.progress import track

    name = set_part(name, split)
    report = check_set(name, root, decode, lambda faces: track(faces, "decoding", unit="faces"))
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
        raise typer.Exit(0 if report.complete else 1)
    headings = ["part", "labels", "images", "paper", ""]
    print_table(headings, [row.cells() for row in report.rows], title=f"{name} in {root}")
    for note in report.notes:
        typer.echo(f"note: {note}")
    if report.confirmed:
        typer.echo(f"confirmed on real files: {report.confirmed}")
    for kind, count in report.kinds().most_common():
        typer.echo(f"{count:,} x {kind}")
    for problem in report.problems[:SHOWN]:
        typer.echo(f"  {problem}")
    if len(report.problems) > SHOWN:
        typer.echo(f"  and {len(report.problems) - SHOWN:,} more (--json lists all)")
    if not report.complete:
        raise typer.Exit(1)


@data.command()
def show(
    name: SetName,
    root: SetFolder,
    out: Annotated[Path, typer.Option(help="Image to write.")] = Path("sheet.png"),
    faces: Annotated[int, typer.Option(min=1, help="How many faces.")] = 16,
    seed: Seed = 0,
    augment: Annotated[
        str | None, typer.Option(help="Show them as training sees them: recipe A or B.")
    ] = None,
    labels_only: Annotated[
        bool, typer.Option("--labels-only", help="Draw the labels without images.")
    ] = False,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Draw pose, size, visibility and mean shape.")
    ] = False,
    skip_bad: SkipBad = False,
) -> None:
    """Draw a contact sheet of labelled faces.

    Green: unoccluded; red: externally occluded; self-occluded landmarks are black circles on
    the schematic beside the face.

    Example: `luvli data show merl_rav/test/profile data/merl_rav`
    """
    from luvli.data.augment import Augmentation
    from luvli.data.contact_sheet import choose, draw_statistics, label_sheet, sample_sheet
    from luvli.data.dataset import CropDataset
    from luvli.data.sets import get_set, load_set
    from luvli.image.write import write_image

    records = load_set(name, root, skip_bad=skip_bad, images=not (labels_only or statistics))
    if statistics:
        write_image(out, draw_statistics(records, f"{records.name} {records.split}"))
        typer.echo(f"statistics of {len(records):,} faces drawn in {out}")
        return
    chosen = choose(len(records), faces, seed)
    if augment is None:
        sheet = label_sheet([records[i] for i in chosen], COLUMNS, SIZE)
    else:
        recipe, enlarge = Augmentation.recipe(augment), get_set(name).enlarge
        crops = CropDataset(records, SIZE, enlarge=enlarge, augmentation=recipe, seed=seed)
        sheet = sample_sheet(crops, chosen, COLUMNS)
    write_image(out, sheet)
    typer.echo(f"{len(chosen)} of {len(records):,} faces drawn in {out}")


data.command()(convert)
data.command()(markup)
data.command()(synthesize)
data.command()(profile)
