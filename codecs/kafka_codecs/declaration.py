"""Declares a message: a dataclass whose annotations are its wire types.

    @message(ApiKey.HEARTBEAT, versions=range(0, 5))
    class HeartbeatRequest(Struct):
        group_id: str
        generation_id: Int32
        member_id: str
        group_instance_id: str | None = wire(since=3, default=None)

The decorators check a declaration when Python creates the class; `assembly` turns it into one
construct per version.

A field with `| None` is nullable, a `tuple[X, ...]` is an array, a `Struct` is a nested structure.
A field that some version lacks needs Kafka's default: decoding that version yields the default, and
encoding it refuses any other value unless the field is ignorable.
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum, auto
from typing import Any, ClassVar, TypeVar, dataclass_transform

from kafka_codecs.api_keys import ApiKey

OUR_TAGS = 10_000
"""groupferry's first tag; Kafka numbers its tags from 0."""

ALWAYS = 1 << 15
"""Above every version: the `until` of a field that no version removed."""


class Entity(Enum):
    """What a value names. Kafka's schemas say it of names (`entityType`), not of topic ids."""

    TOPIC = auto()
    TOPIC_ID = auto()
    TRANSACTIONAL_ID = auto()
    CONFIG_RESOURCE = auto()
    """A resource of the kind that its sibling field `resource_type` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Kafka's schema for a field, apart from its type; versions are inclusive."""

    since: int = 0
    until: int = ALWAYS
    nullable_since: int = 0
    tag: int | None = None
    ignorable: bool = False
    entity: Entity | None = None

    def is_in(self, version: int) -> bool:
        """Whether `version` has the field."""
        return self.since <= version <= self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Kafka's schema for a message as a whole."""

    api_key: ApiKey | None
    versions: range
    flexible: bool
    """Whether a message without an api key is flexible in all its versions."""

    def is_flexible(self, version: int) -> bool:
        """Whether `version` has compact lengths and tagged fields (KIP-482)."""
        return self.flexible if self.api_key is None else self.api_key.is_flexible(version)


def wire(
    *,
    since: int = 0,
    until: int = ALWAYS,
    nullable_since: int = 0,
    tag: int | None = None,
    default: Any = MISSING,
    ignorable: bool = False,
    secret: bool = False,
    entity: Entity | None = None,
) -> Any:
    """Declare a field that needs more than its type.

    `tag` makes it a tagged field in all versions from `since` on. The encoder omits a tagged field
    that has its default. A `secret` stays out of representations. `entity`: what the value, or each
    value of an array, names.
    """
    rules = Wire(
        since=since,
        until=until,
        nullable_since=nullable_since,
        tag=tag,
        ignorable=ignorable,
        entity=entity,
    )
    return field(default=default, repr=not secret, metadata={Wire: rules})


def rules_of(declared: Any) -> Wire:
    """The rules of one of `dataclasses.fields(...)`."""
    rules: Wire = declared.metadata.get(Wire, _PLAIN)
    return rules


_PLAIN = Wire()
_T = TypeVar("_T", bound="Struct")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire,))
def structure(cls: type[_T]) -> type[_T]:
    """Turn a class into a nested structure. The type checker keeps it from being changed; Python's
    own check would make it take four times as long to create."""
    made = dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
    for declared in fields(made):
        rules = rules_of(declared)
        optional = rules.since > 0 or rules.until != ALWAYS or rules.tag is not None
        if optional and declared.default is MISSING:
            raise TypeError(f"{cls.__name__}.{declared.name} can be absent and needs a default")
    return made


@structure
class Struct:
    """Base of every message and nested structure.

    `unknown_tags` keeps undeclared tagged fields, in ascending order of their tags, so that
    re-encoding a message loses nothing.
    """

    SCHEMA: ClassVar[Schema]
    """Only messages have a schema; a nested structure follows its message's."""

    unknown_tags: tuple[tuple[int, bytes], ...] = ()


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire,))
def message(
    api_key: ApiKey | None, *, versions: range, flexible: bool = False
) -> Callable[[type[_T]], type[_T]]:
    """Turn a class into a message; `flexible` applies only without an api key."""

    def make(cls: type[_T]) -> type[_T]:
        made = structure(cls)
        made.SCHEMA = Schema(api_key=api_key, versions=versions, flexible=flexible)
        return made

    return make
