"""Whether a group is ready for the new protocol, and what to change before: pure functions of what
is known of the group. Hosts nothing and changes nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import ClassicGroupMember, ClassicGroupValue, Member
from gateway.board.cluster_reading import members_of
from gateway.board.tallies import Tally
from gateway.board.views import GroupPage, GroupReadiness, LibraryVersion
from gateway.board.words import short
from gateway.client_versions import speaks_consumer
from gateway.defective_clients import defects_of
from gateway.events.group_events import Blocker
from gateway.groups.glance import Glance
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
    glance: Glance,
    page: GroupPage,
    tally: Tally | None,
    adoption_obstacles: Sequence[str],
    config: GroupConfig,
) -> GroupReadiness:
    """`adoption_obstacles`: what an adoption would say now; of no interest for a hosted group."""
    is_hosted = page.mode == "hosted"
    classic = classic_group_of(glance)
    blocked = tuple(map(_describe_blocker, blockers_of(glance, config)))
    to_change = tuple(dict.fromkeys(_to_change(classic.members))) if classic else ()
    adoption = () if is_hosted else tuple(adoption_obstacles)
    starved = () if classic is None else starved_members(classic, glance.topics)
    warnings = (*_long_sessions(glance, classic, config), *starved)
    clients = tuple(_clients(glance, tally))
    kinds = (blocked, to_change, adoption, warnings, clients)
    return GroupReadiness(
        group_id=glance.group_id,
        mode=page.mode,
        members=page.members,
        direction=assess_conversion(glance, config).direction,
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


def _to_change(members: Iterable[ClassicGroupMember]) -> Iterator[str]:
    """The configs that clients refuse together with `group.protocol=consumer`, as far as requests
    show that they are set."""
    for member in members:
        who = _name_of(member)
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
    glance: Glance, classic: ClassicGroupValue | None, config: GroupConfig
) -> Iterator[str]:
    """The members that may believe longer than the cluster keeps their group for the gateway."""
    sessions_ms: dict[str, int] = {}
    group = None if glance.state is None else glance.state.group
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


def _clients(glance: Glance, tally: Tally | None) -> Iterator[LibraryVersion]:
    counts = Counter(_members(glance, tally))
    for ((name, version), protocol), members in sorted(counts.items(), key=str):
        yield LibraryVersion(
            software_name=name,
            software_version=version,
            protocol=protocol,
            members=members,
            speaks_consumer=speaks_consumer(name, version),
            defects=tuple(
                f"{defect.level}: {defect.symptom} (before {defect.first_good_version};"
                f" {defect.reference})"
                for defect in defects_of(name, version)
            ),
        )


def _members(
    glance: Glance, tally: Tally | None
) -> Iterator[tuple[_Software, Literal["classic", "consumer"]]]:
    seen = {} if tally is None else tally.clients

    def software(member_id: str) -> _Software:
        client = seen.get(member_id)
        return (None, None) if client is None else (client.software_name, client.software_version)

    match None if glance.state is None else glance.state.group:
        case ConsumerGroup() as group:
            for member in group.members.values():
                protocol: Literal["classic", "consumer"]
                protocol = "classic" if member.is_classic else "consumer"
                yield software(member.member_id), protocol
        case ClassicGroup() as group:
            for member_id in group.members:
                yield software(member_id), "classic"
        case None:
            for cluster_member in members_of(glance):
                yield cluster_member.software, cluster_member.protocol
