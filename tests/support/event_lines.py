"""JSON lines of events, constructed or read from a gateway's folder."""

from collections.abc import Iterable
from pathlib import Path

from coordinator.interface.records import RemovalCause
from gateway.events.event import Envelope, GatewayEvent
from gateway.events.member_events import MemberLeft
from gateway.journal.reading import read_lines

AT_MS = 1_800_000_000_123


def event_line(
    sequence: int,
    *,
    group_id: str | None = "orders",
    process_id: str | None = None,
    began_ms: int | None = None,
    event: GatewayEvent | None = None,
) -> str:
    """One line with its line break; a member's departure unless another event is given."""
    event = event or MemberLeft(member_id=f"m{sequence}", cause=RemovalCause.LEFT)
    envelope = Envelope(
        event=event.name,
        schema_version=event.schema_version,
        gateway_id="g",
        group_id=group_id,
        process_id=process_id,
        sequence=sequence,
        began_ms=began_ms,
        after=None,
        at_ms=AT_MS,
        fields=event,
    )
    return envelope.line + "\n"


def read_events(folder: Path) -> list[Envelope]:
    """Every event once, in the order of writing."""
    return [line.found for line in read_lines(folder) if isinstance(line.found, Envelope)]


def check_gaps(events: Iterable[Envelope]) -> None:
    """Each sequence begins with 1 and grows by 1."""
    last: dict[tuple[str | None, str | None, int | None], int] = {}
    for each in events:
        of_group = (None, each.group_id, each.began_ms)
        sequence = of_group if each.process_id is None else (each.process_id, None, None)
        assert each.sequence == last.get(sequence, 0) + 1, each
        last[sequence] = each.sequence
        if each.process_id is not None and each.group_id is not None:
            assert each.after == last.get(of_group, 0)
