"""The common part of the demo's producer and consumer processes.

Every child imports it, so its imports must stay light.
"""

import os
import select
import signal
import sys
from pathlib import Path
from typing import NoReturn


def read_security(file: Path | None) -> dict[str, str]:
    """What a file of NAME=VALUE lines adds to a client's configuration."""
    lines = [] if file is None else file.read_bytes().decode().split("\n")
    return dict(line.split("=", 1) for line in lines if line)


class StopRequest:
    """True once the parent has asked this process to end: SIGTERM, or the end of stdin.

    The end of stdin also means that the parent has died. It starts an alarm, so that a client that
    hangs while closing (its cluster may be gone) ends nevertheless.
    """

    CLOSE_LIMIT_S = 15

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def __bool__(self) -> bool:
        if not self._asked:
            readable, _, _ = select.select([sys.stdin], [], [], 0)
            if readable and not os.read(sys.stdin.fileno(), 1024):
                self._ask()
        return self._asked

    def _on_sigterm(self, *_: object) -> None:
        self._ask()

    def _ask(self) -> None:
        self._asked = True
        signal.alarm(self.CLOSE_LIMIT_S)


def end_now(complaint: str = "") -> NoReturn:
    """End this process without the interpreter's cleanup, with status 1 if there is a complaint.

    If the parent is gone, flushing stdout again would only print a traceback, and waiting for a
    failed client would be useless.
    """
    if complaint:
        sys.stderr.write(f"{complaint}\n")
        sys.stderr.flush()
    os._exit(1 if complaint else 0)
