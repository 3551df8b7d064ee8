"""All events by name, and the parser of JSON lines."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from pydantic import ValidationError

from gateway.events import gateway_events, group_events, member_events, offset_events
from gateway.events.event import Envelope, GatewayEvent

SUBJECTS = MappingProxyType(
    {
        "The gateway": gateway_events,
        "Groups": group_events,
        "Members": member_events,
        "Offsets": offset_events,
    }
)
"""The modules that define events, in documentation order."""

EVENTS: Mapping[str, type[GatewayEvent]] = MappingProxyType(
    {
        model.name: model
        for module in SUBJECTS.values()
        for model in vars(module).values()
        if isinstance(model, type)
        and issubclass(model, GatewayEvent)
        and model.__module__ == module.__name__
        and not model.__name__.startswith("_")
    }
)


VERSION = 2
"""The version of the lines that are written."""


class BadLine(ValueError):
    """The line is not an event that this groupferry knows. The message is one line."""


def read_line(line: str | bytes) -> Envelope:
    """Parse a JSON line. Raises BadLine."""
    try:
        content = json.loads(line)
        if not isinstance(content, dict) or not isinstance(content.get("fields"), dict):
            raise BadLine("it is not an event")
        if content.get("version") != VERSION:
            raise BadLine(
                f"this groupferry does not know lines of version {content.get('version', 1)!r}"
            )
        model = EVENTS.get(str(content.get("event")))
        if model is None or content.get("schema_version") != model.schema_version:
            raise BadLine(
                f"this groupferry does not know {content.get('event')!r}"
                f" of schema version {content.get('schema_version')!r}"
            )
        return Envelope(**{**content, "fields": model(**content["fields"])})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadLine(f"{where}: {first['msg']}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise BadLine(str(error)) from None
