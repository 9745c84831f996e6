"""The command `luvli`: one file for each verb, no logic of its own."""

from luvli.cli.app import app, main

__all__ = ["app", "main"]
