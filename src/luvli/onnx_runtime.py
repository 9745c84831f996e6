"""ONNX Runtime, without what it would report to its makers.

From 1.31 on, its packages for Linux collect usage events, keep them with a device number in
`~/.cache/Microsoft` and send them home, unless that is switched off before the import. A program
that looks at faces sends nothing anywhere; somebody who wants it sets `ORT_DISABLE_TELEMETRY=0`.
"""

from __future__ import annotations

import os
from types import ModuleType

_SWITCH = "ORT_DISABLE_TELEMETRY"


def onnx_runtime() -> ModuleType:
    """The module `onnxruntime`, its telemetry off unless the environment asks for it."""
    off = os.environ.setdefault(_SWITCH, "1") != "0"
    import onnxruntime

    if off:  # where the program imported it before us, the environment came too late
        onnxruntime.disable_telemetry_events()
    module: ModuleType = onnxruntime
    return module
