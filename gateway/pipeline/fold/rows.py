"""The rows of all tables: the source of their schema and documentation.

They are plain dataclasses, because a fold makes many.

Times are milliseconds since 1970 (UTC), null if unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import ClassVar, Literal, TypeAlias, get_args, get_type_hints

from pydantic import ConfigDict

SCHEMA_VERSION = 2
"""The version of all tables. Raised when a reader of the older version would misread a column."""


@dataclass(slots=True, kw_only=True)
class Row:
    """One row of a table."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )
    cluster_id: str
    """The cluster's own id; empty if it was not known yet."""


@dataclass(slots=True, kw_only=True)
class GroupedRow(Row):
    """A row about a group."""

    group_id: str


GroupVerdict: TypeAlias = Literal["safe", "not safe", "not proven"]
NotCompared: TypeAlias = Literal[
    "forwarded", "transactional", "lines missing", "clocks", "no commit", "no fetch"
]


@dataclass(slots=True, kw_only=True)
class GroupRow(GroupedRow):
    """One row per group and cluster: whether it was safe, how much was compared, what its
    rebalances cost, and whether it can go next."""

    verdict: GroupVerdict
    """`safe`: hand-overs were compared, and no fault was found. `not safe`: a fault is certain.
    `not proven`: nothing could be compared, a fault is possible, or lines are missing."""
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
    """Hand-overs of which order of owners and offsets were compared."""
    not_compared: Mapping[str, int]
    """The number of other hand-overs by reason: see `handovers`."""
    kind: str | None
    """`classic`, `consumer` or null if no line states it."""
    is_forwarded: bool
    """Whether the cluster's own coordinator has the group at the end."""
    members: int
    """Members at the end."""
    classic_members: int
    consumer_members: int
    rebalances: int
    partitions_moved: int
    least_possible: int
    """Partitions that had to move."""
    members_disturbed: int
    unowned_ms: int
    """Partition-milliseconds without an owner in rebalances, as the engine states them."""
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
class FindingRow(GroupedRow):
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
    is_certain: bool
    """False if the order of two logs is not known within a minute, if lines are missing, or if a
    deletion of the topic may explain it."""
    topic: str
    partition: int
    member_id: str
    """The member that got, fetched, committed or stated; empty if the line names none."""
    other_member_id: str | None
    """The member that had the partition, or that had stored the offset."""
    observed: int | None
    """The offset that was fetched or committed; null if there was none."""
    expected: int | None
    """The offset that had been stored, or where the member had started."""
    at_ms: int
    gateway_id: str
    """The line that shows it: log, process (null: the group's own sequence) and number."""
    process_id: str | None
    sequence: int
    other_ms: int | None
    """The time of the line that it contradicts."""
    other_gateway_id: str | None
    """That line: log, process and number."""
    other_process_id: str | None
    other_sequence: int | None


@dataclass(slots=True, kw_only=True)
class HandoverRow(GroupedRow):
    """Each time a partition passed from one member to another."""

    topic: str
    partition: int
    from_member_id: str
    to_member_id: str
    ended_ms: int | None
    """When the first member's grant ended; null if no line states it."""
    granted_ms: int
    stored: int | None
    """The offset in force when the new owner first fetched or committed."""
    fetched: int | None
    """The offset that it fetched; null if it did not fetch, or there was none."""
    compared: bool
    """Whether the order of the owners is known, and the new owner's first offset was compared."""
    not_compared: NotCompared | None
    """Why not. `forwarded`: the cluster had the group in between. `transactional`: the end of a
    transaction was not stated. `lines missing`: the end of a grant is among lines that are not
    there. `clocks`: the logs of two gateways, whose order is not stated and whose clocks may
    differ. `no commit`: nothing had been stored. `no fetch`: the new owner neither fetched nor
    committed."""
    gateway_id: str
    process_id: str | None
    sequence: int


@dataclass(slots=True, kw_only=True)
class OwnershipRow(GroupedRow):
    """Who owned each partition when, as granted, and when no member did."""

    topic: str
    partition: int
    topic_id: str | None
    member_id: str | None
    """The owner; null in a gap between two owners."""
    from_ms: int | None
    """Null if the grant is older than the first line."""
    to_ms: int | None
    """Null if it has not ended."""
    ended_by: str | None
    """The cause that `grant_ended` names; null without one."""
    is_certain: bool
    """False if the end is among missing lines, or no line states it."""
    gateway_id: str


@dataclass(slots=True, kw_only=True)
class RebalanceRow(GroupedRow):
    """The rebalances, as the engine states them."""

    epoch: int
    cause: str
    members: int
    partitions_moved: int
    least_possible: int
    members_disturbed: int
    unowned_ms: int
    was_interrupted: bool
    from_ms: int
    to_ms: int
    gateway_id: str
    process_id: str | None
    sequence: int


@dataclass(slots=True, kw_only=True)
class StepRow(GroupedRow):
    """The steps of rolls, one consumer at a time, as the engine states them. A step begins with the
    departure that it is about."""

    migration: int
    """Counts from 1. Another one begins with the first step in the other direction."""
    number: int
    """The step's number in its migration."""
    client_id: str
    client_host: str
    instance_id: str | None
    from_protocol: str
    to_protocol: str
    members: int
    partitions_moved: int
    least_possible: int
    members_disturbed: int
    unowned_ms: int
    from_ms: int
    to_ms: int


@dataclass(slots=True, kw_only=True)
class ClientRow(GroupedRow):
    """The members at the end by client library and version: who can go next."""

    software_name: str | None
    """The name with which the members introduced themselves; null if they did not."""
    software_version: str | None
    protocol: str
    members: int
    speaks_consumer: bool | None
    """Whether this version supports the new protocol; null if unknown."""
    at_ms: int
    """The group's last line."""


UnreadKind: TypeAlias = Literal["line", "missing", "conflict", "no end", "version 1"]


@dataclass(slots=True, kw_only=True)
class UnreadRow(Row):
    """What could not be read. Each row leaves the verdict open.

    - `line`: a line that is no event, or none that this groupferry knows.
    - `missing`: numbers of a sequence without a line. A sequence that does not begin with 1 is
      complete if `group_loaded` states what was before.
    - `conflict`: a number with two lines that differ.
    - `no end`: a process whose log has no `gateway_ended`: it was killed, runs yet, or lines are
      missing.
    - `version 1`: a group with lines of the old version, which do not state what is needed.
    """

    kind: UnreadKind
    group_id: str | None = None
    gateway_id: str | None = None
    process_id: str | None = None
    file: str | None = None
    place: str | None = None
    """The line, byte or offset in the file."""
    problem: str
    text: str | None = None
    """The beginning of the line."""
    first: int | None = None
    """The first number that it is about."""
    last: int | None = None
    at_ms: int | None = None
    """The time of the line before them; of a single line, its own."""


@dataclass(slots=True, kw_only=True)
class RunRow(Row):
    """The run that made the tables: one row."""

    inputs: tuple[str, ...]
    version: str
    """The version of groupferry."""
    verdict: str
    """The first line of the verdict."""
    groups: int
    lines: int
    """Lines about groups, without repeats."""
    unread: int
    handovers: int
    compared: int
    not_compared: Mapping[str, int]
    from_ms: int | None
    to_ms: int | None
    made_ms: int
    took_s: float


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

    def take_rows(self) -> "Tables":
        """The rows so far, which are no longer here."""
        taken = Tables()
        for name in ALL_ROWS:
            setattr(taken, name, getattr(self, name))
            setattr(self, name, [])
        return taken


ALL_ROWS: Mapping[str, type[Row]] = MappingProxyType(
    {name: get_args(rows)[0] for name, rows in get_type_hints(Tables).items()}
)
"""The row models of all tables."""

TIMES = ("from_ms", "granted_ms", "at_ms", "to_ms", "made_ms")
"""The first of these columns that a row has gives its day."""


def columns(row: type[Row]) -> tuple[str, ...]:
    """The names of the columns."""
    return tuple(column.name for column in fields(row))
