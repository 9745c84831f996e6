"""`luvli train`: run a recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from luvli.cli.options import Changes, Modules, Precision, SkipBad


def train(
    recipe: Annotated[
        Path, typer.Argument(help="Recipe to run: a name (luvli recipes list) or a file.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; runs/NAME of the recipe by default.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The folder of the faces: the same as --set data.root=.")
    ] = None,
    change: Changes = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")
    ] = False,
    skip_bad: SkipBad = False,
    modules: Modules = None,
    log: Annotated[
        str | None, typer.Option(help="Also log to wandb or mlflow, which must be installed.")
    ] = None,
    threads: Annotated[
        int,
        typer.Option(
            help="CPU threads of each process, as many as cores are idle; the network takes "
            "what it has work for, drawing faces takes all."
        ),
    ] = 1,
    workers: Annotated[int, typer.Option(help="Processes that prepare data; 0 uses a thread.")] = 0,
    devices: Annotated[
        str, typer.Option(help="How many devices of this machine, or which: 1, 2, auto, 0,1.")
    ] = "1",
    accelerator: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Precision = "32-true",
) -> None:
    """Train a model as a recipe says.

    The folder of the run holds checkpoints, metrics.jsonl, TensorBoard events, learning curves,
    an image of validation faces, and at the end model.safetensors. SIGTERM or Ctrl-C writes a
    checkpoint and ends with code 143; --resume continues as if nothing had happened.

    Example: `luvli train quick`, `luvli train luvli-68 --data DATA`
    """
    # Threads that wait for each other shall sleep soon: spinning on makes several of them ten
    # times slower than one where other work shares the cores. Read when PyTorch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    from luvli.errors import require

    require("torch", "train")
    from luvli.network.trunks import import_modules
    from luvli.training.distributed import RunOptions, Stopped
    from luvli.training.loop import train as run
    from luvli.training.recipe_files import read_recipe

    import_modules(modules or [])
    changes = [*(change or []), *([f"data.root={data}"] if data else [])]
    chosen = read_recipe(recipe, changes, skip_bad=skip_bad)
    options = RunOptions(
        resume=resume, accelerator=accelerator, devices=devices, precision=precision,
        threads=threads, workers=workers, log=log,
    )  # fmt: skip
    try:
        run(chosen, out or Path("runs") / chosen.name, options)
    except Stopped as stopped:
        typer.echo(f"luvli: {stopped}", err=True)
        raise typer.Exit(143) from None
