"""Ctrl-C while modules are loaded.

Owns that it ends the process at once: Python can swallow a KeyboardInterrupt in the middle of an
import (in a callback of its own), or make a RuntimeError of it (in `__set_name__`, before 3.12).
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def loading() -> Iterator[None]:
    """Around imports that take a while, as long as nothing is open that had to be closed."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, say, as in a shell's background job
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(128 + number)
