"""What happens to a hosted group: what clients and operators want, what its surroundings report,
and what came of its effects."""

from enum import Enum, auto
from typing import Any

from coordinator.interface.events import Happening
from coordinator.interface.topics import Topics
from coordinator.interface.value import value
from gateway.hosting.calls import Call, Refused
from gateway.hosting.effects import Awaited
from gateway.hosting.forwarded import Client
from gateway.hosting.move_requests import AnyRequest
from kafka_codecs.declaration import Struct


@value(kw_only=False)
class Asked:
    """A client's request has arrived."""

    call: Call


@value(kw_only=False)
class Gone:
    """The client has gone and will not see the answer."""

    call: Call


@value(kw_only=False)
class TimerFired:
    """`next_ms` is over."""


@value(kw_only=False)
class Paused:
    """The process was paused: stopped, or starved by a busy machine. No member is given up before
    `grace_over_ms`, in wall-clock milliseconds."""

    grace_over_ms: int


@value(kw_only=False)
class TopicsMoved:
    """The cluster's topics have changed, or more of them are known."""

    topics: Topics


@value(kw_only=False)
class EngineEvent:
    """An event of the engine that is not a request."""

    event: Happening


@value(kw_only=False)
class SeenForeign:
    """The cluster has admitted a member with another embedded protocol."""

    reason: str


@value(kw_only=False)
class Relayed:
    """The cluster has answered a client's request of a forwarded group."""

    client: Client
    request: Struct
    answer: Struct


@value(kw_only=False)
class Resumed:
    """The gateway has started, and the group has members in the log, or is being moved."""

    is_moving: bool = False


@value(kw_only=False)
class MoveRequested:
    """The group is to be adopted or released."""

    request: AnyRequest


@value(kw_only=False)
class Leave:
    """The anchor leaves even if the group has members: their state ends with the process."""


@value(kw_only=False)
class Ending:
    """The gateway is shutting down: no call waits from now on."""


class Damage(Enum):
    """What a failed write leaves behind."""

    NONE = auto()
    """The log does not have the batch; the next one may succeed."""
    REFUSED = auto()
    """The log does not have the batch, and never will: a record is too large."""
    UNSURE = auto()
    """Whether the log has the batch is unknown."""


@value(kw_only=False)
class Done:
    """An effect was carried out. Each kind of effect says what its result is."""

    effect: Awaited
    result: Any = None


@value(kw_only=False)
class Failed:
    """An effect failed, or its outcome is unknown. `reason` is a text for operators; of a `Write`
    what it leaves behind, of a `Compute` the bug, and of a `Reserve` the refusal."""

    effect: Awaited
    reason: str | Damage | Exception | Refused


Input = (
    Asked
    | Gone
    | TimerFired
    | Paused
    | TopicsMoved
    | EngineEvent
    | SeenForeign
    | Relayed
    | Resumed
    | MoveRequested
    | Leave
    | Ending
    | Done
    | Failed
)
