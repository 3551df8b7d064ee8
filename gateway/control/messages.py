"""Questions and commands to a running gateway, and the answers: the bodies and queries of the admin
API."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

GROUP_ID_BYTES_MAX = 32_767
"""The most that a Kafka request can carry."""
COMMAND_BYTES_MAX = 6 * GROUP_ID_BYTES_MAX + 1024
"""The body of a command. JSON may write a character in six bytes."""
REASONS_MAX = 200
"""Reasons in an answer. A large group may have one for each member."""
REASON_CHARS_MAX = 500
"""The length of a reason. Clients choose the ids in it, up to 32 KiB each."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""The body of an answer. A group may have 2,000 members with 100,000 partitions."""
COMMAND_S = 60.0
"""How long a client waits for the end of its command."""

SHUTS_DOWN = "the gateway is shutting down: start it, and give the command then"


class CommandRefused(Exception):
    """The command had no effect; the message says why and what to do, in one line."""


class NotKnown(CommandRefused):
    """The gateway does not know the group."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AdoptCommand(_Message):
    """Take over a live group from the cluster, without a rebalance."""

    command: Literal["adopt"] = "adopt"
    group_id: Annotated[str, Field(min_length=1, max_length=GROUP_ID_BYTES_MAX)]
    dry_run: bool = False
    """Only say whether the group can be adopted."""


class ReleaseCommand(_Message):
    """Give a hosted group back to the cluster, in one rebalance."""

    command: Literal["release"] = "release"
    group_id: Annotated[str, Field(min_length=1, max_length=GROUP_ID_BYTES_MAX)]
    dry_run: bool = False
    """Only say whether the group can be released."""


class _OfPolicy(_Message):
    """A command about the migration of one group."""

    group_id: Annotated[str, Field(min_length=1, max_length=GROUP_ID_BYTES_MAX)]
    dry_run: bool = False
    """Only say whether it can be done."""


class HoldCommand(_OfPolicy):
    """Let no further consumer of a hosted group switch to the new protocol."""

    command: Literal["hold"] = "hold"


class PauseCommand(_OfPolicy):
    """Hold the migration of a hosted group, and keep its target assignment as it is."""

    command: Literal["pause"] = "pause"


class AllowCommand(_OfPolicy):
    """End the hold or the pause of a hosted group."""

    command: Literal["allow"] = "allow"


class RollCommand(_OfPolicy):
    """Announce that the members of a hosted group are about to be restarted one by one, or that
    they have been."""

    command: Literal["roll"] = "roll"
    end: bool = False
    """Whether the roll is over."""


class RemoveCommand(_Message):
    """Send all clients to the cluster: they resolve their bootstrap servers again."""

    command: Literal["remove"] = "remove"
    dry_run: bool = False
    """Only say whether it can begin, and which clients would stay."""


class DrainCommand(_Message):
    """Answer the requests under way, and end the gateway. Its groups stay in the state log."""

    command: Literal["drain"] = "drain"
    dry_run: bool = False
    """Only say what it would end."""


class RestartCommand(_Message):
    """Restart the processes of a fleet one after another. Each leaves its groups to the others
    first, and gets them back."""

    command: Literal["restart"] = "restart"
    processes: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """The numbers of the processes; null for all."""
    dry_run: bool = False
    """Only say which processes it would restart."""


class ListGroups(_Message):
    """Say how the groups stand, those after a group id. `since`: the revision of an earlier list,
    for only those that have changed; 0 for the first list."""

    after: Annotated[str, Field(max_length=GROUP_ID_BYTES_MAX)] = ""
    since: int | None = None


class DescribeGroup(_Message):
    """Say how a group and its members stand."""

    group_id: Annotated[str, Field(min_length=1, max_length=GROUP_ID_BYTES_MAX)]


class AssessGroup(_Message):
    """Say whether a group is ready for the new protocol and for adoption."""

    group_id: Annotated[str, Field(min_length=1, max_length=GROUP_ID_BYTES_MAX)]


class LatestEvents(_Message):
    """List what happened recently: to a group, or to the gateway and all groups."""

    group_id: Annotated[str, Field(min_length=1, max_length=GROUP_ID_BYTES_MAX)] | None = None


class DescribeClient(_Message):
    """Say which groups a client is a member of, and how it stands there."""

    client_id: Annotated[str, Field(min_length=1, max_length=GROUP_ID_BYTES_MAX)]


class DescribeGateway(_Message):
    """Say how the gateway stands."""


class AdoptionAnswer(_Message):
    """What became of an adoption, or would become of it."""

    kind: Literal["adoption"] = "adoption"
    group_id: str
    is_adopted: bool
    """Whether the group is hosted now, because it was adopted."""
    is_marked: bool = False
    """Whether a group without members in the cluster is adopted, or can be: it stays hosted, or is
    from its next join on."""
    is_known: bool = True
    """Whether the gateway or the cluster has heard of the group. Its name may be misspelt."""
    reasons: tuple[str, ...] = ()
    """Why it was not, or cannot be, mostly one for each member. None after a dry run: it can."""
    held_ms: int | None = None
    """How long calls of the group were held; None if they were not."""


class ReleaseAnswer(_Message):
    """What became of a release, or would become of it."""

    kind: Literal["release"] = "release"
    group_id: str
    is_released: bool
    """Whether the cluster serves the group now."""
    reasons: tuple[str, ...] = ()
    """Why it does not, or cannot, mostly one for each member. None after a dry run: it can."""
    unowned_ms: int | None = None
    """How long its partitions could have no owner; None if it was not released now."""


class PolicySet(_Message):
    """What became of a hold, a pause, a roll, or their end."""

    kind: Literal["policy"] = "policy"
    group_id: str
    policy: Literal["allow", "hold", "pause", "roll", "end of roll"]
    reasons: tuple[str, ...] = ()
    """Why it has no effect. None: it has, or after a dry run, would have."""


class RemovalAnswer(_Message):
    """What became of a removal, or would become of it."""

    kind: Literal["removal"] = "removal"
    is_removed: bool
    """Whether no client is left."""
    redirected: int = Field(default=0, validation_alias=AliasChoices("redirected", "told"))
    """Clients that were told to resolve their bootstrap servers again; `told` in answers of older
    gateways."""
    reasons: tuple[str, ...] = ()
    """Why it did not begin, or was stopped."""
    clients_left: tuple[str, ...] = ()
    """A line for each client that is left, or, after a dry run, would be."""


class DrainAnswer(_Message):
    """What a drain ends, or would end."""

    kind: Literal["drain"] = "drain"
    is_draining: bool
    connections: int
    """Open client connections."""
    hosted: int
    """Groups that the next gateway takes over from the state log."""


class RestartAnswer(_Message):
    """Which processes are restarted, or would be."""

    kind: Literal["restart"] = "restart"
    processes: tuple[int, ...]


QuestionToAll = ListGroups | DescribeClient | DescribeGateway
"""A question about no group in particular: each process of a gateway answers for its own."""
Question = QuestionToAll | DescribeGroup | AssessGroup | LatestEvents
"""Changes nothing."""
PolicyCommand = HoldCommand | PauseCommand | AllowCommand | RollCommand
OfGateway = DrainCommand | RemoveCommand | RestartCommand
"""Concerns no group."""
Order = AdoptCommand | ReleaseCommand | PolicyCommand | OfGateway
"""Changes something."""
Outcome = AdoptionAnswer | ReleaseAnswer | PolicySet | DrainAnswer | RemovalAnswer | RestartAnswer
"""What became of an order."""

ORDERS: Mapping[str, type[Order]] = {
    order.model_fields["command"].default: order
    for order in (
        AdoptCommand,
        ReleaseCommand,
        HoldCommand,
        PauseCommand,
        AllowCommand,
        RollCommand,
        DrainCommand,
        RemoveCommand,
        RestartCommand,
    )
}
"""The orders by name."""

QUESTIONS: Mapping[str, type[Question]] = {
    "/api/groups": ListGroups,
    "/api/group": DescribeGroup,
    "/api/client": DescribeClient,
    "/api/gateway": DescribeGateway,
    "/api/readiness": AssessGroup,
    "/api/latest-events": LatestEvents,
}
"""The questions by path. Their fields are the query."""
COMMANDS_PATH = "/api/commands"
"""The path of a command is below it, and ends with the command's name."""
METRICS_PATH = "/metrics"
GIVEN_BY_HEADER = "X-Given-By"
"""Names who gave a command that one process of a fleet passes on to another."""
