"""Rays, triangles and cameras against independent ways to compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("numba")

from luvli.markup import get_markup
from luvli.synthetic import label_face, load_head
from luvli.synthetic.heads.head import Head
from luvli.synthetic.people.person import Person, random_person
from luvli.synthetic.raster.triangles import SAMPLES, draw_triangles
from luvli.synthetic.scene.labels import GRAZE, Labels, hidden_behind, outline, place_landmarks
from luvli.synthetic.scene.pose import Camera, Pose, aim
from luvli.synthetic.scene.stage import Posed, pose_head


class Stand(NamedTuple):
    """A head before a camera."""

    head: Head
    posed: Posed
    camera: Camera
    screen: Any
    """(n, 3) samples and inverse depths of all vertices"""

    def labels(self, jaw: Any = "3d") -> Labels:
        posed = self.posed
        return place_landmarks(self.head, posed.camera, posed.triangles, self.camera, jaw)


def stand(head: Head, *angles: float, neutral: bool = False) -> Stand:
    person = random_person(head, np.random.default_rng(4))
    if neutral:
        calm = person.identity * 0, person.expression * 0, (0, 0)
        person = Person(*calm, person.skin, person.style)
    pose = Pose(*angles, *[0.0] * (3 - len(angles)))
    posed = pose_head(head, person, pose, pose)
    camera = aim(posed.camera[head.landmarks].astype(np.float64), 90.0, 256, 0.6, (0.0, 0.0))
    return Stand(head, posed, camera, camera.project(posed.camera, SAMPLES))


@pytest.fixture(scope="module")
def head() -> Head:
    return load_head("procedural")


def test_camera_equals_homogeneous_coordinates(rng: np.random.Generator) -> None:
    camera = Camera(distance=80.0, focal=900.0, centre_x=120.0, centre_y=131.0)
    points = rng.normal(0, 8, (50, 3))
    intrinsic = np.array([[900.0, 0, 120], [0, 900, 131], [0, 0, 1]])
    extrinsic = np.array([[1.0, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 80]])
    flat = intrinsic @ extrinsic @ np.c_[points, np.ones(50)].T
    projected = camera.project(points)
    assert np.allclose(projected[:, :2], (flat[:2] / flat[2]).T)
    assert np.allclose(projected[:, 2], 1 / flat[2])
    # samples 2 x and 2 x + 1 of a row lie in pixel x; its centre is between them
    assert np.allclose(camera.project(points, SAMPLES)[:, :2], 2 * projected[:, :2] + 0.5)


@pytest.mark.parametrize(
    ("pose", "towards"),
    [
        (Pose(90, 0, 0), (1, 0, 0)),  # to its own left: the image's right
        (Pose(0, 90, 0), (0, 1, 0)),  # up
        (Pose(45, 0, 90), (0, -np.sqrt(0.5), np.sqrt(0.5))),  # right, then clockwise to down
    ],
)
def test_pose_turns_the_nose(pose: Pose, towards: tuple[float, float, float]) -> None:
    assert np.allclose(pose.matrix @ (0, 0, 1), towards)


def test_z_buffer_equals_testing_every_sample(rng: np.random.Generator) -> None:
    screen = rng.uniform(-5, 45, (60, 3)).astype(np.float32)
    screen[:, 2] = rng.uniform(0.01, 0.02, 60)
    triangles = rng.integers(0, 60, (40, 3)).astype(np.int32)
    nearness = np.zeros((40, 40), np.float32)
    owner = np.full((40, 40), -1, np.int32)
    draw_triangles(screen, triangles, 100, True, nearness, owner)
    y, x = np.mgrid[:40, :40]
    best = np.zeros((40, 40))
    chosen = np.full((40, 40), -1)
    for t, corners in enumerate(triangles):
        a, b, c = screen[corners].astype(np.float64)
        system = np.array([[a[0], b[0], c[0]], [a[1], b[1], c[1]], [1, 1, 1]])
        if abs(np.linalg.det(system)) < 1e-6:
            continue
        weights = np.linalg.solve(system, np.stack([x.ravel(), y.ravel(), np.ones(1600)]))
        near = (weights * np.array([[a[2]], [b[2]], [c[2]]])).sum(axis=0).reshape(40, 40)
        inside = (weights > 1e-3).all(axis=0).reshape(40, 40)
        edge = (weights > -1e-3).all(axis=0).reshape(40, 40) & ~inside
        chosen[edge] = -9  # rounding decides: not compared
        better = inside & (near > best)
        best[better], chosen[better & (chosen != -9)] = near[better], t + 100
    clear = chosen != -9
    assert clear.mean() > 0.5
    assert (owner[clear] == chosen[clear]).all()
    assert np.allclose(nearness[clear], best[clear], atol=1e-6)


def cast_rays(points: Any, vertices: Any, triangles: Any, distance: float) -> Any:
    """Moeller and Trumbore's intersection in space: depth of the first surface for each point."""
    eye = np.array([0.0, 0.0, distance])
    a, b, c = (vertices[triangles[:, k]].astype(np.float64) for k in range(3))
    depth = np.full(len(points), np.inf)
    for j, point in enumerate(points):
        ray = point - eye
        across = np.cross(ray, c - a)
        determinant = (across * (b - a)).sum(axis=1)
        determinant[np.abs(determinant) < 1e-12] = np.nan
        u = (across * (eye - a)).sum(axis=1) / determinant
        side = np.cross(eye - a, b - a)
        v = (side * ray).sum(axis=1) / determinant
        way = (side * (c - a)).sum(axis=1) / determinant
        hit = (u >= 0) & (v >= 0) & (u + v <= 1) & (way > 0)
        if hit.any():
            depth[j] = way[hit].min() * -ray[2]
    return depth


@pytest.mark.parametrize("pose", [(35, 5, 10), (-70, -10, 0), (10, 60, -20)])
def test_self_occlusion_equals_ray_casting(head: Head, pose: tuple[float, float, float]) -> None:
    scene = stand(head, *pose)
    posed, distance = scene.posed, scene.camera.distance
    places = posed.camera[head.landmarks].astype(np.float64)
    gap = (distance - places[:, 2]) - cast_rays(places, posed.camera, posed.triangles, distance)
    decided = np.abs(gap - GRAZE) > 1e-2
    assert decided.sum() >= 66
    assert (scene.labels().self_occluded[decided] == (gap > GRAZE)[decided]).all()


def test_landmarks_are_projected_vertices(head: Head) -> None:
    scene = stand(head, 25, 10, 5)
    camera, labels = scene.camera, scene.labels()
    turned = Pose(25, 10, 5).matrix @ (scene.posed.own[head.landmarks] - head.pivot).T
    place = turned.T + head.pivot
    scale = camera.focal / (camera.distance - place[:, 2])
    expected = np.c_[camera.centre_x + scale * place[:, 0], camera.centre_y - scale * place[:, 1]]
    assert np.allclose(labels.points, expected, atol=1e-3)
    assert np.allclose(labels.points_3d, place, atol=1e-4)


@pytest.mark.parametrize("yaw", [20, 90])
def test_turning_left_mirrors_turning_right(head: Head, yaw: float) -> None:
    flip = get_markup("ibug68").flip
    one, other = (stand(head, angle, neutral=True).labels() for angle in (yaw, -yaw))
    mirrored = np.array([255.0, 0]) + other.points[flip] * (-1, 1)
    assert np.allclose(one.points, mirrored, atol=0.02)
    # the triangles between symmetric vertices need not be symmetric
    assert (one.self_occluded != other.self_occluded[flip]).sum() <= 2


def test_outline_slides_the_far_jaw_to_the_contour(head: Head) -> None:
    scene = stand(head, 38, neutral=True)
    bone, contour = scene.labels("3d"), scene.labels("outline")
    assert (contour.points[17:] == bone.points[17:]).all()
    assert (contour.points[:7, 0] < bone.points[:7, 0] - 1).all()  # the near side moves back
    far = slice(12, 16)
    assert bone.self_occluded[far].all()
    assert not contour.self_occluded[far].any()
    assert (contour.points[far, 0] > bone.points[far, 0] + 1).all()
    # on the contour: two pixels farther out, at the same height, the head has ended
    index, gone, *_ = outline(head, scene.posed.camera, scene.screen)
    outside = scene.screen[index[far]] + np.array([2 * SAMPLES, 0, 0])
    assert not hidden_behind(outside, scene.screen, scene.posed.triangles, 0.0).any()
    assert not gone.any()


def test_outline_of_a_frontal_face_is_its_jaw(head: Head) -> None:
    scene = stand(head, 0, neutral=True)
    bone, contour = scene.labels("3d"), scene.labels("outline")
    assert (contour.points[17:] == bone.points[17:]).all()
    assert not contour.self_occluded[:17].any()
    fine = np.linspace(0, 16, 1601)
    line = np.stack([np.interp(fine, np.arange(17), bone.points[:17, k]) for k in (0, 1)], axis=1)
    away = np.linalg.norm(contour.points[:17, None] - line[None], axis=2).min(axis=1)
    assert away.max() < 3.0  # on the line of the jaw, shared out evenly on each side
    assert np.abs(contour.points[[0, 8, 16]] - bone.points[[0, 8, 16]]).max() < 3.0
    steps = np.linalg.norm(np.diff(contour.points[:17], axis=0), axis=1)
    assert np.ptp(steps) < 0.1 * steps.mean()


@pytest.mark.parametrize("pitch", [0, -20])
def test_the_chin_is_where_the_face_ends_before_the_neck(shared: Path, pitch: float) -> None:
    path = shared / "data/ict_facekit.npz"
    if not path.exists():
        pytest.skip("needs ICT FaceKit in research data: LUVLI_SHARED=FOLDER make test")
    ict = load_head(str(path))
    scene = stand(ict, 0, pitch, neutral=True)
    screen, contour = scene.screen, scene.labels("outline")
    nearness = np.zeros((256 * SAMPLES, 256 * SAMPLES), np.float32)
    draw_triangles(screen, ict.skin, 0, False, nearness, np.empty(nearness.shape, np.int32))
    # what the camera sees down the middle, from the chin: it ends where the neck lies far behind
    column = nearness[:, round(float(screen[ict.landmarks[8], 0]))]
    start = round(float(screen[ict.landmarks[8], 1]))
    depth = 1 / column[start:]
    end = (start + int(np.flatnonzero(depth > depth[0] + 2.0)[0]) - 0.5) / SAMPLES
    size = np.sqrt(np.prod(np.ptp(contour.points, axis=0)))
    assert abs(contour.points[8, 1] - end) < 0.012 * size
    if pitch == 0:  # the model's own is on the front of the chin
        assert scene.labels("3d").points[8, 1] < end - 0.025 * size


def test_the_near_jaw_of_a_profile_ends_at_the_ear(head: Head) -> None:
    scene = stand(head, 80, neutral=True)
    assert not scene.labels("outline").self_occluded[:9].any()
    # the ear is what stands out farther than the temples
    half = np.abs(head.neutral[head.landmarks[:17], 0]).max()
    ear = head.neutral[head.neutral[:, 0] < -1.08 * half, 2].max()
    index, *_ = outline(head, scene.posed.camera, scene.screen)
    bone, slid = head.neutral[head.landmarks[:3], 2], head.neutral[index[:3], 2]
    share = (bone - slid) / (bone - ear)  # of the way to the ear's front edge
    assert (share > 0.5).all() and (share < 1.05).all()
    # from the ear the line runs down and forwards to the chin without turning back
    line = head.neutral[index[:9], 1:]
    assert (np.diff(line[:, 0]) < 0).all() and (np.diff(line[3:, 1]) > 0).all()


def test_a_profile_hides_its_far_side(head: Head) -> None:
    labels = stand(head, 90, neutral=True).labels("outline")
    assert labels.self_occluded[[9, 12, 15, 16, 25, 26, 45, 54]].all()
    assert not labels.self_occluded[[1, 4, 8, 17, 30, 36, 48]].any()


def test_labels_do_not_depend_on_the_size_of_the_picture() -> None:
    small, large = (label_face(11, size=size, pose="profile") for size in (64, 512))
    assert (small.self_occluded == large.self_occluded).all()
    assert np.allclose((small.points + 0.5) * 8, large.points + 0.5, atol=1e-3)
