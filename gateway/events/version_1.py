"""Upgrades lines of version 1, which earlier releases wrote.

What they did not state stays null or absent: nothing is inferred. A verdict on them is NOT PROVEN.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Fields = dict[str, Any]

RENAMED = MappingProxyType(
    {
        "group_hosted": "hosting_started",
        "group_state_moved": "group_state_changed",
        "member_state_moved": "member_state_changed",
        "partitions_released": "grant_ended",
        "topics_gone": "topics_deleted",
    }
)
"""The events of version 1 that have another name now."""


def upgrade(line: Any) -> Any:
    """The line in the form of version 2, but with its version. Anything else stays as it is."""
    if not isinstance(line, dict):
        return line
    event, fields = line.get("event"), line.get("fields")
    if not isinstance(event, str) or not isinstance(fields, dict):
        return line
    return {
        **line,
        "version": 1,
        "event": RENAMED.get(event, event),
        "fields": {**fields, **_ADDED.get(event, {})},
    }


_ADDED: Mapping[str, Fields] = MappingProxyType({"partitions_released": {"cause": "revoked"}})
