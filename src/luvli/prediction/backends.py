"""Which backend runs a model file: the one place that chooses."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Literal

import numpy as np

from luvli.errors import InputError, unknown_choice
from luvli.files import PathLike
from luvli.models import find_model, model_names, read_card
from luvli.network.backend import Backend
from luvli.network.licence import is_open

BackendName = Literal["onnx", "torch"]
"""ONNX Runtime for `.onnx`, PyTorch for `.safetensors`"""

logger = logging.getLogger(__name__)


def open_backend(
    model: PathLike,
    backend: BackendName | None = None,
    threads: int | None = None,
    providers: Sequence[str] | None = None,
) -> Backend:
    """A model by name or path, ready to run; the file decides how, unless `backend` does."""
    path = find_model(model, backend)
    if path.suffix == ".onnx":
        from luvli.prediction.onnx_backend import OnnxBackend

        opened: Backend = OnnxBackend(path, threads, providers)
    else:
        if find_spec("torch") is None:
            raise InputError(
                f"{path} runs with PyTorch, which is not installed: pip install 'luvli[train]', "
                "or give the model's .onnx file."
            )
        from luvli.network.inference import CropPredictor

        opened = CropPredictor.load(path, threads, (providers or ("cpu",))[0])
    _try_once(opened)
    info = opened.info
    logger.info("loaded %s %s from %s, %d threads", info.name, info.version, path, opened.threads)
    return opened


def check_licence(wanted: str | None, licence: str, model: str) -> None:
    """Refuse a model whose licence is not open, where an "open" one is wanted."""
    if wanted not in (None, "open"):
        raise unknown_choice("licence", wanted, ("open",))
    if wanted == "open" and not is_open(licence):
        free = [name for name in model_names() if is_open(read_card(name).licence)]
        raise InputError(
            f"the licence of {model} is not open ({licence}): use "
            f"{' or '.join(free) or 'a model of your own'}."
        )


def _try_once(model: Backend) -> None:
    """Refuse a model that gives no numbers: weights can be whole and overflow all the same."""
    side = model.info.config.input_size
    ramp = np.linspace(0, 255, side).astype(np.uint8)
    model(np.ascontiguousarray(np.broadcast_to(ramp[None, :, None, None], (1, side, side, 3))))
