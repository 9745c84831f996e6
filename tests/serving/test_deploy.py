"""The examples for production: nginx in front of a server, and the container files and the systemd
unit, as far as they can be checked without a container or systemd running."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from websockets.sync.client import connect

from luvli.cli import app

from .conftest import Server
from .test_server import metrics

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/serving"


def options_of_serve() -> set[str]:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts}


def test_the_image_copies_what_the_package_is_built_from() -> None:
    lines = (EXAMPLES / "Dockerfile").read_text().splitlines()
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    needed |= {"src", *project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]}
    assert needed <= copied
    assert all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert not copied & set(ignored)


def test_the_unit_calls_the_command_as_it_is() -> None:
    start = re.search(r"^ExecStart=\S+ (.*)$", (EXAMPLES / "luvli.service").read_text(), re.M)
    assert start is not None and start[1].startswith("serve ")
    assert set(re.findall(r"--[a-z-]+", start[1])) <= options_of_serve()


@pytest.mark.parametrize("path", [EXAMPLES / "Dockerfile", ROOT / "Dockerfile"])
def test_containers_call_the_command_as_it_is(path: Path) -> None:
    text = path.read_text()
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", text, re.M)
    assert entry is not None
    words = json.loads(entry[1])
    # comments show the calls; one may go on in the next line and end in a remark
    shown = re.sub(r"\\\n#\s*", "", text)
    served = re.findall(r"luvli\s+(serve .*)$", shown, re.M)
    calls = [words[1:]] if len(words) > 1 else [shlex.split(call, True) for call in served]
    assert calls
    for call in calls:
        assert call[0] == "serve"
        assert {word for word in call if word.startswith("--")} <= options_of_serve()
        assert "--token-file" in call or "--open" in call  # else it refuses to listen to others
    assert re.search(r"^USER (?!root)", text, re.M)


@pytest.fixture
def nginx(server: Server, tmp_path: Path) -> Iterator[int]:
    """The nginx of docs/serving/nginx.conf in front of a server; the port of its TLS."""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(program).exists() or shutil.which("openssl") is None:
        pytest.skip("needs nginx and openssl: apt-get install nginx openssl")
    key, certificate = tmp_path / "faces.key", tmp_path / "faces.crt"
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*new, *names], check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    example = (ROOT / "docs/serving/nginx.conf").read_text()
    text = example.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    text = text.replace("http://127.0.0.1:8000", server.url).replace("/etc/nginx", str(tmp_path))
    assert server.url in text and str(key) in text
    folders = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = tmp_path / "nginx.conf"
    user = "user root; " if os.geteuid() == 0 else ""
    head = f"{user}daemon off; pid {tmp_path}/pid; error_log stderr; events {{}}\n"
    config.write_text(f"{head}http {{ access_log off; {folders}\n{text}}}\n")
    command = [program, "-p", str(tmp_path), "-c", str(config)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
    yield port
    process.terminate()
    process.wait()


def test_nginx_does_tls_and_holds_back_what_is_slow_or_too_large(
    nginx: int, server: Server, image: bytes, tmp_path: Path
) -> None:
    context = ssl.create_default_context(cafile=str(tmp_path / "faces.crt"))

    def ask(body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection("localhost", nginx, context=context, timeout=300)
        connection.request("POST", "/v1/predict", body)
        response = connection.getresponse()
        return response.status, response.read()

    status, body = ask(image)
    assert status == 200 and len(json.loads(body)["faces"]) == 1
    # a body that stops arriving is nginx's to wait for: the server never hears of it
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\nx"
    plain = socket.create_connection(("127.0.0.1", nginx))
    with context.wrap_socket(plain, server_hostname="localhost") as slow:
        slow.sendall(head)
        assert ask(image)[0] == 200
        assert metrics(server)["luvli_buffered_bytes"] == 0
    assert ask(bytes(21_000_000))[0] == 413
    with connect(f"wss://localhost:{nginx}/v1/stream", ssl=context, max_size=None) as stream:
        stream.send(image)
        assert len(json.loads(stream.recv())["faces"]) == 1
