"""The entry point of `groupferry`.

While it loads the commands, which takes half a second, Ctrl-C prints no traceback either.
"""

import signal
from collections.abc import Sequence

from gateway.loading import loading


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    status = 0
    try:
        with loading():
            from gateway.commands import dispatch  # slow to load

        status = dispatch.run(argv)
    except* KeyboardInterrupt:  # in a group if it came before trio had a signal handler
        status = 128 + signal.SIGINT
    return status
