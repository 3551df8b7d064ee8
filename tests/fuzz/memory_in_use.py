"""What an attacked gateway keeps in memory. It tells on a signal.

The resident set alone says little about a long campaign: allocators keep whole pages for the few
blocks in them that live on.
"""

import ctypes
import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import trio

from tests.support.serve_process import ServeProcess

TOLD_WITHIN_S = 30
"""A full garbage collection, on a busy machine."""
EVENT = "memory_in_use"


class MemoryInUse(NamedTuple):
    """The memory of a gateway process."""

    resident_kib: int
    malloc_kib: int
    """The size of the C library's blocks in use."""
    blocks: int
    """The blocks in use of Python's own allocator. Each has at most 512 bytes."""

    def __str__(self) -> str:
        return (
            f"{self.resident_kib} KiB resident, {self.malloc_kib} KiB malloc, {self.blocks} blocks"
        )


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


PROGRAM = "from tests.fuzz import memory_in_use; memory_in_use.tell_on_signal()"
"""Code to put before the program of a gateway."""


def tell_on_signal() -> None:
    """Log the event `memory_in_use` on SIGUSR1."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _MallocInfo

    def tell(*_signal: object) -> None:
        gc.collect()
        malloc = mallinfo2()
        line = {
            "event": EVENT,
            "level": "debug",
            "malloc_kib": (malloc.uordblks + malloc.hblkhd) // 1024,
            "blocks": sys.getallocatedblocks(),
        }
        os.write(sys.stderr.fileno(), f"{json.dumps(line)}\n".encode())

    signal.signal(signal.SIGUSR1, tell)


async def look(gateway: ServeProcess) -> MemoryInUse:
    """Ask the gateway. Raises trio.TooSlowError."""
    count = len(gateway.events(EVENT)) + 1
    os.kill(gateway.pid, signal.SIGUSR1)
    with trio.fail_after(TOLD_WITHIN_S):
        line = await gateway.until_event(EVENT, count)
    return MemoryInUse(_resident_kib(gateway.pid), line["malloc_kib"], line["blocks"])


def _resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1])
