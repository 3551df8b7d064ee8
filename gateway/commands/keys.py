"""Reads single keys from a terminal, without waiting for a line end."""

import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import trio

KEYS_MAX = 64
"""Bytes that are read together: a pasted text is no command."""


@contextmanager
def single_keys() -> Iterator[int | None]:
    """Have standard input give each key immediately during the block. The file descriptor; None if
    it is no terminal. The terminal is as before in the end."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ValueError, OSError, termios.error):
        yield None
        return
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def read_keys(descriptor: int) -> AsyncIterator[str]:
    """Each key that is pressed, until standard input ends."""
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        keys = os.read(descriptor, KEYS_MAX).decode(errors="replace")
        if not keys:
            return
        for key in keys:
            yield key
