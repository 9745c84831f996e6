"""What an ONNX file may not do, found in its bytes before the runtime sees them.

A tensor of an ONNX model may say that its values stand in another file, by any path. A model of
ours is one file, so whoever writes such a path wants something else of the machine. The few
kinds of protocol-buffer messages that lead to tensors are walked here, because the runtime
reads such files without asking, and the package `onnx` is not needed for prediction.
"""

from __future__ import annotations

from collections.abc import Iterator

from luvli.errors import InputError

# By the numbers of onnx.proto: which fields of a message hold messages that may lead to tensors.
_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor",
                  23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {},
}  # fmt: skip
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
_DEEPEST = 64


class _NotWhole(ValueError):
    """The bytes are no protocol buffer."""


def refuse_external_data(content: bytes, where: str) -> None:
    """Raise `InputError` where a tensor of the model lies in another file."""
    try:
        _walk(memoryview(content), "model", where, 0)
    except _NotWhole as error:
        raise InputError(
            f"{where} is not a whole ONNX model ({error}): fetch or export it again."
        ) from error


def _walk(message: memoryview, kind: str, where: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise _NotWhole("graphs inside graphs without end")
    for number, value in _fields(message):
        if kind == "tensor" and (
            number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0)
        ):
            raise InputError(
                f"{where} keeps weights in another file, which is not read: export it again, or "
                "save it with all its weights inside."
            )
        inner = _FIELDS[kind].get(number)
        if inner is not None and isinstance(value, memoryview):
            _walk(value, inner, where, depth + 1)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Number and value of each field: bytes for those with a length, else a number."""
    place, end = 0, len(message)
    while place < end:
        tag, place = _varint(message, place)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, place = _varint(message, place)
            yield number, value
            continue
        if wire == 2:
            length, place = _varint(message, place)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise _NotWhole("a field of no known kind")
        if place + length > end:
            raise _NotWhole("it ends too early")
        if wire == 2:
            yield number, message[place : place + length]
        place += length


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise _NotWhole("it ends too early")
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise _NotWhole("a number without end")
