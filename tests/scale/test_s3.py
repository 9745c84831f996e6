"""S3, against a server that this test starts: moto, behind a door that sometimes says no."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result as Ran

from luvli.errors import InputError
from luvli.prediction import places
from luvli.prediction.executors import InProcess
from luvli.prediction.inputs import Inputs
from luvli.prediction.job import PredictJob
from luvli.prediction.places import list_names, list_store, read_bytes, write_whole
from luvli.prediction.predictor import load
from luvli.prediction.settings import JobSettings

from .conftest import rows_of

pytest.importorskip("pyarrow")
moto_server = pytest.importorskip(
    "moto.server", reason="needs an S3 server: moto, of the extra dev"
)


class _Door:
    """Hands requests on to moto; every third one is refused with 503 while `grumpy`."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.grumpy, self.count, self.refused = inner, False, 0, 0

    def __call__(self, environ: Any, start_response: Any) -> Any:
        self.count += 1
        if self.grumpy and self.count % 3 == 0:
            self.refused += 1
            start_response("503 Slow Down", [("Content-Type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>Please reduce</Message></Error>"]
        return self.inner(environ, start_response)


@pytest.fixture(scope="module")
def door() -> Iterator[_Door]:
    """A server of this test with the bucket s3://luvli, and the environment that leads to it."""
    from werkzeug.serving import make_server

    made = _Door(moto_server.DomainDispatcherApplication(moto_server.create_backend_app))
    server = make_server("127.0.0.1", 0, made, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        client = http.client.HTTPConnection("127.0.0.1", server.server_port)
        client.request("PUT", "/luvli")
        assert client.getresponse().status == 200
        yield made
    server.shutdown()


@pytest.mark.slow
@pytest.mark.seconds(15)
def test_a_job_from_s3_to_s3_is_that_of_a_folder(door: _Door, photos: Path, tmp_path: Path) -> None:
    bucket = "s3://luvli"
    for path in sorted(p for p in photos.rglob("*") if p.is_file()):
        write_whole(f"{bucket}/in/{path.relative_to(photos).as_posix()}", path.read_bytes())
    executor = InProcess(load("luvli-68", threads=1))
    remote = JobSettings(f"{bucket}/out", "parts", part_size=3)
    door.grumpy = True
    try:
        summary = PredictJob(Inputs([f"{bucket}/in"]), remote).run(executor)
        again = PredictJob(Inputs([f"{bucket}/in"]), remote).run(executor)
    finally:
        door.grumpy = False
    assert door.refused > 5, "the door let everything pass"
    counts = summary.counts
    assert (summary.parts, counts["images"], counts["faces"], counts["failed"]) == (3, 6, 5, 1)
    assert again.resumed == 7 and again.counts == counts
    assert b"broken.jpg" in read_bytes(f"{bucket}/out/failed.txt")
    for place, inside, _ in list_store(f"{bucket}/out"):
        (tmp_path / inside).write_bytes(read_bytes(place))
    local = JobSettings(str(tmp_path / "local"), "parts", part_size=3)
    PredictJob(Inputs([photos]), local).run(executor)

    def plain(row: dict[str, Any]) -> dict[str, Any]:
        name = row["image"].removeprefix(f"{bucket}/in/").removeprefix(f"{photos}/")
        return {**row, "image": name, "error": bool(row["error"])}

    rows = [plain(row) for row in rows_of(tmp_path)]
    assert rows == [plain(row) for row in rows_of(tmp_path / "local")]


@pytest.mark.parametrize("there", ["source", "target"])
def test_a_store_that_does_not_answer_is_one_sentence(
    there: str,
    photos: Path,
    luvli: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places._bucket.cache_clear()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nobody")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody listens there
    source, out = {
        "source": ("s3://nowhere/in", tmp_path / "out"),
        "target": (photos, "s3://nowhere/out"),
    }[there]
    ran = luvli("predict", source, "--format", "parts", "--out", out)
    assert ran.exit_code == 2, ran.output
    text = " ".join(ran.output.split())
    assert "s3://nowhere/" in text and "cannot be read" in text and "Traceback" not in text
    assert not (tmp_path / "out").exists()


def test_names_in_a_bucket_are_as_a_listing_shows_them(door: _Door) -> None:
    names = ["ü b & 100%.jpg", "a%20b.jpg", "c#1?.jpg"]
    for name in names:
        write_whole(f"s3://luvli/odd/{name}", name.encode())
    found = list(list_store("s3://luvli/odd"))
    assert sorted(inside for _, inside, _ in found) == sorted(names)
    for name in names:
        assert read_bytes(f"s3://luvli/odd/{name}").decode() == name


def test_what_is_not_there_is_one_sentence(door: _Door) -> None:
    with pytest.raises(InputError, match=r"s3://nobodys/in does not exist"):
        list(list_store("s3://nobodys/in"))
    with pytest.raises(InputError, match=r"s3://luvli/none\.jpg does not exist"):
        read_bytes("s3://luvli/none.jpg")
    with pytest.raises(InputError, match=r"s3://nobodys/x could not be written"):
        write_whole("s3://nobodys/x", b"x")
    assert list_names("s3://luvli/nothing-here") == set()
