"""The report as a value: every number that the page shows, and what its plots are drawn from.

It is bounded, whatever the data: what a limit left out is counted here, and is in Parquet; of a
long name there are the two ends and a digest of it. Written as report.json. Times are milliseconds
since 1970 (UTC). Must not know Spark or HTML.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

Cell: TypeAlias = str | bool | int | float | None


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Totals(_Part):
    """Over all groups, those too that have no section of their own."""

    from_ms: int | None = None
    """The first moment that any table knows; null if there is none."""
    to_ms: int | None = None
    """The last one."""
    groups: int = 0
    groups_on_consumer: int = 0
    """Groups that had, when they last had members, all of them on the consumer protocol."""
    groups_mixed: int = 0
    """Those that had members of both."""
    groups_on_classic: int = 0
    """Those that had all of them on the classic protocol."""
    migrations: int = 0
    """In either direction."""
    migrations_back: int = 0
    """Those to the classic protocol."""
    migrations_complete: int = 0
    partitions: int = 0
    """That were somebody's at any time."""
    overlaps: int = 0
    """Times that a partition was owned twice."""
    regressions: int = 0
    """Times that a committed offset went back though nobody who owned the partition wanted it."""
    lost_commits: int = 0
    """Times that an owner was told less than what had been committed."""
    differences: int = 0
    """Times that a member said something else of its partitions than what it was granted."""
    missing_events: int = 0
    """Numbers that are missing in the sequences of events."""
    contradictions: int = 0
    """Numbers in them that lines have which do not say the same."""
    rejected_lines: int = 0
    """Lines of the input that are no event."""
    unread_events: int = 0
    """Those of them that are an event of a group, known by its name: what they tell is lost."""
    seeks: int = 0
    """Times that the owner of a partition went back itself."""
    resets: int = 0
    """Times that offsets were set from outside of the group, or began anew with their topic."""
    unowned_partition_s: float = 0.0
    """Seconds for which partitions had no owner though the group had members, added up."""
    unowned_at_end: int = 0
    """Partitions without an owner in the end, of groups that have members then; that time is not in
    the one above: perhaps nobody wants these partitions any more."""
    unowned_in_migrations_partition_s: float = 0.0
    """The part of it that falls into migrations."""
    rebalances: int = 0
    members_disturbed: int = 0
    """Members whose work a rebalance interrupted; counted anew in each rebalance."""
    partitions_moved: int = 0
    partitions_moved_least: int = 0
    """How many would have been enough for the same change of members."""


class Share(_Part):
    """For a while, a group had so many members of either protocol."""

    from_ms: int
    to_ms: int
    classic_members: int
    consumer_members: int


class Migration(_Part):
    """A group on its way from one protocol to the other."""

    direction: str
    from_ms: int
    to_ms: int | None
    """Null if it goes on."""
    is_complete: bool


class MigrationStep(_Part):
    """A part of a migration: from one change of a member's protocol to the next."""

    migration: int
    """The how manieth migration of the group it belongs to, from 1."""
    number: int
    """From 1."""
    from_ms: int
    to_ms: int
    """The next step, or when the group had come to rest after the last one."""
    classic_members: int
    """After it."""
    consumer_members: int
    unowned_partition_s: float
    """While the step lasted."""


class Interval(_Part):
    """What one partition was for a while."""

    kind: Literal["owner", "gap", "overlap"]
    member_id: str | None
    """Null in a gap; in an overlap who came second."""
    other_member_id: str | None = None
    """Who had it already, in an overlap."""
    from_ms: int
    to_ms: int


class PartitionStory(_Part):
    """One line of an ownership map."""

    topic: str
    partition: int
    intervals: tuple[Interval, ...]


class OwnershipMap(_Part):
    """Who owned which partition, around what matters most in a group."""

    from_ms: int
    to_ms: int
    is_all: bool
    """Whether that is the whole time of the group; otherwise from the first migration or finding to
    the last."""
    partitions: tuple[PartitionStory, ...]
    partitions_left_out: int = 0
    intervals_left_out: int = 0


class MemberName(_Part):
    """Who is behind a member id."""

    member_id: str
    instance_id: str | None
    """Of a static member."""
    protocol: str | None
    """The one that it spoke last."""


class GroupStory(_Part):
    """A group that has a section of its own."""

    cluster_id: str
    group_id: str
    findings: int
    """Overlaps, regressions, lost commits, differences, missing events and contradictions."""
    partitions: int
    """That were somebody's at any time."""
    unowned_partition_s: float
    unowned_at_end: int
    """Partitions without an owner in the end, if it has members then."""
    rebalances: int
    members_disturbed: int
    partitions_moved: int
    partitions_moved_least: int
    finding_times_ms: tuple[int, ...] = ()
    """Of the first few of them."""
    shares: tuple[Share, ...] = ()
    shares_left_out: int = 0
    migrations: tuple[Migration, ...] = ()
    migrations_left_out: int = 0
    steps: tuple[MigrationStep, ...] = ()
    steps_left_out: int = 0
    ownership: OwnershipMap | None = None
    """Null if nobody ever owned anything."""
    members: tuple[MemberName, ...] = ()
    """Those in the ownership map, in the order of their coming."""


class StepCost(_Part):
    """What the nth step of a migration cost, over all migrations."""

    number: int
    """From 1: the first member that changed its protocol."""
    steps: int
    """How many migrations had one."""
    unowned_partition_s: float
    """Added up."""
    unowned_partition_s_most: float
    """In the worst of them."""


class ClientVersion(_Part):
    """A version of a client library, with the members that use it at the end, over all groups."""

    software_name: str | None
    software_version: str | None
    groups: int
    on_consumer: int
    """Members that speak the consumer protocol already."""
    ready: int
    """Members that can switch, and whose group can convert."""
    too_old: int
    """Members whose version does not know the consumer protocol."""
    unknown: int
    """Members of whose version nobody knows whether it does."""
    blocked: int
    """Members that could, but something else keeps their group from converting."""
    blocked_by: tuple[str, ...] = ()
    """What it is, the most frequent first."""


class Column(_Part):
    """Of a table of evidence."""

    name: str
    meaning: str


class Evidence(_Part):
    """Rows of one table, for whoever wants to check."""

    table: str
    """The folder that has all of them, as Parquet."""
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Cell], ...] = ()
    left_out: int = 0
    """How many more there are."""

    @property
    def count(self) -> int:
        """With those that are left out."""
        return len(self.rows) + self.left_out


class Report(_Part):
    """All of it."""

    totals: Totals
    groups: tuple[GroupStory, ...] = ()
    """The worst first: by findings, then by partition-seconds without an owner."""
    step_costs: tuple[StepCost, ...] = ()
    step_costs_left_out: int = 0
    clients: tuple[ClientVersion, ...] = ()
    clients_left_out: int = 0
    evidence: Mapping[str, Evidence] = {}
    """By the name of what it shows, for example `overlaps`."""
