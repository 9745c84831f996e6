"""Short names for the kinds of arrays that functions take and give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Array = Any
"""a numpy array or a PyTorch tensor: for functions that take both"""
