"""`groupferry events`: prints events, as a story in sentences, with all fields, or as JSON lines.

Changes nothing and takes no lock, so it can run beside a gateway.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.events.catalog import BadLine
from gateway.events.event import Envelope
from gateway.events.sentences import Narrator
from gateway.journal.line_files import PATTERN
from gateway.journal.reading import read_lines
from gateway.readable import escaped, moment, shown

NO_GROUP = "-"


def run(
    folders: Sequence[Path],
    group_id: str | None,
    *,
    follows: bool,
    as_json: bool = False,
    has_details: bool = False,
) -> bool:
    """Print the events, optionally of one group. `has_details`: print every event with its fields,
    not only those that are sentences. False if the folders have none. Raises OSError."""
    narrator = Narrator()
    if not follows and not any(path for folder in folders for path in folder.glob(PATTERN)):
        return False
    for line in read_lines(*folders, follows=follows):
        if isinstance(line.found, BadLine):
            why = f"{line.path.name} line {line.number}: {line.found}"
            sys.stderr.write(f"groupferry: {escaped(why)}\n")
        elif group_id is None or line.found.group_id == group_id:
            if as_json:
                text = escaped(line.text)
            elif has_details:
                text = _with_fields(line.found)
            else:
                text = _as_sentence(line.found, narrator)
            if text:
                sys.stdout.write(f"{text}\n")
            if follows:
                sys.stdout.flush()
    return True


def _as_sentence(envelope: Envelope, narrator: Narrator) -> str:
    sentence = narrator.tell_event(envelope.fields, envelope.group_id)
    if not sentence:
        return ""
    return f"{moment(envelope.at_ms)}  {_group_of(envelope)}  {escaped(sentence)}"


def _group_of(envelope: Envelope) -> str:
    return NO_GROUP if envelope.group_id is None else shown(envelope.group_id)


def _with_fields(envelope: Envelope) -> str:
    fields = [f"{name}={shown(value)}" for name, value in envelope.fields.fields.items()]
    return "  ".join([moment(envelope.at_ms), _group_of(envelope), envelope.event, *fields])
