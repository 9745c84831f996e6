"""The words of a shipped model's card: where it comes from, what it is for, where it fails."""

from __future__ import annotations

from pathlib import Path

from luvli.models import CardTable, ModelCard
from luvli.network import load_model
from luvli.training.recipe import Recipe
from luvli.training.sources import load_source

TITLES = {
    "lfpw": "LFPW training photographs of 300-W, labelled by people; research use only",
    "ytf": "YouTube Faces video frames, research use only; first stage: labelled by another "
    "model; last stage: by this one",
    "ict": "faces rendered from the ICT FaceKit morphable head (MIT licence)",
    "worn": "the same heads with skin and backgrounds of the LFPW faces trained on; last stage",
}
"""source of the recipe -> what it is, and on what terms"""

LIMITS = [
    "Real training faces look ahead or are turned by up to about 60 degrees; profiles were "
    "learnt from rendered heads, half of them with skin from photographs. On real profiles "
    "no labels were at hand: they were looked at, not measured.",
    "Visibility is about the head itself: a landmark behind a hand or hair counts as "
    "visible, with a larger ellipse.",
    "The uncertainty is that of labels on faces like the training faces; on other kinds of "
    "pictures (drawings, infrared, masks) it is not calibrated.",
    "The real faces are of public figures, from before 2012: people unlike them, children "
    "among others, are likely to be aligned less well.",
]


def make_card(
    recipe: Recipe, model: Path, progress: str, calibrated_on: int, tables: list[CardTable]
) -> ModelCard:
    config = recipe.network
    network, info = load_model(model)
    count = sum(parameter.numel() for parameter in network.parameters())
    sources = {name: load_source(name, s, recipe.data) for name, s in recipe.data.sources.items()}
    return ModelCard(
        name=recipe.name,
        version=info["version"],
        summary="68 face landmarks with location, 2x2 covariance and visibility.",
        licence="Research use only, because two of the training sets allow no other use.",
        intended_use="Research: aligning faces in photographs and video, and knowing "
        "which landmarks to trust. Not for identifying people, and not as the only safeguard of a "
        "system on which safety depends.",
        limits=LIMITS,
        data=[
            f"{TITLES.get(name, name)}: {len(s.train):,} faces, {len(s.held_out)} held out"
            for name, s in sources.items()
        ],
        recipe=f"recipes/{recipe.name}.yaml, {progress}",
        architecture=f"DU-Net, {config.unets} U-nets, {config.channels} channels, growth "
        f"{config.growth}, {config.input_size} px crops of {float(recipe.data.enlarge):g} boxes; "
        f"{count:,} parameters; Laplacian likelihood.",
        calibration=f"One factor for each landmark's covariance, fitted on {calibrated_on} "
        "held-out LFPW photographs.",
        tables=tables,
    )
