"""The rows of all tables: the source of their schema and documentation.

They are plain dataclasses, because a fold makes many.

Times are milliseconds since 1970 (UTC), null if unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import ClassVar, Literal, TypeAlias, get_args, get_type_hints

from pydantic import ConfigDict

from gateway.json_schemas import DOCUMENTED

SCHEMA_VERSION = 2
"""The version of all tables. Raised when a reader of the older version would misread a column."""


@dataclass(slots=True, kw_only=True)
class Row:
    """One row of a table."""

    __pydantic_config__: ClassVar[ConfigDict] = DOCUMENTED
    cluster_id: str
    """The cluster's own id; empty if it was not known yet."""


@dataclass(slots=True, kw_only=True)
class GroupedRow(Row):
    """A row about a group."""

    group_id: str
    """The group's id."""


@dataclass(slots=True, kw_only=True)
class CostRow(GroupedRow):
    """A row about what rebalances cost."""

    partitions_moved: int
    """Partitions that had another owner at the end than at the beginning."""
    least_possible: int
    """The fewest partitions that had to move."""
    members_disturbed: int
    """Members that had to rejoin, or whose partitions changed."""
    unowned_ms: int
    """Milliseconds without an owner, summed over the partitions."""


@dataclass(slots=True, kw_only=True)
class PartitionRow(GroupedRow):
    """A row about a partition."""

    topic: str
    """The topic's name."""
    partition: int
    """The number of the partition."""


@dataclass(slots=True, kw_only=True)
class LineRow(PartitionRow):
    """A row that one line shows."""

    gateway_id: str
    """The log with the line that shows it."""
    process_id: str | None
    """The process whose sequence has the line; null if it is in the group's own."""
    sequence: int
    """The line's number in its sequence."""


GroupVerdict: TypeAlias = Literal["safe", "not safe", "not proven"]
NotCompared: TypeAlias = Literal[
    "forwarded", "transactional", "lines missing", "clocks", "no commit", "no fetch"
]


@dataclass(slots=True, kw_only=True)
class GroupRow(CostRow):
    """One row per group and cluster: whether it was safe, how much was compared, what its
    rebalances cost, and whether it can go next."""

    verdict: GroupVerdict
    """`safe`: hand-overs were compared, and no fault was found, as far as the group's own lines
    tell: rows of `unread` without a group may be about any. `not safe`: a fault is certain. `not
    proven`: nothing could be compared, a fault is possible, or lines are missing."""
    reason: str
    """What makes it unsafe or leaves it open; empty if it is safe."""
    faults: Mapping[str, int]
    """The number of certain findings by kind."""
    doubts: Mapping[str, int]
    """The number of findings by kind that are not certain."""
    unread: int
    """Rows of `unread` that are about this group."""
    lines: int
    """Lines about the group, without repeats."""
    first_grants: int
    """Partitions that got their first owner."""
    handovers: int
    """How often a partition passed from one member to another."""
    compared: int
    """Hand-overs whose order of owners and offsets was compared."""
    not_compared: Mapping[str, int]
    """The number of other hand-overs by reason: see `handovers`."""
    kind: str | None
    """`classic`, `consumer` or null if no line states it."""
    is_forwarded: bool
    """Whether the cluster's own coordinator has the group at the end."""
    members: int
    """Members at the end."""
    classic_members: int
    """Members at the end with the classic protocol."""
    consumer_members: int
    """Members at the end with the new protocol."""
    rebalances: int
    """Rebalances that ended."""
    steps: int
    """Steps of rolls: consumers that changed their protocol."""
    can_convert: bool | None
    """Whether the group can convert, or could; null if no line states it."""
    direction: str | None
    """The direction of that conversion."""
    blocked_by: str | None
    """What is in its way, with the first client that it concerns."""
    from_ms: int
    """The first line."""
    to_ms: int
    """The last line."""


FindingKind: TypeAlias = Literal[
    "owned_twice", "commit_lost", "commit_went_back", "claim_without_grant", "records_skipped"
]


@dataclass(slots=True, kw_only=True)
class FindingRow(LineRow):
    """Faults and doubts, each with the lines that show it.

    - `owned_twice`: a member was granted a partition while another one had it.
    - `commit_lost`: less was fetched than had been stored, and no reset came through the gateway.
    - `commit_went_back`: a commit was lower than what another member had stored, or than where its
      own member had started. Commits from outside the group are resets.
    - `claim_without_grant`: a member stated a partition, or requested a commit for it, after
      another one had been granted it, or without any grant.
    - `records_skipped`: a new owner fetched more than what had been stored. Never certain, because
      the answer to a commit may have been lost.
    """

    kind: FindingKind
    """What is wrong."""
    is_certain: bool
    """False if the order of two logs is not known within a minute, if lines are missing, or if a
    deletion of the topic may explain it."""
    member_id: str
    """The member that got, fetched, committed or stated; empty if the line names none."""
    other_member_id: str | None
    """The member that had the partition, or that had stored the offset."""
    observed: int | None
    """The offset that was fetched or committed; null if there was none."""
    expected: int | None
    """The offset that had been stored, or where the member had started."""
    at_ms: int
    """The time of the line that shows it."""
    other_ms: int | None
    """The time of the other line, which that one contradicts."""
    other_gateway_id: str | None
    """The log with the other line."""
    other_process_id: str | None
    """The process whose sequence has the other line."""
    other_sequence: int | None
    """The number of the other line."""


@dataclass(slots=True, kw_only=True)
class HandoverRow(LineRow):
    """Each time a partition passed from one member to another."""

    from_member_id: str
    """The member that had it."""
    to_member_id: str
    """The member that was granted it."""
    ended_ms: int | None
    """When the first member's grant ended; null if no line states it."""
    granted_ms: int
    """When the second member was granted it."""
    stored: int | None
    """The offset in force when the new owner first fetched or committed."""
    fetched: int | None
    """The offset that it fetched; null if it did not fetch, or there was none."""
    compared: bool
    """Whether the order of the owners is known, and the new owner's first offset was compared."""
    not_compared: NotCompared | None
    """Why not. `forwarded`: the cluster had the group in between. `transactional`: a transaction
    had not ended when the new owner began. `lines missing`: the end of a grant is among lines that
    are not there. `clocks`: the logs of two gateways, whose order is not stated and whose clocks
    may differ. `no commit`: nothing had been stored. `no fetch`: the new owner neither fetched nor
    committed."""


@dataclass(slots=True, kw_only=True)
class OwnershipRow(PartitionRow):
    """Who owned each partition when, as granted, and when no member did."""

    topic_id: str | None
    """The topic's id; null if no line states it."""
    member_id: str | None
    """The owner; null in a gap between two owners."""
    from_ms: int | None
    """When it began; null if the grant is older than the first line."""
    to_ms: int | None
    """When it ended; null if it has not."""
    ended_by: str | None
    """The cause that `grant_ended` names; null without one."""
    is_certain: bool
    """False if the end is among missing lines, or no line states it."""
    gateway_id: str
    """The log that has it."""


@dataclass(slots=True, kw_only=True)
class RebalanceRow(CostRow):
    """The rebalances, as the engine states them."""

    epoch: int
    """The group epoch that it led to; of a classic group, the generation."""
    cause: str
    """What began it."""
    members: int
    """Members at the end."""
    was_interrupted: bool
    """Whether the next one began before it was complete."""
    from_ms: int
    """When it began."""
    to_ms: int
    """When it ended."""
    gateway_id: str
    """The log with the line `rebalance_ended`."""
    process_id: str | None
    """The process whose sequence has that line."""
    sequence: int
    """The number of that line."""


@dataclass(slots=True, kw_only=True)
class StepRow(CostRow):
    """The steps of rolls, one consumer at a time, as the engine states them. A step begins with the
    departure that it is about."""

    migration: int
    """Counts from 1. Another one begins with the first step in the other direction."""
    number: int
    """The step's number in its migration."""
    client_id: str
    """The consumer's client id."""
    client_host: str
    """The consumer's address."""
    instance_id: str | None
    """The group.instance.id of a static member; null for a dynamic one."""
    from_protocol: str
    """The consumer's protocol before: `classic` or `consumer`."""
    to_protocol: str
    """The consumer's protocol afterwards."""
    members: int
    """Members of the group at the end."""
    from_ms: int
    """When the consumer left, or joined if it came first."""
    to_ms: int
    """When the group was at rest again."""


@dataclass(slots=True, kw_only=True)
class ClientRow(GroupedRow):
    """The members at the end by client library and version: who can go next."""

    software_name: str | None
    """The name with which the members introduced themselves; null if they did not."""
    software_version: str | None
    """The version with which they did."""
    protocol: str
    """The protocol that they use: `classic` or `consumer`."""
    members: int
    """Members with this library, version and protocol."""
    speaks_consumer: bool | None
    """Whether this version supports the new protocol; null if unknown."""
    at_ms: int
    """The group's last line."""


UnreadKind: TypeAlias = Literal["line", "missing", "conflict", "no end", "no cluster", "version 1"]


@dataclass(slots=True, kw_only=True)
class UnreadRow(Row):
    """What could not be read. Each row leaves the verdict open.

    - `line`: a line that is no event, or none that this groupferry knows.
    - `missing`: numbers of a sequence without a line. A sequence that does not begin with 1 is
      complete if `group_loaded` states what was before.
    - `conflict`: lines that contradict each other: they have one number, or are of two processes
      that have the group at a time with one state log.
    - `no end`: a process whose log has no `gateway_ended`: it was killed, runs yet, or lines are
      missing.
    - `no cluster`: a group of which no line states the cluster, while several clusters have a group
      with this name.
    - `version 1`: a group with lines of the old version, which do not state what is needed.
    """

    kind: UnreadKind
    """What is open."""
    group_id: str | None = None
    """The group; null if it is about a process, or unknown."""
    gateway_id: str | None = None
    """The log; null if unknown."""
    process_id: str | None = None
    """The process; null if it is about the group's own sequence, or unknown."""
    file: str | None = None
    """The file of a line that could not be read, or what stands for its partition of a topic."""
    place: str | None = None
    """The line, byte or offset in the file."""
    problem: str
    """What is wrong, in words."""
    text: str | None = None
    """The beginning of the line."""
    first: int | None = None
    """The first number that it is about."""
    last: int | None = None
    """The last number that it is about."""
    at_ms: int | None = None
    """The time of the line before them; of a single line, its own."""


@dataclass(slots=True, kw_only=True)
class RunRow(Row):
    """The run that made the tables: one row."""

    inputs: tuple[str, ...]
    """The files, folders, patterns and topics that were read."""
    version: str
    """The version of groupferry."""
    verdict: str
    """The first line of the verdict."""
    groups: int
    """Rows of `groups`."""
    lines: int
    """Lines about groups, without repeats."""
    unread: int
    """Rows of `unread`."""
    handovers: int
    """Rows of `handovers`."""
    compared: int
    """Hand-overs that were compared."""
    not_compared: Mapping[str, int]
    """The number of other hand-overs by reason: see `handovers`."""
    from_ms: int | None
    """The first line; null without any."""
    to_ms: int | None
    """The last line; null without any."""
    made_ms: int
    """When the report was made."""
    took_s: float
    """How many seconds that took."""


@dataclass(slots=True, kw_only=True)
class Tables:
    """Rows of all tables; the fields are the tables' names."""

    groups: list[GroupRow] = field(default_factory=list)
    findings: list[FindingRow] = field(default_factory=list)
    handovers: list[HandoverRow] = field(default_factory=list)
    ownership: list[OwnershipRow] = field(default_factory=list)
    rebalances: list[RebalanceRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    clients: list[ClientRow] = field(default_factory=list)
    unread: list[UnreadRow] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)

    def extend(self, other: "Tables") -> None:
        """Add the rows of others."""
        for name in ALL_ROWS:
            getattr(self, name).extend(getattr(other, name))


ALL_ROWS: Mapping[str, type[Row]] = MappingProxyType(
    {name: get_args(rows)[0] for name, rows in get_type_hints(Tables).items()}
)
"""The row models of all tables."""

TIMES = ("from_ms", "granted_ms", "at_ms", "to_ms", "made_ms")
"""The first of these columns that a row has gives its day."""


def columns(row: type[Row]) -> tuple[str, ...]:
    """The names of the columns."""
    return tuple(column.name for column in fields(row))
