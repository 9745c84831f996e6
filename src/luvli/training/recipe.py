"""A recipe: everything that decides how a training run goes, as one typed configuration.

It is read from YAML (`luvli.training.recipe_files`), travels inside every checkpoint and model
file, and can be written back. A run is a sequence of named stages; each begins with the
weights that the one before it ended with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from luvli.data.augment import Augmentation
from luvli.network.config import InputSize, NetworkConfig
from luvli.training.recipe_data import Config, Data, Positive, Removable

TrainedHead = Literal["trunk", "cholesky", "visibility", "occlusion"]
BatchNorm = Literal["local", "sync", "frozen"]
FAILURE = "failure"
"""the loss of a stage that adds a head which predicts failures"""
Share = Annotated[float, Field(gt=0, lt=1)]
Mixture = Annotated[dict[str, Annotated[float, Field(gt=0)]], Field(min_length=1)]


def _with_kind(kind: str) -> BeforeValidator:
    """A mapping that does not name its kind is of the default kind: `optimizer: {lr: 1e-4}`."""

    def add(value: Any) -> Any:
        return {"kind": kind, **value} if isinstance(value, dict) else value

    return BeforeValidator(add)


class RMSprop(Config):
    """The paper's optimiser; the published code's constants."""

    kind: Literal["rmsprop"] = "rmsprop"
    lr: float = Field(default=2.5e-4, gt=0)
    alpha: Share = 0.99
    eps: float = Field(default=1e-8, gt=0)


class AdamW(Config):
    """Decoupled weight decay, on convolutions and linear layers only."""

    kind: Literal["adamw"] = "adamw"
    lr: float = Field(default=1e-3, gt=0)
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)


class Steps(Config):
    """Multiply the learning rate at some epochs, counted from 0."""

    kind: Literal["steps"] = "steps"
    factors: dict[int, float] = Field(default_factory=dict)
    """epoch -> factor that holds from the start of this epoch on, on top of earlier ones"""


class Cosine(Config):
    """A straight rise over `warmup` epochs, then half a cosine down to `final` times lr."""

    kind: Literal["cosine"] = "cosine"
    warmup: float = Field(default=0.0, ge=0)
    """epochs"""
    final: float = Field(default=0.0, ge=0, le=1)


Schedule = Annotated[Steps | Cosine, Field(discriminator="kind")]


class Stage(Config):
    """One part of the training: a loss, a mixture of data, an optimiser, a schedule."""

    loss: str
    """`heatmap`: plain DU-Net. `luvli`: with the network's likelihood. `mse`: Sigma = I.
    `failure`: a head that predicts failures is added to the finished network, which stays as it is:
    for the last stage. Only its `mixture` and `epoch_faces` (faces to learn from) count. Or one
    that is registered with `luvli.training.losses.register_loss`"""
    epochs: Positive = 100
    """passes over the faces, or over `epoch_faces` of them"""
    batch_size: Positive = 24
    """faces per step, over all processes"""
    use_visibility: bool = True
    """False leaves the visibility term out of `luvli` and `mse`"""
    occlusion_weight: float = Field(default=0.0, ge=0)
    """weight of the occlusion head's cross-entropy, which is added to the loss"""
    train_only: tuple[TrainedHead, ...] = ()
    """learn these parts alone; all other weights and statistics stay what they are, bit for bit.
    So an occlusion head is added to a finished network: [occlusion]"""
    supervise: Literal["all", "last"] = "all"
    """which U-nets have a loss; lambda_i is 1 for each of them"""
    mixture: Annotated[Mixture | None, Removable] = None
    """source -> share of the faces of an epoch; None: every face of every source once"""
    epoch_faces: Positive | None = None
    """faces in an epoch; None: as many as the sources have"""
    relabel: tuple[str, ...] = ()
    """sources whose training labels the stage's first weights make anew: self-training, for faces
    with weak labels or another convention; as `relabel` of a source, but by this very run"""
    teacher: str | None = None
    """shipped model or model file to learn from beside the labels (distillation): its points,
    covariances and visibilities of every training face, as it sees the plain image and its
    mirror image"""
    teacher_weight: float = Field(default=0.5, gt=0, le=1)
    """loss = (1 - teacher_weight) * that of the labels + teacher_weight * that of the teacher"""
    optimizer: Annotated[RMSprop | AdamW, Field(discriminator="kind"), _with_kind("rmsprop")] = (
        RMSprop()
    )
    schedule: Annotated[Schedule, _with_kind("steps")] = Steps()
    augmentation: Augmentation = Augmentation()
    """a recipe's letter (A, B, none), or a mapping that changes one: {recipe: B, flip: 0.5}"""
    reference: bool = False
    """the published code's loss where it differs from the paper"""
    input_size: InputSize | None = None
    """side of the crops in this stage; the network's own by default"""
    clip_grad_norm: float | None = Field(default=None, gt=0)
    """largest norm of the gradient"""
    ema: Share | None = None
    """decay per step of the averaged weights, which are then the stage's result"""
    start_share: Share | None = None
    """share of the weights that the stage began with in its result: what a model forgets while it
    learns from new faces comes back, and most of what it learnt stays"""
    batch_norm: BatchNorm = "local"
    """statistics of each process's share of the batch; `sync`: of the whole batch, over all
    processes; `frozen`: the running statistics of the weights that the stage began with"""

    def keeps(self, head: TrainedHead) -> bool:
        """Whether the stage leaves the outputs of a head as they were."""
        only = self.train_only
        return bool(only) and "trunk" not in only and head not in only

    @field_validator("loss")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        from luvli.training.losses import LOSSES

        known = (*LOSSES, FAILURE)
        if name not in known:
            raise ValueError(f"unknown loss {name!r}: choose from {', '.join(known)}")
        return name

    @field_validator("augmentation", mode="before")
    @classmethod
    def _by_letter(cls, value: Any) -> Any:
        if isinstance(value, str):
            return Augmentation.recipe(value)
        if isinstance(value, dict) and "recipe" in value:
            changes = {key: change for key, change in value.items() if key != "recipe"}
            return {**Augmentation.recipe(str(value["recipe"])).model_dump(), **changes}
        return value


class Recipe(Config):
    """A whole training run."""

    name: str
    """of the model, and of the folder below `runs/`"""
    version: str = ""
    """of the model that the recipe makes; a released file carries it"""
    about: str = ""
    """a sentence for people: what this trains, and which figure of the paper it belongs to"""
    seed: int = 0
    """equal seeds give equal weights"""
    network: NetworkConfig = NetworkConfig()
    init: str | None = None
    """shipped model (by name), model file or published checkpoint to start from"""
    data: Data
    """what the network learns from"""
    stages: Annotated[dict[str, Stage], Removable]
    """by name, in order; each starts from the weights of the one before"""
    validate_epochs: Positive = 1
    """held-out faces are looked at after every so many epochs of a stage, and after its last"""
    checkpoint_minutes: float = Field(default=5.0, gt=0)
    """minutes between two checkpoints"""
    keep_checkpoints: Positive = 3
    """only so many of the last checkpoints stay"""
    activation_checkpointing: bool = False
    """keep fewer activations and compute them twice: the same result, less memory, more time"""
    licence: str = ""
    """what the data allow the weights to be used for; goes into the model file"""

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Sentences about what does not fit together."""
        for name in (self.name, *self.stages):  # they give their names to files in the run's folder
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
                yield (
                    f"{name!r} cannot be a name: use up to 100 letters, digits, dots, dashes and "
                    "underscores, a letter or digit first"
                )
        if not self.stages:
            yield "a recipe needs at least one stage"
        if not self.data.sources:
            yield "a recipe needs at least one source of data"
        if self.network.failure_head:
            yield "network.failure_head: a stage with loss: failure adds it"
        earlier: list[str] = []
        for name, stage in self.stages.items():
            yield from self._stage_problems(f"stages.{name}", stage, earlier)
            earlier.append(name)

    def _stage_problems(self, place: str, stage: Stage, earlier: list[str]) -> Iterator[str]:
        if stage.occlusion_weight and not self.network.occlusion:
            yield f"{place}.occlusion_weight: needs network.occlusion: true"
        if "occlusion" in stage.train_only and not stage.occlusion_weight:
            yield f"{place}.train_only: occlusion needs an occlusion_weight"
        if stage.teacher is not None and stage.loss != "luvli":
            yield f"{place}.teacher: only the loss luvli learns from a teacher"
        if stage.loss == FAILURE and len(earlier) + 1 < len(self.stages):
            yield f"{place}: a stage with loss: failure must be the last one"
        if not earlier:
            if stage.loss == FAILURE:
                yield "the first stage cannot have loss: failure: it has no network to add to"
            if self.init is None and (stage.train_only or stage.start_share):
                yield "the first stage can have train_only or start_share only with an init"
            if stage.relabel:
                yield "the first stage cannot relabel: it has no trained weights to start from"
        sources, used = self.data.sources, self.sources_of(stage)
        for key, names, known in (("mixture", used, sources), ("relabel", stage.relabel, used)):
            for name in names:
                if name not in known:
                    yield f"{place}.{key}: no source {name!r} among {', '.join(known)}"
        for source in used:
            for name in (source, *self.lenders(source)):
                labeller = sources[name].labeller
                if labeller is not None and labeller not in earlier:
                    yield (
                        f"{place}: source {name} is labelled by stage {labeller}, which is not "
                        "before it"
                    )

    def lenders(self, source: str) -> list[str]:
        """Names of the sources that lend their skins or faces to a rendered one."""
        synthetic = self.data.sources[source].synthetic
        names = synthetic.lenders("textures", "turned") if synthetic else ()
        return [name for name in names if name in self.data.sources]

    def stage_network(self, stage: Stage) -> NetworkConfig:
        """The network of one stage: the recipe's, at the stage's input size."""
        size = stage.input_size or self.network.input_size
        return self.network.model_copy(update={"input_size": size})

    def sources_of(self, stage: Stage) -> list[str]:
        """Names of the sources that a stage learns from."""
        return list(stage.mixture or self.data.sources)
