"""`luvli train`: run a recipe."""

from __future__ import annotations

import os
from pathlib import Path

import typer
from typer import Argument, Option

from luvli.cli.options import CHANGES, SKIP_BAD
from luvli.errors import require


def train(
    recipe: Path = Argument(help="A name (luvli recipes list) or a file."),
    out: Path | None = Option(None, help="Folder of the run; runs/NAME of the recipe by default."),
    data: Path | None = Option(None, help="The folder of the faces: --set data.root=."),
    change: list[str] = CHANGES,
    resume: bool = Option(False, "--resume", help="Go on from the last checkpoint in the folder."),
    skip_bad: bool = SKIP_BAD,
    log: str | None = Option(None, help="Also log to wandb or mlflow, which must be installed."),
    threads: int = Option(1, help="CPU threads of each process, as many as cores are idle."),
    workers: int = Option(0, help="Processes that prepare data; 0 uses a thread."),
    devices: str = Option("1", help="How many devices of this machine, or which: 1, auto, 0,1."),
    accelerator: str = Option("auto", help="Kind of device: auto, cpu, cuda or mps."),
    precision: str = Option("32-true", help="Of the network: 32-true, bf16-mixed or 16-mixed."),
) -> None:
    """Train a model as a recipe says.

    The folder of the run holds checkpoints, metrics.jsonl, TensorBoard events, learning curves,
    an image of validation faces, and at the end model.safetensors. SIGTERM or Ctrl-C writes a
    checkpoint and ends with code 143; --resume continues as if nothing had happened.

    Examples: `luvli train quick`,
    `luvli train own-faces --data FOLDER --set stages.luvli.epochs=30`
    """
    # Threads that wait for each other shall sleep soon: spinning on makes several of them ten
    # times slower than one where other work shares the cores. Read when PyTorch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    require("torch", "train")
    from luvli.training.loop import train as run
    from luvli.training.recipe_files import read_recipe
    from luvli.training.run import RunOptions, Stopped

    changes = [*change, *([f"data.root={data}"] if data else [])]
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
