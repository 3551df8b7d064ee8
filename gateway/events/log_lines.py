"""Writes an event to the log: its name, and the same fields as in the JSON line."""

import structlog

from gateway.events.event import GatewayEvent

log = structlog.get_logger()


def write_to_log(event: GatewayEvent, group_id: str | None = None) -> None:
    """Write one line, about a group or about the gateway."""
    about = {} if group_id is None else {"group_id": group_id}
    getattr(log, event.level)(event.name, **about, **event.fields)
