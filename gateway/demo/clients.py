"""What the demo's client processes, producer and consumer, have in common.

Must stay light: it is imported by every child.
"""

import os
import select
import signal
import sys
from typing import NoReturn


class StopRequest:
    """True once the parent asked this process to end: SIGTERM, or the end of stdin.

    The end of stdin is also how a child learns that its parent died. From then on an alarm runs,
    so that a client that hangs in its last words (its cluster may be gone) ends all the same.
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
    """End this process without the interpreter's own farewell; with status 1 if it complains.

    The parent may be gone: then flushing stdout once more would only print a traceback. And a
    client that failed is not waited for.
    """
    if complaint:
        sys.stderr.write(f"{complaint}\n")
        sys.stderr.flush()
    os._exit(1 if complaint else 0)
