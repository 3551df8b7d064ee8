"""A record of the gateway's own: a group's last event sequence, and the events of its last batch.

The state log writes it in the batch that caused the events. It outlives the group until its lines
are certainly written; then the gateway deletes it.
"""

from dataclasses import dataclass

from coordinator.interface.records import DurableRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvents:
    """The last batch of a group that had events. Times are 0 if an older groupferry wrote it."""

    sequence: int
    """The sequence number of the last event."""
    lines: tuple[str, ...]
    """The events as JSON lines; empty if they were too large to keep."""
    began_ms: int = 0
    """When the sequence began; see `Envelope.began_ms`."""
    at_ms: int = 0
    """The time of the last event."""


FORGOTTEN = LastEvents(sequence=0, lines=())
"""The tombstone of a LastEvents record."""

LogRecord = DurableRecord | LastEvents
"""A record that a state log stores."""

GATEWAY_RECORD = ""
"""Stands for a group's name in the record of the gateway's own: `sequence` is the latest run that
has started, and there are no lines. No group has this name."""
