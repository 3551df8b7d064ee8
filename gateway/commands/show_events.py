"""`groupferry events`: prints events, as text for people or as their JSON lines.

Changes nothing and takes no lock, so it can run beside a gateway.
"""

import sys
from pathlib import Path

from gateway.events.catalog import BadLine
from gateway.events.event import Envelope
from gateway.journal.line_files import PATTERN
from gateway.journal.reading import read_lines
from gateway.readable import escaped, moment, shown

NO_GROUP = "-"


def run(folder: Path, group_id: str | None, *, follows: bool, as_json: bool) -> bool:
    """Print the events, optionally of one group. False if the folder has none. Raises OSError."""
    if not follows and not any(folder.glob(PATTERN)):
        return False
    for line in read_lines(folder, follows=follows):
        if isinstance(line.found, BadLine):
            why = f"{line.path.name} line {line.number}: {line.found}"
            sys.stderr.write(f"groupferry: {escaped(why)}\n")
        elif group_id is None or line.found.group_id == group_id:
            sys.stdout.write((escaped(line.text) if as_json else _readable(line.found)) + "\n")
            if follows:
                sys.stdout.flush()
    return True


def _readable(envelope: Envelope) -> str:
    group = NO_GROUP if envelope.group_id is None else shown(envelope.group_id)
    fields = [f"{name}={shown(value)}" for name, value in envelope.fields.fields.items()]
    return "  ".join([moment(envelope.at_ms), group, envelope.event, *fields])
