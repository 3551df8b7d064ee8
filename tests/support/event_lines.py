"""JSON lines of events, constructed or read from a gateway's folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coordinator.interface.records import RemovalCause
from gateway.events.event import Envelope, GatewayEvent
from gateway.events.member_events import MemberLeft
from gateway.journal.reading import read_lines

AT_MS = 1_800_000_000_123


def envelope_of(event: GatewayEvent, /, **changes: Any) -> Envelope:
    """An event of a group, as listeners get it, or of a process."""
    usual: dict[str, Any] = {
        "event": event.name,
        "schema_version": event.schema_version,
        "gateway_id": "g",
        "group_id": "g",
        "process_id": None,
        "sequence": 1,
        "after": None,
        "at_ms": 0,
        "fields": event,
    }
    return Envelope(**(usual | changes))


def event_line(sequence: int, *, event: GatewayEvent | None = None, **changes: Any) -> str:
    """One line with its line break; a member's departure unless another event is given."""
    event = event or MemberLeft(member_id=f"m{sequence}", cause=RemovalCause.LEFT)
    usual = {"group_id": "orders", "at_ms": AT_MS}
    return envelope_of(event, **(usual | {"sequence": sequence} | changes)).line + "\n"


def read_events(folder: Path) -> list[Envelope]:
    """Every event once, in the order of writing."""
    return [line.content for line in read_lines(folder) if isinstance(line.content, Envelope)]


def check_gaps(events: Iterable[Envelope]) -> None:
    """Each sequence begins with 1 and grows by 1."""
    last: dict[tuple[str | None, str | None, int | None], int] = {}
    for event in events:
        of_group = (None, event.group_id, event.began_ms)
        sequence = of_group if event.process_id is None else (event.process_id, None, None)
        assert event.sequence == last.get(sequence, 0) + 1, event
        last[sequence] = event.sequence
        if event.process_id is not None and event.group_id is not None:
            assert event.after == last.get(of_group, 0)
