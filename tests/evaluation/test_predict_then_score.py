"""`luvli predict --format X`, then `luvli score`: the same numbers whatever X is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from luvli.data.formats import write_json
from luvli.data.record import FaceRecord
from luvli.evaluation.match import read_faces
from luvli.evaluation.metrics import compute_metrics
from luvli.faces import FaceLandmarks, Faces
from luvli.likelihood import family
from luvli.prediction.parts import Row
from luvli.prediction.writers import SUFFIXES, write_pts_files, write_results


@pytest.fixture
def scene(tmp_path, make_faces):
    """Eight images with a labelled face each; the model also finds a stranger in two of them,
    and calls a tenth of the landmarks hidden."""
    faces = make_faces(8)
    truth = np.where(np.isnan(faces.labels), faces.points, faces.labels)
    records, results = [], []
    for i in range(8):
        image = f"photos/p{i}.jpg"
        records.append(FaceRecord(points=truth[i], visibility=np.ones(68), image=Path(image)))
        seen = np.where(np.arange(68) % 10 == i, 0.1, 0.9)
        face = FaceLandmarks(
            points=faces.points[i], covariance=faces.covariance[i], visibility=seen,
            box=[0, 0, 9, 9],
        )  # fmt: skip
        stranger = face.transform([[1, 0, 900], [0, 1, 0]])
        results.append(Row(image, Faces.stack([face, stranger] if i in (2, 5) else [face])))
    write_json(tmp_path / "truth.json", records)
    return results, faces, truth, tmp_path


@pytest.mark.parametrize("name", SUFFIXES)
def test_every_format_closes(scene, name):
    results, faces, truth, folder = scene
    path = folder / f"predictions{SUFFIXES[name]}"
    write_results(path, results, name)
    back = read_faces(path, folder / "truth.json")
    # hidden ones too; files of predictions round to a thousandth of a pixel
    assert back.points == pytest.approx(faces.points, abs=5.1e-4)
    assert not back.failed.any()
    assert back.notes == ("2 predictions have no label and are left out.",)
    if name in ("json", "csv", "parquet"):
        assert back.covariance == pytest.approx(faces.covariance, rel=1e-3, abs=1e-3)
        assert back.visibility[2, 2] == pytest.approx(0.1)
    expected = np.linalg.norm(faces.points - truth, axis=2).mean(axis=1)
    size = np.sqrt(np.prod(np.ptp(truth, axis=1), axis=1))
    found = back.nme("box").mean()
    assert found == pytest.approx((expected / size).mean() * 100, rel=1e-4)


@pytest.mark.parametrize("name", ["json", "csv", "parquet"])
def test_covariances_that_nothing_taught_are_not_scored(scene, name):
    """A heat-map or MSE network writes covariances, too; its files say that they mean nothing."""
    results, _, _, folder = scene
    untaught = [one._replace(faces=replace(one.faces, covariance_trained=False)) for one in results]
    path = folder / f"predictions{SUFFIXES[name]}"
    write_results(path, untaught, name)
    back = read_faces(path, folder / "truth.json")
    assert back.covariance is None and back.visibility is not None


def test_pts_says_what_it_cannot_hold(scene):
    results, faces, _, folder = scene
    for result in results:
        write_pts_files(
            folder / "pts" / result.image.split("/")[-1].removesuffix(".jpg"), result.faces
        )
    back = read_faces(folder / "pts", folder / "truth.json")
    hidden = np.arange(68) % 10 == np.arange(8)[:, None]
    assert np.isnan(back.points[hidden]).all()
    assert back.points[~hidden] == pytest.approx(faces.points[~hidden], abs=1e-9)
    assert "called self-occluded" in back.notes[0]


@pytest.mark.parametrize("name", ["json", "csv", "parquet"])
def test_the_density_of_a_calibration_travels(scene, name):
    """Labels drawn from it fall inside as often as it says, whatever the file."""
    results, faces, _, folder = scene
    law = "student-8"
    drawn = [one._replace(faces=replace(one.faces, likelihood=law)) for one in results]
    path = folder / f"predictions{SUFFIXES[name]}"
    write_results(path, drawn, name)
    back = read_faces(path, folder / "truth.json")
    assert back.faces.likelihood == law
    assert read_faces(path, folder / "truth.json", likelihood="gauss").faces.likelihood == "gauss"
    rng = np.random.default_rng(0)
    truth = family(law).from_covariance(faces.points, faces.covariance).sample(1, rng)[0]
    scored = replace(back, labels=truth, label_visibility=np.ones((8, 68), np.int8))
    found = compute_metrics(scored, resamples=50)
    assert found.likelihood == law
    assert found.value("coverage_90") == pytest.approx(90, abs=5)
    wanted = family(law).from_covariance(back.points, back.covariance).entropy().mean()
    assert found.value("nll_pixel") == pytest.approx(wanted, abs=0.15)
    laplace = compute_metrics(scored.with_predictions(likelihood="laplace"), resamples=2)
    assert found.value("nll") < laplace.value("nll")  # drawn by its own density
