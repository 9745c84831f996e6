"""The recipe's sources: reading (or rendering) their faces, and holding some out."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from luvli.data.cache import cache_root
from luvli.data.convert import change_markup
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.formats import read_pts
from luvli.data.record import IMAGE_NAME, FaceRecord
from luvli.data.sets import load_set
from luvli.errors import InputError
from luvli.image.detect import DetectorName
from luvli.network.config import NetworkConfig
from luvli.progress import track
from luvli.synthetic import SyntheticFaces, TurnedFaces, synthesize
from luvli.synthetic.photographs import write_faces
from luvli.training.ingredients import source_folder
from luvli.training.recipe_data import LENT, Data, Source, Synthetic


@dataclass(frozen=True)
class SourceFaces:
    """The faces of one source: to learn from, and held out for validation."""

    source: Source
    train: Sequence[FaceRecord]
    held_out: tuple[FaceRecord, ...]


DETECTOR_NAMES: dict[str, DetectorName] = {"detector": "yunet", "detector-open": "yunet-open"}
"""a source's `boxes` -> the detector that finds them"""


def model_detector(data: Data) -> DetectorName:
    """The detector that a model trained on these sources should be asked with."""
    names = {source.boxes for source in data.sources.values()} & set(DETECTOR_NAMES)
    return "yunet-open" if names == {"detector-open"} else "yunet"


def load_source(
    name: str,
    source: Source,
    data: Data,
    network: NetworkConfig | None = None,
    workers: int = 1,
) -> SourceFaces:
    """Read (or render, with `workers` processes) the faces of one source and hold some out.

    With `network`, faces of another markup are converted to the network's, or refused.
    """
    if source.synthetic is not None:
        records = rendered_faces(source.synthetic, data, workers)
    else:
        folder = source_folder(f"data.sources.{name}", source, data)
        records = list(
            load_set(
                str(source.set), folder, source.split, subset=source.subset,
                protocol=source.protocol, skip_bad=source.skip_bad,
            )
        )  # fmt: skip
    if network is not None:
        records = [_in_markup(record, network, name) for record in records]
    if source.offset != (0.0, 0.0):
        records = [record.with_changes(points=record.points + source.offset) for record in records]
    if source.limit is not None:
        records = sorted(records, key=lambda record: name_hash(record.face_id))[: source.limit]
        records.sort(key=lambda record: record.face_id)
    if source.boxes != "labels":
        cache = Path(data.cache or cache_root())
        records = with_detector_boxes(records, cache, DETECTOR_NAMES[source.boxes], source.skip_bad)
    training, held_out = hold_out(records, source.hold_out, source.group)
    if not training:
        key = f"data.sources.{name}.hold_out"
        raise InputError(
            f"data.sources.{name} has {len(records)} faces and none is left to train on ({key} is "
            f"{source.hold_out}): add faces, or hold out fewer with --set {key}=0.1."
        )
    if source.relabel is not None:
        from luvli.training.relabel import relabel

        training = relabel(training, source.relabel, source, data.cache)
    labelled = tuple(record for record in held_out if record.labelled.any())
    return SourceFaces(source, tuple(training), labelled)


def _in_markup(record: FaceRecord, network: NetworkConfig, name: str) -> FaceRecord:
    """The label in the network's markup."""
    markup, count = record.markup, len(record.points)
    with contextlib.suppress(InputError):
        record = change_markup(record, network.markup)
    if (record.markup, len(record.points)) != (network.markup, network.landmarks):
        raise InputError(
            f"data.sources.{name} has the markup {markup} with {count} points, the network "
            f"{network.markup} with {network.landmarks}: --set network.markup={markup} "
            f"--set network.landmarks={count}."
        )
    return record


def hold_out(
    records: Sequence[FaceRecord], amount: int | float, group: str = "photo"
) -> tuple[list[FaceRecord], list[FaceRecord]]:
    """Split off whole photographs or people, those whose hashed names come first.

    amount: a whole number takes at least so many faces; a share below 1 takes the names whose
    hash, as a fraction of the largest, is below it, so that each name is decided by itself.
    Both depend on names alone: they are the same on every machine and for every seed.
    """
    groups: dict[str, list[FaceRecord]] = {}
    for record in records:
        groups.setdefault(group_of(record, group), []).append(record)
    chosen: set[str] = set()
    number = 0
    for key in sorted(groups, key=name_hash):
        share = int(name_hash(key), 16) / 2**256
        if (share if isinstance(amount, float) else number) >= amount:
            break
        chosen.add(key)
        number += len(groups[key])
    training = [r for r in records if group_of(r, group) not in chosen]
    return training, [r for r in records if group_of(r, group) in chosen]


def group_of(record: FaceRecord, group: str) -> str:
    """What must not be on both sides of the hold-out: the photograph, or the person in it.

    Sets that cut several faces out of one photograph number them: `image00123_2.jpg` is the
    second face of `image00123.jpg`.
    """
    if group == "person":
        return re.sub(r"[\W_]*\d+$", "", record.face_id)
    name = record.attributes.get(IMAGE_NAME) or record.image  # unpacked images have other names
    return re.sub(r"_\d{1,2}(?=\.|$)", "", Path(name).name if name else record.face_id)


def name_hash(name: str) -> str:
    """SHA-256 in hexadecimal: an order of names that no one chose."""
    return hashlib.sha256(name.encode()).hexdigest()


def rendered_faces(settings: Synthetic, data: Data, workers: int = 1) -> list[FaceRecord]:
    """The faces of these settings, drawn now, by so many processes, where they are missing.

    An interrupted drawing goes on where it stopped; a larger number of faces adds to those
    that are there. Skins and backgrounds may come from other sources of `data`.
    """
    store = Path(data.cache or cache_root())
    photographs = {
        kind: _photographs(settings.lenders(kind), data, kind != "backgrounds", store)
        for kind in LENT
    }
    settings = settings.model_copy(update=photographs)
    text = settings.model_dump_json(exclude={"faces"}, exclude_defaults=True)
    folder = store / f"rendered-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
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
        changes = {} if labelled else {"relabel": None}
        faces += load_source(name, sources[name].model_copy(update=changes), data).train
    return write_faces(faces, store)


def _record(folder: Path, name: str) -> FaceRecord:
    points, visibility = read_pts(folder / f"{name}.pts", points=68)
    image = folder / f"{name}.jpg"
    return FaceRecord(points, visibility, image, dataset="synthetic", face_id=name)


def synthetic_faces(settings: Synthetic, root: Path) -> SyntheticFaces | TurnedFaces:
    """The renderer with these settings; paths start from `root`, and are whole ones: the folder of
    the faces keeps them, and is read from anywhere."""
    root = root.resolve()
    places: dict[str, Any] = {
        kind: str(root / name) for kind in LENT for name in settings.lenders(kind)
    }
    head = settings.head if settings.head == "procedural" else str(root / settings.head)
    if "turned" in places:
        return TurnedFaces(head, places["turned"], settings.faces, settings.seed)
    shared = settings.model_dump(include={"size", "seed", "jaw", "pose", "closed_eyes"})
    return SyntheticFaces(head=head, count=settings.faces, **shared, **places)
