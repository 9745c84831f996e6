"""`luvli data synthesize` and `luvli data profile`: faces with exact points and visibility."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from typer import Option

from luvli.cli.options import SET_FOLDER, SET_NAME
from luvli.cli.output import say
from luvli.files import folder_lock
from luvli.progress import track

WORKERS: int = Option(0, min=0, help="Processes; 0: one for each core.")


def synthesize(
    out: Path = Option(help="Folder for the faces; a run can be continued."),
    faces: int = Option(5000, min=1, help="How many faces the set shall have."),
    size: int = Option(256, min=32, max=2048, help="Pixels along each side."),
    seed: int = Option(0, min=0, help="Equal seeds make equal faces."),
    head: str = Option("procedural", help="`procedural`, or an ICT FaceKit model (folder or npz)."),
    pose: Literal["mixed", "frontal", "half-profile", "profile"] = Option(
        "mixed", help="Which poses."
    ),
    workers: int = WORKERS,
    textures: Path | None = Option(None, help="Photographs with .pts, whose skin the faces wear."),
    backgrounds: Path | None = Option(None, help="Photographs to stand behind the faces."),
) -> None:
    """Render faces with exact landmarks and three classes of visibility.

    Writes `NNNNNN.jpg` and `NNNNNN.pts` (MERL-RAV's signs: both coordinates negative for
    externally occluded, -1 -1 for self-occluded). Run it again to continue or to add faces.

    Example: `luvli data synthesize --faces 5000 --out faces`
    """
    from luvli.synthetic import SyntheticFaces

    wanted = SyntheticFaces(
        head=head, count=faces, size=size, seed=seed, pose=pose,
        textures=None if textures is None else str(textures),
        backgrounds=None if backgrounds is None else str(backgrounds),
    )  # fmt: skip
    _write(out, wanted, workers)


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
