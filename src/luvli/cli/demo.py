"""`luvli demo`: the main job on a photograph that comes along."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("demo-output"),
) -> None:
    """Find the face in a public-domain photograph of an astronaut and show what was found."""
    from luvli.cli.tables import print_table
    from luvli.errors import require
    from luvli.image import Crop, detect_faces
    from luvli.image.draw import draw_boxes
    from luvli.image.read import read_image
    from luvli.image.write import write_image

    photograph = read_image(require("skimage.data", "demo").astronaut())
    boxes = detect_faces(photograph)
    overlay, crop = out / "astronaut-boxes.png", out / "astronaut-crop.png"
    write_image(overlay, draw_boxes(photograph, boxes))
    write_image(crop, Crop.from_box(boxes[0], size=256, enlarge=1.25).warp(photograph))
    rows = [
        [f"{number}", *(f"{edge:.1f}" for edge in box), f"{box.score:.2f}"]
        for number, box in enumerate(boxes)
    ]
    print_table(["face", "x0", "y0", "x1", "y1", "score"], rows, title="astronaut (NASA)")
    typer.echo(f"crop:    {crop}\noverlay: {overlay}")
