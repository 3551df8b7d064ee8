"""The time that silent members get after something kept them from being heard."""

from dataclasses import dataclass


@dataclass(slots=True)
class Grace:
    """Until when a group gives up no member, in wall-clock milliseconds."""

    over_ms: int = 0
    """After a pause of the process, whose length only the one knows who reads the clock."""
    reconnect_by_ms: int = 0
    """After the group was loaded: clients may still be on their way to this process."""
