"""`luvli data markup`: the numbered drawing of a point set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.options import Json

SIDE = 1200
"""pixels along each side of the drawing"""


def markup(
    name: Annotated[str, typer.Argument(help="ibug68, wflw98, cofw29 or aflw19.")],
    out: Annotated[Path | None, typer.Option(help="Image to write; NAME.png if not given.")] = None,
    json: Json = False,
) -> None:
    """Draw a point set with its numbers, or print its names, groups and mirror pairs as JSON.

    Example: `luvli data markup ibug68 --out ibug68.png`
    """
    from luvli.markup import get_markup

    chosen = get_markup(name)
    if json:
        import json as json_module

        fields = {
            "name": chosen.name,
            "size": chosen.size,
            "names": chosen.names,
            "groups": chosen.groups,
            "edges": chosen.edges,
            "flip": chosen.flip.tolist(),
            "outer_eye_corners": chosen.outer_eye_corners,
            "eyes": chosen.eyes,
        }
        typer.echo(json_module.dumps(fields))
        return
    from luvli.drawing.schematic import draw_schematic
    from luvli.image.write import write_image

    path = out or Path(f"{name}.png")
    write_image(path, draw_schematic(chosen, SIDE))
    groups = ", ".join(f"{group} {len(members)}" for group, members in chosen.groups.items())
    typer.echo(f"{chosen.name}: {chosen.size} landmarks ({groups})\n{path}")
