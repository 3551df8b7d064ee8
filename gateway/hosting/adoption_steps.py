"""What happens to an adoption, and what it asks its driver to do."""

from dataclasses import dataclass
from enum import StrEnum

from coordinator.interface.events import AdoptionEnded, AdoptionMoved
from gateway.hosting.forwarded import WatchedGroup
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


# -- inputs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Described:
    """The cluster's description of the group, None if it gives none, and what is known of the
    group from requests that were relayed."""

    group: DescribedGroup | None
    watched: WatchedGroup | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """The engine has decided on the latest step, and the log has it."""


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The log may not have the latest step."""

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
class MoveTimerFired:
    """`next_ms` is over."""


OfDriver = Described | Drained | Answered | Unanswered
"""Answers to `Describe`, `Hold` and `Ask`."""

Input = OfDriver | Stored | StoreFailed | Heard | GaveUp | MoveTimerFired

# -- effects ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Describe:
    """Ask the cluster who is in the group. The result is its description, None if it gives none."""


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """Relay no further request of the group. Done once all that were relayed are answered."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Send a request to the group's coordinator. The result is the answer."""

    lane: Lane
    message: Struct


Effect = Describe | Hold | Ask | AdoptionMoved | AdoptionEnded
"""The last two are for the engine to decide and for the log to store. `Stored` or `StoreFailed`
follows."""
