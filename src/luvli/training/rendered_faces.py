"""Rendered faces as a source: drawn once into the cache folder, then read like any folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from luvli.data.cache import cache_root
from luvli.data.formats import read_pts
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.progress import track
from luvli.synthetic import SyntheticFaces, TurnedFaces, synthesize
from luvli.synthetic.photographs import write_faces
from luvli.training.recipe_data import Data, Synthetic
from luvli.training.sources import load_source


def rendered_faces(settings: Synthetic, data: Data, workers: int = 1) -> list[FaceRecord]:
    """The faces of these settings, drawn now, by so many processes, where they are missing.

    An interrupted drawing goes on where it stopped; a larger number of faces adds to those
    that are there. Skins and backgrounds may come from other sources of `data`.
    """
    store = Path(data.cache or cache_root())
    photographs = {
        "textures": _photographs(settings.photographs("textures"), data, True, store),
        "backgrounds": _photographs(settings.photographs("backgrounds"), data, False, store),
        "turned": _photographs(settings.photographs("turned"), data, True, store),
    }
    settings = settings.model_copy(update=photographs)
    text = settings.model_dump_json(exclude={"faces"}, exclude_defaults=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = store / f"rendered-{key}"
    faces = synthetic_faces(settings, Path(data.root).expanduser())
    synthesize(folder, faces, workers=workers, track=track)
    return [_record(folder, f"{index:06d}") for index in range(settings.faces)]


def _photographs(names: Sequence[str], data: Data, labelled: bool, store: Path) -> str | None:
    """One file that names the training faces of these sources, never held-out ones; or the one
    folder as it is.

    `labelled`: with the labels of a source's model, where it has one. Skins need them, backgrounds
    only need to know where the face is.
    """
    sources = {name: part for name, part in data.sources.items() if part.synthetic is None}
    if not names or (len(names) == 1 and names[0] not in sources):
        return names[0] if names else None
    faces: list[FaceRecord] = []
    for name in names:
        if name not in sources:
            raise InputError(
                f"textures, backgrounds and turned name {name!r}, which is no source: "
                f"choose from {', '.join(sources)}, or give one folder alone."
            )
        source = sources[name]
        if not labelled:
            source = source.model_copy(update={"relabel": None})
        faces += load_source(name, source, data).train
    return write_faces(faces, store)


def _record(folder: Path, name: str) -> FaceRecord:
    points, visibility = read_pts(folder / f"{name}.pts", points=68)
    return FaceRecord(
        points=points,
        visibility=visibility,
        image=folder / f"{name}.jpg",
        dataset="synthetic",
        face_id=name,
    )


def synthetic_faces(settings: Synthetic, root: Path) -> SyntheticFaces | TurnedFaces:
    """The renderer with these settings; paths start from `root`, and are whole ones: the folder of
    the faces keeps them, and is read from anywhere."""
    root = root.resolve()

    def below(names: tuple[str, ...]) -> str | None:
        return str(root / names[0]) if names else None

    photographs = below(settings.photographs("turned"))
    if photographs is not None:
        return TurnedFaces(str(root / settings.head), photographs, settings.faces, settings.seed)
    return SyntheticFaces(
        head="procedural" if settings.head == "procedural" else str(root / settings.head),
        count=settings.faces,
        size=settings.size,
        seed=settings.seed,
        jaw=settings.jaw,
        pose=settings.pose,  # type: ignore[arg-type]
        textures=below(settings.photographs("textures")),
        backgrounds=below(settings.photographs("backgrounds")),
        closed_eyes=settings.closed_eyes,
    )
