"""The canonical form of a world: equal for two worlds that can only continue in the same way.

Times are relative to the present, epochs to the newest of the group, offsets to the committed one;
tokens and generated ids are named in the order in which they occur. History that nothing reads any
more is left out. Whatever this module does not know is kept as it is: two worlds then count as
different although they are not, never the other way round.
"""

import hashlib
import marshal
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple
from uuid import UUID

from coordinator.consumer.member_ids import member_id_from
from coordinator.copy_on_write.table import Forkable
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Conversions
from gateway.hosting.adoptees import Adoptees
from gateway.hosting.adoption import Adopting
from gateway.hosting.anchor import Anchor
from gateway.hosting.calls import Call
from gateway.hosting.group import HostedGroup
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.group_routing import FORWARDED_FOR_MS, FOUND_FREE_FOR_MS, GroupRouting
from gateway.hosting.newest_connections import NewestConnections
from gateway.hosting.states import AnchorPhase, Mode, Stage
from tests.simulation.broker_profiles import BrokerProfile
from tests.simulation.explorer.copies import is_value
from tests.simulation.explorer.numbers import (
    FIRST_EPOCH,
    FIRST_GENERATION,
    FIRST_TOKEN,
    OFFSETS_APART,
    START_MS,
)
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_consumers import SESSION_TIMEOUT_MS, Consumer
from tests.simulation.explorer.small_world import World

LONG_AGO_MS = 60_000
"""No rule looks further back. The anchor's session is the longest of them."""

HASHES_FROM = 10 * START_MS
"""Numbers from here on are no times but hashes."""

_INDEXES = {
    *("holders", "instances", "target_owners", "subscribers", "subscriptions", "offers"),
    *("regex_subscribers", "assignor_votes", "classic_offers", "statuses", "_deadlines"),
    "metadata_bytes",
}
"""Indexes of the engine over its other tables. `check_group` compares them."""
_DERIVED = {
    "_computed_for",  # what `ShownPartitions` was last computed for follows from the engine
    "_limits",  # a heap of the times in the waiting calls, with stale entries
    "_due",  # a heap of the times of holders, with stale entries
    # A batch's copy of the group follows from the group and the decisions.
    *("_copy", "_copied", "_readers", "_original", "_engine"),
}
_FOR_PEOPLE = {
    *("reason", "_told", "_last_statements", "_reported", "outbox", "client_host"),
    *("reason", "reasons", "held_ms", "_started_ms", "_unowned_until_ms"),
}
_FUNCTIONS = (type, FunctionType, BuiltinFunctionType, MethodType, partial)
_CONSTANT = (GroupConfig, Shape, Topics, BrokerProfile)
"""What never changes in a world."""
_FOLLOWS = (
    GroupParts,  # the group has all of them itself
    Adoptees,  # follow from the record of the adoption
)
"""What follows from other parts of a world."""
_UNREAD = (Conversions,)
"""What is read only where a group rests between conversions, as in no world."""
_DEAD = {
    "fresh_id",  # random, and read once
    *("_answered_ms", "_has_served"),  # only `has_stalled` reads them: it concerns other groups
    # Read only with a shorter interval, as in no world.
    "answer_times",
    # Read only where no roll is announced: each world with places has one.
    *("protocol_changed_ms", "left_last"),
    "next_token",
    "runs",
    *("_seen", "_has_looked"),  # `handle` ends when they are the present
    "latest_outcome",  # read where an operator holds the group, as in no world
    "has_anchor",  # read for commits without a member and admins' requests, which no world has
    "_effects",
    *("adopt_from_ms", "adoptions_undone"),  # read where groups are adopted without a command
}
_DROPPED = _DERIVED | _FOR_PEOPLE | _DEAD
_COUNTERS = {"sent", "confirmed", "_confirm_after", "confirms_since"}
_BEFORE_ADMISSION = (Stage.QUEUED, Stage.PLACING, Stage.CHECKING, Stage.LOOKING)
_BEFORE_DECISION = (*_BEFORE_ADMISSION, Stage.ADMITTING, Stage.DECIDING)
"""No call returns to one of these stages from another."""
_UNORDERED = {"deadlines", "acknowledged", "budgets", "pending"}
_BACK_MS = {
    "_lost_ms": 10_000,
    "sent_ms": 10_000,
    "target_timestamp_ms": 0,
    "earlier_target_ms": 0,
    "timestamp_ms": 0,
}
"""How far back rules look, at most for the longest patience."""
_DEADLINES = (
    *("at_ms", "until_ms", "give_up_ms", "due_ms", "over_ms", "before_ms", "expires_ms", "try_ms"),
    "by_ms",
)
"""Endings of the names of times that only have to come."""

_OF_ANCHOR = "groupferry-"
_OF_MEMBER = member_id_from(UUID(int=FIRST_TOKEN))[:12]
"""How generated ids begin. Those of classic groups end with a UUID instead."""

Add = Callable[["_Walk", Any, Any], None]


class Plan(NamedTuple):
    """How to add an object of one class: its parts that count, and what is special about them."""

    is_frozen: bool
    """Whether its instances have no identity."""
    parts: Callable[[Any], Sequence[Any]]
    adders: tuple[Add | None, ...]


_plans: dict[type[Any], Plan] = {}


def digest(world: World) -> bytes:
    """16 bytes that stand for the canonical form."""
    # Before version 1, marshal knows no references: equal forms give equal bytes.
    return hashlib.blake2b(marshal.dumps(canonical(world), 0), digest_size=16).digest()


def canonical(world: World) -> list[Any]:
    """The form itself, as a flat list."""
    walk = _Walk(world)
    walk.value(world)
    walk.order_of_members()
    return walk.out


class _Walk:
    def __init__(self, world: World) -> None:
        self.out: list[Any] = []
        self.now_ms = world.now_ms
        self.asked: Container[str] = world.asked
        self.offsets, self.generation = world.offsets, world.generation
        self.epoch = _newest_epoch(world)
        self.anchor = world.port.group.anchor
        self.names: dict[Any, Any] = {}
        self.seen: dict[int, int] = {}

    def value(self, value: Any) -> None:
        """Add any value."""
        handler = _HANDLERS.get(type(value))
        if handler is None:
            handler = _HANDLERS[type(value)] = _handler_for(type(value))
        handler(self, value)

    def number(self, value: int) -> None:
        """What a number is, its size says."""
        if value < FIRST_EPOCH or value >= HASHES_FROM:
            self.out.append(value)
        elif value < FIRST_GENERATION:
            self.out.append(f"e{value - self.epoch}")
        elif value >= START_MS - LONG_AGO_MS:
            self.out.append(max(value - self.now_ms, -LONG_AGO_MS))
        elif value >= FIRST_TOKEN:
            self.name("token", value)
        elif value >= 2 * OFFSETS_APART:
            number = value // OFFSETS_APART - 2
            self.out.append(value - self.offsets[number])
        else:
            self.out.append(value - self.generation)

    def text(self, value: str) -> None:
        if len(value) > 36 and value[-37] == "-":
            self.name(value[:-37], value)
        elif value.startswith(_OF_ANCHOR):
            self.name("anchor", value)
        elif value.startswith(_OF_MEMBER):
            self.name("member", value)
        else:
            self.out.append(value)

    def name(self, kind: str, value: Any) -> None:
        """A name that only has to differ from others."""
        named = self.names.get(value)
        if named is None:
            named = self.names[value] = f"{kind}#{len(self.names)}"
        self.out.append(named)

    def order_of_members(self) -> None:
        """Assignors go by the order of the ids."""
        ids = (name for name in self.names if isinstance(name, str))
        self.out += [
            self.names[number] for number in sorted(ids) if not number.startswith(_OF_ANCHOR)
        ]

    def rows(self, value: Mapping[Any, Any]) -> None:
        self.out.append(len(value))
        are_partitions = isinstance(next(iter(value), None), Partition)
        for key in sorted(value) if are_partitions else value:
            self.value(key)
            self.value(value[key])

    def walk_unordered(self, _owner: Any, value: Any) -> None:
        rows = []
        out = self.out
        for key, item in value.items():
            self.out = []
            self.value(key)
            if isinstance(item, int) and item >= START_MS:
                self.out.append(max(item - self.now_ms, 0))
            else:
                self.value(item)
            rows.append(self.out)
        self.out = out
        out.append(sorted(rows, key=repr))

    def set_of(self, value: Any) -> None:
        self.out.append(len(value))
        for item in sorted(value):
            self.value(item)

    def sequence(self, value: Any) -> None:
        self.out.append(len(value))
        for item in value:
            self.value(item)

    def anything(self, _owner: Any, value: Any) -> None:
        self.value(value)

    def cause(self, _owner: Any, value: Any) -> None:
        """For people, but a record without any is a tombstone."""
        self.out.append(value is None)

    def counter(self, _owner: Any, value: int) -> None:
        """Only which of the anchor's requests came first matters, of those not yet confirmed."""
        anchor = self.anchor
        assert anchor is not None
        if value < anchor.confirmed:
            self.out.append("past")
        elif value == anchor.sent:
            self.out.append("sent")
        else:
            self.out.append("confirmed" if value == anchor.confirmed else "between")

    def moment(self, value: Any, back_ms: int) -> None:
        """A time that matters only for so long."""
        if isinstance(value, int) and value >= START_MS - LONG_AGO_MS:
            self.out.append(max(value - self.now_ms, -back_ms))
        else:
            self.out.append(value if not value else 0)

    def walk_lost(self, anchor: Anchor, value: int) -> None:
        if anchor.phase in (AnchorPhase.STABLE, AnchorPhase.ABSENT):
            self.out.append(None)
        else:
            self.moment(value, _BACK_MS["_lost_ms"])

    def nothing(self, _owner: Any, _value: Any) -> None:
        """What does not count."""

    def relayed_at(self, _member: Any, value: int | None) -> None:
        """Whether the member's session continues, and for how long."""
        self.moment(value, SESSION_TIMEOUT_MS)

    def seen_at(self, routing: GroupRouting, value: int | None) -> None:
        """Only for how long the verdict still counts."""
        self.moment(value, _fresh_ms(routing))

    def until_admitted(self, call: Call, value: bool) -> None:
        self.out.append(value if call.stage in _BEFORE_ADMISSION else None)

    def until_decided(self, call: Call, value: bool) -> None:
        self.out.append(value if call.stage in _BEFORE_DECISION else None)

    def held_from(self, adopting: Adopting, value: Any) -> None:
        """Only for how long calls may still be held."""
        self.moment(value if adopting.is_hold_bounded else None, LONG_AGO_MS)

    def joins_of_members(self, group: HostedGroup, value: NewestConnections) -> None:
        """A member that returns is recorded again. Nobody turns back to an older connection
        here."""
        members = group.calls.member_ids()
        used = {key: used for key, used in value._by_key.items() if key in members}
        self.walk_unordered(value, used)

    def asked_by_consumer(self, consumer: Consumer, value: int) -> None:
        is_open = consumer.name in self.asked
        self.out.append(max(value - self.now_ms, -LONG_AGO_MS) if is_open else None)


def _fresh_ms(routing: GroupRouting) -> int:
    """How long the verdict counts without another look."""
    return FORWARDED_FOR_MS if routing.decision.mode is Mode.FORWARDED else FOUND_FREE_FOR_MS


def _newest_epoch(world: World) -> int:
    """The generation or epoch of the group that the gateway hosts; otherwise of the cluster's."""
    match world.here.state.group:
        case ClassicGroup() as group:
            return group.core.generation
        case ConsumerGroup() as group:
            return group.epoch
        case None:
            return world.generation


def _handler_for(kind: type[Any]) -> Callable[[_Walk, Any], None]:
    if kind is int:
        return _Walk.number
    if issubclass(kind, Enum):
        return lambda walk, value: walk.out.append(value.name)
    if kind is str:
        return _Walk.text
    if kind in (bool, bytes, type(None), float):
        return lambda walk, value: walk.out.append(value)
    if issubclass(kind, UUID):
        return lambda walk, value: walk.out.append(value.int)
    if issubclass(kind, (*_FUNCTIONS, *_CONSTANT, *_FOLLOWS, *_UNREAD)):
        return lambda _walk, _value: None
    if issubclass(kind, Mapping):
        return _Walk.rows
    if issubclass(kind, set | frozenset):
        return _Walk.set_of
    if issubclass(kind, tuple | list | deque):
        return _Walk.sequence
    return _object


def _object(walk: _Walk, value: Any) -> None:
    kind = type(value)
    plan = _plans.get(kind)
    if plan is None:
        plan = _plans[kind] = _plan_for(kind, value)
    if not plan.is_frozen:
        number = walk.seen.get(id(value))
        if number is not None:
            walk.out.append(f"same {number}")
            return
        walk.seen[id(value)] = len(walk.seen)
    walk.out.append(kind.__name__)
    for part, add in zip(plan.parts(value), plan.adders, strict=True):
        if add is not None:
            add(walk, value, part)
        elif part is None or part is True or part is False:
            walk.out.append(part)
        elif (handler := _HANDLERS.get(type(part))) is not None:
            handler(walk, part)
        else:
            walk.value(part)


def _plan_for(kind: type[Any], value: Any) -> Plan:
    names: list[str]
    if is_dataclass(kind):
        names = [field.name for field in fields(kind)]
    elif issubclass(kind, Forkable):
        names = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    elif hasattr(value, "__dict__"):
        names = list(vars(value))
    else:
        names = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    dropped = _DROPPED | _INDEXES if kind.__module__.startswith("coordinator.") else _DROPPED
    names = [name for name in names if name not in dropped and not name.startswith("__")]
    # Several parts of a group refer to its only instance of these: to walk it once is enough.
    is_frozen = is_value(kind)
    parts: Callable[[Any], Sequence[Any]]
    match names:
        case []:
            parts = _nothing
        case [only]:
            parts = partial(_one_of, attrgetter(only))
        case _:
            parts = attrgetter(*names)
    return Plan(is_frozen, parts, tuple(_adder(kind, name) for name in names))


def _nothing(_value: Any) -> Sequence[Any]:
    return ()


def _one_of(get: Callable[[Any], Any], value: Any) -> Sequence[Any]:
    return (get(value),)


def _adder(kind: type[Any], name: str) -> Add | None:
    """What is special about a field, or None."""
    if special := _OF_CLASSES.get((kind.__name__, name)):
        return special
    if special := _OF_NAMES.get(name):
        return special
    if (back_ms := _BACK_MS.get(name)) is not None:
        return lambda walk, _owner, value: walk.moment(value, back_ms)
    if name.endswith(_DEADLINES):
        return lambda walk, _owner, value: walk.moment(value, 0)
    return None


_OF_CLASSES: dict[tuple[str, str], Add] = {
    ("GroupRouting", "seen_ms"): _Walk.seen_at,
    ("Anchor", "_lost_ms"): _Walk.walk_lost,
    ("HostedGroup", "joined_on"): _Walk.joins_of_members,
    ("Adopting", "_held_from_ms"): _Walk.held_from,
    ("_Watch", "members"): _Walk.walk_unordered,
    ("_Watch", "size"): _Walk.nothing,
    ("WatchedGroups", "_size"): _Walk.nothing,
    ("WatchedMember", "heartbeat_ms"): _Walk.relayed_at,
    # Read only when the coordinator moves, as in no world.
    ("BrokerGroup", "log"): _Walk.nothing,
    ("HostingRules", "gateway"): _Walk.nothing,
    ("LibrdkafkaConsumer", "asked_ms"): _Walk.asked_by_consumer,
    ("NativeConsumer", "asked_ms"): _Walk.asked_by_consumer,
    ("ComputingConsumer", "asked_ms"): _Walk.asked_by_consumer,
    ("ClassicConsumer", "asked_ms"): _Walk.asked_by_consumer,
}
_OF_NAMES: dict[str, Add] = {
    **dict.fromkeys(_COUNTERS, _Walk.counter),
    **dict.fromkeys(_UNORDERED, _Walk.walk_unordered),
    "has_look": _Walk.until_admitted,
    "was_held": _Walk.until_decided,
    "cause": _Walk.cause,
    "now_ms": lambda _walk, _owner, _value: None,
}
_HANDLERS: dict[type[Any], Callable[[_Walk, Any], None]] = {}
