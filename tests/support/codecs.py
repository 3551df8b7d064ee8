"""Values and bytes for the tests of the codecs.

`octets` reads hand-written wire bytes; `values` and `sample` make messages from their declaration.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from io import BytesIO
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest
from hypothesis import strategies as st

from kafka_codecs import decode, encode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.assembly import message_codec
from kafka_codecs.consumer_protocol import Assignment, Subscription
from kafka_codecs.declaration import OUR_TAGS, Struct, rules_of
from kafka_codecs.primitives import UINT16, UVARINT, PassedOn
from kafka_codecs.state_records import LAYOUTS
from tests.support.hypothesis_profile import thinned_out

_TOKEN = re.compile(r"'([^']*)'|((?:[0-9a-f]{2})+)")
ByName = tuple[tuple[str, st.SearchStrategy[Any]], ...]
"""Strategies for single fields."""
_FIRST_UNKNOWN_TAG = 100
FIRST_IN_KAFKA_4 = {
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
}
"""The first version that Kafka 4 has of apis with older ones."""
NEWER_THAN_KIO = (
    (ApiKey.API_VERSIONS, 5),
    (ApiKey.TXN_OFFSET_COMMIT, 6),
    (ApiKey.DELETE_GROUPS, 3),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 0),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 1),
)
"""The versions of Kafka 4.4 that kio lacks, or knows by a field's former name."""
NOT_IN_KAFKA = (
    ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
    ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
)
"""The apis that KIP-848 describes and no Kafka has."""


def octets(text: str) -> bytes:
    """Bytes from hex, quoted ASCII and comments: `06 'group' # a compact string`."""
    data = b""
    for line in text.splitlines():
        written = line.partition("#")[0]
        assert not _TOKEN.sub("", written).strip(), line
        for quoted, digits in _TOKEN.findall(written):
            data += quoted.encode("ascii") or bytes.fromhex(digits)
    return data


def check_both_ways(message: Struct, version: int, wire: str) -> None:
    """Check that the message encodes to these bytes, and that they decode to the message."""
    assert encode(message, version) == octets(wire)
    assert decode(type(message), octets(wire), version) == message


def every_message() -> list[tuple[type[Struct], int]]:
    """Every message in every version; only the first and last versions under the profile
    `quick`."""
    messages = [*(api.request for api in APIS.values()), *(api.response for api in APIS.values())]
    return [
        (message_type, version)
        for message_type in [*messages, Subscription, Assignment]
        if message_type is not None
        for version in thinned_out(message_type.SCHEMA.versions)
    ]


def one_of_each_layout(
    messages: Sequence[tuple[type[Struct], int]],
) -> Sequence[tuple[type[Struct], int]]:
    """The last of these versions with each layout: equal layouts are read and written by equal
    code."""
    last: dict[Any, tuple[type[Struct], int]] = {}
    for message_type, version in messages:
        kind: Any = message_type
        flexible = message_type.SCHEMA.is_flexible(version)
        last[kind, flexible, _layout(message_type, version)] = (
            message_type,
            version,
        )
    return list(last.values())


def _layout(message_type: Any, version: int) -> tuple[Any, ...]:
    """What a version has of each field: its name, whether it may be null, and its structure."""
    layout = []
    for declared in fields(message_type):
        rules = rules_of(declared)
        if rules.is_in(version):
            hint = _hints(message_type)[declared.name]
            nested = [_layout(part, version) for part in _structures(hint)]
            layout.append((declared.name, version >= rules.nullable_since, tuple(nested)))
    return tuple(layout)


def _structures(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for part in get_args(hint):
        yield from _structures(part)


def every_record_part() -> list[tuple[type[Struct], int]]:
    """Every key and every value of the state log, in every version."""
    parts = {part: None for layout in LAYOUTS.values() for part in layout}
    return [(part, version) for part in parts for version in part.SCHEMA.versions]


def message_id(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"


def every_layout() -> pytest.MarkDecorator:
    """Play a test with every message and every record in one version of each layout."""
    parts = one_of_each_layout([*every_message(), *every_record_part()])
    return pytest.mark.parametrize(("message_type", "version"), parts, ids=message_id)


@cache
def _hints(message_type: Any) -> dict[str, Any]:
    return get_type_hints(message_type, include_extras=True)


def values(message_type: Any, version: int, by_name: ByName = ()) -> st.SearchStrategy[Any]:
    """Draw a message that `version` can carry. `by_name` restricts single fields."""
    return _values(message_type, version, by_name, message_type.SCHEMA.is_flexible(version))


@cache  # because Hypothesis spends more time on a new strategy than on drawing from it
def _values(
    message_type: Any, version: int, by_name: ByName, flexible: bool
) -> st.SearchStrategy[Any]:
    chosen: dict[str, st.SearchStrategy[Any]] = {}
    restricted = dict(by_name)
    for declared in fields(message_type):
        rules = rules_of(declared)
        if declared.name in restricted and rules.is_in(version):
            chosen[declared.name] = restricted[declared.name]
        elif declared.name == "unknown_tags":
            chosen[declared.name] = _unknown_tags() if flexible else st.just(())
        elif rules.is_in(version):
            nullable = version >= rules.nullable_since
            hint = _hints(message_type)[declared.name]
            chosen[declared.name] = _values_of(hint, version, by_name, flexible, nullable)
    return st.builds(message_type, **chosen)


def _values_of(
    hint: Any,
    version: int,
    by_name: ByName,
    flexible: bool,
    nullable: bool = False,
) -> st.SearchStrategy[Any]:
    if get_origin(hint) in (Union, UnionType):
        (plain,) = [choice for choice in get_args(hint) if choice is not NoneType]
        strategy = _values_of(plain, version, by_name, flexible)
        return st.none() | strategy if nullable else strategy
    if hint == PassedOn:
        hint = str
    if get_origin(hint) is Annotated:
        number = hint.__metadata__[0]
        bits = 8 * number.min_size
        if number is UINT16:
            return st.integers(0, 2**bits - 1)
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if get_origin(hint) is tuple:
        element = _values_of(get_args(hint)[0], version, by_name, flexible)
        return st.lists(element, max_size=3).map(tuple)
    if issubclass(hint, Struct):
        return _values(hint, version, by_name, flexible)
    return {
        bool: st.booleans(),
        str: st.text(max_size=12),
        bytes: st.binary(max_size=12),
        UUID: st.uuids(allow_nil=True),
    }[hint]


def _unknown_tags() -> st.SearchStrategy[tuple[tuple[int, bytes], ...]]:
    tags = st.integers(_FIRST_UNKNOWN_TAG, OUR_TAGS - 1) | st.integers(2 * OUR_TAGS, 2**32 - 1)
    tags_by_number = st.dictionaries(tags, st.binary(max_size=9), max_size=2)
    return tags_by_number.map(lambda tagged: tuple(sorted(tagged.items())))


def sample(message_type: Any, version: int, *, flexible: bool | None = None) -> Any:
    """A message in which no field of `version` is empty, null or default."""
    if flexible is None:
        flexible = message_type.SCHEMA.is_flexible(version)
    chosen = {
        declared.name: _sample_of(_hints(message_type)[declared.name], version, flexible)
        for declared in fields(message_type)
        if declared.name != "unknown_tags" and rules_of(declared).is_in(version)
    }
    return message_type(**chosen, unknown_tags=((_FIRST_UNKNOWN_TAG, b"new"),) if flexible else ())


def overlong_encoding(message: Struct, version: int, padding: int) -> bytes:
    """The message with each varint longer than it need be, as Kafka accepts it."""

    def write(value: int, stream: BytesIO) -> None:
        rest, size = value, 0
        while rest > 0x7F or size < padding:
            stream.write(bytes([rest & 0x7F | 0x80]))
            rest, size = rest >> 7, size + 1
        stream.write(bytes([rest]))

    stream = BytesIO()
    kind: Any = type(message)
    codec: Any = message_codec(kind, version)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(UVARINT), "write", lambda _self, value, to: write(value, to))
        codec.write(message, stream)
    return stream.getvalue()


def _sample_of(hint: Any, version: int, flexible: bool) -> Any:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [choice for choice in get_args(hint) if choice is not NoneType]
    if hint == PassedOn:
        hint = str
    if get_origin(hint) is Annotated:
        return 5
    if get_origin(hint) is tuple:
        return (_sample_of(get_args(hint)[0], version, flexible),) * 2
    if issubclass(hint, Struct):
        return sample(hint, version, flexible=flexible)
    return {bool: True, str: "naïve", bytes: b"\x00\xff", UUID: UUID(int=7)}[hint]
