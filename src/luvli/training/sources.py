"""The recipe's sources: reading (or rendering) their faces, and keeping some away."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from luvli.data.cache import cache_root
from luvli.data.convert import change_markup
from luvli.data.detector_boxes import with_detector_boxes
from luvli.data.record import FaceRecord
from luvli.data.sets import load_set
from luvli.errors import InputError
from luvli.image.detect import DetectorName
from luvli.network.config import NetworkConfig
from luvli.training.recipe import Data, Source


@dataclass(frozen=True)
class SourceFaces:
    """The faces of one source, with those that are kept for validation set apart."""

    source: Source
    train: Sequence[FaceRecord]
    """`ShardedFaces` where they are read while they are learnt from"""
    held_out: tuple[FaceRecord, ...]


DETECTOR_NAMES: dict[str, DetectorName] = {"detector": "yunet", "detector-open": "yunet-open"}
"""a source's `boxes` -> the detector that finds them"""


def model_detector(data: Data) -> DetectorName:
    """The detector that a model trained on these sources should be asked with."""
    asked = {source.boxes for source in data.sources.values()} & set(DETECTOR_NAMES)
    return "yunet-open" if asked == {"detector-open"} else "yunet"


def load_source(
    name: str,
    source: Source,
    data: Data,
    network: NetworkConfig | None = None,
    stream: bool = True,
    workers: int = 1,
) -> SourceFaces:
    """Read (or render) the faces of one source and set the held-out ones apart.

    With `network`, faces of another markup are converted to the network's, or refused. Parquet is
    only opened, and read while it is learnt from; with `stream=False` it is read at once.
    `workers` processes render.
    """
    if source.streamed and stream:
        from luvli.training.streamed_source import load_streamed

        change = partial(fitted_label, source=source, network=network, name=name)
        return load_streamed(name, source, data, change)
    records = _read(name, source, data, workers)
    records = [fitted_label(record, source, network, name) for record in records]
    if source.limit is not None:
        records = sorted(records, key=lambda record: name_hash(record.face_id))[: source.limit]
        records.sort(key=lambda record: record.face_id)
    if source.boxes != "labels":
        cache = Path(data.cache or cache_root())
        records = with_detector_boxes(records, cache, DETECTOR_NAMES[source.boxes], source.skip_bad)
    kept, held_out = hold_out(records, source.hold_out, source.group)
    held_out = [record for record in held_out if record.labelled.any()]
    if not kept:
        raise nothing_to_learn_from(name, source, len(records))
    if source.relabel is not None:
        from luvli.training.relabel import relabel

        kept = relabel(kept, source.relabel, source.box_noise, data.cache)
    return SourceFaces(source, tuple(kept), tuple(held_out))


def nothing_to_learn_from(name: str, source: Source, faces: int) -> InputError:
    """The sentence for a source all of whose `faces` are held out, or that has none."""
    key = f"data.sources.{name}.hold_out"
    if not faces:
        return InputError(f"data.sources.{name} has no faces to train on: check its folder.")
    return InputError(
        f"all {faces} faces of data.sources.{name} are held out ({key} is {source.hold_out}), none "
        f"is left to train on: add faces, or hold out fewer with --set {key}=0.1."
    )


def fitted_label(
    record: FaceRecord, source: Source, network: NetworkConfig | None, name: str
) -> FaceRecord:
    """A label in the network's markup, moved by the source's offset."""
    if network is not None:
        record = _in_markup(record, network, name)
    if source.offset != (0.0, 0.0):
        record = record.with_changes(points=record.points + source.offset)
    return record


def _read(name: str, source: Source, data: Data, workers: int) -> list[FaceRecord]:
    root = Path(data.root).expanduser()
    if source.synthetic is not None:
        from luvli.training.rendered_faces import rendered_faces

        photos = {
            other: partial(_lent_faces, other, data)
            for other, its in data.sources.items()
            if its.synthetic is None
        }
        return rendered_faces(source.synthetic, root, data.cache, photos, workers)
    assert source.set is not None
    folder = source_folder(name, source, data)
    try:
        return list(
            load_set(
                source.set,
                folder,
                source.split,
                subset=source.subset,
                protocol=source.protocol,
                skip_bad=source.skip_bad,
            )
        )
    except InputError as error:
        if data.root == Data().root:
            hint = "data.root was not set: --set data.root=FOLDER names the folder of your faces."
            raise InputError(f"{error} {hint}") from error
        raise


def source_folder(name: str, source: Source, data: Data) -> Path:
    """Where a source is, if it is there."""
    if source.path == "." and "root" not in data.model_fields_set:
        # else everything below the folder that one happens to stand in would be learnt from
        raise InputError(
            "data.root was not set: --set data.root=FOLDER names the folder of your faces."
        )
    folder = Path(data.root).expanduser() / source.path
    if not folder.exists():
        raise InputError(
            f"{folder} does not exist: name the folder that data.sources.{name} is read from "
            "with --set data.root=FOLDER."
        )
    return folder


def _lent_faces(name: str, data: Data, labelled: bool) -> Sequence[FaceRecord]:
    """The faces that a source learns from, none of those that it holds out.

    Their own labels, or `labelled` by the source's model, which takes a while.
    """
    source = data.sources[name]
    if source.streamed:
        raise InputError(f"data.sources.{name} is Parquet: it lends no skins and backgrounds.")
    if not labelled:
        source = source.model_copy(update={"relabel": None})
    return load_source(name, source, data).train


def _in_markup(record: FaceRecord, network: NetworkConfig, name: str) -> FaceRecord:
    if record.markup != network.markup:
        try:
            record = change_markup(record, network.markup)
        except InputError as error:
            raise InputError(
                f"data.sources.{name} has the markup {record.markup} with {len(record.points)} "
                f"points, the network {network.markup}: --set network.markup={record.markup} "
                f"--set network.landmarks={len(record.points)}."
            ) from error
    if len(record.points) != network.landmarks:
        raise InputError(
            f"data.sources.{name} has {len(record.points)} points, the network "
            f"{network.landmarks}: --set network.landmarks={len(record.points)}."
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
        share = hash_share(key)
        if (share if isinstance(amount, float) else number) >= amount:
            break
        chosen.add(key)
        number += len(groups[key])
    kept = [r for r in records if group_of(r, group) not in chosen]
    return kept, [r for r in records if group_of(r, group) in chosen]


def group_of(record: FaceRecord, group: str) -> str:
    """What must not be torn apart: the photograph, or the person in it.

    Sets that cut several faces out of one photograph number them: `image00123_2.jpg` is the
    second face of `image00123.jpg`.
    """
    return group_name(record.image.name if record.image else "", record.face_id, group)


def group_name(image: str, face_id: str, group: str) -> str:
    """The same by an image's file name (it may be none) and a face's id."""
    if group == "person":
        return re.sub(r"[\W_]*\d+$", "", face_id)
    return re.sub(r"_\d{1,2}(?=\.|$)", "", image or face_id)


def hash_share(name: str) -> float:
    """Where a name's hash stands between the smallest and the largest: 0 to 1."""
    return int(name_hash(name), 16) / 2**256


def name_hash(name: str) -> str:
    """SHA-256 in hexadecimal: an order of names that no one chose."""
    return hashlib.sha256(name.encode()).hexdigest()
