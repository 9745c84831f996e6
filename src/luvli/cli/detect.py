"""`luvli detect`: where the faces are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def detect(
    images: Annotated[list[Path], typer.Argument(help="Images to look at.")],
    min_score: Annotated[float, typer.Option(help="Leave out faces below this score.")] = 0.6,
    draw: Annotated[
        Path | None, typer.Option(help="Folder for copies of the images with the boxes drawn.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Find faces and print their tight landmark boxes, in pixels.

    Example: `luvli detect photo.jpg --draw out`
    """
    from luvli.drawing.boxes import draw_boxes
    from luvli.image.detect import detect_faces
    from luvli.image.read import read_image
    from luvli.image.write import write_image

    found = [(path, detect_faces(path, min_score)) for path in images]
    if draw is not None:  # only now: a bad image among many leaves nothing behind
        for path, boxes in found:
            write_image(draw / f"{path.stem}-boxes.png", draw_boxes(read_image(path), boxes))
    if json:
        import json as json_module

        faces = [
            {"image": str(path), "box": list(box), "score": box.score}
            for path, boxes in found
            for box in boxes
        ]
        typer.echo(json_module.dumps({"faces": faces}))
        return
    from luvli.cli.tables import print_table

    rows = [
        [str(path), *(f"{edge:.1f}" for edge in box), f"{box.score:.2f}"]
        for path, boxes in found
        for box in boxes
    ]
    rows += [[str(path), "no face", "", "", "", ""] for path, boxes in found if not boxes]
    print_table(["image", "x0", "y0", "x1", "y1", "score"], rows, title="faces")
