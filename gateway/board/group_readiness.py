"""Whether a group is ready for the new protocol, and what to change before: pure functions of what
is known of the group. Hosts nothing and changes nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import ClassicGroupMember, ClassicGroupValue, Member
from gateway.board.cluster_reading import members_of
from gateway.board.group_stats import GroupStats
from gateway.board.views import GroupPage, GroupReadiness, LibraryVersion
from gateway.board.words import short
from gateway.client_versions import explain_lack, speaks_consumer
from gateway.defective_clients import defects_of
from gateway.events.group_events import Blocker
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.groups.readiness import (
    assess_conversion,
    blockers_of,
    classic_group_of,
    starved_members,
)
from gateway.hosting.anchor import SESSION_TIMEOUTS_MS

LINES_MAX = 200
"""Lines of each kind in one answer."""

DEFAULT_SESSION_MS = frozenset({10_000, 30_000, 45_000})
"""The defaults of `session.timeout.ms` in the clients' history."""
DEFAULT_ASSIGNORS = frozenset(
    {("range",), ("range", "cooperative-sticky"), ("range", "roundrobin")}
)
"""The defaults of `partition.assignment.strategy` in Java and librdkafka."""
SERVER_SIDE = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""The assignors of clients that the server's `range` and `uniform` stand for."""

_Software = tuple[str | None, str | None]


def assess(
    snapshot: GroupSnapshot,
    page: GroupPage,
    stats: GroupStats | None,
    adoption_obstacles: Sequence[str],
    config: GroupConfig,
) -> GroupReadiness:
    """`adoption_obstacles`: what an adoption would say now; of no interest for a hosted group."""
    is_hosted = page.mode == "hosted"
    classic = classic_group_of(snapshot)
    blocked = tuple(map(_describe_blocker, blockers_of(snapshot, config)))
    to_change = tuple(
        dict.fromkeys(_to_change(_classic_clients(snapshot, classic), snapshot, stats))
    )
    adoption = () if is_hosted else tuple(adoption_obstacles)
    starved = () if classic is None else starved_members(classic, snapshot.topics)
    warnings = (*_long_sessions(snapshot, classic, config), *starved)
    clients = tuple(_clients(snapshot, stats))
    kinds = (blocked, to_change, adoption, warnings, clients)
    return GroupReadiness(
        group_id=snapshot.group_id,
        mode=page.mode,
        members=page.members,
        direction=assess_conversion(snapshot, config).direction,
        can_convert=not blocked,
        conversion_obstacles=tuple(map(short, blocked[:LINES_MAX])),
        can_be_adopted=None if is_hosted else not adoption,
        adoption_obstacles=tuple(map(short, adoption[:LINES_MAX])),
        to_change=tuple(map(short, to_change[:LINES_MAX])),
        warnings=tuple(map(short, warnings[:LINES_MAX])),
        clients=clients[:LINES_MAX],
        left_out=sum(max(0, len(lines) - LINES_MAX) for lines in kinds),
    )


def _describe_blocker(blocker: Blocker) -> str:
    return f"{blocker.member_id}: {blocker.reason}" if blocker.member_id else blocker.reason


class _ClassicClient(NamedTuple):
    """A member of the classic protocol, of a group of either."""

    member_id: str
    name: str
    protocols: Sequence[tuple[str, bytes]]
    session_timeout_ms: int


def _classic_clients(
    snapshot: GroupSnapshot, classic: ClassicGroupValue | None
) -> Iterator[_ClassicClient]:
    group = None if snapshot.state is None else snapshot.state.group
    if isinstance(group, ConsumerGroup):
        for member_id, member in group.members.items():
            if member.classic is not None:
                metadata = member.classic
                yield _ClassicClient(
                    member_id, _name_of(member), metadata.protocols, metadata.session_timeout_ms
                )
    elif classic is not None:
        for classic_member in classic.members:
            yield _ClassicClient(
                classic_member.member_id,
                _name_of(classic_member),
                classic_member.protocols,
                classic_member.session_timeout_ms,
            )


def _to_change(
    clients: Iterable[_ClassicClient], snapshot: GroupSnapshot, stats: GroupStats | None
) -> Iterator[str]:
    """The configs that clients refuse together with `group.protocol=consumer`, as far as requests
    show that they are set; and the clients that do not have the new protocol at all."""
    for member in clients:
        who = member.name
        library = _software(member.member_id, snapshot, stats)
        if lack := explain_lack(*library):
            yield f"{who}: {lack}: until then it stays a classic member (clients.md)"
        names = tuple(name for name, _metadata in member.protocols)
        if custom := [name for name in names if name not in SERVER_SIDE]:
            yield (
                f"{who}: the new protocol has no assignor {', '.join(custom)}; the server assigns"
                " with uniform or range (group.remote.assignor), unless a plug-in or the consumers"
                " themselves do (plug-ins.md, client-side-assignors.md)"
            )
        elif names and names not in DEFAULT_ASSIGNORS:
            yield (
                f"{who}: remove partition.assignment.strategy ({','.join(names)}); the new protocol"
                " has group.remote.assignor"
            )
        session_ms = member.session_timeout_ms
        if session_ms and session_ms not in DEFAULT_SESSION_MS:
            yield (
                f"{who}: remove session.timeout.ms ({session_ms}) and heartbeat.interval.ms; the"
                " group's configs consumer.session.timeout.ms and"
                " consumer.heartbeat.interval.ms stand for them"
            )


def _long_sessions(
    snapshot: GroupSnapshot, classic: ClassicGroupValue | None, config: GroupConfig
) -> Iterator[str]:
    """The members that may believe longer than the cluster keeps their group for the gateway."""
    sessions_ms: dict[str, int] = {}
    group = None if snapshot.state is None else snapshot.state.group
    if isinstance(group, ConsumerGroup):
        if group.has_native_members:
            name = "its native members (consumer.session.timeout.ms)"
            sessions_ms[name] = config.consumer_session_timeout_ms
        for member in group.members.values():
            if member.classic is not None:
                name, session_ms = _name_of(member), member.classic.session_timeout_ms
                sessions_ms[name] = max(session_ms, sessions_ms.get(name, 0))
    elif classic is not None:
        for classic_member in classic.members:
            name, session_ms = _name_of(classic_member), classic_member.session_timeout_ms
            sessions_ms[name] = max(session_ms, sessions_ms.get(name, 0))
    anchor_s = SESSION_TIMEOUTS_MS[0] // 1000
    for name, session_ms in sessions_ms.items():
        if session_ms > SESSION_TIMEOUTS_MS[0]:
            yield (
                f"{name}: a session of {session_ms // 1000} s is longer than that of the gateway in"
                f" the cluster ({anchor_s} s): if the gateway is away for longer than that, a"
                " consumer that joins in the cluster gets partitions that are still believed owned"
            )


def _name_of(member: ClassicGroupMember | Member) -> str:
    return member.client_id or member.member_id


def _clients(snapshot: GroupSnapshot, stats: GroupStats | None) -> Iterator[LibraryVersion]:
    counts = Counter(_members(snapshot, stats))
    for ((name, version), protocol), members in sorted(counts.items(), key=str):
        yield LibraryVersion(
            software_name=name,
            software_version=version,
            protocol=protocol,
            members=members,
            speaks_consumer=protocol == "consumer" or speaks_consumer(name, version),
            defects=tuple(
                f"{defect.level}: {defect.symptom} (before {defect.first_good_version};"
                f" {defect.reference})"
                for defect in defects_of(name, version)
            ),
        )


def _members(
    snapshot: GroupSnapshot, stats: GroupStats | None
) -> Iterator[tuple[_Software, Literal["classic", "consumer"]]]:
    match None if snapshot.state is None else snapshot.state.group:
        case ConsumerGroup() as group:
            for member in group.members.values():
                protocol: Literal["classic", "consumer"]
                protocol = "classic" if member.is_classic else "consumer"
                yield _software(member.member_id, snapshot, stats), protocol
        case ClassicGroup() as group:
            for member_id in group.members:
                yield _software(member_id, snapshot, stats), "classic"
        case None:
            for cluster_member in members_of(snapshot):
                yield cluster_member.software, cluster_member.protocol


def _software(member_id: str, snapshot: GroupSnapshot, stats: GroupStats | None) -> _Software:
    """What a member's client said of itself."""
    client = None if stats is None else stats.clients.get(member_id)
    if client is not None:
        return client.software_name, client.software_version
    watched = None if snapshot.watched is None else snapshot.watched.members.get(member_id)
    return (None, None) if watched is None else (watched.software_name, watched.software_version)
