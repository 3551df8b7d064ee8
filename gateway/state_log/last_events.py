"""The record beside the engine's: how far a group's events are, and those of its last batch.

It is written with the batch that caused them, and kept when the group is deleted: were the group's
sequence to begin anew, readers would take its next events for repeats.
"""

from dataclasses import dataclass

from coordinator.records import DurableRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvents:
    """The last batch of a group that had events."""

    sequence: int
    """That of the last one."""
    lines: tuple[str, ...]
    """As they are told, one line of JSON each; none if they were too large to keep."""


LogRecord = DurableRecord | LastEvents
"""What a state log keeps."""
