"""Which licences let anyone use what they cover, for whatever purpose."""

from __future__ import annotations

OPEN_LICENCES = ("Apache-2.0", "MIT", "BSD", "CC0", "CC BY 4.0", "public domain")
"""what the text of a licence must begin with to count as open"""


def is_open(licence: str) -> bool:
    """Whether a licence allows every use.

    >>> is_open("Apache-2.0 (trained on free data alone)"), is_open("research only")
    (True, False)
    """
    return licence.startswith(OPEN_LICENCES)
