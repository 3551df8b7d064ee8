"""What the JVM says on stderr: kept while it starts, passed on while it works, then dropped.

A start that fails can so be told in one line. Must not know what a line means, but for finding the
one that says why.
"""

import os
import sys
import threading
from collections import deque

from gateway.readable import escaped

LINES_MAX = 200
"""Kept of a start."""

_WAIT_S_MAX = 5


class Voice:
    """A pipe and the thread that reads it; `mouth` is for the JVM."""

    def __init__(self) -> None:
        ear, self.mouth = os.pipe()
        self._is_passed_on = threading.Event()
        self._said = deque[str](maxlen=LINES_MAX)
        self._listening = threading.Thread(target=self._listen, args=(ear,), daemon=True)
        self._listening.start()

    def pass_on(self) -> None:
        """It has started: forget what it said, and let what comes go to our own stderr."""
        os.close(self.mouth)
        self._is_passed_on.set()

    def hush(self) -> None:
        """It is about to end: what it says of that helps nobody."""
        self._is_passed_on.clear()

    def reason(self) -> str:
        """It has ended instead: the line that says why."""
        os.close(self.mouth)
        self.join()
        lines = [line for line in map(str.strip, self._said) if line]
        telling = [line for line in lines if "Exception" in line or "rror" in line]
        return next(iter(telling or lines), "its JVM said nothing")

    def join(self) -> None:
        """Wait until all who have `mouth` are gone."""
        self._listening.join(_WAIT_S_MAX)

    def _listen(self, ear: int) -> None:
        with open(ear, errors="replace") as lines:
            for line in lines:
                if self._is_passed_on.is_set():
                    sys.stderr.write(escaped(line.rstrip().expandtabs()) + "\n")
                else:
                    self._said.append(line)
