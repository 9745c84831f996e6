"""`luvli serve`: predictions over HTTP, and a page to look at them."""

from __future__ import annotations

import os
from pathlib import Path

import typer
from typer import Option

from luvli.cli.options import ENGINE, Engine, refuse
from luvli.errors import require


def serve(
    host: str = Option("127.0.0.1", help="Address to listen on."),
    port: int = Option(8000, help="Port; 0 takes any free one."),
    model: list[str] = Option(["luvli-68"], help="A shipped model or a file; may be repeated."),
    workers: int = Option(1, help="Processes that share the port.", min=1),
    threads: int | None = Option(None, help="Processor threads of each process; all by default."),
    token_file: Path | None = Option(None, help="File with bearer tokens, one on each line."),
    open_to_all: bool = Option(False, "--open", help="Allow other addresses without a token."),
    limit: list[str] = Option([], help="name=value, see docs/serving.md; may be repeated."),
    engine: Engine = ENGINE,
    replicas: str | None = Option(None, help="ray: copies of the server; 2:8 for 2 to 8, by load."),
) -> None:
    """Serve predictions over HTTP, and a page to look at them in a browser.

    The server listens on localhost only. To listen on other addresses, pass `--host` and a token
    file. SIGTERM (or Ctrl-C) answers the requests in flight and ends with exit code 0.

    Example: `luvli serve`, then open http://127.0.0.1:8000
    """
    from luvli.prediction.onnx_backend import thread_count
    from luvli.serving.settings import Limits, ServerSettings, check_exposure, read_tokens

    on_ray = engine == "ray"
    if on_ray:
        refuse({"--workers": workers > 1}, "it is for --engine local: give --replicas")
    else:
        refuse({"--replicas": replicas}, "it is for --engine ray")
    tokens = read_tokens(token_file) if token_file else ()
    check_exposure(host, tokens, open_to_all)
    settings = ServerSettings(
        host=host,
        port=port,
        models=tuple(model),
        tokens=tokens,
        threads=threads or (1 if on_ray else max(1, thread_count(None) // workers)),
        limits=Limits.parse(limit),
    )
    for package in ("fastapi", "uvicorn", "websockets", "python_multipart", "prometheus_client"):
        require(package, "serve")

    def announce(port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        typer.echo(f"luvli: http://{shown}:{port}  (Ctrl-C ends it)", err=True)

    if on_ray:
        from luvli.scale.ray_serve import replica_options, serve_on_ray

        copies = replica_options(replicas or "1")
        serve_on_ray(settings, copies, os.environ.get("RAY_ADDRESS"), announce)
        return
    from luvli.serving import run

    listening = run.open_socket(host, port)
    announce(listening.getsockname()[1])
    run.serve(settings, listening, workers)
