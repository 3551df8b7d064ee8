"""Writes an event to the log: its name, and the same fields as in the JSON line."""

import logging

import structlog

from gateway.events.event import GatewayEvent, Level

_LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

log = structlog.get_logger()


def write_to_log(event: GatewayEvent, group_id: str | None = None) -> None:
    """Write one line, about a group or about the gateway."""
    about = {} if group_id is None else {"group_id": group_id}
    bound = log.bind(**about)
    if bound.is_enabled_for(_LEVELS[event.level]):  # the fields cost more than the rest
        getattr(bound, event.level)(event.name, **event.fields)
