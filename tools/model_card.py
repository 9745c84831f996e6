"""The words of a shipped model's card: where it comes from, what it is for, where it fails."""

from __future__ import annotations

from pathlib import Path

from luvli.models import CardTable, ModelCard
from luvli.network import load_model
from luvli.training.recipe import Recipe
from luvli.training.sources import load_source
from measure_model import photograph_sources

TITLES = {
    "lfpw": "LFPW, 300-W's labels by people; research use only",
    "helen": "HELEN, 300-W's labels by people; research use only",
    "afw": "AFW, 300-W's labels by people; research use only",
    "merl": "AFLW photographs of all poses with MERL-RAV's labels (location and visibility) by "
    "people; research use only",
}
"""source of the recipe -> what it is, and on what terms"""

LIMITS = [
    "Visibility is about the head itself: a landmark behind a hand or hair counts as visible, "
    "with a larger ellipse.",
    "The ellipses are calibrated on faces like the training faces, and on the average of the "
    "sources: the table below shows by how much each source, pose and class of occlusion departs "
    "from it. On other kinds of images (drawings, infrared, masks) they are not calibrated; "
    "`confidence` is what tells such faces.",
    "The faces are from photo-sharing sites and of public figures, from before 2014: people "
    "unlike them, children and old people among others, are likely to be aligned less well. "
    "No figures by age or origin are available for this version.",
]


def make_card(
    recipe: Recipe, model: Path, progress: str, calibrated_on: int, tables: list[CardTable]
) -> ModelCard:
    config = recipe.network
    network, info = load_model(model)
    count = sum(parameter.numel() for parameter in network.parameters())
    sources = {
        name: load_source(name, source, recipe.data)
        for name, source in photograph_sources(recipe).items()
    }
    return ModelCard(
        name=recipe.name,
        version=info["version"],
        summary="68 face landmarks with location, 2x2 covariance and visibility.",
        licence="Research use only, because the training sets allow no other use.",
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
        calibration="A factor and a least variance for each landmark's covariance, confidence, "
        f"regions and triage, fitted on {calibrated_on:,} held-out faces of all sources and "
        "poses (docs/trust.md).",
        tables=tables,
    )
