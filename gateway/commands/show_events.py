"""`groupferry events`: prints events, as a story in sentences, with all fields, or as JSON lines.

Changes nothing and takes no lock, so it can run while a gateway does.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.events.catalog import BadLine
from gateway.events.event import Envelope
from gateway.events.sentences import Narrator
from gateway.journal.line_files import PATTERN
from gateway.journal.reading import read_lines
from gateway.readable import escape, format_timestamp, show_value

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
    story = _SentencePrinter(joins=not follows)
    if not follows and not any(path for folder in folders for path in folder.glob(PATTERN)):
        return False
    for line in read_lines(*folders, follows=follows):
        if isinstance(line.content, BadLine):
            problem = f"{line.path.name} line {line.number}: {line.content}"
            sys.stderr.write(f"groupferry: {escape(problem)}\n")
        elif group_id is None or line.content.group_id == group_id:
            if as_json:
                text = escape(line.text)
            elif has_details:
                text = _with_fields(line.content)
            else:
                text = story.narrate(line.content)
            if text:
                sys.stdout.write(f"{text}\n")
            if follows:
                sys.stdout.flush()
    if rest := story.end():
        sys.stdout.write(f"{rest}\n")
    return True


class _SentencePrinter:
    """Sentences in order. Each is printed with the next one, which may stand for both. A follower
    does not wait for that."""

    def __init__(self, *, joins: bool) -> None:
        self._narrator = Narrator()
        self._joins = joins
        self._group_id: str | None = None
        self._pending = ""

    def narrate(self, envelope: Envelope) -> str:
        """The sentence that is certain now; empty if none is."""
        at_ms = envelope.at_ms if self._joins else None
        sentence = self._narrator.narrate_event(envelope.fields, envelope.group_id, at_ms)
        if not sentence:
            return ""
        line = f"{format_timestamp(envelope.at_ms)}  {_group_of(envelope)}  {escape(sentence)}"
        if not self._joins:
            return line
        sentence = self._pending
        if self._narrator.has_joined and self._group_id == envelope.group_id:
            sentence = ""
        self._pending, self._group_id = line, envelope.group_id
        return sentence

    def end(self) -> str:
        """The last sentence."""
        return self._pending


def _group_of(envelope: Envelope) -> str:
    return NO_GROUP if envelope.group_id is None else show_value(envelope.group_id)


def _with_fields(envelope: Envelope) -> str:
    fields = [f"{name}={show_value(value)}" for name, value in envelope.fields.fields.items()]
    return "  ".join(
        [format_timestamp(envelope.at_ms), _group_of(envelope), envelope.event, *fields]
    )
