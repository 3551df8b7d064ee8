"""Events as log lines: the event's name, and its fields as they are everywhere else."""

import structlog

from gateway.events.event import GatewayEvent

log = structlog.get_logger()


def write_to_log(event: GatewayEvent, group_id: str | None = None) -> None:
    """One line, about a group or about the gateway."""
    about = {} if group_id is None else {"group_id": group_id}
    getattr(log, event.level)(event.name, **about, **event.fields)
