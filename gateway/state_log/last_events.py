"""A record of the gateway's own: a group's last event sequence, and the events of its last batch.

The state log writes it in the batch that caused the events and keeps it when the group is deleted.
If the sequence started again, readers would drop the next events as repeats.
"""

from dataclasses import dataclass

from coordinator.records import DurableRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvents:
    """The last batch of a group that had events."""

    sequence: int
    """The sequence number of the last event."""
    lines: tuple[str, ...]
    """The events as JSON lines; empty if they were too large to keep."""


LogRecord = DurableRecord | LastEvents
"""A record that a state log stores."""
