"""Speed and memory of the network, side by side with a straightforward DU-Net in one run.

    python benchmarks/network.py            a selection, two or three minutes on one thread
    python benchmarks/network.py --full     K = 1, 2, 4, 8 at 128 and 256 pixels, batch 8

"Plain" is the same network, with the same weights, written the obvious way: every layer
concatenates the list of its inputs for itself. Times are the best of several runs taken in
turns; "ratio" is plain / ours, so more than 1 means that ours is faster or smaller. Memory is
the peak of a process of its own during one training step, less what it had before.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from luvli.likelihood import luvli_loss
from luvli.network import LUVLi, NetworkConfig, UNetOutput, build

VARIANTS = ("ours", "plain", "activation_checkpointing")


class Plain(LUVLi):
    """The same modules, each concatenating for itself."""

    def forward(self, images: Tensor) -> list[UNetOutput]:
        trunk = self.trunk
        x = trunk.stem(images)
        inputs: list[Tensor] = []
        history: list[dict[str, Tensor]] = []
        outputs = []
        for i in range(len(trunk.unets)):
            recent = history[max(0, i - trunk.order) :]
            if i:
                x = trunk.between[i - 1]([x, *inputs[max(0, i - trunk.order) :]])
            inputs.append(x)
            unet: Any = trunk.unets[i]
            written: dict[str, Tensor] = {}
            skips = []
            for j, block in enumerate(unet.down):
                seen = [x, *(then[f"down{j}"] for then in recent)]
                new = written[f"down{j}"] = block.layer(torch.cat(seen, 1))
                x = F.max_pool2d(block.ahead(torch.cat([*seen, new], 1)), 2)
                skips.append(block.skip(torch.cat([*seen, new], 1)))
            before = x
            seen = [x, *(then["neck"] for then in recent)]
            new = written["neck"] = unet.neck.layer(torch.cat(seen, 1))
            x = unet.neck.ahead(torch.cat([*seen, new], 1))
            bottleneck = before if trunk.bottleneck == "before" else x
            for j in (3, 2, 1, 0):
                x = F.interpolate(x, scale_factor=2.0)
                seen = [x, skips[j], *(then[f"up{j}"] for then in recent)]
                new = written[f"up{j}"] = unet.up[j].layer(torch.cat(seen, 1))
                x = unet.up[j].ahead(torch.cat([*seen, new], 1))
            history.append(written)
            outputs.append(self._estimate(trunk.heads[i](x), bottleneck))
        return outputs


def make(variant: str, unets: int, size: int) -> LUVLi:
    torch.manual_seed(0)
    config = NetworkConfig(unets=unets, input_size=size)
    return (
        Plain(config)
        if variant == "plain"
        else build(config, activation_checkpointing=variant == "activation_checkpointing")
    )


def training_step(network: LUVLi, batch: int) -> Callable[[], None]:
    size = network.config.input_size
    images = torch.rand(batch, 3, size, size)
    points = torch.rand(batch, network.config.landmarks, 2) * (size / 4)
    visible = torch.ones(batch, network.config.landmarks)

    def step() -> None:
        network.zero_grad()
        total = luvli_loss(network.train()(images), points, visible).total
        total.backward()  # type: ignore[no-untyped-call]

    return step


def best_times(runs: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Best processor time of each in seconds, taken in turns after one warm-up.

    On one thread that is the wall time of an idle machine; others may be at work on this one.
    """
    best = [float("inf")] * len(runs)
    for turn in range(repeats + 1):
        for i, run in enumerate(runs):
            start = time.process_time()
            run()
            if turn:
                best[i] = min(best[i], time.process_time() - start)
    return best


def forward_times(unets: int, size: int, repeats: int) -> list[float]:
    """Seconds for one image: ours, plain, ours with channels last."""
    ours, plain, last = (make(kind, unets, size).eval() for kind in ("ours", "plain", "ours"))
    last = last.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.rand(1, 3, size, size)
    packed = images.contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        for a, b in zip(ours(images), plain(images), strict=True):
            torch.testing.assert_close(a.mean, b.mean)  # a benchmark of the same computation
        return best_times(
            [lambda: ours(images), lambda: plain(images), lambda: last(packed)], repeats
        )


def macs(unets: int, size: int) -> int:
    """Multiply-accumulates of convolutions and linear layers, one image; no arithmetic is done."""
    with torch.device("meta"):
        network = build(NetworkConfig(unets=unets, input_size=size)).eval()
        images = torch.empty(1, 3, size, size)
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        network(images)
    return int(counter.get_total_flops() // 2)


def peak_memory() -> float:
    """Largest resident size so far, in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():  # of this program alone; getrusage also remembers what started it
        line = next(s for s in status.read_text().splitlines() if s.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def training_in_own_process(variant: str, unets: int, size: int, batch: int) -> dict[str, float]:
    arguments = ["--child", variant, "--unets", str(unets), "--size", str(size)]
    command = [sys.executable, __file__, *arguments, "--batch", str(batch)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def child(variant: str, unets: int, size: int, batch: int) -> dict[str, float]:
    network = make(variant, unets, size)
    step = training_step(network, batch)
    before = peak_memory()
    (seconds,) = best_times([step], 1)
    return {"seconds": seconds, "megabytes": peak_memory() - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--full", action="store_true", help="every size; takes a quarter of an hour"
    )
    parser.add_argument("--batch", type=int, help="images in a training step (2, or 8 if full)")
    parser.add_argument("--child", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--unets", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.child:
        print(json.dumps(child(options.child, options.unets, options.size, options.batch)))
        return

    console = Console(width=None if sys.stdout.isatty() else 120)
    repeats = 5 if options.full else 3
    table = Table(title="forward, one image, one thread")
    for name in ("K", "pixels", "parameters", "GMAC", "ours ms", "plain ms", "ratio", "last ms"):
        table.add_column(name, justify="right")
    for size in (128, 256):
        for unets in (1, 2, 4, 8):
            ours, plain, last = forward_times(unets, size, repeats)
            with torch.device("meta"):
                parameters = sum(p.numel() for p in make("ours", unets, size).parameters())
            numbers = (f"{1e3 * ours:.0f}", f"{1e3 * plain:.0f}", f"{plain / ours:.2f}")
            gmac = f"{macs(unets, size) / 1e9:.2f}"
            row = (str(unets), str(size), f"{parameters:,}", gmac, *numbers, f"{1e3 * last:.0f}")
            table.add_row(*row)
    console.print(table)
    console.print('"last": ours, with weights and image in the channels-last layout\n')

    batch = options.batch or (8 if options.full else 2)
    table = Table(title=f"training step, batch {batch}, one thread")
    for name in ("K", "pixels", "variant", "s", "ratio", "peak MB", "ratio MB"):
        table.add_column(name, justify="right")
    for size in (128, 256):
        for unets in (1, 2, 4, 8) if options.full else (1, 4):
            results = {v: training_in_own_process(v, unets, size, batch) for v in VARIANTS}
            for variant, result in results.items():
                faster = results["plain"]["seconds"] / result["seconds"]
                smaller = results["plain"]["megabytes"] / result["megabytes"]
                times = (f"{result['seconds']:.2f}", f"{faster:.2f}")
                sizes = (f"{result['megabytes']:.0f}", f"{smaller:.2f}")
                table.add_row(str(unets), str(size), variant, *times, *sizes)
    console.print(table)


if __name__ == "__main__":
    main()
