"""Fixtures shared with the tests of prediction."""

from prediction.conftest import tiny

__all__ = ["tiny"]
