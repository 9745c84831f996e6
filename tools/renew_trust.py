"""Fit a shipped model's trust anew, the network's landmarks as they are, and renew its card.

    python tools/renew_trust.py luvli-68 --data DATA --version 2.6           print the card
    python tools/renew_trust.py luvli-68 --data DATA --version 2.6 --ship    and ship the model
    python tools/renew_trust.py luvli-68 --speed-only --ship                 time it again, alone

Points, covariances and visibilities stay what they were, and so do the card's figures of them. What
is new: that the network tells when it went astray, the scale of the covariances, confidence,
regions, triage, and the time that a face takes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from fit_trust import fit_trust, trust_tables
from free_faces import free_faces
from luvli import __version__
from luvli.models import FOLDER, CardTable, ModelCard, read_card
from luvli.network import load_model, save_model
from luvli.network.licence import is_open
from luvli.training.recipe import Recipe
from luvli.training.recipe_files import make_recipe
from measure_model import held_out, speed_table
from model_card import architecture_line, calibration_line
from release_model import ship, with_root, write_card

COMMAND = "python tools/renew_trust.py NAME --data DATA"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="a shipped model")
    parser.add_argument("--data", type=Path, help="its recipe's data.root")
    parser.add_argument("--version", help="version of the renewed model")
    parser.add_argument("--keep-network", action="store_true", help="it learns nothing more")
    parser.add_argument("--speed-only", action="store_true", help="only time a face again")
    parser.add_argument("--ship", action="store_true", help="write the model into the package")
    options = parser.parse_args()
    if options.speed_only:
        time_again(options.name, options.ship)
        return
    if options.data is None or options.version is None:
        parser.error("--data and --version are needed, or --speed-only")
    network, info = load_model(FOLDER / f"{options.name}.safetensors")
    recipe = with_root(make_recipe(info["recipe"], options.name), str(options.data))
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / f"{options.name}.safetensors"
        save_model(model, network, info | {"version": options.version, "luvli": __version__})
        if is_open(recipe.licence):
            faces = free_faces(recipe, Path(place))
            about = ["rendered faces and varied portraits"]
        else:
            held = held_out(recipe)
            faces, sources = held.records, dict.fromkeys(held.source.tolist())
            about = [f"{int((held.source == s).sum()):,} held-out faces of {s}" for s in sources]
        learn = not options.keep_network
        fitted = fit_trust(model, recipe, faces, about, scale_visibility=False, learn=learn)
        speed = speed_table(model, model.with_suffix(".onnx"))
        new = [table.model_copy(update={"command": COMMAND}) for table in trust_tables(fitted)]
        card = renewed_card(recipe, model, len(faces), new, speed)
        Console().print(card.markdown())
        for line in fitted.advice:
            print(f"more faces needed: {line}")
        if options.ship:
            ship(model, recipe.name, card)


def time_again(name: str, shipped: bool) -> None:
    """Measure the time that a face takes, on a machine that does nothing else."""
    with tempfile.TemporaryDirectory() as place:
        speed = speed_table(FOLDER / f"{name}.safetensors", Path(place) / f"{name}.onnx")
    card = timed_card(read_card(name), speed)
    Console().print(speed.rows)
    if shipped:
        write_card(card)


def timed_card(card: ModelCard, speed: CardTable) -> ModelCard:
    """A card with another time that a face takes."""
    assert card.headline is not None
    milliseconds = float(speed.rows[0][1].removesuffix(" ms"))
    tables = [table for table in card.tables if table.title != speed.title]
    last = speed.model_copy(update={"command": COMMAND})
    headline = card.headline.model_copy(update={"milliseconds": milliseconds})
    return card.model_copy(update={"headline": headline, "tables": [*tables, last]})


def renewed_card(
    recipe: Recipe, model: Path, calibrated_on: int, new: list[CardTable], speed: CardTable
) -> ModelCard:
    """The shipped card with what is new: the figures of the landmarks stay, those of the trust and
    the speed are replaced."""
    card = read_card(recipe.name)
    network, info = load_model(model)
    replaced = {table.title for table in new}
    tables = [table for table in card.tables if table.title not in replaced]
    renewed = card.model_copy(
        update={
            "version": info["version"],
            "architecture": architecture_line(recipe, network),
            "calibration": calibration_line(recipe, info, calibrated_on),
            "tables": [*tables, *new],
        }
    )
    return timed_card(renewed, speed)


if __name__ == "__main__":
    main()
