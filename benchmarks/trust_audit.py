"""The label audit on real sets: errors put in on purpose, and the labels that it suspects most."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from luvli.cli.tables import print_table
from luvli.data.record import FaceRecord
from luvli.drawing.sheet import captioned, contact_sheet
from luvli.faces import FaceLandmarks
from luvli.image.read import ImageArray, read_image
from luvli.trust.audit import ERROR_KINDS, Suspect, audit
from luvli.trust.inject import inject_errors
from luvli.trust.measure import Measured

Floats = NDArray[np.float64]
SEEDS = 10
SHOWN, ACROSS, CELL = 50, 5, 300


def audit_tables(
    measured: Measured,
    columns: dict[str, NDArray[Any]],
    sure: Floats,
    sheets: Path | None,
    without: set[str],
) -> None:
    """Average precision for each kind of error, and the most suspicious labels as they are.

    `without`: names of faces whose own labels were looked at and are wrong.
    """
    is_merl = np.char.startswith(np.char.lower(measured.source), "merl")
    for name, part in (("300-W", ~is_merl), ("MERL-RAV", is_merl)):
        known_wrong = np.isin(columns["face_id"], list(without))
        index = np.flatnonzero(part & measured.plain & ~known_wrong)
        faces = [replace(measured.faces[i], confidence=float(sure[i])) for i in index]
        records = [
            FaceRecord(
                points=measured.truth[i],
                visibility=columns["classes"][i],
                image=Path(str(columns["image"][i])),
                face_id=str(columns["face_id"][i]),
                dataset=name,
            )
            for i in index
        ]
        suspects = audit(records, faces)
        precision_table(name, records, faces, suspects)
        rows = [[str(n), s.name, f"{s.suspicion:.1f}", s.kind, s.sentence]
                for n, s in enumerate(suspects[:SHOWN], 1)]  # fmt: skip
        print_table(["rank", "face", "suspicion", "kind", "what"], rows, title=name)
        if sheets is not None:
            sheets.mkdir(parents=True, exist_ok=True)
            for page in range(0, SHOWN, ACROSS**2):
                sheet = suspect_sheet(suspects[page : page + ACROSS**2], records, faces, page)
                cv2.imwrite(str(sheets / f"{name}-{page + 1}.png"), sheet[:, :, ::-1])


def precision_table(
    name: str, records: list[FaceRecord], faces: list[FaceLandmarks], suspects: list[Suspect]
) -> None:
    """Errors of all kinds in 3 % of the labels; each kind against the labels left alone. And
    shifts alone in 3 %.

    Once with the set as it is, once without its own fifty most suspicious labels: what is wrong
    in them stands before, or between, what was put in, and counts as a false alarm.
    """
    own = {suspect.index for suspect in suspects[:SHOWN]}
    rows = []
    for title, keep in (
        ("as it is", list(range(len(records)))),
        (f"without its own {SHOWN}", [i for i in range(len(records)) if i not in own]),
    ):
        labels, found = [records[i] for i in keep], [faces[i] for i in keep]
        ranked: dict[str, list[float]] = {kind: [] for kind in ("all", *ERROR_KINDS)}
        asked: dict[str, list[float]] = {kind: [] for kind in ERROR_KINDS}
        for seed in range(SEEDS):
            made, wrong = inject_errors(labels, 0.03, seed)
            judged = sorted(audit(made, found), key=lambda suspect: suspect.index)
            place = {suspect.index: row for row, suspect in enumerate(judged)}
            kinds = np.full(len(judged), "", dtype="<U20")
            for i, kind in wrong.items():
                if i in place:
                    kinds[place[i]] = kind
            score = np.array([suspect.suspicion for suspect in judged])
            ranked["all"].append(average_precision(score, kinds != ""))
            for kind in ERROR_KINDS:
                part = (kinds == "") | (kinds == kind)
                if not (kinds == kind).any():
                    continue
                own_score = np.array([suspect.scores[kind] for suspect in judged])
                ranked[kind].append(average_precision(score[part], kinds[part] == kind))
                asked[kind].append(average_precision(own_score[part], kinds[part] == kind))
        for way, values in (("all kinds", ranked), ("--kind", asked)):
            rows.append(
                [title, way]
                + [f"{np.mean(values[k]):.2f}" if values.get(k) else "" for k in ranked]
            )
        rows.append([f"{title}, shifts alone", "all kinds", "", shifts_alone(labels, found)])
    print_table(
        ["labels", "ranked by", "all", *ERROR_KINDS],
        rows,
        title=f"{name}, {len(records):,} faces: average precision, errors in 3 % of the labels",
    )


def shifts_alone(records: list[FaceRecord], faces: list[FaceLandmarks]) -> str:
    """Average precision where all wrong labels are shifted ones."""
    values = []
    for seed in range(SEEDS):
        made, wrong = inject_errors(records, 0.03, seed, ("shifted",))
        judged = audit(made, faces)
        score = np.array([suspect.suspicion for suspect in judged])
        hit = np.array([suspect.index in wrong for suspect in judged])
        values.append(average_precision(score, hit))
    return f"{np.mean(values):.2f}"


def average_precision(score: Floats, wrong: NDArray[np.bool_]) -> float:
    """Mean precision at the places of the wrong ones, the highest score first."""
    ordered = wrong[np.argsort(-score, kind="stable")]
    precision = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
    return float(precision[ordered].mean())


def suspect_sheet(
    suspects: list[Suspect], records: list[FaceRecord], faces: list[FaceLandmarks], before: int
) -> ImageArray:
    """Labels red, predictions green, a line between the two."""
    cells = []
    for rank, suspect in enumerate(suspects, before + 1):
        record, face = records[suspect.index], faces[suspect.index]
        assert record.image is not None
        located = record.points[np.isfinite(record.points).all(axis=1)]
        every = np.concatenate([located, face.points])
        low, high = every.min(axis=0), every.max(axis=0)
        scale = CELL / float((high - low).max() * 1.24)
        shift = CELL / 2 - scale * (low + high) / 2
        way = np.array([[scale, 0, shift[0]], [0, scale, shift[1]]])
        cell = cv2.warpAffine(read_image(record.image), way, (CELL, CELL), flags=cv2.INTER_CUBIC)
        for label, found in zip(record.points, face.points, strict=True):
            if np.isfinite(label).all():
                one, other = ((p * scale + shift).round().astype(int).tolist()
                              for p in (label, found))  # fmt: skip
                cv2.line(cell, one, other, (255, 255, 0), 1, cv2.LINE_AA)
                cv2.circle(cell, other, 2, (0, 220, 60), -1)
                cv2.circle(cell, one, 2, (255, 60, 60), -1)
        text = f"{rank} {suspect.suspicion:.0f} {suspect.kind}: {suspect.sentence[:38]}"
        cells.append(captioned(np.asarray(cell, np.uint8), text, above=True))
    return contact_sheet(cells, ACROSS)
