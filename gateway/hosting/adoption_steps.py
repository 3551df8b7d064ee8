"""What happens to an adoption, and what it asks its driver to do."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from coordinator.interface.records import AdoptionState
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.identity import AnchorIds
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup


class Lane(StrEnum):
    """Whose requests to the group's coordinator these are. A member has one under way at a time; a
    coordinator that parks a JoinGroup reads nothing else from its connection."""

    LEADER = "leader"
    """The leader's member, as the gateway has it rejoin."""
    ANCHOR = "anchor"
    """The anchor that takes its place."""
    OTHERS = "others"
    """Members whose clients have joined: their heartbeats, and their leaves in one request."""
    RELEASE = "release"
    """A release, as the anchor."""


class Treatment(StrEnum):
    """What becomes of the requests of clients meanwhile."""

    FORWARDED = "forwarded"
    """The cluster answers them."""
    HELD = "held"
    """Heartbeats of the group's generation succeed once the group is guarded. Everything else
    waits."""
    RECALLED = "recalled"
    """The members are told to rejoin, and joins wait until all have given up what they hold."""
    HOSTED = "hosted"
    """The engine answers them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionOutcome:
    """What became of the wish to adopt a group."""

    group_id: str
    is_adopted: bool
    """Whether the group is hosted now, because it was adopted."""
    is_marked: bool = False
    """Whether a group without members in the cluster is adopted, or can be: it stays hosted, or is
    from its next join on."""
    reasons: tuple[str, ...] = ()
    """Why it was not, or cannot be; one a member. None after a dry run: it can be adopted."""
    held_ms: int | None = None
    """For how long the calls of its clients were held, if they were."""

    @classmethod
    def refused(cls, group_id: str, why: str) -> Self:
        """Nothing was begun."""
        return cls(group_id=group_id, is_adopted=False, reasons=(why,))


@dataclass(slots=True, eq=False)
class Wish:
    """Somebody wants a group to be adopted, and may wait for what becomes of it."""

    outcome: AdoptionOutcome | None = None
    operator: Any = None
    """What the carrier of effects knows of the one who waits; the group never looks at it."""


# -- inputs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Described:
    """The cluster's description of the group, None if it gives none, and what is known of the
    group from requests that were relayed."""

    group: DescribedGroup | None
    watched: WatchedGroup | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """The log has the latest `Store`."""


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The log may not have the latest `Store`."""

    why: str


@dataclass(frozen=True, slots=True)
class Drained:
    """Every request that was relayed before `Hold` has been answered."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The coordinator answered the request of a lane."""

    lane: Lane
    answer: Struct


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The coordinator did not answer the request of a lane. It may still receive it."""

    lane: Lane
    why: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A member that was recalled has sent a request."""

    member_id: str


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A member that was recalled holds no partition any more: it left, it joined without owning
    any, or its client returned without an id after it got UNKNOWN_MEMBER_ID."""

    member_id: str
    comes_back: bool = True
    """Whether its client is about to join again."""
    still_owns: bool = False
    """Whether its JoinGroup without an id claims partitions: franz-go keeps them for its next
    round."""


@dataclass(frozen=True, slots=True)
class TookOver:
    """The engine has the group, and so has the log."""


@dataclass(frozen=True, slots=True)
class TakeOverFailed:
    """The log may not have the group yet."""

    why: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`next_ms` is over."""


OfDriver = Described | Drained | Answered | Unanswered
"""Answers to `Describe`, `Hold` and `Ask`."""

Input = OfDriver | Stored | StoreFailed | Heard | GaveUp | TookOver | TakeOverFailed | TimePassed

# -- effects ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Describe:
    """Ask the cluster who is in the group. The result is its description, None if it gives none."""


@dataclass(frozen=True, slots=True)
class Store:
    """Write how far the adoption has come; None: it is over. `Stored` or `StoreFailed` must
    follow."""

    adoption: AdoptionState | None


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """Relay no further request of the group. Done once all that were relayed are answered."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Send a request to the group's coordinator. The result is the answer."""

    lane: Lane
    message: Struct


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Have the engine take over the group, and the anchor go on with these ids. `TookOver` or
    `TakeOverFailed` must follow."""

    ids: AnchorIds


Effect = Describe | Store | Hold | Ask | TakeOver
