"""`luvli serve`: predictions over HTTP, and a page to look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
    verbose: Annotated[bool, typer.Option("--verbose", help="A log line per request.")] = False,
) -> None:
    """Serve predictions over HTTP, and a page to look at them in a browser.

    Only this machine can connect, unless `--host` says otherwise; then a token is needed.
    SIGTERM (or Ctrl-C) finishes what is in work and ends with exit code 0.

    Example: `luvli serve`, then open http://127.0.0.1:8000
    """
    import logging

    from luvli.errors import require
    from luvli.serving.settings import (
        Limits,
        ServerSettings,
        check_exposure,
        core_count,
        read_tokens,
    )

    tokens = read_tokens(token_file) if token_file else ()
    check_exposure(host, tokens, open_to_all)
    limits = Limits.parse(limit or [])
    for package in ("fastapi", "uvicorn", "websockets", "python_multipart"):
        require(package, "serve")
    from luvli.serving import run

    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s",
        level=logging.WARNING,
    )
    logging.getLogger("luvli.serving").setLevel(logging.INFO if verbose else logging.WARNING)
    settings = ServerSettings(
        host=host,
        port=port,
        models=tuple(model or ["luvli-68"]),
        tokens=tokens,
        threads=threads or max(1, core_count() // workers),
        limits=limits,
    )
    inherited = run.inherited_socket()
    if inherited is not None:
        run.serve(settings, inherited)
        return
    listening = run.open_socket(host, port)
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"luvli: http://{shown}:{listening.getsockname()[1]}  (Ctrl-C ends it)", err=True)
    if workers == 1:
        run.serve(settings, listening)
        return
    code = run.supervise(listening, workers)
    if code:
        raise typer.Exit(code)
