"""The words of a shipped model's card: where it comes from, what it is for, where it fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from luvli.likelihood import density_name
from luvli.models import CardTable, Headline, ModelCard
from luvli.network import LUVLi, load_model
from luvli.network.licence import is_open
from luvli.training.ingredients import ingredients
from luvli.training.recipe import Recipe
from luvli.training.recipe_data import Source
from luvli.training.sources import SourceFaces

ROOT = Path(__file__).resolve().parents[1]
TITLES = {
    "lfpw": "LFPW, 300-W's labels by people; research use only",
    "helen": "HELEN, 300-W's labels by people; research use only",
    "afw": "AFW, 300-W's labels by people; research use only",
    "merl": "AFLW photographs of all poses with MERL-RAV's labels (location and visibility) by "
    "people; research use only",
    "cfp": "CFP, profiles of celebrities with 30 points of the visible half by people; research "
    "use only",
    "scut": "SCUT-FBP5500, frontal Asian and Caucasian faces, 24 of the 68 points; non-commercial "
    "research only",
    "turned": "photographs of the sources above, turned up to profile on a fitted ICT FaceKit head",
    "closed": "Closed Eyes in the Wild, labelled by the model itself, lids brought together; "
    "research use only",
    "blinks": "rendered ICT FaceKit heads (MIT) with skins of the photographs, most with shut eyes",
    "canada": "Canada portraits (DeBruine and Jones 2017, CC BY 4.0) with 63 labels of London's "
    "template",
    "plain": "rendered ICT FaceKit heads (MIT) with painted skin",
    "skins": "rendered ICT FaceKit heads (MIT) with skins and walls of the portraits below",
    "london": "Face Research Lab London Set (DeBruine and Jones 2017, CC BY 4.0), neutral "
    "portraits with 63 of its own labels",
    "smiling": "the same people smiling, labelled by the model itself",
    "congress": "portraits of members of the US Congress (public domain), labelled by the model "
    "itself",
    "interfaces": "varied portraits (CC0), labelled by the model itself",
}
"""source of the recipe -> what it is, and on what terms"""

VISIBILITY = (
    "Visibility is about the head itself: a landmark behind a hand or hair counts as visible, "
    "with a larger ellipse."
)
RESEARCH_LIMITS = [
    VISIBILITY,
    "The ellipses are calibrated on faces like the training faces, on average over the sources. "
    "They include the uncertainty of the label convention: other annotators place these points "
    "differently. The calibration table has each source, pose and class of occlusion. On other "
    "kinds of images (drawings, infrared, masks) they are not calibrated; `confidence` says which "
    "faces to trust.",
    "The faces are from photo-sharing sites and of public figures, from before 2014: people "
    "unlike them, children and old people among others, are likely to be aligned less well. "
    "No figures by age or origin are available for this version.",
]
OPEN_LIMITS = [
    VISIBILITY,
    "Its label convention is that of a 3-D head whose landmarks were laid where London's people "
    "labelled theirs; it departs from 300-W's by the offsets below.",
    "It learnt from renderings and some 1,400 frontal portraits of adults: on photographs in the "
    "wild it is less exact than the research model. Its ellipses are calibrated on free faces "
    "alone and include the uncertainty of the label convention (tools/free_faces.py).",
    "The ranges of pose and the number of covering objects of the renderer were set beside "
    "published totals of MERL-RAV's labels; no image or label of it was used.",
]
USE = (
    "aligning faces in photographs and video, and knowing which landmarks to trust. Not for "
    "identifying people, and not as the only safeguard of a system on which safety depends."
)


def make_card(
    recipe: Recipe,
    sources: Mapping[str, SourceFaces],
    model: Path,
    progress: str,
    calibrated_on: int,
    headline: Headline | None,
    tables: list[CardTable],
) -> ModelCard:
    config = recipe.network
    network, info = load_model(model)
    free = is_open(recipe.licence)
    return ModelCard(
        name=recipe.name,
        version=info["version"],
        summary="68 face landmarks with location, 2x2 covariance and visibility"
        + (", and whether something covers them." if config.occlusion else "."),
        licence=f"{recipe.licence}."
        if free
        else "Research use only, because the training sets allow no other use.",
        intended_use=("Any: " if free else "Research: ") + USE,
        limits=OPEN_LIMITS if free else RESEARCH_LIMITS,
        data=data_lines(recipe, sources),
        recipe=recipe_line(recipe, progress),
        architecture=architecture_line(recipe, network),
        calibration=calibration_line(recipe, info, calibrated_on),
        headline=headline,
        tables=tables,
    )


def recipe_line(recipe: Recipe, progress: str) -> str:
    """Which recipe made the model, from what."""
    special = f"recipes/models/{recipe.name}-{recipe.version}.yaml"
    file = special if (ROOT / special).is_file() else f"recipes/{recipe.name}.yaml"
    start = f"trained on from {recipe.init}" if recipe.init else "from nothing"
    return f"{file}; {start}; {progress}"


def architecture_line(recipe: Recipe, network: LUVLi) -> str:
    """The network in a sentence."""
    config = network.config
    count = sum(parameter.numel() for parameter in network.parameters())
    return (
        f"DU-Net, {config.unets} U-net{'s' if config.unets > 1 else ''}, "
        f"{config.channels} channels, growth {config.growth}, "
        f"{config.input_size} px crops of {float(recipe.data.enlarge):g} boxes; "
        f"{count:,} parameters; Laplacian likelihood."
    )


def calibration_line(recipe: Recipe, info: Mapping[str, Any], calibrated_on: int) -> str:
    """What was fitted, on which faces."""
    distribution = info["calibration"]["likelihood"] or recipe.network.likelihood
    known = info["calibration"].get("convention_variance")
    convention = "the variance of the label convention between data sets, " if known else ""
    free = is_open(recipe.licence)
    faces = "free faces (renderings and varied portraits)" if free else "faces of all sources"
    return (
        "A factor for each landmark's covariance, the variance of a pixel, "
        f"{convention}the error distribution ({density_name(distribution)}), confidence, regions, "
        "triage, the error bars of measures and the probability of closed eyes, fitted on "
        f"{calibrated_on:,} held-out {faces} and poses. "
        "The failure head was trained on training faces, plain and corrupted "
        "(docs/trust.md)."
    )


def data_lines(recipe: Recipe, sources: Mapping[str, SourceFaces]) -> list[str]:
    """What was learnt from: each source with its counts, and the licences that an open model
    follows."""
    lines = []
    for name, source in recipe.data.sources.items():
        train, held_out = count_faces(source, sources.get(name))
        counts = f"{train:,} faces" + (f", {held_out:,} held out" if held_out else "")
        lines.append(f"{TITLES.get(name, name)}: {counts}")
    teachers = {stage.teacher for stage in recipe.stages.values() if stage.teacher}
    lines += [
        f"predictions of {teacher} on the faces to learn from: points, covariances, visibilities"
        for teacher in sorted(Path(teacher).name for teacher in teachers)
    ]
    if is_open(recipe.licence):
        boxes = {item.licence for item in ingredients(recipe) if item.place.endswith(".boxes")}
        lines += [f"boxes: {licence}" for licence in sorted(boxes)]
    return lines


def count_faces(source: Source, faces: SourceFaces | None) -> tuple[int, int]:
    """Faces to learn from and held out; nothing is rendered for it."""
    if faces is None:
        assert source.synthetic is not None and isinstance(source.hold_out, int)
        return source.synthetic.faces - source.hold_out, source.hold_out
    return len(faces.train), len(faces.held_out)
