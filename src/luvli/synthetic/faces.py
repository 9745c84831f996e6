"""`SyntheticFaces`: an endless-looking, indexable, reproducible set of faces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

from luvli.errors import InputError, check_range
from luvli.synthetic.people.person import CLOSED_EYES
from luvli.synthetic.render import Sample, load_head, render_face
from luvli.synthetic.scene.labels import JawConvention
from luvli.synthetic.scene.pose import PoseChoice


@dataclass(frozen=True)
class SyntheticFaces:
    """`count` faces; face i depends on the arguments and i alone, in whatever process or order.

    Holds no arrays, so it travels to worker processes at no cost; each process reads the head
    once.

    >>> faces = SyntheticFaces(count=1000, size=64, seed=3)
    >>> len(faces), faces[41].record.face_id
    (1000, '3-41')
    """

    head: str = "procedural"
    """"procedural", or the path of an ICT FaceKit model"""
    count: int = 1000
    size: int = 256
    """pixels along each side"""
    seed: int = 0
    jaw: JawConvention = "outline"
    pose: PoseChoice = "mixed"
    textures: str | None = None
    """folder of photographs with `.pts` files, whose skin the faces wear"""
    backgrounds: str | None = None
    """folder of photographs to stand behind the faces"""
    occluders: bool = True
    effects: bool = True
    closed_eyes: float = CLOSED_EYES
    """share of people who shut their eyes"""

    def __post_init__(self) -> None:
        if self.count < 0 or self.seed < 0:
            raise InputError("count and seed of synthetic faces must not be negative.")
        check_range("the size of an image in pixels", self.size, 32, 2048)

    def __len__(self) -> int:
        return self.count

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.count))]
        if not -self.count <= index < self.count:
            raise IndexError(f"face {index} of a set of {self.count}")
        return render_face(
            (self.seed, index % self.count),
            load_head(self.head),
            self.size,
            self.jaw,
            self.pose,
            self.textures,
            self.backgrounds,
            self.occluders,
            self.effects,
            self.closed_eyes,
        )
