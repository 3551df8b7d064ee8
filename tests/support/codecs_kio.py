"""kio as a second opinion: it generates its schemas from Kafka's sources.

kio is only an oracle. It refuses unknown tagged fields and error codes, turns times into
`timedelta` and `datetime`, and reads a zero uuid as None; `tame` and `plain` compensate for that.
"""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from importlib import import_module
from inspect import isclass
from io import BytesIO
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from kafka_codecs.consumer_protocol import Assignment, Subscription
from kafka_codecs.declaration import OUR_TAGS, Struct, rules_of

_MILLISECONDS = st.integers(0, 2**31 - 1)
_EMBEDDED = {
    Subscription: ("consumer_protocol_subscription", "ConsumerProtocolSubscription"),
    Assignment: ("consumer_protocol_assignment", "ConsumerProtocolAssignment"),
}

_ERROR_CODES = st.sampled_from([code.value for code in ErrorCode])

WITHIN_KIO = tuple(
    {
        "unknown_tags": st.just(()),
        "error_code": _ERROR_CODES,
        "partition_error_code": _ERROR_CODES,
        "throttle_time_ms": _MILLISECONDS,
        "timeout_ms": _MILLISECONDS,
        "max_wait_ms": _MILLISECONDS,
        "session_timeout_ms": _MILLISECONDS,
        "session_lifetime_ms": _MILLISECONDS,
        "rebalance_timeout_ms": _MILLISECONDS,
        "heartbeat_interval_ms": _MILLISECONDS,
        "retention_time_ms": _MILLISECONDS,
        "log_append_time_ms": _MILLISECONDS,
        "transaction_timeout_ms": _MILLISECONDS,
        "transaction_start_time_ms": _MILLISECONDS,
        "client_assignors": st.none(),
        "should_compute_assignment": st.just(False),
        "error": st.just(0),
        "metadata_version": st.just(0),
        "metadata_bytes": st.none(),
    }.items()
)
"""Strategies for fields in which kio is narrower than the wire, and for groupferry's own tagged
fields, which kio lacks."""


def kio_class(message_type: type[Struct], version: int) -> Any:
    """kio's class for one of groupferry's messages in one version."""
    if message_type in _EMBEDDED:
        module, name = _EMBEDDED[message_type]
        return getattr(import_module(f"kio.schema.{module}.v{version}.data"), name)
    kind = "request" if message_type.__name__.endswith("Request") else "response"
    module = message_type.__module__.rpartition(".")[2]
    return getattr(import_module(f"kio.schema.{module}.v{version}.{kind}"), message_type.__name__)


def kio_read(message_type: type[Struct], wire: bytes, version: int) -> Any:
    entity, size = entity_reader(kio_class(message_type, version))(wire, 0)
    assert size == len(wire)
    return entity


def kio_write(entity: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def plain(value: Any, version: int | None = None) -> Any:
    """A message of kio or groupferry as bare tuples, dicts and numbers.

    A groupferry message needs the version, because its class has the fields of all versions.
    """
    if isinstance(value, tuple):
        return tuple(plain(part, version) for part in value)
    if is_dataclass(value):
        return {
            declared.name.removesuffix("_ms"): plain(getattr(value, declared.name), version)
            for declared in fields(value)
            if version is None or _is_kafkas(declared, version)
        }
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, UUID):
        return None if value.int == 0 else value
    return int(value) if isinstance(value, IntEnum) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    """The schema of a field. `path` includes the names of the enclosing structures."""

    path: str
    nullable: bool
    tag: int | None
    default: Any = field(compare=False)


def schema(message_type: Any, version: int | None = None, path: str = "") -> Iterator[FieldSchema]:
    """The fields of a kio or groupferry class in wire order, nested fields after their structure.

    kio has one class per version and needs no `version`. Its uuids and points in time may be None
    even if Kafka's schema forbids it.
    """
    hints = get_type_hints(message_type, include_extras=True)
    for declared in fields(message_type):
        rules = rules_of(declared)
        if version is not None and not _is_kafkas(declared, version):
            continue
        inner, optional = _unwrap(hints[declared.name])
        kios_own = isclass(inner) and issubclass(inner, (UUID, datetime))
        nullable = optional and (version is None or version >= rules.nullable_since)
        name = path + declared.name.removesuffix("_ms")
        yield FieldSchema(
            path=name,
            nullable=nullable and not kios_own,
            tag=declared.metadata.get("tag") if version is None else rules.tag,
            default=MISSING if kios_own else declared.default,
        )
        if is_dataclass(inner):
            yield from schema(inner, version, f"{name}.")


def _is_kafkas(declared: Any, version: int) -> bool:
    """Whether this version of one of groupferry's messages shares the field with Kafka."""
    rules = rules_of(declared)
    is_ours = rules.tag is not None and rules.tag >= OUR_TAGS
    return declared.name != "unknown_tags" and rules.is_in(version) and not is_ours


def _unwrap(hint: Any) -> tuple[Any, bool]:
    """The innermost type of an annotation, and whether the whole annotation allows None."""
    optional = get_origin(hint) in (Union, UnionType)
    if optional:
        (hint,) = [choice for choice in get_args(hint) if choice is not NoneType]
    return (get_args(hint)[0] if get_origin(hint) is tuple else hint), optional
