"""Short names for the kinds of arrays that the renderer passes around."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luvli.arrays import Bools as Bools

Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]
Real = NDArray[np.floating]
"""single or double precision"""
Ints = NDArray[np.int32]
Index = NDArray[np.intp]
"""what numpy's own searches return"""
Bytes = NDArray[np.uint8]
