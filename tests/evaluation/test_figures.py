"""Figures hold the numbers they were given; every one can be drawn from a made-up set."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from scored_files import changed

from luvli.errors import InputError
from luvli.evaluation import plots, uncertainty
from luvli.evaluation.accuracy import nme
from luvli.evaluation.plot_style import PlotOptions


def test_every_figure_of_the_report_is_drawn(faces):
    for name in set(plots.PLOTS) - {"faces", "human", "labels"}:
        figure = plots.draw_plot(name, [faces])
        figure.canvas.draw()
        for axis in figure.axes:
            numbered = any(label.get_text() for label in axis.get_xticklabels())
            if axis.axison and numbered and axis.get_label() != "<colorbar>":
                assert axis.get_xlabel(), f"{name} has numbers without a name"


def test_each_figure_of_the_paper_has_a_name():
    numbers = sorted(n for entry in plots.PLOTS.values() for n in entry.numbers)
    assert numbers == list(range(1, 12))
    assert plots.plot_name("7") == "whitened" and plots.plot_name("rank") == "rank"
    with pytest.raises(InputError, match="unknown figure 'residual': did you mean 'residuals'"):
        plots.plot_name("residual")


def test_ced_figure_shows_the_curve(faces):
    errors = nme(faces.points, faces.labels)
    axis = plots.draw_plot("ced", [faces]).axes[0]
    x, y = axis.lines[0].get_data()
    for at in (1.0, 1.2, 2.0):
        shown = y[np.searchsorted(x, at, side="right") - 1]
        assert shown == pytest.approx(np.mean(errors <= at) * 100)
    assert axis.get_xlim() == (0, 10)


def test_residual_figure_shows_the_bins_and_their_correlation(faces):
    bins = uncertainty.residual_bins(faces.residuals, faces.box_size, 100)
    figure = plots.draw_plot("residuals", [faces], PlotOptions(per_bin=100))
    for axis, entry in zip(figure.axes, ("xx", "yy", "xy"), strict=True):
        offsets = axis.collections[0].get_offsets()
        assert np.asarray(offsets[:, 0]) == pytest.approx(bins[entry].x)
        assert np.asarray(offsets[:, 1]) == pytest.approx(bins[entry].y)
        assert axis.texts[0].get_text() == f"Pearson {bins[entry].value:.2f}"


def test_histograms_are_densities(faces):
    bars = plots.draw_plot("smallest-eigenvalue", [faces]).axes[0].patches
    unit = faces.paper_heatmap_pixel
    inside = np.mean(uncertainty.smallest_deviation(faces.covariance, unit) <= 2)
    assert sum(b.get_width() * b.get_height() for b in bars) == pytest.approx(inside)
    z = faces.residuals.whitened
    top = plots.draw_plot("whitened", [faces]).axes[0]
    inside = np.mean(np.abs(z[:, 0]) <= 6)
    assert sum(b.get_width() * b.get_height() for b in top.patches) == pytest.approx(inside)


@pytest.mark.parametrize("name", ["mean-ellipses", "individual-ellipses"])
def test_ellipses_are_as_large_as_the_covariances_and_inside_the_axis(faces, name):
    wide = changed(faces, covariance=faces.covariance * 100)
    axis = plots.draw_plot(name, [wide]).axes[0]
    ellipses = axis.collections[0]
    sizes = np.stack([ellipses.get_widths(), ellipses.get_heights()], axis=1) / 4  # 2 sigma
    _, spread = uncertainty.normalized_faces(wide.points, wide.covariance)
    if name == "mean-ellipses":
        spread = uncertainty.mean_ellipses(wide.points, wide.covariance)[1]
    else:
        spread = spread[0, list(range(27))]
    expected = np.sqrt(np.linalg.eigvalsh(spread)[:, ::-1])
    assert sizes == pytest.approx(expected)
    reach = 2 * np.sqrt(np.diagonal(spread, axis1=1, axis2=2))
    for i, limits in enumerate((axis.get_xlim(), axis.get_ylim())):
        places = ellipses.get_offsets()[:, i]
        assert min(limits) < (places - reach[:, i]).min()
        assert (places + reach[:, i]).max() < max(limits)


def test_several_methods_in_one_figure_where_that_makes_sense(faces):
    other = changed(faces, points=faces.points + 1)  # of the same name
    for name in ("ced", "coverage", "rank", "risk-coverage"):
        axis = plots.draw_plot(name, [faces, other]).axes[0]
        labels = axis.get_legend_handles_labels()[1]
        assert [label.split(":")[0] for label in labels] == ["made up (1)", "made up (2)"]
    with pytest.raises(InputError, match="shows one method"):
        plots.draw_plot("residuals", [faces, other])


def test_missing_parts_are_named(faces):
    with pytest.raises(InputError, match="needs covariance"):
        plots.draw_plot("4", [changed(faces, covariance=None)])
    with pytest.raises(InputError, match="no image of these faces"):
        plots.draw_plot("faces", [faces])


def painted(figure, colour) -> int:
    """Pixels of about this colour in a figure that is one picture."""
    (picture,) = figure.axes[0].images
    far = np.abs(np.asarray(picture.get_array()).astype(int) - colour).sum(axis=2)
    return int((far < 60).sum())


GREEN, YELLOW, BLACK = (0, 212, 40), (255, 222, 0), (0, 0, 0)


def test_pictures_show_labels_and_predictions(tmp_path, make_faces):
    Image.fromarray(np.full((500, 500, 3), 128, np.uint8)).save(tmp_path / "a.png")
    faces = changed(make_faces(5), images=("sub/a.png", "", "a.png", "a.png", "a.png"))
    options = PlotOptions(images=tmp_path)
    figure = plots.draw_plot("faces", [faces], options)
    assert painted(figure, GREEN) > 1000 and painted(figure, YELLOW) > 1000
    figure = plots.draw_plot("labels", [faces], options)  # circles on a schematic: hidden ones
    assert painted(figure, GREEN) > 1000 and painted(figure, BLACK) > 100
    gap = np.full_like(faces.points, np.nan)
    nowhere = {"points": gap, "covariance": np.full_like(faces.covariance, np.nan)}
    unlabelled = {"labels": gap, "label_visibility": np.zeros_like(faces.label_visibility)}
    alone = plots.draw_plot("faces", [changed(faces, **nowhere)], options)
    assert painted(alone, GREEN) > 50 and painted(alone, YELLOW) == 0
    bare = plots.draw_plot("faces", [changed(faces, **nowhere, **unlabelled)], options)
    assert painted(bare, GREEN) == painted(bare, YELLOW) == 0 and painted(bare, (128,) * 3) > 1e5
    with pytest.raises(InputError, match="no visible label"):
        plots.draw_plot("labels", [changed(faces, **unlabelled)], options)


def test_one_style_and_no_global_state(faces):
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.draw_plot("ced", [faces])
    assert dict(matplotlib.rcParams) == before
    assert not matplotlib.rcParams["axes.grid"]
