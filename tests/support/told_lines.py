"""JSON lines of events as a gateway would have written them."""

from coordinator.records import RemovalCause
from gateway.events.envelope import Envelope
from gateway.events.event import GatewayEvent
from gateway.events.member_events import MemberLeft

AT_MS = 1_800_000_000_123


def told_line(
    sequence: int,
    *,
    group_id: str | None = "orders",
    process_id: str | None = None,
    event: GatewayEvent | None = None,
) -> str:
    """One line, with its end; of a member's departure unless another event is given."""
    event = event or MemberLeft(member_id=f"m{sequence}", cause=RemovalCause.LEFT)
    envelope = Envelope(
        event=event.name,
        schema_version=event.schema_version,
        gateway_id="g",
        group_id=group_id,
        process_id=process_id,
        sequence=sequence,
        after=None,
        at_ms=AT_MS,
        fields=event,
    )
    return envelope.line + "\n"
