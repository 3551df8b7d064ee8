"""Answers as plain values, so that those of two servers can be compared.

Values that may differ are removed: throttle times, the wording of error messages, generated ids
(they become the script's names, and only their form counts), and the order of unordered lists.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import decode_assignment, decode_subscription
from kafka_codecs.declaration import Struct
from kafka_codecs.leave_group import LeaveGroupResponse

Plain = Any
"""Mappings, tuples, strings, numbers."""

LEFT_OUT = {"throttle_time_ms", "error_message", "unknown_tags"}
MEMBER_IDS = {"member_id", "leader"}
UNORDERED = {
    *("members", "groups", "topics", "partitions", "topic_partitions"),
    *("assigned_partitions", "owned_partitions", "subscribed_topic_names"),
}
EMBEDDED: Mapping[str, Callable[[bytes], tuple[int, Struct]]] = {
    "assignment": decode_assignment,
    "member_assignment": decode_assignment,
    "metadata": decode_subscription,
    "member_metadata": decode_subscription,
}

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHORT_UUID = re.compile(r"[-_0-9A-Za-z]{22}")


def shape(member_id: str) -> str:
    """An id without its random part."""
    if _SHORT_UUID.fullmatch(member_id):
        return "<22 characters>"
    return _UUID.sub("<uuid>", member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A script's names for the things of one side."""

    group: str
    members: Mapping[str, str]
    """Names by member id."""
    topics: Mapping[UUID, str]

    def plain(self, value: Any, field: str = "") -> Plain:
        """A message or a part of one as plain values."""
        match value:
            case LeaveGroupResponse(error_code=code, members=members):
                # Its entries are in the order of the request.
                entries = tuple(self.plain(member) for member in members)
                return {"error_code": int(code), "members": entries}
            case Struct():
                return {
                    declared.name: self.plain(getattr(value, declared.name), declared.name)
                    for declared in fields(value)
                    if declared.name not in LEFT_OUT
                }
            case tuple():
                items = [self.plain(item) for item in value]
                return tuple(sorted(items, key=repr) if field in UNORDERED else items)
            case bytes():
                return self._read_embedded(value, field)
            case UUID():
                return self.topics.get(value, f"<unknown topic {value}>" if value.int else "")
            case str() if field in MEMBER_IDS:
                return self.members.get(value, shape(value))
            case str() if value == self.group:
                return "<group>"
            case bool() | None | str():
                return value
            case _:
                return int(value)

    def _read_embedded(self, value: bytes, field: str) -> Plain:
        try:
            version, decoded = EMBEDDED[field](value)
        except (WireError, KeyError):
            return value.hex()
        return {"embedded_version": version} | self.plain(decoded)


def differences(ours: Plain, theirs: Plain, path: str = "") -> list[str]:
    """The differences of two plain values, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        return [
            line
            for key in ours
            for line in differences(ours[key], theirs[key], f"{path}.{key}" if path else key)
        ]
    if isinstance(ours, tuple) and isinstance(theirs, tuple) and len(ours) == len(theirs):
        pairs = zip(ours, theirs, strict=True)
        return [
            line
            for number, (one, other) in enumerate(pairs)
            for line in differences(one, other, f"{path}[{number}]")
        ]
    return [] if ours == theirs else [f"{path or 'answer'}: kafka {ours!r}, gateway {theirs!r}"]
