"""The entry point of `groupferry`.

Owns nothing but the first half second, in which the commands are loaded: Ctrl-C shows no traceback
then either.
"""

import signal
from collections.abc import Sequence

from gateway.loading import loading


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    status = 0
    try:
        with loading():
            from gateway import commands  # this is what takes the time

        status = commands.run(argv)
    except* KeyboardInterrupt:  # in a group if it came just before trio was told who obeys signals
        status = 128 + signal.SIGINT
    return status
