"""The canonical form of a world: equal for two worlds that can only go on in the same way.

Times are relative to the present, epochs to the newest of the group, offsets to the committed one;
tokens and generated ids are named in the order in which they occur. History that nothing reads any
more is left out. Whatever this module does not know is kept as it is: two worlds then count as
different although they are not, never the other way round.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any
from uuid import UUID

from coordinator.copy_on_write.forkable import Forkable
from coordinator.copy_on_write.table import Table
from gateway.hosting.anchor import Anchor
from gateway.hosting.states import AnchorPhase
from gateway.simulation.explorer.small_cluster import FIRST_GENERATION, Cluster
from gateway.simulation.explorer.small_consumers import Consumer
from gateway.simulation.explorer.small_world import (
    FIRST_TOKEN,
    OFFSETS_APART,
    START_MS,
    Question,
    World,
)

LONG_AGO_MS = 60_000
"""No rule looks further back. The anchor's session is the longest of them."""

HASHES_FROM = 10 * START_MS
"""Numbers from here on are no times but hashes."""

_DERIVED = {
    # An index over the other tables, which `check_group` compares with them.
    *("holders", "instances", "target_owners", "subscribers", "subscriptions", "offers"),
    *("regex_subscribers", "assignor_votes", "classic_offers", "standings", "_deadlines"),
    # A batch's copy of the group follows from the group and the decisions.
    *("_copy", "_copied", "_readers", "_original", "_engine"),
}
_FOR_PEOPLE = {
    *("why", "told", "_told", "_reported", "outbox", "client_host", "on_change"),
}
_SETTINGS = {"shape", "topics", "rules", "_rules", "_config", "_broker_config", "config", "by_id"}
_DEAD = {
    "fresh_id",  # random, and read once
    "_answered_ms",  # only `has_stalled` reads it, which concerns other groups
    "_looked_ms",  # of `Pauses`: a world has no grace for pauses
    "next_token",
    "runs",
    "joins",
    "_seen",  # `handle` ends when it is the present
    "_effects",
}
_DROPPED = _DERIVED | _FOR_PEOPLE | _SETTINGS | _DEAD
_EPOCHS = {"epoch", "member_epoch", "previous_member_epoch", "assignment_epoch", "generation"}
_COUNTERS = {"sent", "confirmed", "_confirm_after", "confirms_since"}
_LOOKS = {"_looks", "looks_before"}
_UNORDERED = {"deadlines", "acknowledged", "budgets", "pending", "under_way"}
_BACK_MS = {"seen_ms": 5_000, "_lost_ms": 10_000, "sent_ms": 10_000, "target_timestamp_ms": 0, "timestamp_ms": 0}
"""How far back rules look: for how long a group counts as free, and the longest patience."""
_DEADLINES = (
    *("_at_ms", "at_ms", "until_ms", "give_up_ms", "due_ms", "over_ms", "before_ms", "expires_ms"),
)

Plan = list[tuple[str, Callable[["_Walk", Any, Any], None]]]
_plans: dict[type[Any], Plan] = {}


def digest(world: World) -> bytes:
    """16 bytes that stand for the canonical form."""
    return hashlib.blake2b(repr(canonical(world)).encode(), digest_size=16).digest()


def canonical(world: World) -> list[Any]:
    """The form itself, as a flat list."""
    walk = _Walk(world)
    walk.value(world)
    return walk.out


class _Walk:
    def __init__(self, world: World) -> None:
        self.out: list[Any] = []
        self.now_ms = world.now_ms
        self.offsets = world.cluster.offsets
        self.generation = world.cluster.generation
        self.anchor = world.machine.anchor
        self.looks: int = world.machine._looks
        self.epoch = _newest_epoch(world)
        self.names: dict[Any, Any] = {}
        self.seen: dict[int, int] = {}
        self.world = world

    def value(self, value: Any) -> None:
        """Add any value."""
        handler = _HANDLERS.get(type(value))
        if handler is None:
            handler = _HANDLERS[type(value)] = _handler_for(type(value))
        handler(self, value)

    def number(self, value: int) -> None:
        if value >= HASHES_FROM:
            self.out.append(value)
        elif value >= START_MS - LONG_AGO_MS:
            self.out.append(max(value - self.now_ms, -LONG_AGO_MS))
        elif value >= FIRST_TOKEN:
            self.name("token", value)
        elif value >= 2 * OFFSETS_APART:
            number = value // OFFSETS_APART - 2
            self.out.append(value - self.offsets[number])
        elif value >= FIRST_GENERATION:
            self.out.append(value - self.generation)
        else:
            self.out.append(value)

    def text(self, value: str) -> None:
        if len(value) > 36 and value[-37] == "-":
            self.name(value[:-37], value)
        elif value.startswith("groupferry-"):
            self.name("anchor", value)
        else:
            self.out.append(value)

    def name(self, kind: str, value: Any) -> None:
        """A name that only has to differ from others."""
        named = self.names.get(value)
        if named is None:
            named = self.names[value] = f"{kind}#{len(self.names)}"
        self.out.append(named)

    def rows(self, value: Mapping[Any, Any]) -> None:
        self.out.append(len(value))
        for key, each in value.items():
            self.value(key)
            self.value(each)

    def unordered(self, _owner: Any, value: Any) -> None:
        rows = []
        out = self.out
        for key, each in value.items():
            self.out = []
            self.value(key)
            if isinstance(each, int) and each >= START_MS:
                self.out.append(max(each - self.now_ms, 0))
            else:
                self.value(each)
            rows.append(self.out)
        self.out = out
        out.append(sorted(rows, key=repr))

    def set_of(self, value: Any) -> None:
        self.out.append(len(value))
        for each in sorted(value):
            self.value(each)

    def sequence(self, value: Any) -> None:
        self.out.append(len(value))
        for each in value:
            self.value(each)

    def anything(self, _owner: Any, value: Any) -> None:
        self.value(value)

    def epoch_of(self, _owner: Any, value: Any) -> None:
        if isinstance(value, int) and 0 < value < FIRST_GENERATION:
            self.out.append(f"e{value - self.epoch}")
        else:
            self.value(value)

    def counter(self, _owner: Any, value: int) -> None:
        """Only which of the anchor's requests came first matters, of those not yet confirmed."""
        anchor = self.anchor
        if value < anchor.confirmed:
            self.out.append("past")
        elif value == anchor.sent:
            self.out.append("sent")
        else:
            self.out.append("confirmed" if value == anchor.confirmed else "between")

    def look(self, _owner: Any, value: int) -> None:
        self.out.append(value == self.looks)

    def moment(self, owner: Any, value: Any, back_ms: int) -> None:
        """A time that matters only for so long."""
        if isinstance(value, int) and value >= START_MS - LONG_AGO_MS:
            self.out.append(max(value - self.now_ms, -back_ms))
        else:
            self.out.append(value if not value else 0)

    def lost(self, anchor: Anchor, value: int) -> None:
        if anchor.phase in (AnchorPhase.STABLE, AnchorPhase.ABSENT):
            self.out.append(None)
        else:
            self.moment(anchor, value, _BACK_MS["_lost_ms"])

    def asked_by_anchor(self, anchor: Anchor, value: int) -> None:
        self.out.append(None if anchor._asked is None else max(value - self.now_ms, -LONG_AGO_MS))

    def asked_by_consumer(self, consumer: Consumer, value: int) -> None:
        is_open = consumer.name in self.world.questions
        self.out.append(max(value - self.now_ms, -LONG_AGO_MS) if is_open else None)


def _newest_epoch(world: World) -> int:
    group = world.machine.engine.core.state.group
    epochs = [each.epoch for each in world.consumers.values() if each is not None]
    if group is not None:
        core = getattr(group, "core", None)
        epochs.append(group.epoch if core is None else core.generation)  # type: ignore[union-attr]
    return max(epochs, default=0)


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
    if issubclass(kind, type | FunctionType | BuiltinFunctionType | partial):
        return lambda _walk, _value: None
    if issubclass(kind, Table):
        return lambda walk, value: walk.rows(value._rows())
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
    if not is_frozen(kind):
        number = walk.seen.get(id(value))
        if number is not None:
            walk.out.append(f"same {number}")
            return
        walk.seen[id(value)] = len(walk.seen)
    walk.out.append(kind.__name__)
    for name, add in plan:
        add(walk, value, getattr(value, name, None))


_frozen: dict[type[Any], bool] = {}


def is_frozen(kind: type[Any]) -> bool:
    """Whether it is a frozen dataclass, whose instances have no identity."""
    known = _frozen.get(kind)
    if known is None:
        known = is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        _frozen[kind] = known
    return known


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
    return [(name, _adder(kind, name)) for name in names if name not in _DROPPED]


def _adder(kind: type[Any], name: str) -> Callable[[_Walk, Any, Any], None]:
    if issubclass(kind, Anchor) and name == "_lost_ms":
        return _Walk.lost
    if issubclass(kind, Anchor) and name == "_asked_ms":
        return _Walk.asked_by_anchor
    if issubclass(kind, Consumer) and name == "asked_ms":
        return _Walk.asked_by_consumer
    if issubclass(kind, Cluster) and name == "generation":
        return _Walk.anything
    if issubclass(kind, Question) and name == "is_confirmed":
        return _Walk.anything
    if name == "now_ms":
        return lambda _walk, _owner, _value: None
    if name in _EPOCHS:
        return _Walk.epoch_of
    if name in _COUNTERS:
        return _Walk.counter
    if name in _LOOKS:
        return _Walk.look
    if name in _UNORDERED:
        return _Walk.unordered
    if name in _BACK_MS:
        back_ms = _BACK_MS[name]
        return lambda walk, owner, value: walk.moment(owner, value, back_ms)
    if name.endswith(_DEADLINES):
        return lambda walk, owner, value: walk.moment(owner, value, 0)
    return _Walk.anything


_HANDLERS: dict[type[Any], Callable[[_Walk, Any], None]] = {}
