"""What a hosted group asks its driver to do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.interface.replies import Reply
from coordinator.interface.volatile_records import Computation, RegexResolution
from gateway.events.event import GatewayEvent, Level, Told
from gateway.hosting import adoption_steps
from gateway.hosting.answers import code_for
from gateway.hosting.batch import Batch
from gateway.hosting.calls import Call, Commit, Refused
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


@dataclass(frozen=True, slots=True)
class Look:
    """Ask the cluster who is in the group. `Looked` must follow."""


@dataclass(frozen=True, slots=True)
class Load:
    """Read the group from the state log. `Loaded` or `LoadFailed` must follow."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write the batch's records and events to the state log. `Written` or `WriteFailed` must
    follow."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget the events of the group, which is deleted. `Forgotten` must follow."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Run a long computation in a thread. `Computed` must follow."""

    compute: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Resolve:
    """Match regular expressions in the background. `Happened(RegexesResolved)` must follow, unless
    the group is loaded again."""

    resolution: RegexResolution


@dataclass(frozen=True, slots=True)
class Assign:
    """Have a plug-in compute a target. `Happened(AssignmentReceived)` must follow, unless the group
    is loaded again."""

    computation: Computation


@dataclass(frozen=True, slots=True)
class AskCoordinator:
    """Send the anchor's request to the group's coordinator. `CoordinatorAnswered` or
    `CoordinatorFailed` must follow."""

    message: Struct
    looks_up: bool
    """Whether the coordinator may have moved, so that it has to be looked up first."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Report the events of decisions that have nothing to write."""

    told: Sequence[Told]


@dataclass(frozen=True, slots=True)
class TellNow:
    """Report an event about the group in the cluster."""

    event: GatewayEvent


@dataclass(frozen=True, slots=True)
class Log:
    """Log a line."""

    level: Level
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    """The bug behind the line, whose traceback the log shows."""


OfAdoption = adoption_steps.Describe | adoption_steps.Hold | adoption_steps.Ask
"""Steps of an adoption. `StepTaken` must follow each, with its answer."""

Effect = (
    Look
    | Load
    | Write
    | Forget
    | Compute
    | Resolve
    | Assign
    | AskCoordinator
    | OfAdoption
    | Tell
    | TellNow
    | Log
)
"""Calls carry their own answers and errands, see `gateway.hosting.calls`."""


def refusal_line(group_id: str, item: Call | Commit, outcome: Reply | Refused) -> Log:
    """The line about a request that is refused, with the reason."""
    call = item.call if isinstance(item, Commit) else item
    if isinstance(outcome, Refused):
        assert call is not None
        code = code_for(outcome.situation, call.api)
    else:
        code = outcome.error
    owner = None if call is None else call.owner
    fields = {
        "group_id": group_id,
        "client": None if owner is None else str(owner),
        "event_type": type(item.event).__name__,
        "error_code": code.name,
        "reason": outcome.why,
    }
    return Log("debug" if code in _EXPECTED else "info", "request_refused", fields)
