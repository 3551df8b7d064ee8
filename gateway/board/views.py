"""What the board says, as the terminal, the page and the API have it."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.json_schemas import DOCUMENTED

Partitions = Mapping[str, tuple[int, ...]]
Count = Annotated[int, Field(ge=0)]


class View(BaseModel):
    """Something that the board shows."""

    model_config = DOCUMENTED | ConfigDict(frozen=True)


class GroupLine(View):
    """One group in the list."""

    group_id: str
    mode: Literal["hosted", "adopting", "releasing", "forwarded", "elsewhere", "unknown"]
    """Who answers for the group: this gateway, soon this gateway, soon the cluster, the cluster,
    another gateway, or no coordinator as long as the cluster does not say who is in the group."""
    gateway: str | None = None
    """The name and address of the gateway on another machine of the fleet that has the group. It
    has told the state and the type, and this one knows no more; null of every other group."""
    is_adopted: bool = False
    """Whether this gateway hosts the group until an operator releases it, also while the group is
    empty."""
    type: Literal["classic", "consumer"] | None
    """The group's protocol; null if the gateway does not know it."""
    state: str
    """The group's state in Kafka's words; empty if the gateway does not know it."""
    group_epoch: int | None
    """The group epoch, or a classic group's generation; null if the gateway does not know it."""
    assignment_epoch: int | None
    """The epoch of the target assignment; null if the gateway does not know it."""
    members: Count | None
    """Null if the cluster serves the group and has not told its members."""
    native_members: Count | None
    """Members that use the new protocol; null as `members`."""
    policy: Literal["allow", "hold", "pause"] | None
    """What operators let the migration do: `hold` admits no more native members than there were,
    and `pause` also keeps the target assignment as it is; null if `gateway` is not."""
    stands: str
    """How the group stands, in one line."""
    blocker: str | None
    """What the group waits for; null if it waits for nothing."""
    unowned_partitions: Count | None
    """Partitions that had an owner, and whose next owner is waited for. This and the sums below are
    null of a group that the cluster serves: only the coordinator can measure them."""
    unowned_partition_s: float | None
    """Partition-seconds without an owner since `since_ms`."""
    owned_twice: Count | None
    """How often a member was granted a partition that another one held. It must be 0."""
    disturbed: Count | None
    """How often a member had to give up partitions since `since_ms`."""
    conversions: Count | None
    """How often the group changed its protocol since `since_ms`."""
    lag: int | None
    """The records that the group has not committed yet, over the partitions with a commit; null if
    it was not looked at recently."""
    behind_ms: Count | None
    """The greatest possible age of the oldest record that is not committed, as the ends of the
    partitions have shown since the gateway began to look at them; null if the record was there
    before."""
    lag_at_ms: int | None
    """When `lag` and `behind_ms` were so, in milliseconds since 1970 (UTC)."""
    since_ms: int | None
    """When the sums of this line begin: with the group's first event in this process. In
    milliseconds since 1970 (UTC); null if there was no event yet."""


class MemberLine(View):
    """One member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    software: str | None
    """The client library and its version; null if the gateway has not seen the member join."""
    protocol: Literal["classic", "consumer"]
    phase: str
    """What the member is about: `Stable`, `ToldToRejoin`, `Joining`, `Syncing`, `GivingUp` or
    `Waiting` for partitions; empty if the gateway does not know it."""
    silent_ms: Count | None
    """How long the member has sent no heartbeat, once that is half of its session; null as long as
    it is heard, and of members of a group that the cluster serves."""
    member_epoch: int | None
    """The member's epoch or generation; null if the gateway does not know it."""
    owned: Partitions | None
    """The partitions that the member holds; null if the gateway does not know them."""
    lag: int | None
    """The records in them that are not committed yet; null if unknown."""
    to_give_up: Partitions
    """The owned partitions that its target does not have."""
    to_get: Partitions
    """The partitions of its target that it does not hold yet."""


class PartitionLine(View):
    """A partition in which a group has committed an offset."""

    topic: str
    partition: Count
    owner: str | None
    """The client id of the member that holds it; null if none does, as far as known."""
    committed: Count
    end: Count | None
    """Null if the gateway has not asked for it yet."""
    lag: Count | None
    behind_ms: Count | None
    """The greatest possible age of the oldest record that is not committed; null if that is not
    known."""


class ClientMember(View):
    """A member of a group that a client is."""

    group_id: str
    mode: Literal["hosted", "adopting", "releasing", "forwarded", "elsewhere", "unknown"]
    state: str
    blocker: str | None
    """What the group waits for."""
    lag_at_ms: int | None
    """When the member's lag was so, in milliseconds since 1970 (UTC)."""
    member: "MemberLine"


class ClientPage(View):
    """One client over all its groups."""

    client_id: str
    members: tuple[ClientMember, ...]
    """The memberships of the client, ordered by group id."""
    left_out: Count
    """Members beyond those listed."""


class GroupPage(GroupLine):
    """One group with its members."""

    mode_reason: str
    """Why this side answers for the group."""
    described_ms: int | None
    """When the cluster described the group last, in milliseconds since 1970 (UTC); null of a group
    that the gateway hosts."""
    anchor: str
    """The phase of the anchor that holds the group in the cluster."""
    adoption: str | None
    """The stage of the group's adoption; null if there is none."""
    assignor: str
    next_step: str | None
    """The next step of the roll, and what it is expected to cost; null if something else comes
    first, or nothing is left to do."""
    last_step: str | None
    """What the latest step did cost; null if there was none in this process."""
    last_refusal: str | None
    """The reason why a client that would have converted the group was refused; null if there was
    none recently."""
    lag_before: int | None
    """The group's lag when it was converted last; null if unknown."""
    lag_history: tuple[int, ...]
    """The lag at the last measurements, the oldest first."""
    member_list: tuple[MemberLine, ...]
    """The members in roll order: by client id, then by member id."""
    partitions: tuple[PartitionLine, ...]
    """The partitions with a committed offset, by topic and number."""
    members_left_out: Count
    """Members beyond those listed."""


class GroupList(View):
    """A part of the list of all groups, by group id."""

    groups: tuple[GroupLine, ...]
    next_after: str | None
    """The group id after which the next part begins; null if this is the last one."""
    revision: int = 0
    """The revision of this list, for a later request that asks what has changed since; otherwise
    0."""
    is_complete: bool = True
    """Whether the list has all groups, and not only those that have changed `since`."""
    gone: tuple[str, ...] = ()
    """Groups that were shown before and are no longer known, if the list is not complete."""


class LibraryVersion(View):
    """The members of a group that run one version of a client library."""

    software_name: str | None
    """The name that they gave themselves; null if none."""
    software_version: str | None
    protocol: Literal["classic", "consumer"]
    """The members' protocol now."""
    members: Count
    speaks_consumer: bool | None
    """Whether this version supports the new protocol; null if unknown."""
    defects: tuple[str, ...]
    """What is known against its new protocol, each with the first good version and the source."""


class GroupReadiness(View):
    """Whether a group is ready for the new protocol, and for adoption."""

    group_id: str
    mode: Literal["hosted", "adopting", "releasing", "forwarded", "elsewhere", "unknown"]
    members: Count | None
    """Null if the cluster has not told them."""
    direction: Literal["classic->consumer", "consumer->classic"]
    """The conversion that `can_convert` is about: a group with the new protocol can convert
    back."""
    can_convert: bool
    """Whether the group, once hosted, converts when a member with the new protocol joins, or when
    the last one leaves."""
    conversion_obstacles: tuple[str, ...]
    """What prevents it."""
    can_be_adopted: bool | None
    """Whether `groupferry adopt` would take the group over now; null if it is hosted already."""
    adoption_obstacles: tuple[str, ...]
    """What prevents it."""
    to_change: tuple[str, ...]
    """What to change in the consumers' configs before they switch."""
    warnings: tuple[str, ...]
    """What weakens a guarantee, though nothing is in the way."""
    clients: tuple[LibraryVersion, ...]
    left_out: Count
    """Lines that did not fit."""


class Readiness(View):
    """Whether the gateway can serve clients."""

    is_ready: bool
    reasons: tuple[str, ...]
    """Why it cannot."""


class ProcessLine(View):
    """One process of a fleet."""

    slot: Count
    """The number of the process."""
    pid: Count
    shards: tuple[Count, ...]
    """The shards that it serves now."""
    own_shards: Count
    """How many of them it has while all processes serve; the others are those of processes that are
    away."""
    moved_at_ms: int | None
    """When it last took or gave up a shard; null if it never did."""
    move_took_ms: Count | None
    """How long that took."""


class FleetLine(View):
    """One gateway of a fleet that runs on several machines."""

    name: str
    address: str
    """What clients connect to. Its processes share it."""
    slot: Count
    """The number in the ids of its coordinator nodes."""
    shards: tuple[Count, ...]
    """The shards that it owns."""
    state: Literal["starting", "serving", "leaving"]
    is_here: bool
    """Whether it runs at this address: operators reach its groups here."""
    seen_ms: int | None = None
    """Since when it has been in the fleet as this gateway knows it, in milliseconds since 1970
    (UTC)."""
    trouble: str = ""
    """Why its groups could not be listed at the latest look from here."""


class GatewayLine(View):
    """The gateway as a whole, or one process of it."""

    version: str
    gateway_id: str
    """The id of the state log."""
    cluster_id: str | None
    bootstrap: str
    """What clients connect to."""
    brokers: tuple[int, ...]
    """The node ids of the cluster's brokers."""
    readiness: Readiness
    connections: Count
    max_connections: Count
    hosted: Count
    """Groups that have members or an anchor here, or may have once they are loaded."""
    process: ProcessLine | None
    """Null for a single process."""
    fleet: tuple[FleetLine, ...]
    """All gateways of its fleet, if that runs on several machines."""
    started_ms: int
    now_ms: int
    """The gateway's time, in milliseconds since 1970 (UTC)."""


class ProcessState(View):
    """What a process of a gateway has answered."""

    slot: Count
    gateway: GatewayLine | None
    """Null if it has not answered."""
    trouble: str
    """Why not."""


class EventLine(View):
    """One event."""

    position: Count
    line: str
    """The event as JSON, as in the files of events."""
    sentence: str
    """The event in words; empty for a detail of another one."""


class Events(View):
    """The latest events without commits, the oldest first."""

    stream_id: str
    """The stream of the positions. Each process of the gateway has its own."""
    last: Count
    """The position of the latest event of all groups."""
    events: tuple[EventLine, ...]
