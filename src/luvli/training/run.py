"""What the stages of a run share: its recipe, its folder, its faces, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luvli.errors import InputError
from luvli.files import folder_lock
from luvli.training.distributed import RunOptions
from luvli.training.ingredients import model_file
from luvli.training.recipe import Recipe
from luvli.training.sources import SourceFaces

if TYPE_CHECKING:
    from luvli.training.log import Log

METRICS = "metrics.jsonl"
MODEL = "model.safetensors"
"""the file of a run's last stage; the others are named after their stage"""


@dataclass
class TrainingRun:
    """A run of a recipe in a folder."""

    recipe: Recipe
    out: Path
    options: RunOptions
    fabric: Any
    log: Log
    faces: dict[str, SourceFaces] = field(default_factory=dict)
    """by the names of the sources that have been read"""
    validation: dict[str, dict[str, float]] = field(default_factory=dict)
    """latest metrics of each validation set"""

    def model_path(self, stage: str) -> Path:
        """The model file of a stage."""
        last = stage == list(self.recipe.stages)[-1]
        return self.out / (MODEL if last else f"{stage}.safetensors")

    def start_path(self, stage: str) -> Path:
        """The model file that a stage begins with: the stage before's, or the recipe's `init`."""
        names = list(self.recipe.stages)
        place = names.index(stage)
        return self.model_path(names[place - 1]) if place else model_file(str(self.recipe.init))


@dataclass
class StepCounter:
    """How far a run is."""

    stage: str
    step: int = 0
    """steps of the stage that are done"""
    global_step: int = 0
    """steps of the run that are done"""
    first_loss: float | None = None
    """mean loss at the start of the stage, for the alarm about divergence"""


@contextmanager
def run_folder(fabric: Any, out: Path) -> Iterator[None]:
    """Hold the lock of a run's folder.

    The first process takes the lock, and all of them raise where another run holds it.
    """
    with ExitStack() as stack:
        problem = None
        if fabric.is_global_zero:
            try:
                stack.enter_context(folder_lock(out))
            except InputError as error:
                problem = str(error)
        problem = fabric.broadcast(problem)
        if problem is not None:
            raise InputError(problem)
        yield
