"""Frontal neutral portraits of a university in Canada that anyone may use (CC BY 4.0).

`NNNf.jpg` and `NNNm.jpg`, and `points189.json` with the template of the London set, which has 63 of
the 68 landmarks. DeBruine and Jones, 2017.
"""

from __future__ import annotations

from collections.abc import Iterator

from luvli.data.sets.definition import Problem, ReadItem, Request, SetInfo
from luvli.data.sets.london import missing_portraits, read_templates, template_record
from luvli.data.sets.source_files import Folder


def read_canada(request: Request) -> Iterator[ReadItem]:
    """All labelled portraits; a person has one."""
    templates = read_templates(request)
    if isinstance(templates, Problem):
        yield templates
        return
    for image in Folder(request.root).images:
        if image.name in templates:
            face_id = f"canada-{image.stem}"
            yield template_record(image, templates[image.name], request, "canada", face_id)
    yield from missing_portraits(request, templates)


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
