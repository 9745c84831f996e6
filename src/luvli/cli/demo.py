"""`luvli demo`: the main job on a photograph that comes along."""

from __future__ import annotations

from pathlib import Path

from typer import Option

from luvli.cli.output import print_licence, print_table, say

PHOTOGRAPH = Path(__file__).with_name("astronaut.jpg")
"""NASA's portrait of Eileen Collins, in the public domain"""


def demo(out: Path = Option("demo-output", help="Folder for the results.")) -> None:
    """Predict a public-domain photograph: landmarks, 90 % ellipses, visibility, confidence.

    Example: `luvli demo`, then `luvli predict` with a photograph of your own
    """
    from luvli.cli.predict_summary import trust_text
    from luvli.drawing.faces import draw
    from luvli.image.write import write_image
    from luvli.prediction.predictor import load
    from luvli.prediction.rows import Row
    from luvli.prediction.writers import write_results

    predictor = load()
    faces = predictor.predict(PHOTOGRAPH)
    (face,) = faces
    drawing, results = out / "astronaut.png", out / "astronaut.json"
    write_image(drawing, draw(PHOTOGRAPH, faces, enlarge=3))
    write_results(results, [Row(PHOTOGRAPH.name, faces)], "json")
    spread = face.uncertainty
    rows = [
        ["confidence", trust_text(face)],
        ["landmarks", f"{len(face)}"],
        ["hidden by the head itself", f"{(~face.visible()).sum()}"],
        ["mean uncertainty", f"{spread.mean():.2f} px"],
        ["smallest", f"{spread.min():.2f} px"],
        ["largest", f"{spread.max():.2f} px"],
    ]
    rows += [[f"least sure: {name}", f"{value:.2f} px"] for name, value in face.least_sure()]
    print_table(["face", ""], rows, title=f"astronaut (NASA), {predictor.info.name}")
    say(f"drawing: {drawing}\nnumbers: {results}")
    print_licence(predictor.info)
