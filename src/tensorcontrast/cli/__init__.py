"""The command line."""

from tensorcontrast.cli.app import app, main

__all__ = ["app", "main"]
