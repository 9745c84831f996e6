"""The other backend: PyTorch, from the safetensors file that training writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from luvli.errors import InputError, unknown_choice
from luvli.files import PathLike
from luvli.image.read import Picture
from luvli.network.inference import Deployed
from luvli.network.model_info import ModelInfo
from luvli.network.weights import load_model
from luvli.prediction.onnx_backend import CropAnswer


class TorchBackend:
    """Runs a safetensors model. Safe to call from several threads at once."""

    def __init__(
        self, path: PathLike, threads: int | None = None, providers: Sequence[str] | None = None
    ) -> None:
        network, info = load_model(path)
        self.info = ModelInfo.from_training(Path(path).stem, network.config, info)
        self.device = _device(providers)
        if threads is not None:
            if threads < 1:
                raise InputError(f"threads must be at least 1, got {threads}.")
            torch.set_num_threads(threads)
        self.threads = torch.get_num_threads()
        self.model = Deployed(network, self.info).eval().to(self.device)

    def __call__(self, crops: Picture) -> CropAnswer:
        """uint8 RGB crops (B, S, S, 3) -> answers in crop pixels."""
        with torch.inference_mode():
            answers = self.model(torch.from_numpy(crops).to(self.device))
        return CropAnswer(*(answer.cpu().numpy() for answer in answers))


def _device(providers: Sequence[str] | None) -> torch.device:
    name = (providers or ("cpu",))[0]
    if name not in ("cpu", "cuda"):
        raise unknown_choice("provider", name, ("cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("PyTorch finds no CUDA device: use provider 'cpu'.")
    return torch.device(name)
