"""`luvli train`: run a recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


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
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a value: key=value, e.g. stages.luvli.epochs=3."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out faces with damaged images or labels.")
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", help="Python module that registers trunks or losses."),
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
    nodes: Annotated[int, typer.Option(help="How many machines.")] = 1,
    accelerator: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="32-true, or bf16-mixed or 16-mixed where the hardware has it.")
    ] = "32-true",
    activation_checkpointing: Annotated[
        bool,
        typer.Option("--activation-checkpointing", help="Less memory: compute activations twice."),
    ] = False,
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
    chosen = read_recipe(recipe, changes)
    if skip_bad:
        names = [f"data.sources.{name}" for name in chosen.data.sources]
        names += [f"data.validation.{name}" for name in chosen.data.validation]
        everywhere = [f"{name}.skip_bad=true" for name in names]
        chosen = read_recipe(recipe, [*changes, *everywhere])
    options = RunOptions(
        resume,
        accelerator,
        devices,
        nodes,
        precision,
        threads,
        workers,
        activation_checkpointing,
    )
    try:
        run(chosen, out or Path("runs") / chosen.name, options)
    except Stopped as stopped:
        typer.echo(f"luvli: {stopped}", err=True)
        raise typer.Exit(143) from None
