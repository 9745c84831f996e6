"""YAML that people write, small and plain; bombs of any kind are one sentence."""

from __future__ import annotations

from typing import Any

from luvli.errors import InputError, brief, require

MAX_BYTES = 1_000_000
MAX_VALUES = 20_000
"""values in the file, those that aliases repeat counted each time"""


def parse_yaml(text: str, where: str, what: str) -> Any:
    """The content of a YAML text; `where` it stands and `what` it should be are for messages.

    >>> parse_yaml("a: [1, 2]", "x.yaml", "recipe")
    {'a': [1, 2]}
    """
    yaml = require("yaml", "evaluate")
    if len(text) > MAX_BYTES:
        raise InputError(f"{where} is larger than {MAX_BYTES:,} bytes: that is no {what}.")
    try:
        content = yaml.safe_load(text)
        if _count(content, MAX_VALUES) > MAX_VALUES:
            raise InputError(f"{where} holds more than {MAX_VALUES:,} values: that is no {what}.")
        return content
    except yaml.YAMLError as error:
        why = " ".join(str(error).split())[:300]
        raise InputError(f"{where} is not valid YAML: {why}.") from error
    except RecursionError as error:
        raise InputError(f"{where} is nested too deeply: that is no {what}.") from error
    except InputError:
        raise
    except ValueError as error:  # impossible dates, numbers of thousands of digits
        raise InputError(f"{where} has a value that cannot be read: {brief(error)}.") from error


def _count(value: Any, limit: int) -> int:
    """Values inside nested lists and mappings; stops soon after `limit`."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    total = 1
    for item in inner:
        total += _count(item, limit - total)
        if total > limit:
            break
    return total
