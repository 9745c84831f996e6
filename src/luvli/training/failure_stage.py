"""A stage with `loss: failure`: the head that predicts failures, learnt on the finished network.

Training faces are predicted as they are and corrupted, and two layers on the bottlenecks learn
which alignments failed (`luvli.trust.learn_astray`). The rest of the network stays as it is.
The stage has no steps and no checkpoints: a run that was stopped in it begins it anew.
"""

from __future__ import annotations

from luvli.data.record import FaceRecord
from luvli.network import load_model, save_model
from luvli.network.model_info import ModelInfo
from luvli.progress import track
from luvli.training.run import TrainingRun
from luvli.training.sources import SourceFaces
from luvli.trust.even_sample import evenly
from luvli.trust.learn_astray import learn_astray

FACES = 8000
"""training faces that are predicted where the stage does not say how many (`epoch_faces`)"""


def train_failure_head(run: TrainingRun, name: str) -> None:
    """Write the model of the stage before with a head that predicts failures."""
    if not run.fabric.is_global_zero:
        return
    recipe = run.recipe
    stage, names = recipe.stages[name], list(recipe.stages)
    network, info = load_model(run.model_path(names[names.index(name) - 1]))
    faces = labelled_faces([run.faces[source] for source in recipe.sources_of(stage)])
    learnt = learn_astray(
        network,
        ModelInfo.from_training(recipe.name, network.config, info),
        evenly(faces, stage.epoch_faces or FACES),
        seed=recipe.seed,
        track=lambda items: track(items, f"stage {name}", unit="faces"),
    )
    path = run.model_path(name)
    save_model(path, learnt, info | {"stage": name})
    without = "" if learnt.config.astray else ": too few alignments failed to learn from"
    run.log.say(f"stage {name} is finished{without}: {path}")


def labelled_faces(sources: list[SourceFaces]) -> list[FaceRecord]:
    """Training faces that tell how good a prediction is: some label at least."""
    return [record for part in sources for record in part.train if record.labelled.any()]
