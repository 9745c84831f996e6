"""A stage with `loss: failure`: the failure head, trained on the finished network.

Training faces are predicted as they are and corrupted, and two layers on the bottlenecks learn
which alignments failed (`luvli.calibration.failure_head`). The rest of the network stays as it is.
The stage has no steps and no checkpoints: a run that was stopped in it begins it anew.
"""

from __future__ import annotations

from dataclasses import replace

from luvli.calibration.failure_head import fit_failure_head
from luvli.calibration.model_file import ModelFile
from luvli.calibration.sampling import evenly
from luvli.data.record import FaceRecord
from luvli.progress import track
from luvli.training.run import TrainingRun
from luvli.training.sources import SourceFaces

FACES = 8000
"""training faces that are predicted where the stage does not say how many (`epoch_faces`)"""


def train_failure_head(run: TrainingRun, name: str) -> None:
    """Write the model of the stage before with a failure head."""
    if not run.fabric.is_global_zero:
        return
    recipe = run.recipe
    stage, names = recipe.stages[name], list(recipe.stages)
    model = ModelFile.read(run.model_path(names[names.index(name) - 1]))
    faces = _labelled_faces([run.faces[source] for source in recipe.sources_of(stage)])
    trained = fit_failure_head(
        model,
        evenly(faces, stage.epoch_faces or FACES),
        seed=recipe.seed,
        progress=lambda items: track(items, f"stage {name}", unit="faces"),
    )
    path = run.model_path(name)
    replace(trained, notes=trained.notes | {"stage": name}).write(path)
    without = (
        "" if trained.info.config.failure_head else ": too few alignments failed to learn from"
    )
    run.log.say(f"stage {name} is finished{without}: {path}")


def _labelled_faces(sources: list[SourceFaces]) -> list[FaceRecord]:
    """Training faces that show how good a prediction is: some label at least."""
    return [record for part in sources for record in part.train if record.labelled.any()]
