"""What any user of this machine can see of its processes."""

from collections.abc import Iterator
from pathlib import Path


def all_command_lines() -> Iterator[bytes]:
    """Read the command lines of all processes of this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:  # the process has ended
            continue
