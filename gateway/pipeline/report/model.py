"""The contents of the report, with the limits on what it shows of each group and on names."""

from collections.abc import Mapping
from hashlib import md5
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

Cell: TypeAlias = str | bool | int | float | None


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Totals(_Part):
    """Totals over all groups, including those without a section."""

    from_ms: int | None = None
    """The first moment in any table; null if there is none."""
    to_ms: int | None = None
    """The last moment in any table."""
    groups: int = 0
    groups_on_consumer: int = 0
    """Groups whose members all used the consumer protocol when the group last had members."""
    groups_mixed: int = 0
    """Groups that had members of both protocols then."""
    groups_on_classic: int = 0
    """Groups whose members all used the classic protocol then."""
    migrations: int = 0
    """Migrations in either direction."""
    migrations_back: int = 0
    """Migrations to the classic protocol."""
    migrations_complete: int = 0
    partitions: int = 0
    """Partitions that had an owner at any time."""
    overlaps: int = 0
    """Times that a partition had two owners."""
    unsure: int = 0
    """Times that a partition may have had two owners: clocks of two gateways differ."""
    non_monotonic: int = 0
    """Times that a committed offset went back without its owner's intent."""
    lost_commits: int = 0
    """Times that an owner was told less than what had been committed."""
    unsure_commits: int = 0
    """Times that a committed offset may have gone back: clocks of two gateways differ."""
    unsure_starts: int = 0
    """Times that a commit may have been lost: clocks of two gateways differ."""
    skips: int = 0
    """Times that a new owner was told more than what had been committed."""
    differences: int = 0
    """Times that a member claimed a partition that it was not granted."""
    missing_events: int = 0
    """Sequence numbers without an event."""
    contradictions: int = 0
    """Sequence numbers with lines that differ."""
    rejected_lines: int = 0
    """Lines of the input that are not events."""
    unread_events: int = 0
    """Rejected lines that are events of a group, with a known name: their contents are lost."""
    seeks: int = 0
    """Times that the owner of a partition went back itself."""
    resets: int = 0
    """Times that offsets were set from outside the group, or started over with a recreated
    topic."""
    unowned_partition_s: float = 0.0
    """Time that partitions had no owner while their group had members, in partition-seconds."""
    unowned_at_end: int = 0
    """Partitions without an owner at the end, in groups that have members then. That time is not in
    `unowned_partition_s`: no member may want these partitions any more."""
    unowned_in_migrations_partition_s: float = 0.0
    """The part of `unowned_partition_s` during migrations."""
    rebalances: int = 0
    members_disturbed: int = 0
    """Members whose work a rebalance interrupted, counted in each rebalance."""
    partitions_moved: int = 0
    partitions_moved_least: int = 0
    """The fewest moves that the same changes of members required."""


class ProtocolMix(_Part):
    """A span of time with constant numbers of members of either protocol."""

    from_ms: int
    to_ms: int
    classic_members: int
    consumer_members: int


class Migration(_Part):
    """A group's migration from one protocol to the other."""

    direction: str
    from_ms: int
    to_ms: int | None
    """Null if it has not ended."""
    is_complete: bool


class MigrationStep(_Part):
    """A part of a migration: a member leaves, another one arrives with the other protocol, and the
    group settles."""

    migration: int
    """The number of the migration within its group, from 1."""
    number: int
    """The number of the step, from 1."""
    from_ms: int
    to_ms: int
    """When the next step's member leaves; for the last step, when the group had come to rest."""
    classic_members: int
    """Members after the step."""
    consumer_members: int
    unowned_partition_s: float
    """Time without an owner during the step."""
    arrived: tuple[str, ...] = ()
    """The first few members that arrived: instance id or client id, else the member id."""
    left: tuple[str, ...] = ()
    """The first few members that left."""
    rebalances: int = 0
    """Rebalances that began during the step."""
    rebalances_ms: tuple[int, ...] = ()
    """When the first few of them began."""


class Interval(_Part):
    """The state of one partition for a while."""

    kind: Literal["owner", "gap", "overlap"]
    member_id: str | None
    """Null in a gap; in an overlap the second owner."""
    other_member_id: str | None = None
    """In an overlap, the first owner."""
    from_ms: int
    to_ms: int


class PartitionStory(_Part):
    """One line of an ownership map."""

    topic: str
    partition: int
    intervals: tuple[Interval, ...]


class OwnershipMap(_Part):
    """The owners of a group's partitions, around the most important moments."""

    from_ms: int
    to_ms: int
    is_all: bool
    """Whether the map covers the whole time of the group. If not, it runs from the first migration
    or finding to the last."""
    partitions: tuple[PartitionStory, ...]
    partitions_left_out: int = 0
    intervals_left_out: int = 0


class CommitProgress(_Part):
    """What a group has committed for one partition."""

    topic: str
    partition: int
    from_ms: int
    """When the first commit was stored."""
    to_ms: int
    """When the latest one was."""
    first: int
    """The first offset."""
    last: int
    """The latest offset."""


class MemberName(_Part):
    """The member behind a member id."""

    member_id: str
    instance_id: str | None
    """For a static member."""
    protocol: str | None
    """The latest one."""


class GroupStory(_Part):
    """A group with a section."""

    cluster_id: str
    group_id: str
    findings: int
    """Everything in which the events disagree with a safe group, or with each other."""
    partitions: int
    """Partitions that had an owner at any time."""
    unowned_partition_s: float
    unowned_at_end: int
    """Partitions without an owner at the end, if the group has members then."""
    rebalances: int
    members_disturbed: int
    partitions_moved: int
    partitions_moved_least: int
    finding_times_ms: tuple[int, ...] = ()
    """The times of the first few findings."""
    protocol_mixes: tuple[ProtocolMix, ...] = ()
    protocol_mixes_left_out: int = 0
    migrations: tuple[Migration, ...] = ()
    migrations_left_out: int = 0
    steps: tuple[MigrationStep, ...] = ()
    steps_left_out: int = 0
    commits: tuple[CommitProgress, ...] = ()
    """Of the partitions whose latest commit is oldest, in this order."""
    commits_left_out: int = 0
    """Other partitions with commits."""
    commits_compared_max: int | None = None
    """The number of partitions among which these are the oldest, the first ones by name; null if
    all were compared."""
    ownership: OwnershipMap | None = None
    """Null if no member ever owned a partition."""
    members: tuple[MemberName, ...] = ()
    """The members in the ownership map, by first appearance."""


class StepCost(_Part):
    """The cost of the nth step of a migration, over all migrations."""

    number: int
    """From 1: the first member that changed its protocol."""
    steps: int
    """Migrations that had this step."""
    unowned_partition_s: float
    """The sum."""
    unowned_partition_s_most: float
    """The maximum."""


class ClientVersion(_Part):
    """A version of a client library, with the members that use it at the end, over all groups."""

    software_name: str | None
    software_version: str | None
    groups: int
    on_consumer: int
    """Members that use the consumer protocol already."""
    ready: int
    """Members that can switch, and whose group can convert."""
    too_old: int
    """Members whose version does not support the consumer protocol."""
    unknown: int
    """Members whose version is not known to support it or not."""
    blocked: int
    """Members that could switch, but whose group cannot convert."""
    blocked_by: tuple[str, ...] = ()
    """The obstacles, most frequent first."""


class Column(_Part):
    """A column of a table of evidence."""

    name: str
    meaning: str


class Evidence(_Part):
    """Rows of one table, for readers who want to check."""

    table: str
    """The folder with all rows, as Parquet."""
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Cell], ...] = ()
    left_out: int = 0
    """Further rows."""

    @property
    def count(self) -> int:
        """All rows, including those left out."""
        return len(self.rows) + self.left_out


class Provenance(_Part):
    """Where a report comes from."""

    inputs: tuple[str, ...]
    """Files, folders, patterns, URLs, and the topic."""
    versions: Mapping[str, str]
    """Of groupferry, Spark and Python."""
    took_s: float
    """How long it took to make."""


class Report(_Part):
    """The whole report."""

    totals: Totals
    provenance: Provenance | None = None
    groups: tuple[GroupStory, ...] = ()
    """Worst first: by findings, then by partition-seconds without an owner."""
    step_costs: tuple[StepCost, ...] = ()
    step_costs_left_out: int = 0
    clients: tuple[ClientVersion, ...] = ()
    clients_left_out: int = 0
    evidence: Mapping[str, Evidence] = {}
    """Evidence by key, such as `overlaps`."""


GROUPS_USUAL = 50
EACH_MIN = 10
NAME_MAX = 256
"""The longest name in characters that is shown in full."""
_END = 100
"""Characters shown of either end of a longer name, because ids differ there."""


def of_each(most: int, groups: int) -> int:
    """How many items each group may show: less than `most` if there are more groups than usual, so
    that a browser can open the page."""
    return most if groups <= GROUPS_USUAL else max(EACH_MIN, most * GROUPS_USUAL // groups)


def short(name: str) -> str:
    """A name longer than NAME_MAX as its two ends and a digest, so that different names stay
    different."""
    if len(name) <= NAME_MAX:
        return name
    digest = md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[:_END]}…{digest}…{name[-_END:]}"


def short_or_none(name: str | None) -> str | None:
    """The same for a name that may be unknown."""
    return None if name is None else short(name)
