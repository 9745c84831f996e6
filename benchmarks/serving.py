"""Speed and steadiness of `luvli serve`, measured on a real server process.

    python benchmarks/serving.py                    latency, throughput, streams: about a minute
    python benchmarks/serving.py --before CHECKOUT  the same beside another version, in turns
    python benchmarks/serving.py --soak 180         200 requests in flight for three minutes

The image is a rendered face of 640 x 640 pixels that comes with the page.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import luvli
from luvli.cli.output import print_table
from luvli.serving.settings import PAGE


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self._local = threading.local()

    def post(self, body: bytes) -> int:
        """One request on this thread's connection; the status, 0 for no answer."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=120)
            self._local.connection = connection
        try:
            connection.request("POST", "/v1/predict", body, {"Content-Type": "image/jpeg"})
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0
        return int(response.status)

    @property
    def ready(self) -> bool:
        """Whether the models are loaded: what /readyz says."""
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    @property
    def megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.contextmanager
def running(source: Path | None = None) -> Iterator[Server]:
    """`luvli serve` until the end of the block; `source` is the checkout of another version."""
    environment = {**os.environ, **({"PYTHONPATH": str(source / "src")} if source else {})}
    code = "from luvli.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    server = Server(process, process.stderr.readline().split()[1])
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        while not server.ready:
            time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        code_at_end = process.wait(60)
        print(f"exit code after SIGTERM: {code_at_end}")


def speed(image: bytes, rounds: int, before: Path | None) -> None:
    """One client against the library, 32 clients against one, frames a second of a stream.

    In each round everything is measured once, in turns, because a busy machine changes under way;
    each figure is the median over the rounds.
    """
    predictor = luvli.load()
    for _ in range(10):
        predictor.predict(image)
    measured: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as stack:
        servers = {"server": stack.enter_context(running())}
        if before is not None:
            servers["version before"] = stack.enter_context(running(before))
        for server in servers.values():
            rate(server, image, 32, 64)
        for _ in range(rounds):
            library = median_ms(lambda: predictor.predict(image))
            for name, server in servers.items():
                values = {
                    "one client, p50, to the library call": latency_ratio(predictor, server, image),
                    "one client, images/s": rate(server, image, 1, 60),
                    "32 clients, images/s": rate(server, image, 32, 120),
                    "stream of 640 x 480, frames/s": stream(server, image, 2.0),
                }
                values["32 clients, to one"] = (
                    values["32 clients, images/s"] / values["one client, images/s"]
                )
                for what, value in values.items():
                    measured.setdefault(what, {}).setdefault(name, []).append(value)
    print(f"library call {library:.1f} ms; medians of {rounds} rounds")
    rows = [
        [what, *(f"{statistics.median(values):.2f}" for values in by_server.values())]
        for what, by_server in measured.items()
    ]
    if before is not None:
        for row in rows:
            row.append(f"{float(row[1]) / float(row[2]):.2f}")
    print_table(["", *servers, *(["ratio"] if before else [])], rows, title="serving")


def median_ms(work: Callable[[], object], repeat: int = 20) -> float:
    """Median milliseconds of a piece of work."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def latency_ratio(predictor: luvli.Predictor, server: Server, image: bytes) -> float:
    """Median latency of one client over that of the library call, ten of each in turns: so both
    meet the same machine, and each finds its own things in the caches."""
    library, client = [], []
    for _ in range(6):
        library.append(median_ms(lambda: predictor.predict(image), 10))
        client.append(median_ms(lambda: server.post(image), 10))
    return statistics.median(client) / statistics.median(library)


def rate(server: Server, image: bytes, clients: int, count: int) -> float:
    """Images a second with so many clients at the same time."""
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(server.post, [image] * clients))  # connections
        start = time.perf_counter()
        statuses = Counter(pool.map(server.post, [image] * count))
        seconds = time.perf_counter() - start
    assert set(statuses) == {200}, statuses
    return count / seconds


def stream(server: Server, image: bytes, seconds: float) -> float:
    """Answers a second of a stream that always has a frame waiting."""
    import io

    from PIL import Image
    from websockets.sync.client import connect

    whole = Image.open(io.BytesIO(image))
    frames = []
    for i in range(20):
        shown = Image.new("RGB", (640, 480))
        shown.paste(whole.resize((480, 480)), (80 + i, 0))
        buffer = io.BytesIO()
        shown.save(buffer, "JPEG", quality=85)
        frames.append(buffer.getvalue())
    answers = sent = 0
    with connect(server.url.replace("http", "ws") + "/v1/stream", max_size=None) as socket:
        for _ in range(2):
            socket.send(frames[0])
            socket.recv()
        start = time.perf_counter()
        socket.send(frames[0])
        while time.perf_counter() - start < seconds:
            sent += 1
            socket.send(frames[sent % 20])
            answer = json.loads(socket.recv())
            assert len(answer["faces"]) == 1
            answers += 1
        return answers / (time.perf_counter() - start)


def soak(image: bytes, seconds: float, clients: int) -> None:
    """Many requests in flight: statuses, and the lowest and highest memory in each tenth."""
    with running() as server, ThreadPoolExecutor(clients) as pool:
        end = time.monotonic() + seconds
        counts: Counter[int] = Counter()
        turn = threading.Lock()

        def client() -> None:
            while time.monotonic() < end:
                status = server.post(image)
                with turn:
                    counts[status] += 1
                if status == 503:
                    time.sleep(random.uniform(0.5, 1.5))  # as Retry-After asks for

        work = [pool.submit(client) for _ in range(clients)]
        for tenth in range(1, 11):
            sizes = []
            while time.monotonic() < end - seconds * (10 - tenth) / 10:
                sizes.append(server.megabytes)
                time.sleep(0.05)
            low, high = min(sizes), max(sizes)
            print(f"{low:7.1f} to {high:.1f} MB  {dict(counts)}", flush=True)
        for each in work:
            each.result()
        print(f"statuses: {dict(counts)}; memory at rest {server.megabytes:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of the measurements of speed")
    parser.add_argument("--before", type=Path, help="checkout of another version to compare with")
    parser.add_argument("--soak", type=float, default=0, help="seconds")
    parser.add_argument("--clients", type=int, default=200, help="requests in flight of the soak")
    options = parser.parse_args()
    image = Path(PAGE / "examples/front.jpg").read_bytes()
    if options.soak:
        soak(image, options.soak, options.clients)
    else:
        speed(image, options.rounds, options.before)


if __name__ == "__main__":
    main()
