"""Rendered faces as a source: drawn once into the cache folder, then read like any folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from luvli.data.cache import cache_root
from luvli.data.formats import read_pts
from luvli.data.record import FaceRecord
from luvli.files import write_text
from luvli.progress import track
from luvli.synthetic import SyntheticFaces, synthesize
from luvli.training.recipe import Synthetic

Photographs = Callable[[], Iterable[Path]]


def rendered_faces(
    settings: Synthetic, root: Path, cache: str | None, sources: Mapping[str, Photographs]
) -> list[FaceRecord]:
    """The faces of these settings, drawn now where they are missing.

    An interrupted drawing goes on where it stopped; a larger number of faces adds to those
    that are there. `sources` gives the photographs of each source that textures or backgrounds
    may name.
    """
    store = Path(cache or cache_root())
    named = {"textures": settings.textures, "backgrounds": settings.backgrounds}
    lists = {
        what: _photo_list(sources[name](), store)
        for what, name in named.items()
        if name is not None and name in sources
    }
    settings = settings.model_copy(update=lists)
    faces = synthetic_faces(settings, root)
    folder = store / f"rendered-{_key(settings)}"
    synthesize(folder, faces, workers=1, track=track)
    return [_record(folder, f"{index:06d}") for index in range(settings.faces)]


def _photo_list(photos: Iterable[Path], store: Path) -> str:
    """A file in the cache that names these photographs; each list has a name of its own."""
    text = "\n".join(sorted({str(photo.resolve()) for photo in photos})) + "\n"
    path = store / f"photographs-{hashlib.sha256(text.encode()).hexdigest()[:16]}.txt"
    write_text(path, text)
    return str(path.resolve())


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
    """The renderer with these settings; paths start from `root`."""

    def below(path: str | None) -> str | None:
        return None if path is None else str(root / path)

    return SyntheticFaces(
        head="procedural" if settings.head == "procedural" else str(root / settings.head),
        count=settings.faces,
        size=settings.size,
        seed=settings.seed,
        jaw=settings.jaw,
        pose=settings.pose,  # type: ignore[arg-type]
        textures=below(settings.textures),
        backgrounds=below(settings.backgrounds),
    )


def _key(settings: Synthetic) -> str:
    text = settings.model_dump_json(exclude={"faces"})
    return hashlib.sha256(text.encode()).hexdigest()[:16]
