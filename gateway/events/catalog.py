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
        each.name: each
        for module in SUBJECTS.values()
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, GatewayEvent)
        and each.__module__ == module.__name__
        and not each.__name__.startswith("_")
    }
)


VERSION = 2
"""The version of the lines that are written."""


class BadLine(ValueError):
    """The line is not an event that this groupferry knows. The message is one line."""


def read_line(line: str | bytes) -> Envelope:
    """Parse a JSON line. Raises BadLine."""
    try:
        found = json.loads(line)
        if not isinstance(found, dict) or not isinstance(found.get("fields"), dict):
            raise BadLine("it is not an event")
        if found.get("version") != VERSION:
            raise BadLine(
                f"this groupferry does not know lines of version {found.get('version', 1)!r}"
            )
        model = EVENTS.get(str(found.get("event")))
        if model is None or found.get("schema_version") != model.schema_version:
            raise BadLine(
                f"this groupferry does not know {found.get('event')!r}"
                f" of schema version {found.get('schema_version')!r}"
            )
        return Envelope(**{**found, "fields": model(**found["fields"])})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadLine(f"{where}: {first['msg']}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise BadLine(str(error)) from None
