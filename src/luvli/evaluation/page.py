"""One writer for every report: a list of parts becomes an HTML page and a Markdown text."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from luvli.evaluation.table import Table
from luvli.files import PathLike, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Picture(NamedTuple):
    """An image inside the page; the Markdown text has none."""

    title: str
    data: bytes
    """of a PNG or JPEG file"""


PagePart = str | Table | Picture
"""a sentence, a heading ("## Accuracy"), a table or a picture"""

_CSS = """
body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;
 max-width:1320px;margin:2em auto;padding:0 1em}
h2{border-bottom:1px solid #ccc;margin-top:2em}h3{margin:1.4em 0 .3em}
.note,figcaption{color:#555;font-size:.9em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.88em}
.wide{overflow-x:auto}
th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid #e5e5e5;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
figure{display:inline-block;margin:1em 1em 0 0;vertical-align:top}
figure img{max-width:100%;height:auto}figcaption{contain:inline-size}nav a{margin-right:1em}
"""


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def write_page(folder: PathLike, name: str, title: str, parts: Sequence[PagePart]) -> None:
    """`name`.html, which needs no other file, and `name`.md."""
    text = [f"# {title}"]
    text += [p if isinstance(p, str) else p.markdown() for p in parts if not isinstance(p, Picture)]
    write_text(Path(folder) / f"{name}.md", "\n\n".join(text) + "\n")
    write_text(Path(folder) / f"{name}.html", html_page(title, parts))


def html_page(title: str, parts: Sequence[PagePart]) -> str:
    """A page that needs no other file."""
    headings = [part[3:] for part in parts if isinstance(part, str) and part.startswith("## ")]
    links = " ".join(f'<a href="#{escape(each)}">{escape(each)}</a>' for each in headings)
    content = "\n".join([f"<nav>{links}</nav>", *map(_html, parts)])
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{content}\n</body></html>\n"
    )


def _html(part: PagePart) -> str:
    if isinstance(part, Table):
        return part.html()
    if isinstance(part, Picture):
        caption, data = escape(part.title), base64.b64encode(part.data).decode("ascii")
        kind = "jpeg" if part.data.startswith(b"\xff\xd8") else "png"
        image = f'<img alt="{caption}" src="data:image/{kind};base64,{data}">'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    if part.startswith("## "):
        return f'<h2 id="{escape(part[3:])}">{escape(part[3:])}</h2>'
    return f'<p class="note">{escape(part)}</p>'
