"""SIGTERM ends a command as Ctrl-C does: what was done is kept, and the caller is reported."""

from __future__ import annotations

import signal

_terminated = False


def listen() -> None:
    """Let SIGTERM raise KeyboardInterrupt in the main thread, where the system has it."""
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, _end)


def terminated() -> bool:
    """Whether SIGTERM, not Ctrl-C, has interrupted this process."""
    return _terminated


def _end(number: int, frame: object) -> None:
    global _terminated
    _terminated = True
    raise KeyboardInterrupt
