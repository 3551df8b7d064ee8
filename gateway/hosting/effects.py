"""What a hosted group asks its surroundings to do, and the one way in which that is carried out.

An effect that is `Awaited` is followed by `Done` or `Failed` with this effect, once, unless the
group has started again meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from coordinator.engine import GroupEngine
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from coordinator.interface.value import value
from coordinator.interface.volatile_records import Computation, RegexResolution
from gateway.events.event import DecisionEvents, GatewayEvent, Level
from gateway.hosting.answers import code_for
from gateway.hosting.batch import Batch
from gateway.hosting.calls import (
    Call,
    Commit,
    LearnTopics,
    LocateCoordinator,
    PendingAction,
    ProbeBroker,
    Refused,
    Reserve,
    StoreCommits,
)
from gateway.hosting.move_requests import AnyRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode

_EXPECTED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    }
)
"""What clients get in every rebalance, restart and failover, and act upon by themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Ask the cluster who is in the group. The result is what was found."""


class LoadedGroup(NamedTuple):
    """What the log has of a group, and all topics that the group refers to."""

    engine: GroupEngine
    topics: Topics


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Read the group from the state log. The result is a `LoadedGroup`."""


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """Write the batch's records and events to the state log."""

    batch: Batch


@dataclass(frozen=True, slots=True, eq=False)
class Forget:
    """Forget the events of the group, which is deleted, as far as the log allows it now."""


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """Run a long computation in a thread."""

    compute: Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False)
class Resolve:
    """Match regular expressions in the background. The result is `RegexesResolved`; there is none
    if the group is loaded again meanwhile."""

    resolution: RegexResolution


@dataclass(frozen=True, slots=True, eq=False)
class Assign:
    """Have a plug-in compute a target. The result is `AssignmentReceived`; there is none if the
    group is loaded again meanwhile."""

    computation: Computation


@dataclass(frozen=True, slots=True, eq=False)
class AskCoordinator:
    """Send the anchor's request to the group's coordinator. The result is the answer."""

    message: Struct
    looks_up: bool
    """Whether the coordinator may have moved, so that it has to be looked up first."""


@value(kw_only=False)
class AnswerClient:
    """Give the client the answer of its call."""

    call: Call


@dataclass(frozen=True, slots=True)
class Conclude:
    """Give the operator the outcome of a request to move the group."""

    request: AnyRequest


@dataclass(frozen=True, slots=True)
class ReportEvents:
    """Report the events of decisions that have nothing to write."""

    reported: Sequence[DecisionEvents]


@dataclass(frozen=True, slots=True)
class EmitNow:
    """Report an event about the group in the cluster."""

    event: GatewayEvent


@dataclass(frozen=True, slots=True)
class Log:
    """Log a line about the group, whose id every line has."""

    level: Level
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    """The bug behind the line, whose traceback the log shows."""


class Requester(StrEnum):
    """The sender of the requests to the group's coordinator. A member has one under way at a time;
    a coordinator that parks a JoinGroup reads nothing else from its connection."""

    LEADER = "leader"
    """The leader's member, as the gateway has it rejoin."""
    ANCHOR = "anchor"
    """The anchor that takes its place."""
    OTHERS = "others"
    """Members whose clients have joined: their heartbeats, and their leaves in one request."""
    RELEASE = "release"
    """A release, as the anchor."""


@dataclass(frozen=True, slots=True, eq=False)
class Describe:
    """Ask the cluster who is in the group. The result is its description, None if there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """Relay no further request of the group. Done once all that were relayed are answered."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Send a request to the group's coordinator. The result is the answer."""

    requester: Requester
    message: Struct


MoveStep = Describe | Hold | Ask
"""Steps of an adoption or a release."""
Work = Look | Load | Write | Forget | Compute | Resolve | Assign | AskCoordinator | MoveStep
"""What takes time, and needs no client."""
Awaited = Reserve | PendingAction | Work
Effect = Awaited | AnswerClient | Conclude | ReportEvents | EmitNow | Log


class Surroundings(Protocol):
    """What carries out the effects of one group: the gateway's driver, or a stand-in for it.
    Methods begin something, and never wait for it."""

    def log(self, line: Log) -> None: ...
    def report(self, events: ReportEvents | EmitNow) -> None: ...
    def answer(self, call: Call) -> None: ...
    def conclude(self, request: AnyRequest) -> None: ...
    def start_action(self, pending_action: PendingAction) -> None: ...
    def reserve(self, effect: Reserve) -> None: ...
    def start_work(self, effect: Work) -> None: ...


def carry_out(effect: Effect, surroundings: Surroundings) -> None:
    """Have an effect carried out."""
    match effect:
        case AnswerClient():
            surroundings.answer(effect.call)
        case LearnTopics() | LocateCoordinator() | ProbeBroker() | StoreCommits():
            surroundings.start_action(effect)
        case Reserve():
            surroundings.reserve(effect)
        case ReportEvents() | EmitNow():
            surroundings.report(effect)
        case Log():
            surroundings.log(effect)
        case Conclude(request):
            surroundings.conclude(request)
        case _:
            surroundings.start_work(effect)


def refusal_line(item: Call | Commit, outcome: Reply | Refused) -> Log:
    """The line about a request that is refused, with the reason."""
    call = item.call if isinstance(item, Commit) else item
    if isinstance(outcome, Refused):
        assert call is not None
        code = code_for(outcome.cause, call.api)
    else:
        code = outcome.error
    owner = None if call is None else call.owner
    fields = {
        "client": None if owner is None else str(owner),
        "event_type": type(item.event).__name__,
        "error_code": code.name,
        "reason": outcome.reason,
    }
    return Log("debug" if code in _EXPECTED else "info", "request_refused", fields)
