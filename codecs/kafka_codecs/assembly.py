"""Assembles one construct per message and version from the message's declaration.

The assembly resolves the version rules once, and caches the result: reading and writing bytes makes
no decision about versions.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from heapq import merge
from io import BytesIO
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from construct import ConstructError, MappingError

from kafka_codecs.declaration import Struct, rules_of
from kafka_codecs.errors import WireError
from kafka_codecs.primitives import (
    BOOL,
    COMPACT_LENGTH,
    INT16,
    INT32,
    TAGGED_FIELDS,
    UUID16,
    Array,
    Bytes,
    Encoded,
    LeftEncoded,
    NullableStruct,
    PassedOn,
    PassedOnString,
    String,
    WireType,
    build_all,
    parse_all,
)

MALFORMED = (ConstructError, struct.error, UnicodeError)
"""The exceptions that malformed bytes or invalid values raise inside this package."""

_TAGS = "tagged fields"

_M = TypeVar("_M", bound=Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tagged field that the declaration names."""

    tag: int
    name: str
    wire_type: WireType
    default: Any


class Structure(WireType, Generic[_M]):
    """A structure in one version: its fields in order, then its tagged fields if it has any."""

    def __init__(
        self,
        struct_type: type[_M],
        members: list[tuple[str, WireType]],
        *,
        tags: list[Tag] | None,
        absent: list[tuple[str, Any]],
    ) -> None:
        """`tags` is None in a version that is not flexible; `absent` lists the fields that this
        version cannot carry, which must have their defaults."""
        super().__init__()
        self.min_size = sum(member.min_size for _, member in members) + (tags is not None)
        self.struct_type = struct_type
        self.members = members
        self.is_flexible = tags is not None
        self._readers = [
            (name, getattr(struct_type, name).__set__, member.read) for name, member in members
        ]
        carried = {name for name, _ in members}
        self.defaults = {
            declared.name: declared.default
            for declared in fields(struct_type)
            if declared.name not in carried
        }
        """The defaults of the fields that are not in `members`."""
        self._defaults = [
            (getattr(struct_type, name).__set__, default) for name, default in self.defaults.items()
        ]
        self._writers = [(name, member.write) for name, member in members]
        self.tags = {tag.tag: tag for tag in tags or ()}
        self.absent = absent if self.is_flexible else [*absent, ("unknown_tags", ())]
        """The fields that must have their defaults."""

    def read(self, stream: BytesIO) -> _M:
        # Setting the slots is what the constructor of a frozen dataclass does, too.
        value = object.__new__(self.struct_type)
        name = _TAGS
        try:
            for name, set_field, read in self._readers:  # noqa: B007  # for the note below
                set_field(value, read(stream))
            for set_field, default in self._defaults:
                set_field(value, default)
            if self.is_flexible:
                name = _TAGS
                if tagged_fields := TAGGED_FIELDS.read(stream):
                    return replace(value, **self.read_tags(tagged_fields))
        except MALFORMED as error:
            error.add_note(name)
            raise
        return value

    def write(self, value: _M, stream: BytesIO) -> None:
        name = _TAGS
        try:
            for name, default in self.absent:
                if getattr(value, name) != default:
                    raise MappingError("this version has no such field")
            for name, write in self._writers:
                write(getattr(value, name), stream)
            if self.is_flexible:
                name = _TAGS
                self.write_tags(value, stream)
        except MALFORMED as error:
            error.add_note(name)
            raise

    def read_tags(self, tagged_fields: tuple[tuple[int, bytes], ...]) -> dict[str, Any]:
        """The fields that these tagged fields set."""
        values = {
            self.tags[tag].name: parse_all(self.tags[tag].wire_type, data)
            for tag, data in tagged_fields
            if tag in self.tags
        }
        values["unknown_tags"] = tuple([pair for pair in tagged_fields if pair[0] not in self.tags])
        return values

    def write_tags(self, value: Struct, stream: BytesIO) -> None:
        """Append the tagged fields. Kafka omits those that have their defaults."""
        known = sorted(
            (tag.tag, build_all(tag.wire_type, getattr(value, tag.name)))
            for tag in self.tags.values()
            if getattr(value, tag.name) != tag.default
        )
        TAGGED_FIELDS.write(tuple(merge(known, value.unknown_tags)), stream)


@cache
def message_codec(struct_type: Any, version: int) -> Structure[Any]:
    """The construct of a message in one of its versions. Raises `WireError` if there is no such
    version."""
    schema = struct_type.SCHEMA
    if version not in schema.versions:
        raise WireError(f"{struct_type.__name__} has no version {version}")
    return _assemble(struct_type, version, schema.is_flexible(version))


@cache
def is_alike(struct_type: Any, one: int, other: int) -> bool:
    """Whether two versions of a message have the same layout."""
    low, high = sorted((one, other))
    schema = struct_type.SCHEMA
    if schema.is_flexible(low) != schema.is_flexible(high):
        return False
    return not any(low < change <= high for change in _changes(struct_type))


def _changes(struct_type: type[Any]) -> Iterator[int]:
    """The versions in which a field of the structure, or of one inside, appears or changes."""
    hints = get_type_hints(struct_type)
    for declared in fields(struct_type):
        rules = rules_of(declared)
        yield from (rules.since, rules.until + 1, rules.nullable_since)
        for nested in _structures_in(hints[declared.name]):
            yield from _changes(nested)


def _structures_in(hint: Any) -> Iterator[type[Struct]]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for part in get_args(hint):
        yield from _structures_in(part)


@cache
def _assemble(struct_type: type[Any], version: int, flexible: bool) -> Structure[Any]:
    hints = get_type_hints(struct_type, include_extras=True)
    members: list[tuple[str, WireType]] = []
    tags: list[Tag] = []
    absent: list[tuple[str, Any]] = []
    for declared in fields(struct_type):
        if declared.name == "unknown_tags":
            continue
        rules = rules_of(declared)
        if rules.is_in(version):
            nullable = version >= rules.nullable_since
            wire_type = _wire_type(hints[declared.name], version, flexible, nullable)
            if rules.tag is None:
                members.append((declared.name, wire_type))
            else:
                known = Tag(
                    tag=rules.tag,
                    name=declared.name,
                    wire_type=wire_type,
                    default=declared.default,
                )
                tags.append(known)
        elif not rules.ignorable:
            absent.append((declared.name, declared.default))
    return Structure(struct_type, members, tags=tags if flexible else None, absent=absent)


def _wire_type(hint: Any, version: int, flexible: bool, nullable: bool) -> WireType:
    """The construct of one annotation; `nullable` says whether this version permits null."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [choice for choice in get_args(hint) if choice is not NoneType]
    else:
        nullable = False
    if hint is str or hint == PassedOn:
        kind = String if hint is str else PassedOnString
        return kind(COMPACT_LENGTH if flexible else INT16, nullable=nullable)
    if get_origin(hint) is Annotated:
        wire_type: WireType = hint.__metadata__[0]
        return wire_type
    if get_origin(hint) is Encoded:
        return LeftEncoded(_wire_type(get_args(hint)[0], version, flexible, nullable=False))
    if get_origin(hint) is tuple:
        element = _wire_type(get_args(hint)[0], version, flexible, nullable=False)
        return Array(COMPACT_LENGTH if flexible else INT32, element, nullable=nullable)
    if hint is bytes:
        return Bytes(COMPACT_LENGTH if flexible else INT32, nullable=nullable)
    if issubclass(hint, Struct):
        nested = _assemble(hint, version, flexible)
        return NullableStruct(nested) if nullable else nested
    return {bool: BOOL, UUID: UUID16}[hint]
