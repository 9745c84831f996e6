"""A child process that is sent Python objects and answers with others.

Each message is a pickle with its length in front. The child ends with its parent, because then
nobody writes to it or reads what it writes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
from typing import IO, Any


def start_child(module: str) -> subprocess.Popen[bytes]:
    """Run a module as a program that can be sent messages; it finds what this process finds."""
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,  # `select` sees the pipe, not what a buffer has taken out of it
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def end_child(child: subprocess.Popen[bytes]) -> None:
    """Whatever it is doing."""
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def cause_of_death(child: subprocess.Popen[bytes]) -> str:
    """The signal that ended a child, or its exit code; "" for one that is still there."""
    try:
        code = child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return ""
    return signal.Signals(-code).name if code < 0 else f"code {code}"


def parent_streams() -> tuple[IO[bytes], IO[bytes]]:
    """In the child: where requests come from and answers go to. Whatever libraries print goes to
    the standard error, so that it does not get between the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def send(stream: IO[bytes] | None, message: Any) -> None:
    """Write an object."""
    assert stream is not None
    content = pickle.dumps(message, protocol=5)
    left = memoryview(struct.pack("<Q", len(content)) + content)
    while left:  # a pipe takes them in pieces
        left = left[stream.write(left) :]
    stream.flush()


def receive(stream: IO[bytes] | None) -> Any:
    """Read an object; `EOFError` where the other side has ended."""
    assert stream is not None
    size = struct.unpack("<Q", _exactly(stream, 8))[0]
    return pickle.loads(_exactly(stream, size))


def _exactly(stream: IO[bytes], size: int) -> bytearray:
    """So many bytes; a pipe gives them in pieces."""
    content = bytearray()
    while len(content) < size:
        piece = stream.read(min(size - len(content), 1 << 20))
        if not piece:
            raise EOFError
        content += piece
    return content
