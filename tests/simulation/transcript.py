"""Formats the transcript of a run."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from coordinator.interface.topics import Partition
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from tests.simulation.cluster import Cluster
from tests.simulation.world import START_MS, World

OMITTED_FIELDS = frozenset({"token", "client_id", "client_host", "fresh_id", "protocol_type"})


def tail(world: World, cluster: Cluster, lines: int) -> tuple[str, ...]:
    """The last lines of the transcript."""
    entries = [*world.transcript][-lines:] if lines else []
    return tuple(
        f"{(at_ms - START_MS) / 1000:8.3f}  {who:<10}  {words(what, cluster)}"
        for at_ms, who, what in entries
    )


def readable(text: str, cluster: Cluster) -> str:
    """The text with topic names in place of topic ids."""
    for topic_id, name in cluster.names.items():
        text = text.replace(repr(topic_id), name).replace(str(topic_id), name)
    return text


def words(what: object, cluster: Cluster) -> str:
    """Format any value of the transcript. Fields with their default are omitted."""
    match what:
        case str():
            return what
        case Partition():
            return cluster.name_of(what)
        case UUID():
            return cluster.names.get(what, str(what))
        case Enum():
            return what.name
        case bytes():
            return _format_embedded(what)
        case Mapping():
            inside = (f"{words(k, cluster)}: {words(v, cluster)}" for k, v in what.items())
            return "{" + ", ".join(inside) + "}"
        case frozenset() | set():
            return "{" + ", ".join(sorted(words(part, cluster) for part in what)) + "}"
        case tuple() | list():
            return " ".join(words(part, cluster) for part in what)
        case _ if is_dataclass(what):
            return _dataclass(what, cluster)
        case _:
            return str(what)


def _dataclass(what: Any, cluster: Cluster) -> str:
    values = [
        f"{field.name}={words(getattr(what, field.name), cluster)}"
        for field in fields(what)
        if field.name not in OMITTED_FIELDS and not _is_default(field, getattr(what, field.name))
    ]
    return f"{type(what).__name__}({', '.join(values)})"


def _is_default(field: Any, value: object) -> bool:
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return bool(value == field.default)


def _format_embedded(data: bytes) -> str:
    """Format an embedded subscription or assignment."""
    try:
        version, subscription = decode_subscription(data)
        if encode_subscription(subscription, version) == data:
            return f"v{version} {_set_fields(subscription)}"
        version, assignment = decode_assignment(data)
        return f"v{version} {_set_fields(assignment)}"
    except WireError:
        return data.hex()


def _set_fields(decoded: Any) -> str:
    values = [
        f"{field.name}={getattr(decoded, field.name)}"
        for field in fields(decoded)
        if getattr(decoded, field.name) not in (None, (), -1)
    ]
    return " ".join(values) or "nothing"
