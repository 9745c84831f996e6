"""`luvli demo`: the main job on a photograph that comes along."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo-output"),
    model: Annotated[str, typer.Option(help="A shipped model, or a model file.")] = "luvli-68",
) -> None:
    """Landmarks, their uncertainty and visibility on a public-domain photograph."""
    from luvli.cli.predict import face_table, report_licence
    from luvli.drawing.faces import draw_faces
    from luvli.errors import require
    from luvli.image.read import read_image
    from luvli.image.write import write_image
    from luvli.prediction.parts import Row
    from luvli.prediction.predictor import load
    from luvli.prediction.writers import write_results

    photograph = read_image(require("skimage.data", "demo").astronaut())
    predictor = load(model)
    faces = predictor.predict(photograph)
    overlay, close, results = (
        out / name for name in ("astronaut.png", "astronaut-face.png", "astronaut.json")
    )
    likelihood = predictor.info.likelihood
    drawn = draw_faces(photograph, list(faces), likelihood=likelihood, enlarge=3)
    write_image(overlay, drawn)
    if len(faces):
        x0, y0, x1, y1 = (round(3 * edge) for edge in faces[0].box)
        edge = (x1 - x0) // 3
        write_image(
            close, drawn[max(0, y0 - edge) : y1 + edge, max(0, x0 - edge) : x1 + edge].copy()
        )
    write_results(results, [Row("astronaut.png", faces)], "json")
    for face in faces:
        face_table(face, f"astronaut (NASA), {predictor.info.name}")
    typer.echo(f"overlay: {overlay}\nface:    {close}\nnumbers: {results}")
    report_licence(predictor.info)
