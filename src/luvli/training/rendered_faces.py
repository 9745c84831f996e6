"""Rendered faces as a source: drawn once into the cache folder, then read like any folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from luvli.data.cache import cache_root
from luvli.data.formats import read_pts
from luvli.data.record import FaceRecord
from luvli.errors import InputError
from luvli.progress import track
from luvli.synthetic import SyntheticFaces, synthesize
from luvli.synthetic.photographs import write_faces
from luvli.training.recipe import Synthetic

LentFaces = Callable[[bool], Sequence[FaceRecord]]
"""the faces of a source; asked with True, those with labels of its model, where it has one"""


def rendered_faces(
    settings: Synthetic,
    root: Path,
    cache: str | None,
    sources: Mapping[str, LentFaces],
    workers: int = 1,
) -> list[FaceRecord]:
    """The faces of these settings, drawn now, by so many processes, where they are missing.

    An interrupted drawing goes on where it stopped; a larger number of faces adds to those
    that are there. `sources` gives the faces of each source that textures or backgrounds may
    name: skins need their labels, backgrounds only where the face is.
    """
    store = Path(cache or cache_root())
    lent = {
        "textures": _lent(settings.photographs("textures"), sources, True, store),
        "backgrounds": _lent(settings.photographs("backgrounds"), sources, False, store),
    }
    settings = settings.model_copy(update=lent)
    faces = synthetic_faces(settings, root)
    folder = store / f"rendered-{_key(settings)}"
    synthesize(folder, faces, workers=workers, track=track)
    return [_record(folder, f"{index:06d}") for index in range(settings.faces)]


def _lent(
    names: Sequence[str], sources: Mapping[str, LentFaces], labelled: bool, store: Path
) -> str | None:
    """One file that names all faces of these sources; or the one folder as it is."""
    if not names or (len(names) == 1 and names[0] not in sources):
        return names[0] if names else None
    unknown = [name for name in names if name not in sources]
    if unknown:
        raise InputError(
            f"textures and backgrounds name {unknown[0]!r}, which is no source: "
            f"choose from {', '.join(sources)}, or give one folder alone."
        )
    return write_faces((face for name in names for face in sources[name](labelled)), store)


def _record(folder: Path, name: str) -> FaceRecord:
    points, visibility = read_pts(folder / f"{name}.pts", points=68)
    return FaceRecord(
        points=points,
        visibility=visibility,
        image=folder / f"{name}.jpg",
        dataset="synthetic",
        face_id=name,
    )


def synthetic_faces(settings: Synthetic, root: Path) -> SyntheticFaces:
    """The renderer with these settings; paths start from `root`, and are whole ones: the folder of
    the faces keeps them, and is read from anywhere."""
    root = root.resolve()

    def below(names: tuple[str, ...]) -> str | None:
        return str(root / names[0]) if names else None

    return SyntheticFaces(
        head="procedural" if settings.head == "procedural" else str(root / settings.head),
        count=settings.faces,
        size=settings.size,
        seed=settings.seed,
        jaw=settings.jaw,
        pose=settings.pose,  # type: ignore[arg-type]
        textures=below(settings.photographs("textures")),
        backgrounds=below(settings.photographs("backgrounds")),
    )


def _key(settings: Synthetic) -> str:
    text = settings.model_dump_json(exclude={"faces"})
    return hashlib.sha256(text.encode()).hexdigest()[:16]
