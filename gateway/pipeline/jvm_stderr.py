"""The stderr of the JVM: kept while it starts, passed on while it works, then discarded.

If the JVM fails to start, one of the kept lines gives the reason.
"""

import os
import sys
import threading
from collections import deque

from gateway.readable import escaped

LINES_MAX = 200
"""Lines kept during the start."""

_WAIT_S_MAX = 5
_STARTED = "\0"  # a line of ours between those of the start and the later ones


class JvmStderr:
    """A pipe and the thread that reads it. The JVM writes to `writer`."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        self._is_silenced = False
        self._said = deque[str](maxlen=LINES_MAX)
        self._listening = threading.Thread(target=self._listen, args=(reader,), daemon=True)
        self._listening.start()

    def pass_on(self) -> None:
        """The JVM has started: drop its earlier lines, and pass later ones on to our stderr."""
        os.write(self.writer, f"\n{_STARTED}\n".encode())
        os.close(self.writer)

    def silence(self) -> None:
        """The JVM is about to end: discard what it prints about that."""
        self._is_silenced = True

    def reason(self) -> str:
        """The JVM has failed to start: the line with the reason."""
        os.close(self.writer)
        self.join()
        lines = [line for line in map(str.strip, self._said) if line]
        telling = [line for line in lines if "Exception" in line or "rror" in line]
        return next(iter(telling or lines), "its JVM said nothing")

    def join(self) -> None:
        """Wait until no process has `writer` open."""
        self._listening.join(_WAIT_S_MAX)

    def _listen(self, reader: int) -> None:
        has_started = False
        with open(reader, errors="replace") as lines:
            for line in lines:
                if line.rstrip() == _STARTED:
                    has_started = True
                elif not has_started:
                    self._said.append(line)
                elif not self._is_silenced:
                    sys.stderr.write(escaped(line.rstrip().expandtabs()) + "\n")
