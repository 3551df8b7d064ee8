"""The entry point of `groupferry`.

Owns nothing but the first half second, in which the commands are loaded: Ctrl-C shows no traceback
then either.
"""

import signal
from collections.abc import Sequence

from gateway.loading import loading


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    try:
        with loading():
            from gateway import commands  # noqa: PLC0415  (this is what takes the time)

        return commands.run(argv)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
