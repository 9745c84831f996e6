"""`luvli data`: the data sets of the paper, on your disk."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

import typer
from typer import Argument, Option

from luvli.cli.options import SET_FOLDER, SET_NAME, SKIP_BAD, Verbs
from luvli.cli.output import face_progress, print_result, print_table, say
from luvli.errors import LossWarning
from luvli.evaluation.table import Table
from luvli.files import folder_lock
from luvli.progress import track

data = Verbs(name="data")

SHOWN = 5
"""problems that `check` names"""
COLUMNS, SIZE = 4, 220
"""faces in a row of `show`, and their height in pixels"""
MARKUP_SIZE = 1200
"""pixels along each side of the drawing of a point set"""
WORKERS: int = Option(0, min=0, help="Processes; 0: one for each core.")


@data.callback()
def about() -> None:
    """Look at data sets: which there are, whether yours is whole, what its labels look like."""


@data.command("list")
def list_sets() -> None:
    """List the data sets of the paper (Table 1) with their names in luvli.

    "self" and "ext." say which hidden landmarks a set can teach: hidden by the head itself,
    hidden by something else. F/P: frontal and profile faces have different points. T: labelled
    as if the head were transparent. Sets without a name are not read.

    Example: `luvli data list`
    """
    from luvli.data.sets.check import HEADINGS, overview

    print_table(HEADINGS, overview())


@data.command()
def check(
    name: str = SET_NAME,
    root: Path = SET_FOLDER,
    decode: bool = Option(False, "--decode", help="Also decode every image (slow, thorough)."),
) -> None:
    """Count a data set and compare it with the paper's Tables 1 and 2.

    Names what is missing or unreadable. Exit code 0: whole; 1: something is wrong or
    missing; 2: the folder does not hold this data set.

    Example: `luvli data check w300 data/300w --decode`
    """
    from luvli.data.sets.check import check_set

    report = check_set(name, root, decode, face_progress("decoding"))
    notes = [f"note: {note}" for note in report.notes]
    notes += [f"confirmed on real files: {report.confirmed}"] if report.confirmed else []
    notes += [f"{count:,} x {kind}" for kind, count in report.kinds().most_common()]
    notes += [f"  {problem}" for problem in report.problems[:SHOWN]]
    if len(report.problems) > SHOWN:
        notes.append(f"  and {len(report.problems) - SHOWN:,} more (--json lists all)")
    headings = ["part", "labels", "images", "paper", ""]
    rows = [row.cells() for row in report.rows]
    print_result(Table(f"{name} in {root}", headings, rows, notes=notes), value=report.to_dict())
    if not report.complete:
        raise typer.Exit(1)


@data.command()
def show(
    name: str = SET_NAME,
    root: Path = SET_FOLDER,
    out: Path = Option("sheet.png", help="Image to write."),
    faces: int = Option(16, min=1, help="How many faces."),
    augment: str | None = Option(
        None, help="Draw them as training sees them: augmentation A or B."
    ),
    labels_only: bool = Option(False, "--labels-only", help="Draw the labels without images."),
    statistics: bool = Option(
        False, "--statistics", help="Draw pose, size, visibility, mean shape."
    ),
) -> None:
    """Draw a contact sheet of labelled faces.

    Green: unoccluded; red: externally occluded; self-occluded landmarks are black circles on
    the schematic beside the face. Damaged faces are left out, and counted in a warning.

    Example: `luvli data show merl_rav/test/profile data/merl_rav`
    """
    import numpy as np

    from luvli.data.augment import Augmentation
    from luvli.data.contact_sheet import draw_statistics, label_sheet, sample_sheet
    from luvli.data.dataset import CropDataset
    from luvli.data.sets import get_set, load_set
    from luvli.image.write import write_image

    records = load_set(name, root, skip_bad=True, images=not (labels_only or statistics))
    if statistics:
        write_image(out, draw_statistics(records, f"{records.name} {records.split}"))
        say(f"statistics of {len(records):,} faces drawn in {out}")
        return
    random = np.random.default_rng(0).permutation(len(records))
    chosen = sorted(random[:faces].tolist())
    if augment is None:
        sheet = label_sheet([records[i] for i in chosen], COLUMNS, SIZE)
    else:
        recipe, enlarge = Augmentation.recipe(augment), get_set(name).enlarge
        crops = CropDataset(records, SIZE, enlarge=enlarge, augmentation=recipe, seed=0)
        sheet = sample_sheet(crops, chosen, COLUMNS)
    write_image(out, sheet)
    say(f"{len(chosen)} of {len(records):,} faces drawn in {out}")


@data.command()
def convert(
    source: Path = Argument(
        help="Label file or folder of label files; with --set the folder of the set."
    ),
    target: Path = Argument(
        help="Label file to write; its suffix chooses the format. A folder for formats with a "
        "file for each face or image (pts, labelme) and for parquet."
    ),
    data_set: str | None = Option(None, "--set", help="Read this data set, or a part: wflw/test."),
    skip_bad: bool = SKIP_BAD,
    from_format: str | None = Option(
        None, "--from", help="Format of the source, if it is not obvious."
    ),
    to_format: str | None = Option(
        None,
        "--to",
        help="pts, json, csv, coco, cvat, labelme, spiga, dlib, hrnet, or parquet (images inside).",
    ),
    markup: str | None = Option(None, help="Also change the point set: wflw98 to ibug68."),
) -> None:
    """Convert landmark labels, of files or of a whole data set.

    Visibility is kept if the target can hold it; a warning names what is lost.

    Examples: `luvli data convert faces.xml faces.json --to coco`,
    `luvli data convert data/wflw wflw-test.json --set wflw/test --to coco`
    """
    from luvli.data.convert import change_markup, read_label_tree, write_label_tree
    from luvli.data.sets import load_set

    if data_set is None:
        records = read_label_tree(source, from_format)
    else:
        records = list(load_set(data_set, source, skip_bad=skip_bad))
    if markup is not None:
        records = [change_markup(record, markup) for record in records]
    with warnings.catch_warnings():
        warnings.simplefilter("default", LossWarning)  # each sentence once
        write_label_tree(target, records, to_format)
    say(f"{len(records):,} face{'' if len(records) == 1 else 's'} written to {target}")


@data.command()
def markup(
    name: str = Argument(help="ibug68, wflw98, cofw29 or aflw19."),
    out: Path | None = Option(None, help="Image to write; NAME.png if not given."),
) -> None:
    """Draw a point set with its numbers.

    Example: `luvli data markup ibug68 --out ibug68.png`
    """
    from luvli.drawing.schematic import draw_schematic
    from luvli.image.write import write_image
    from luvli.markup import get_markup

    chosen = get_markup(name)
    path = out or Path(f"{name}.png")
    write_image(path, draw_schematic(chosen, MARKUP_SIZE))
    groups = ", ".join(f"{group} {len(members)}" for group, members in chosen.groups.items())
    say(f"{chosen.name}: {chosen.size} landmarks ({groups})\n{path}")


@data.command()
def synthesize(
    out: Path = Option(help="Folder for the faces; a run can be continued."),
    faces: int = Option(5000, min=1, help="Number of faces."),
    size: int = Option(256, min=32, max=2048, help="Pixels along each side."),
    seed: int = Option(0, min=0, help="Equal seeds make equal faces."),
    head: str = Option("procedural", help="`procedural`, or an ICT FaceKit model (folder or npz)."),
    pose: Literal["mixed", "frontal", "half-profile", "profile"] = Option(
        "mixed", help="Pose class."
    ),
    workers: int = WORKERS,
    textures: str | None = Option(
        None, metavar="FOLDER", help="Photographs with .pts files; the faces get their skin."
    ),
    backgrounds: str | None = Option(
        None, metavar="FOLDER", help="Photographs for the background."
    ),
) -> None:
    """Render faces with exact landmarks and three classes of visibility.

    Writes `NNNNNN.jpg` and `NNNNNN.pts` (MERL-RAV's signs: both coordinates negative for
    externally occluded, -1 -1 for self-occluded). Run it again to continue or to add faces.

    Example: `luvli data synthesize --faces 5000 --out faces`
    """
    from luvli.synthetic import SyntheticFaces

    wanted = SyntheticFaces(
        head=head, count=faces, size=size, seed=seed, pose=pose, textures=textures,
        backgrounds=backgrounds,
    )  # fmt: skip
    _write(out, wanted, workers)


@data.command()
def profile(
    name: str = SET_NAME,
    root: Path = SET_FOLDER,
    out: Path = Option(help="Folder for the faces; a run can be continued."),
    head: Path = Option(help="The ICT FaceKit head: its folder or npz file."),
    faces: int | None = Option(None, min=1, help="How many; one for each photograph by default."),
    workers: int = WORKERS,
) -> None:
    """Turn labelled photographs up to profile, with their labels.

    Fits a 3-D head to the 68 points of each photograph, drapes the photograph over it and turns
    it to a random yaw of up to 90 degrees. Labels follow the visible outline of the face, as those
    of 300-W; landmarks that the head hides are self-occluded. Photographs that are in profile
    already, or that the head does not fit, are passed over. Writes `NNNNNN.jpg` and `NNNNNN.pts`
    (MERL-RAV's signs). To train on them without those that a recipe holds out, name the
    sources in the recipe instead: `synthetic: {head: ..., turned: [SOURCE]}`.

    Example: `luvli data profile w300 data/300w --head ict_facekit.npz --out turned`
    """
    from luvli.data.sets import load_set
    from luvli.synthetic import TurnedFaces
    from luvli.synthetic.photographs import write_faces

    records = load_set(name, root)
    out.mkdir(parents=True, exist_ok=True)
    wanted = TurnedFaces(str(head), write_faces(records, out), faces or len(records), 0)
    _write(out, wanted, workers)


def _write(out: Path, wanted: Any, workers: int) -> None:
    """Draw the faces that are not there yet."""
    from luvli.synthetic import synthesize as write

    with folder_lock(out):
        written = write(
            out, wanted, workers, track=lambda done, what, total: track(done, what, total, "faces")
        )
    say(f"{written} faces written to {out} ({len(wanted) - written} were there).")
