"""`luvli data synthesize`: rendered faces with exact points and visibility."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from luvli.cli.options import Seed


def synthesize(
    out: Annotated[Path, typer.Option(help="Folder for the faces; a run can be continued.")],
    faces: Annotated[int, typer.Option(min=1, help="How many faces the set shall have.")] = 5000,
    size: Annotated[int, typer.Option(min=32, max=2048, help="Pixels along each side.")] = 256,
    seed: Seed = 0,
    head: Annotated[
        str, typer.Option(help="`procedural`, or the path of an ICT FaceKit model (folder or npz).")
    ] = "procedural",
    jaw: Annotated[
        Literal["outline", "3d"],
        typer.Option(help="Jaw of a turned face: its visible outline, or the bone."),
    ] = "outline",
    pose: Annotated[
        Literal["mixed", "frontal", "half-profile", "profile"], typer.Option(help="Which poses.")
    ] = "mixed",
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0: one for each core.")] = 0,
    textures: Annotated[
        Path | None,
        typer.Option(help="Photographs with 68-point .pts files, whose skin the faces wear."),
    ] = None,
    backgrounds: Annotated[
        Path | None, typer.Option(help="Photographs to stand behind the faces.")
    ] = None,
) -> None:
    """Render faces with exact landmarks and three classes of visibility.

    Writes `NNNNNN.jpg` and `NNNNNN.pts` (MERL-RAV's signs: both coordinates negative for
    externally occluded, -1 -1 for self-occluded). Run it again to continue or to add faces.

        luvli data synthesize --faces 5000 --out faces
    """
    from luvli.files import folder_lock
    from luvli.progress import track
    from luvli.synthetic import SyntheticFaces
    from luvli.synthetic import synthesize as write

    wanted = SyntheticFaces(
        head=head,
        count=faces,
        size=size,
        seed=seed,
        jaw=jaw,
        pose=pose,
        textures=None if textures is None else str(textures),
        backgrounds=None if backgrounds is None else str(backgrounds),
    )
    with folder_lock(out):
        written = write(
            out, wanted, workers, track=lambda done, what, total: track(done, what, total, "faces")
        )
    typer.echo(f"{written} faces written to {out} ({faces - written} were there).")
