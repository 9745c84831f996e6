"""`luvli demo`: the main job on a photograph that comes along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from luvli.image.read import Picture


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo-output"),
    model: Annotated[str, typer.Option(help="A shipped model, or a model file.")] = "luvli-68",
) -> None:
    """Landmarks, their uncertainty and visibility on a public-domain photograph."""
    from luvli.cli.predict_report import face_table
    from luvli.errors import require
    from luvli.image.read import read_image
    from luvli.image.write import write_image
    from luvli.models import model_names
    from luvli.prediction.draw import draw_faces
    from luvli.prediction.predictor import load
    from luvli.prediction.result import Result
    from luvli.prediction.write import write_results

    photograph = read_image(require("skimage.data", "demo").astronaut())
    if model not in model_names() and not Path(model).is_file():
        _boxes_only(photograph, out)
        return
    predictor = load(model)
    faces = tuple(predictor.predict(photograph))
    overlay, close, results = (
        out / name for name in ("astronaut.png", "astronaut-face.png", "astronaut.json")
    )
    likelihood = predictor.info.config.likelihood
    drawn = draw_faces(photograph, faces, likelihood=likelihood, enlarge=3)
    write_image(overlay, drawn)
    if faces:
        x0, y0, x1, y1 = (round(3 * edge) for edge in faces[0].box)
        edge = (x1 - x0) // 3
        write_image(
            close, drawn[max(0, y0 - edge) : y1 + edge, max(0, x0 - edge) : x1 + edge].copy()
        )
    write_results(results, [Result("astronaut.png", faces)], "json")
    for face in faces:
        face_table(face, f"astronaut (NASA), {predictor.info.name}")
    typer.echo(f"overlay: {overlay}\nface:    {close}\nnumbers: {results}")


def _boxes_only(photograph: Picture, out: Path) -> None:
    """Until weights are shipped: what the detector finds."""
    from luvli.cli.tables import print_table
    from luvli.image import detect_faces
    from luvli.image.draw import draw_boxes
    from luvli.image.write import write_image

    boxes = detect_faces(photograph)
    overlay = out / "astronaut-boxes.png"
    write_image(overlay, draw_boxes(photograph, boxes))
    rows = [[f"{n}", *(f"{e:.1f}" for e in box), f"{box.score:.2f}"] for n, box in enumerate(boxes)]
    print_table(["face", "x0", "y0", "x1", "y1", "score"], rows, title="astronaut (NASA)")
    typer.echo(f"overlay: {overlay}")
