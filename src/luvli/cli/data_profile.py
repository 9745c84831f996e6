"""`luvli data profile`: labelled photographs turned out of plane."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.options import Seed, SetFolder, SetName


def profile(
    name: SetName,
    root: SetFolder,
    out: Annotated[Path, typer.Option(help="Folder for the faces; a run can be continued.")],
    head: Annotated[Path, typer.Option(help="The ICT FaceKit head: its folder or npz file.")],
    faces: Annotated[
        int | None, typer.Option(min=1, help="How many; one for each photograph by default.")
    ] = None,
    seed: Seed = 0,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0: one for each core.")] = 0,
) -> None:
    """Turn labelled photographs up to profile, with their labels.

    Fits a 3-D head to the 68 points of each photograph, drapes the photograph over it and turns
    it to a random yaw of up to 90 degrees. Labels follow the visible outline of the face, as those
    of 300-W; landmarks that the head hides are self-occluded. Photographs that are in profile
    already, or that the head does not fit, are passed over. Writes `NNNNNN.jpg` and `NNNNNN.pts`
    (MERL-RAV's signs). To train on them without those that a recipe holds out, name the
    sources in the recipe instead: `synthetic: {head: ..., turned: [SOURCE]}`.

        luvli data profile w300 data/300w --head ict_facekit.npz --out turned
    """
    from luvli.data.sets import load_set
    from luvli.progress import track
    from luvli.synthetic import TurnedFaces, synthesize
    from luvli.synthetic.photographs import write_faces

    records = load_set(name, root)
    out.mkdir(parents=True, exist_ok=True)
    wanted = TurnedFaces(str(head), write_faces(records, out), faces or len(records), seed)
    written = synthesize(
        out, wanted, workers, track=lambda done, what, total: track(done, what, total, "faces")
    )
    typer.echo(f"{written} faces written to {out} ({len(wanted) - written} were there).")
