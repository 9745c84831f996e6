"""What an output folder knows about its job, so that a run goes on, or is refused.

OUT/.luvli-job/state holds, as JSON, the job's identity (version, inputs, settings, and a digest of
the parts with size and time of every input), and whether it runs or is finished.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from luvli import __version__
from luvli.errors import InputError
from luvli.prediction.inputs import Inputs
from luvli.prediction.parts import Part
from luvli.prediction.places import is_file, join, list_names, read_bytes, remove, write_whole
from luvli.prediction.settings import FAILED, SUFFIXES, WORK, JobSettings

STATE = "state"
PARTS = "parts"
"""the digest in a job's identity"""


def job_identity(inputs: Inputs, settings: JobSettings) -> dict[str, Any]:
    """Everything that the results depend on, but what the inputs contain."""
    about = asdict(settings)
    del about["out"]
    return {"luvli": __version__, "inputs": inputs.places, **about}


def begin(
    inputs: Inputs, settings: JobSettings, parts: Sequence[Part], overwrite: bool
) -> list[Part]:
    """Take a folder for a job -> the parts that have no result yet. The folder of another job is
    refused, and one with files of others, unless `overwrite` says that they may be replaced."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode("utf-8", "surrogatepass"))
    identity = job_identity(inputs, settings) | {PARTS: digest.hexdigest()}
    before = _state(settings.out)
    if before is not None and before.get("identity") == identity:
        names = {name for folder in _folders(settings) for name in list_names(folder)}
        return [p for p in parts if p.result_place(settings).rpartition("/")[2] not in names]
    if not overwrite:
        _refuse(settings, identity, before, parts)
    # those that a job left which was killed while it removed them
    for folder in _folders(settings)[0 if overwrite else 1 :]:
        _remove_parts(folder)
    _note(settings, identity, "running")
    return list(parts)


def finish_job(settings: JobSettings, results: bool) -> None:
    """Note that the job is done, and remove the files of its parts. A job without any `results`
    leaves the folder to whoever comes next."""
    state = _state(settings.out) or {}
    _note(settings, state.get("identity", {}), "finished" if results else "empty")
    _remove_parts(join(settings.out, WORK))


def free_folder(inputs: Inputs, settings: JobSettings) -> str:
    """OUT, or OUT-2, OUT-3, ... where the folder holds the results of another run."""
    identity, number, out = job_identity(inputs, settings), 1, settings.out
    while (state := _state(out)) and state.get("state") == "finished" and _differ(state, identity):
        number += 1
        out = f"{settings.out}-{number}"
    return out


def _refuse(
    settings: JobSettings, identity: dict[str, Any], before: dict[str, Any] | None,
    parts: Iterable[Part],
) -> None:  # fmt: skip
    """Raise where the folder belongs to another job, or holds files that were there before."""
    out, state = settings.out, before and before.get("state")
    if before is None or state == "empty":
        names = {name for name in list_names(out) if name.endswith(".parquet")}
        if settings.format == "parts" and names:
            raise InputError(f"{out} holds Parquet files of somebody else: choose another --out.")
        ours = [f"faces{SUFFIXES.get(settings.format, '')}", *([] if before else [FAILED])]
        for name in (*ours, *(name for part in parts for name in part.outputs(settings))):
            if (Path(out) / name).exists():
                raise InputError(
                    f"{Path(out) / name} was there before: choose another --out, or give "
                    "--overwrite to replace it."
                )
        return
    differ = _differ(before, identity)
    if state == "running":
        why = "whose inputs have changed since: "
        if differ:
            why = f"with other settings ({', '.join(differ[:3])}): repeat that command, "
        raise InputError(
            f"{out} holds an unfinished run {why}give --overwrite to drop it, or choose another "
            "--out."
        )
    if differ:
        raise InputError(
            f"{out} holds the results of another run: choose another --out, or give --overwrite to "
            "replace them."
        )


def _differ(state: dict[str, Any], identity: dict[str, Any]) -> list[str]:
    """What another job was asked for differently."""
    other = state.get("identity", {})
    return [name for name in identity if name != PARTS and other.get(name) != identity[name]]


def _folders(settings: JobSettings) -> tuple[str, str]:
    return settings.out, join(settings.out, WORK)


def _place(out: str) -> str:
    return join(out, WORK, STATE)


def _state(out: str) -> dict[str, Any] | None:
    """What was noted in a folder; None where nothing was, {} where the note is damaged."""
    if not is_file(_place(out)):
        return None
    try:
        return dict(json.loads(read_bytes(_place(out))))
    except (ValueError, TypeError, RecursionError):
        return {}


def _note(settings: JobSettings, identity: dict[str, Any], state: str) -> None:
    content = json.dumps({"state": state, "identity": identity}, sort_keys=True)
    write_whole(_place(settings.out), content.encode())


def _remove_parts(folder: str) -> None:
    for name in list_names(folder):
        if re.fullmatch(r"part-\d+\.(npz|parquet)", name):
            remove(join(folder, name))
