"""S3, against a server that this test starts: moto, behind a door that sometimes says no."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from luvli.errors import InputError
from luvli.scale.places import list_files, list_names, read_bytes, write_whole

from .conftest import InThisProcess, rows_of

pytest.importorskip("pyarrow")
moto_server = pytest.importorskip(
    "moto.server", reason="needs an S3 server: pip install 'moto[s3]' flask flask-cors"
)


class _Door(BaseHTTPRequestHandler):
    """Hands requests on; every third one is refused with 503 while `grumpy`."""

    protocol_version = "HTTP/1.1"
    behind = 0
    grumpy = False
    refused = 0
    count = 0

    def _pass(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        door = type(self)
        door.count += 1
        if door.grumpy and door.count % 3 == 0:
            door.refused += 1
            text = b"<Error><Code>SlowDown</Code><Message>Please reduce</Message></Error>"
            self._answer(503, {"Content-Type": "application/xml"}, text)
            return
        inner = http.client.HTTPConnection("127.0.0.1", door.behind)
        inner.request(self.command, self.path, body, dict(self.headers))
        answer = inner.getresponse()
        self._answer(answer.status, dict(answer.getheaders()), answer.read())

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        length = headers.get("Content-Length") if self.command == "HEAD" else str(len(body))
        dropped = ("content-length", "transfer-encoding", "connection")
        for name, value in headers.items():
            if name.lower() not in dropped:
                self.send_header(name, value)
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """s3://luvli on a server of this test."""
    server = moto_server.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    _Door.behind = server.get_host_and_port()[1]
    door = ThreadingHTTPServer(("127.0.0.1", 0), _Door)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{door.server_port}")
        inner = http.client.HTTPConnection("127.0.0.1", _Door.behind)
        inner.request("PUT", "/luvli")
        assert inner.getresponse().status == 200
        yield "s3://luvli"
    door.shutdown()
    server.stop()


def test_a_job_from_s3_to_s3_is_that_of_a_folder(
    bucket: str, photos: Path, in_this_process: InThisProcess, tmp_path: Path
) -> None:
    for path in sorted(p for p in photos.rglob("*") if p.is_file()):
        write_whole(f"{bucket}/in/{path.relative_to(photos).as_posix()}", path.read_bytes())
    _Door.grumpy = True
    try:
        plan, counts = in_this_process([f"{bucket}/in"], f"{bucket}/out")
    finally:
        _Door.grumpy = False
    assert _Door.refused > 5, "the door let everything pass"
    assert (plan.rows, counts.pictures, counts.faces, counts.failed) == (7, 7, 5, 1)
    for found in list_files(f"{bucket}/out"):
        (tmp_path / found.inside.replace("/", "-")).write_bytes(read_bytes(found.place))
    in_this_process([str(photos)], tmp_path / "local")

    def plain(row: dict[str, Any]) -> dict[str, Any]:
        name = row["image"].removeprefix(f"{bucket}/in/").removeprefix(f"{photos}/")
        return {**row, "image": name, "error": bool(row["error"])}

    remote = [plain(row) for row in rows_of([str(p) for p in tmp_path.glob("part-*")])]
    assert remote == [plain(row) for row in rows_of(tmp_path / "local")]


def test_what_is_not_there_is_one_sentence(bucket: str) -> None:
    with pytest.raises(InputError, match=r"s3://nobodys/in does not exist"):
        list(list_files("s3://nobodys/in"))
    with pytest.raises(InputError, match=r"s3://luvli/none\.jpg does not exist"):
        read_bytes("s3://luvli/none.jpg")
    with pytest.raises(InputError, match=r"s3://nobodys/x could not be written"):
        write_whole("s3://nobodys/x", b"x")
    assert list_names("s3://luvli/nothing-here") == set()
