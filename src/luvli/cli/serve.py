"""`luvli serve`: predictions over HTTP, and a page to look at them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.options import Engine, refuse


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes any free one.")] = 8000,
    model: Annotated[
        list[str] | None, typer.Option(help="A shipped model's name or a file; may be repeated.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that share the port.", min=1)] = 1,
    threads: Annotated[
        int | None, typer.Option(help="Processor threads of each process; the cores by default.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with bearer tokens, one on each line.")
    ] = None,
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Listen beyond this machine without a token.")
    ] = False,
    limit: Annotated[
        list[str] | None, typer.Option(help="name=value, see docs/serving.md; may be repeated.")
    ] = None,
    engine: Engine = "local",
    replicas: Annotated[
        str | None,
        typer.Option(help="ray: how many copies of the server; 2:8 for 2 to 8, by the load."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="A log line per request.")] = False,
) -> None:
    """Serve predictions over HTTP, and a page to look at them in a browser.

    The server listens on localhost only. To listen on other addresses, pass `--host` and a token
    file. SIGTERM (or Ctrl-C) answers the requests in flight and ends with exit code 0.

    Example: `luvli serve`, then open http://127.0.0.1:8000
    """
    from luvli.errors import require
    from luvli.prediction.onnx_backend import thread_count
    from luvli.serving.settings import Limits, ServerSettings, check_exposure, read_tokens

    on_ray = engine == "ray"
    if on_ray:
        refuse({"--workers": workers > 1}, "it is for --engine local: give --replicas")
    else:
        refuse({"--replicas": replicas}, "it is for --engine ray")
    tokens = read_tokens(token_file) if token_file else ()
    check_exposure(host, tokens, open_to_all)
    limits = Limits.parse(limit or [])
    for package in ("fastapi", "uvicorn", "websockets", "python_multipart", "prometheus_client"):
        require(package, "serve")
    settings = ServerSettings(
        host=host,
        port=port,
        models=tuple(model or ["luvli-68"]),
        tokens=tokens,
        threads=threads or (1 if on_ray else max(1, thread_count(None) // workers)),
        limits=limits,
        verbose=verbose,
    )

    def announce(port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        typer.echo(f"luvli: http://{shown}:{port}  (Ctrl-C ends it)", err=True)

    if on_ray:
        from luvli.scale.ray_serve import Replicas, serve_on_ray

        copies = Replicas.parse(replicas or "1")
        serve_on_ray(settings, copies, os.environ.get("RAY_ADDRESS"), announce)
        return
    from luvli.serving import run

    listening = run.open_socket(host, port)
    announce(listening.getsockname()[1])
    run.serve(settings, listening, workers)
