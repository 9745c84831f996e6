"""Where a recipe's faces come from, and how they are cropped: `Recipe.data`."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from luvli.data.boxes import BoxNoise, get_enlargement

VisibilityUse = Literal["labelled", "paper", "ignore", "frontal"]
OcclusionUse = Literal["labelled", "pasted", "ignore"]
Positive = Annotated[int, Field(ge=1)]
LENT = ("textures", "backgrounds", "turned")
"""what sources of photographs lend to rendered faces"""

RETIRED = frozenset({"shuffle_buffer", "relabel_jitter"})
"""keys without a meaning now, which recipes inside older model files and checkpoints have"""


class Config(BaseModel):
    """The base of all parts of a recipe: frozen, and unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_retired_keys(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            return {key: value for key, value in fields.items() if key not in RETIRED}
        return fields


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if part is not None}
    return value


Removable = BeforeValidator(_without_null)
"""a stage, source or share that a recipe sets to null is gone: so it drops what it extends"""


class Synthetic(Config):
    """Rendered faces; they are drawn once, into the cache folder."""

    head: str = "procedural"
    """"procedural" (built in) or the ICT FaceKit's folder or npz file, relative to `data.root`"""
    faces: Positive = 1000
    """number of faces"""
    seed: int = 0
    pose: str = "mixed"
    """`mixed`, or a pose class of MERL-RAV"""
    jaw: Literal["3d", "outline"] = "outline"
    """landmarks of the jaw: on the head, or on its visible outline as in 300-W"""
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

    def lenders(self, *kinds: str) -> tuple[str, ...]:
        """The sources (or the one folder) that lend skins, backgrounds or whole faces."""
        settings = (getattr(self, kind) for kind in kinds or LENT)
        lists = ((one,) if isinstance(one, str) else one or () for one in settings)
        return tuple(dict.fromkeys(chain.from_iterable(lists)))


class Source(Config):
    """Faces to learn from: a data set on disk, or rendered ones."""

    set: str | None = None
    """a name that `luvli data list` knows; or give `synthetic`"""
    path: str = "."
    """the data set's folder, relative to `data.root`"""
    split: str | None = None
    """`train` or `test`; the set's first split by default"""
    subset: str | None = None
    protocol: str | None = None
    skip_bad: bool = False
    """leave out faces with damaged images or labels"""
    synthetic: Synthetic | None = None
    """rendered faces, in place of a data set"""

    visibility: VisibilityUse = "labelled"
    """what the labels teach about visibility. `labelled`: what they say; unlabelled landmarks
    teach nothing. `paper`: unlabelled ones are v = 0 (supplement A1). `ignore`: locations
    only. `frontal`: v = 1 for frontal faces (`pose_classes`), locations only for others: for sets
    of frontal photographs without visibility labels, beside faces that have them."""
    occlusion: OcclusionUse = "ignore"
    """what the labels teach about things in front of the face, for stages with an
    `occlusion_weight`. `labelled`: externally occluded landmarks are covered, unoccluded ones are
    not, self-occluded ones teach nothing. `pasted`: for sets that do not tell, only crops into
    which the augmentation pasted something teach; what it covers is covered, the rest of such a
    face is not (a little of it may be, by its own hair or glasses). `ignore`: nothing."""
    offset: tuple[float, float] = (0.0, 0.0)
    """image pixels added to x and y of every label, for sets with a known shift"""
    restore_offset: bool = False
    """move the labels back after a face is mirrored or not, so that both teach the labels as
    published. Without it a network learns the middle between the labels and their mirror images"""
    boxes: Literal["labels", "detector", "detector-open"] = "labels"
    """`labels`: the data set's own boxes, or tight ones around the landmarks. `detector`: those
    that our detector finds, as in prediction; faces that it does not find are left out. For
    markups whose tight box is not that of the 68 points this is the one to use, and for portraits
    without labels. `detector-open`: the same detector with a box map that saw free data alone."""
    box_noise: BoxNoise = "paper"
    """moves the edges of tight boxes"""
    hold_out: int | float = 0
    """what is held out for validation, chosen by hashed names. A whole number: about so many
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

    @model_validator(mode="after")
    def _one_kind(self) -> Source:
        if (self.set is None) == (self.synthetic is None):
            raise ValueError("a source needs either a data 'set' or 'synthetic' faces")
        return self

    @property
    def labeller(self) -> str | None:
        """The stage that `relabel: stage:NAME` names; None for a model or none at all."""
        prefix, _, name = (self.relabel or "").partition(":")
        return name if prefix == "stage" and name else None


class Data(Config):
    """Where faces come from and how they are cropped."""

    root: str = "."
    """the folder that the sources' paths start from: --set data.root=DIR"""
    sources: Annotated[dict[str, Source], Removable] = Field(default_factory=dict)
    """the faces to learn from, by names of your own"""
    validation: Annotated[dict[str, Source], Removable] = Field(default_factory=dict)
    """sets to watch while training, beside what sources hold out; they teach nothing"""
    enlarge: str | float = "reference"
    """side of the crop / longer side of the box"""
    cache: str | None = None
    """folder for decoded images; the user's cache folder by default"""
    cache_crops: bool = True
    """whether decoded faces are kept there; false decodes each image again in every epoch"""

    @field_validator("enlarge")
    @classmethod
    def _known(cls, value: str | float) -> str | float:
        get_enlargement(value)
        return value
