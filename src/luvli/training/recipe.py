"""A recipe: everything that decides how a training run goes, as one typed configuration.

It is read from YAML (`luvli.training.recipe_files`), travels inside every checkpoint and model
file, and can be written back. A run is a sequence of named stages; each begins with the
weights that the one before it ended with.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from luvli.data.augment import Augmentation
from luvli.data.boxes import BoxNoise, get_enlargement
from luvli.network.config import NetworkConfig
from luvli.training.schedule import Schedule, Steps
from luvli.training.strict_config import StrictConfig, check_keys

VisibilityUse = Literal["labelled", "paper", "ignore", "frontal"]
OcclusionUse = Literal["labelled", "pasted", "ignore"]
TrainedHead = Literal["trunk", "cholesky", "visibility", "occlusion"]
BatchNorm = Literal["local", "sync", "frozen"]
FAILURE = "failure"
"""the loss of a stage that adds a head which predicts failures"""
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]


def _check_name(name: str) -> None:
    """Runs and stages give their names to files: no name may lead out of the run's folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError(
            f"{name!r} cannot be a name: use up to 100 letters, digits, dots, dashes and "
            "underscores, a letter or digit first"
        )


def without_null(value: Any) -> Any:
    """A stage, source or share that a recipe sets to null is gone: so it drops what it extends."""
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if part is not None}
    return value


Removable = BeforeValidator(without_null)


def _with_kind(kind: str) -> BeforeValidator:
    """A mapping that does not name its kind is of the default kind: `optimizer: {lr: 1e-4}`."""

    def add(value: Any) -> Any:
        return {"kind": kind, **value} if isinstance(value, dict) else value

    return BeforeValidator(add)


class Synthetic(StrictConfig):
    """Rendered faces; they are drawn once and kept in the cache folder."""

    head: str = "procedural"
    """"procedural" (built in) or the ICT FaceKit's folder or npz file, relative to `data.root`"""
    faces: Positive = 1000
    seed: int = 0
    pose: str = "mixed"
    jaw: Literal["3d", "outline"] = "outline"
    size: Positive = 256
    """side of the rendered images, in pixels"""
    closed_eyes: float = Field(default=0.07, ge=0, le=1)
    """share of rendered people who shut their eyes"""
    textures: str | tuple[str, ...] | None = None
    """photographs whose skin is laid on the faces: a folder below `data.root` with `.pts` files,
    or the names of sources, of which only the training faces are used, never held-out ones"""
    backgrounds: str | tuple[str, ...] | None = None
    """photographs to stand behind the faces: a folder below `data.root`, or the names of sources"""
    turned: str | tuple[str, ...] | None = None
    """photographs to be turned out of plane, instead of rendered people: a folder below `data.root`
    with `.pts` files, or the names of sources, of which only the training faces are used. The head
    must be the ICT FaceKit's"""

    def photographs(self, what: Literal["textures", "backgrounds", "turned"]) -> tuple[str, ...]:
        """The sources (or the one folder) that lend skins, backgrounds or whole faces."""
        names: str | tuple[str, ...] | None = getattr(self, what)
        return (names,) if isinstance(names, str) else names or ()


class Source(StrictConfig):
    """Faces to learn from: a data set on disk, or rendered ones."""

    set: str | None = None
    """a name that `luvli data list` knows; or give `synthetic`"""
    path: str = "."
    """the data set's folder, relative to `data.root`"""
    split: str | None = None
    subset: str | None = None
    protocol: str | None = None
    skip_bad: bool = False
    synthetic: Synthetic | None = None

    visibility: VisibilityUse = "labelled"
    """what the labels teach about visibility. `labelled`: what they say; unlabelled landmarks
    teach nothing. `paper`: unlabelled ones are v = 0 (supplement A1). `ignore`: locations
    only. `frontal`: v = 1 for frontal faces (`pose_class`), locations only for the others: for sets
    of frontal photographs without visibility labels, beside faces that have them."""
    occlusion: OcclusionUse = "ignore"
    """what the labels teach about things in front of the face, for stages with an
    `occlusion_weight`. `labelled`: externally occluded landmarks are covered, unoccluded ones are
    not, self-occluded ones teach nothing. `pasted`: for sets that do not tell, only crops into
    which the augmentation pasted something teach; what it covers is covered, the rest of such a
    face is not (a little of it may be, by its own hair or glasses). `ignore`: nothing."""
    offset: tuple[float, float] = (0.0, 0.0)
    """image pixels added to x and y of every label, for sets with a known shift"""
    boxes: Literal["labels", "detector", "detector-open"] = "labels"
    """`labels`: the data set's own boxes, or tight ones around the landmarks. `detector`: those
    that our detector finds, as in prediction; faces that it does not find are left out. For
    markups whose tight box is not that of the 68 points this is the one to use, and for portraits
    without labels. `detector-open`: the same detector with a box map that saw free data alone."""
    box_noise: BoxNoise = "paper"
    """moves the edges of tight boxes"""
    hold_out: int | float = 0
    """what is kept away for validation, chosen by hashed names. A whole number: about so many
    faces. Below 1: this share of the photographs (or people), each decided by its own name
    alone, whatever else is there, is limited, or is missed by the detector"""
    group: Literal["photo", "person"] = "photo"
    """what must not stand on both sides of the hold-out. A photograph is the image's name
    without the number of the face at its end (`_1`), a person the face id without its numbers"""
    limit: Positive | None = None
    """use only so many faces (chosen by a hash of their names), for trials"""
    relabel: str | None = None
    """a shipped model, a model file, or `stage:NAME` for the model of an earlier stage of this
    run: its predictions replace the training labels, and its covariances weigh them"""
    licence: str = ""
    """of the images, for folders of your own; known sets have theirs (`luvli data list`)"""

    @field_validator("hold_out")
    @classmethod
    def _count_or_share(cls, amount: int | float) -> int | float:
        if amount < 0 or (isinstance(amount, float) and amount >= 1):
            raise ValueError("write a whole number of faces (0, 100), or a share below 1 (0.1)")
        return amount

    @model_validator(mode="before")
    @classmethod
    def _without_retired_keys(cls, fields: Any) -> Any:
        """Recipes inside older model files and checkpoints have keys that mean nothing now."""
        if isinstance(fields, dict):
            return {key: value for key, value in fields.items() if key != "shuffle_buffer"}
        return fields

    @model_validator(mode="after")
    def _one_kind(self) -> Source:
        if (self.set is None) == (self.synthetic is None):
            raise ValueError("a source needs either a data 'set' or 'synthetic' faces")
        return self


def stage_of(relabel: str | None) -> str | None:
    """The stage that `stage:NAME` names; None for a model or none at all."""
    prefix, _, name = (relabel or "").partition(":")
    return name if prefix == "stage" and name else None


class Data(StrictConfig):
    """Where faces come from and how they are cropped."""

    root: str = "."
    """the folder that the sources' paths start from: --set data.root=DIR"""
    sources: Annotated[dict[str, Source], Removable] = Field(default_factory=dict)
    validation: Annotated[dict[str, Source], Removable] = Field(default_factory=dict)
    """sets to watch while training, beside what sources hold out; they teach nothing"""
    enlarge: str | float = "reference"
    """side of the crop / longer side of the box"""
    cache: str | None = None
    """folder for decoded images; the user's cache folder by default"""

    @field_validator("enlarge")
    @classmethod
    def _known(cls, value: str | float) -> str | float:
        get_enlargement(value)
        return value


class RMSprop(StrictConfig):
    """The paper's optimiser; the published code's constants."""

    kind: Literal["rmsprop"] = "rmsprop"
    lr: float = Field(default=2.5e-4, gt=0)
    alpha: Share = 0.99
    eps: float = Field(default=1e-8, gt=0)


class AdamW(StrictConfig):
    """Decoupled weight decay, on convolutions and linear layers only."""

    kind: Literal["adamw"] = "adamw"
    lr: float = Field(default=1e-3, gt=0)
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)


class Stage(StrictConfig):
    """One part of the training: a loss, a mixture of data, an optimiser, a schedule."""

    loss: str
    """`heatmap`: plain DU-Net. `luvli`: with the network's likelihood. `mse`: Sigma = I.
    `failure`: a head that predicts failures is added to the finished network, which stays as it is:
    for the last stage. Only its `mixture` and `epoch_faces` (faces to learn from) count. Or one
    that is registered with `luvli.training.losses.register_loss`"""
    epochs: Positive = 100
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
    mixture: Annotated[dict[str, float] | None, Removable] = None
    """source -> share of the faces of an epoch; None: every face of every source once"""
    epoch_faces: Positive | None = None
    """faces in an epoch; None: as many as the sources have"""
    relabel: tuple[str, ...] = ()
    """sources whose training labels the stage's first weights make anew: self-training, for faces
    with weak labels or another convention; as `relabel` of a source, but by this very run"""
    relabel_jitter: bool = False
    """ask about each face six times, mirrored and with moved boxes, not twice; predictions then
    count by the inverse of their covariances"""
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
    input_size: int | None = None
    """side of the crops in this stage; the network's own by default"""
    clip_grad_norm: float | None = Field(default=None, gt=0)
    """largest norm of the gradient"""
    ema: Share | None = None
    """decay per step of the averaged weights, which are then the stage's result"""
    batch_norm: BatchNorm = "local"
    """statistics of each process's share of the batch; `sync`: of the whole batch, over all
    processes; `frozen`: the running statistics of the weights that the stage began with"""

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
            check_keys(Augmentation, changes)
            return {**Augmentation.recipe(str(value["recipe"])).model_dump(), **changes}
        return check_keys(Augmentation, value)

    @field_validator("mixture")
    @classmethod
    def _shares(cls, mixture: dict[str, float] | None) -> dict[str, float] | None:
        if mixture is not None and (not mixture or min(mixture.values()) <= 0):
            raise ValueError("a mixture needs at least one source, and shares above 0")
        return mixture


class Recipe(StrictConfig):
    """A whole training run."""

    name: str
    version: str = ""
    """of the model that the recipe makes; a released file carries it"""
    about: str = ""
    """a sentence for people: what this trains, and which figure of the paper it belongs to"""
    seed: int = 0
    network: NetworkConfig = NetworkConfig()
    init: str | None = None
    """shipped model (by name), model file or published checkpoint to start from"""
    data: Data
    stages: Annotated[dict[str, Stage], Removable]
    validate_epochs: Positive = 1
    """held-out faces are looked at after every so many epochs of a stage, and after its last"""
    checkpoint_minutes: float = Field(default=5.0, gt=0)
    keep_checkpoints: Positive = 3
    """only so many of the last checkpoints stay"""
    activation_checkpointing: bool = False
    """keep fewer activations and compute them twice: the same result, less memory, more time"""
    licence: str = ""
    """what the data allow the weights to be used for; goes into the model file"""

    @field_validator("network", mode="before")
    @classmethod
    def _network_keys(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("astray") == 0:  # see NetworkConfig
            value = {key: setting for key, setting in value.items() if key != "astray"}
        return check_keys(NetworkConfig, value)

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        for name in (self.name, *self.stages):
            _check_name(name)
        if not self.stages:
            raise ValueError("a recipe needs at least one stage")
        if not self.data.sources:
            raise ValueError("a recipe needs at least one source of data")
        if self.network.failure_head:
            raise ValueError("network.failure_head: a stage with loss: failure adds it")
        for name, stage in self.stages.items():
            if stage.occlusion_weight and not self.network.occlusion:
                raise ValueError(f"stages.{name}.occlusion_weight: needs network.occlusion: true")
            if "occlusion" in stage.train_only and not stage.occlusion_weight:
                raise ValueError(f"stages.{name}.train_only: occlusion needs an occlusion_weight")
            if stage.teacher is not None and stage.loss != "luvli":
                raise ValueError(
                    f"stages.{name}.teacher: only the loss luvli learns from a teacher"
                )
            for key, sources, known in (
                ("mixture", stage.mixture or {}, list(self.data.sources)),
                ("relabel", stage.relabel, self.sources_of(stage)),
            ):
                for source in sources:
                    if source not in known:
                        raise ValueError(
                            f"stages.{name}.{key}: no source {source!r} among {', '.join(known)}"
                        )
            for source in self.sources_of(stage):
                self._check_order(name, source)
        for name in list(self.stages)[:-1]:
            if self.stages[name].loss == FAILURE:
                raise ValueError(f"stages.{name}: a stage with loss: failure must be the last one")
        first = next(iter(self.stages.values()))
        if first.loss == FAILURE:
            raise ValueError(
                "the first stage cannot have loss: failure: it has no network to add to"
            )
        if first.train_only and self.init is None:
            raise ValueError("the first stage cannot train_only a part: it has no init to keep")
        if first.relabel:
            raise ValueError(
                "the first stage cannot relabel: it has no trained weights to start from"
            )
        return self

    def _check_order(self, stage: str, source: str) -> None:
        """What an earlier stage labels can be used only after it."""
        names = list(self.stages)
        for used in [source, *self.lenders(source)]:
            labeller = stage_of(self.data.sources[used].relabel)
            if labeller is None:
                continue
            if labeller not in names:
                raise ValueError(
                    f"data.sources.{used}.relabel: no stage {labeller!r} among {', '.join(names)}"
                )
            if names.index(labeller) >= names.index(stage):
                raise ValueError(
                    f"stages.{stage}: source {used} is labelled by stage {labeller}, which is "
                    "not before it"
                )

    def lenders(self, source: str) -> list[str]:
        """Names of the sources that lend their skins or faces to a rendered one."""
        synthetic = self.data.sources[source].synthetic
        if synthetic is None:
            return []
        names = (*synthetic.photographs("textures"), *synthetic.photographs("turned"))
        return [name for name in names if name in self.data.sources]

    def stage_network(self, stage: Stage) -> NetworkConfig:
        """The network of one stage: the recipe's, at the stage's input size."""
        size = stage.input_size or self.network.input_size
        return NetworkConfig.model_validate({**self.network.model_dump(), "input_size": size})

    def sources_of(self, stage: Stage) -> list[str]:
        """Names of the sources that a stage learns from."""
        return list(stage.mixture or self.data.sources)
