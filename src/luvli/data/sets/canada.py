"""Frontal neutral portraits of a university in Canada that anyone may use (CC BY 4.0).

`NNNf.jpg` and `NNNm.jpg`, and `points189.json` with the template of the London set, which has 63 of
the 68 landmarks. DeBruine and Jones, 2017.
"""

from __future__ import annotations

from collections.abc import Iterator

from luvli.data.sets.definition import ReadItem, Request, SetInfo
from luvli.data.sets.london import template_entries


def read_canada(request: Request) -> Iterator[ReadItem]:
    """All labelled portraits; a person has one."""
    yield from template_entries(request, lambda stem: (f"canada-{stem}", ()), labelled_only=True)


INFO = SetInfo(
    name="canada",
    title="Canada portraits",
    points="68/63",
    train=40,
    read=read_canada,
    splits=("train",),
    licence="CC BY 4.0 (DeBruine and Jones 2017)",
    layout="*.jpg and points189.json",
    confirmed="40 portraits and their points",
)
