"""Loads modules fast, and handles Ctrl-C meanwhile by ending the process immediately.

Python can swallow a KeyboardInterrupt during an import (in one of its own callbacks), or turn it
into a RuntimeError (in `__set_name__`, before 3.12). Its garbage collector would take a fifth of
the time: imports allocate much and release little.
"""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def loading() -> Iterator[None]:
    """Use it around slow imports, as long as nothing is open that needs closing."""
    with without_garbage_collection():
        before = signal.getsignal(signal.SIGINT)
        is_ours = before is signal.default_int_handler  # not, for example, ignored in background
        if is_ours:
            signal.signal(signal.SIGINT, _end)
        try:
            yield
        finally:
            gc.freeze()  # later collections skip what was loaded
            if is_ours:
                signal.signal(signal.SIGINT, before)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Use it around work that makes many objects which stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(128 + number)
