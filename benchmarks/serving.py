"""Speed and steadiness of `luvli serve`, measured on a real server process.

    python benchmarks/serving.py                    latency, throughput, streams: about a minute
    python benchmarks/serving.py --soak 300         200 requests in flight for five minutes
    python benchmarks/serving.py --mutations 10000  damaged uploads

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
from luvli.cli.tables import print_table
from luvli.serving.describe import page_folder
from luvli.serving.metrics import resident_bytes


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self._local = threading.local()

    def post(self, body: bytes, kind: str = "image/jpeg") -> int:
        """One request on this thread's connection; the status, 0 for no answer."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=120)
            self._local.connection = connection
        try:
            connection.request("POST", "/v1/predict", body, {"Content-Type": kind})
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
    def processor_seconds(self) -> float:
        """What the server has used of the processor so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        return resident_bytes(self.process.pid) / 1e6


@contextlib.contextmanager
def running(*options: str) -> Iterator[Server]:
    """`luvli serve` until the end of the block."""
    code = "from luvli.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
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


def median_ms(work: Callable[[], object], other: Callable[[], object], repeat: int) -> list[float]:
    """Median milliseconds of two kinds of work, ten of one and ten of the other in turns: so
    both meet the same machine, and each finds its own things in the caches."""
    times: list[list[float]] = [[], []]
    for i in range(2 * max(repeat // 10, 1) + 2):
        for _ in range(10):
            start = time.perf_counter()
            (work, other)[i % 2]()
            if i >= 2:
                times[i % 2].append((time.perf_counter() - start) * 1e3)
    return [statistics.median(each) for each in times]


def speed(image: bytes, repeat: int) -> None:
    """One client against the library, and 32 clients against one."""
    predictor = luvli.load()
    with running() as server:
        library, single = median_ms(
            lambda: predictor.predict(image), lambda: server.post(image), repeat
        )
        used = [
            processor_ms(time.process_time, lambda: predictor.predict(image), repeat),
            processor_ms(lambda: server.processor_seconds, lambda: server.post(image), repeat),
        ]
        rows = [
            ["library call", f"{library:.1f} ms", "1.00", f"{used[0]:.1f} ms", "1.00"],
            [
                "one client, p50",
                *(f"{single:.1f} ms", f"{single / library:.2f}"),
                *(f"{used[1]:.1f} ms", f"{used[1] / used[0]:.2f}"),
            ],
        ]
        header = ["", "time", "to the library", "of the processor", "to the library"]
        print_table(header, rows, title="latency")
        rates: dict[int, list[float]] = {1: [], 32: []}
        for _ in range(3):  # in turns, because a busy machine changes under way
            for clients in rates:
                rates[clients].append(rate(server, image, clients, max(repeat, 32)))
        one, many = (statistics.median(each) for each in rates.values())
        rows = [
            ["one after another", f"{one:.1f} images/s", "1.00"],
            ["32 clients", f"{many:.1f} images/s", f"{many / one:.2f}"],
        ]
        print_table(["", "rate", "to one client"], rows, title="throughput")
        fps, dropped = stream(server, image, 5.0)
        print(f"stream, 640 x 480, one face: {fps:.1f} frames a second, {dropped} overtaken")


def processor_ms(clock: Callable[[], float], work: Callable[[], object], repeat: int) -> float:
    """Milliseconds of the processor for one piece of work: the same on a busy machine."""
    start = clock()
    for _ in range(repeat):
        work()
    return (clock() - start) / repeat * 1e3


def rate(server: Server, image: bytes, clients: int, count: int) -> float:
    """Images a second with so many clients at the same time."""
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(server.post, [image] * clients))  # connections
        start = time.perf_counter()
        statuses = Counter(pool.map(server.post, [image] * count))
        seconds = time.perf_counter() - start
    assert set(statuses) == {200}, statuses
    return count / seconds


def stream(server: Server, image: bytes, seconds: float) -> tuple[float, int]:
    """Answers a second of a stream that always has a frame waiting, and frames overtaken."""
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
        return answers / (time.perf_counter() - start), answer["dropped"]


def soak(image: bytes, seconds: float, clients: int) -> None:
    """So many requests in flight for so long: statuses, and memory in each tenth of the time.

    What a request needs while it is computed comes and goes, so single moments tell little: the
    lowest of many is what the server keeps.
    """
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
            seen = []
            while time.monotonic() < end - seconds * (10 - tenth) / 10:
                seen.append(server.megabytes)
                time.sleep(0.05)
            low, high = min(seen), max(seen)
            print(f"{low:7.1f} to {high:.1f} MB  {dict(counts)}", flush=True)
        for each in work:
            each.result()
        print(f"statuses: {dict(counts)}; memory at rest {server.megabytes:.1f} MB")


def mutate(image: bytes, count: int) -> None:
    """Damaged uploads from four clients, plain and as forms: statuses, memory at ten moments."""
    draw = random.Random(20)
    examples = [image, *other_formats(image)]
    examples.append((page_folder() / "examples/turned.jpg").read_bytes())
    with running() as server, ThreadPoolExecutor(4) as pool:
        counts: Counter[int] = Counter()
        for _ in range(10):
            bodies = [damaged(draw.choice(examples), draw) for _ in range(count // 10)]
            forms = [draw.random() < 0.3 for _ in bodies]
            bodies = [
                damaged(as_form(body), draw) if form else body
                for body, form in zip(bodies, forms, strict=True)
            ]
            kinds = [f"multipart/form-data; boundary={EDGE}" if f else "image/jpeg" for f in forms]
            counts.update(pool.map(server.post, bodies, kinds))
            print(f"{server.megabytes:7.1f} MB  {dict(sorted(counts.items()))}", flush=True)


EDGE = "edge"


def as_form(image: bytes) -> bytes:
    """multipart/form-data with one file and one field."""
    head = f'--{EDGE}\r\nContent-Disposition: form-data; name="{{}}"{{}}\r\n\r\n'
    return b"".join(
        [
            head.format("a", '; filename="a.jpg"').encode() + image,
            f"\r\n{head.format('boxes', '')}[[200, 200, 400, 400]]\r\n--{EDGE}--\r\n".encode(),
        ]
    )


def other_formats(image: bytes) -> list[bytes]:
    """The image, smaller, in the other formats that the server reads."""
    import io

    from PIL import Image

    small = Image.open(io.BytesIO(image)).resize((160, 160))
    made = []
    for kind in ("PNG", "WEBP", "GIF", "BMP"):
        buffer = io.BytesIO()
        small.save(buffer, kind)
        made.append(buffer.getvalue())
    return made


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Cut, changed, grown, or another kind of file by its first bytes."""
    changed = bytearray(data)
    kind = draw.randrange(5)
    if not changed or kind == 0:
        del changed[draw.randrange(len(changed) + 1) :]
    elif kind == 1:
        for _ in range(draw.choice([1, 10, 200])):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
    elif kind == 2:
        for _ in range(6):
            changed[draw.randrange(min(600, len(changed)))] = draw.randrange(256)
    elif kind == 3:
        start = draw.randrange(len(changed))
        changed[start:start] = changed[: draw.randrange(3000)]
    else:
        first = (b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"RIFF\x00\x00\x00\x00WEBP", b"II*\x00")
        head = draw.choice(first)
        changed[: len(head)] = head
    return bytes(changed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=40, help="requests in each measurement")
    parser.add_argument("--soak", type=float, default=0, help="seconds")
    parser.add_argument("--clients", type=int, default=200, help="requests in flight of the soak")
    parser.add_argument("--mutations", type=int, default=0, help="damaged uploads")
    options = parser.parse_args()
    image = Path(page_folder() / "examples/front.jpg").read_bytes()
    if options.soak:
        soak(image, options.soak, options.clients)
    elif options.mutations:
        mutate(image, options.mutations)
    else:
        speed(image, options.repeat)


if __name__ == "__main__":
    main()
