"""Which members can switch next, and what prevents it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from gateway.events.group_events import (
    ConversionRefused,
    GroupAdopted,
    GroupConverted,
    GroupCreated,
    GroupForwarded,
    HostingStarted,
)
from gateway.events.member_events import (
    ClientSeen,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    MemberSwitched,
)
from gateway.events.offset_events import NO_MEMBER
from gateway.pipeline.fold.changes import ChangeRow
from gateway.pipeline.fold.history import History
from gateway.pipeline.fold.row import Row
from gateway.pipeline.fold.sightings import CLASSIC, Protocol

SPEAKS_CONSUMER_SINCE: Mapping[str, tuple[int, int] | None] = MappingProxyType(
    {
        "apache-kafka-java": (4, 0),
        "librdkafka": (2, 12),
        "confluent-kafka-python": (2, 12),
        "confluent-kafka-go": (2, 12),
        "confluent-kafka-dotnet": (2, 12),
        "kgo": (1, 22),
        "platformatic-kafka": (1, 35),
        "sarama": None,
        "kafka-python": None,
        "aiokafka": None,
        "kafkajs": None,
    }
)
"""Major and minor version; None if no version supports it."""

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)


def speaks_consumer(name: str | None, version: str | None) -> bool | None:
    """Whether a client supports the new protocol; None if unknown."""
    found = _VERSION.match(version or "")
    if name is None or name not in SPEAKS_CONSUMER_SINCE or found is None:
        return None
    since = SPEAKS_CONSUMER_SINCE[name]
    return since is not None and (int(found[1]), int(found[2])) >= since


CONSUMER_TYPE = "consumer"
_ABOUT_CONVERSIONS = (
    *(GroupCreated, GroupConverted, ConversionRefused),
    *(GroupForwarded, HostingStarted),
)


@dataclass(slots=True, kw_only=True)
class ReadinessRow(Row):
    """The members that can switch next: those present at the end, by client library and version,
    and what prevents an online conversion of their group."""

    software_name: str | None
    """As the members introduced themselves; null if they did not."""
    software_version: str | None
    protocol: Literal["classic", "consumer"]
    """The members' protocol at the end."""
    members: int
    static_members: int
    """Members with a group.instance.id."""
    speaks_consumer: bool | None
    """Whether this version supports the new protocol; null if unknown. See `client_versions`."""
    can_convert: bool
    """Whether the group converts when a member with the new protocol joins, or has converted
    already."""
    blocked_by: str | None
    """What prevents it."""
    at_ms: int
    """The latest event about any of them."""


def readiness(history: History, changes: Iterable[ChangeRow]) -> list[ReadinessRow]:
    """See `ReadinessRow`."""
    members = list(_members(history, changes))
    if not members:
        return []
    blocked_by = _blocked_by(history, members)
    together: dict[tuple[str | None, str | None, Protocol], list[_Member]] = {}
    for member in members:
        assert member.protocol is not None
        client = member.client
        names = (client.software_name, client.software_version) if client else (None, None)
        together.setdefault((*names, member.protocol), []).append(member)
    return [
        ReadinessRow(
            cluster_id=history.cluster_id,
            group_id=history.group_id,
            software_name=name,
            software_version=version,
            protocol=protocol,
            members=len(some),
            static_members=sum(member.instance_id is not None for member in some),
            speaks_consumer=speaks_consumer(name, version),
            can_convert=blocked_by is None,
            blocked_by=blocked_by,
            at_ms=max(member.seen_ms for member in some),
        )
        for (name, version, protocol), some in together.items()
    ]


@dataclass(slots=True)
class _Member:
    """What is known of a member."""

    seen_ms: int
    protocol: Protocol | None = None
    instance_id: str | None = None
    client: ClientSeen | None = None
    was_refused: bool = False
    has_come: bool = False

    @property
    def protocol_type(self) -> str | None:
        """Null if the member is not classic, or has not introduced itself."""
        return self.client.protocol_type if self.client and self.protocol == CLASSIC else None


_DISPLACING = frozenset({ClientSeen.name, HostingStarted.name, GroupAdopted.name})
"""With these, a member goes without an event of its own: see `sightings`."""
_OF_MEMBERS = (
    *(ClientSeen, ConversionRefused, MemberJoined, MemberSwitched),
    *(MemberLeft, MemberFenced, MemberReplaced),
)


def _members(history: History, changes: Iterable[ChangeRow]) -> Iterator[_Member]:
    """The latest knowledge of each member that is still there. A member whose join was not told (it
    was before the first event, or in the cluster) was at least seen; but so was a client that was
    refused."""
    is_displaced: dict[str | None, bool] = {}
    for change in changes:
        if change.was_present != change.is_present:
            is_displaced[change.member_id] = not change.is_present and change.event in _DISPLACING
    members: dict[str, _Member] = {}
    for told in history.of(*_OF_MEMBERS):
        match told.event:
            case MemberLeft() | MemberFenced() | MemberReplaced():
                # A member that returns under its id starts over.
                members.pop(told.event.member_id, None)
            case ClientSeen() | ConversionRefused() | MemberJoined() | MemberSwitched():
                if told.event.member_id == NO_MEMBER:
                    continue
                member = members.setdefault(told.event.member_id, _Member(told.at_ms))
                member.seen_ms = told.at_ms
                _learn(member, told.event)
            case _:
                pass
    for member_id, member in members.items():
        is_there = member.has_come or not member.was_refused
        if member.protocol is not None and is_there and not is_displaced.get(member_id):
            yield member


def _learn(
    member: _Member, event: ClientSeen | ConversionRefused | MemberJoined | MemberSwitched
) -> None:
    match event:
        case ConversionRefused():
            member.was_refused = True
            return
        case ClientSeen():
            member.client = event
        case MemberJoined() | MemberSwitched():
            member.has_come = True
    member.protocol = event.protocol
    if not isinstance(event, MemberSwitched) and event.instance_id is not None:
        member.instance_id = event.instance_id


def _blocked_by(history: History, members: Iterable[_Member]) -> str | None:
    """What prevents the group's conversion, if anything."""
    last: GroupCreated | GroupConverted | ConversionRefused | GroupForwarded | None = None
    for told in history.of(*_ABOUT_CONVERSIONS):
        match told.event:
            case HostingStarted():
                last = None if isinstance(last, GroupForwarded) else last
            # A refusal to convert back does not concern classic members.
            case ConversionRefused(direction="consumer->classic"):
                pass
            case GroupCreated() | GroupConverted() | ConversionRefused() | GroupForwarded():
                last = told.event
            case _:
                pass
    match last:
        case GroupForwarded(reason=reason):
            return f"the cluster has the group: {reason}"
        case GroupCreated(kind="consumer") | GroupConverted(direction="classic->consumer"):
            return None
        case _:
            pass
    foreign = {member.protocol_type for member in members} - {None, CONSUMER_TYPE}
    if foreign:
        return f"its members are not consumers: protocol type {min(filter(None, foreign))}"
    if any(
        member.protocol_type == CONSUMER_TYPE
        and member.client is not None
        and member.client.embedded_version is None
        for member in members
    ):
        return "a member's subscription cannot be read"
    if isinstance(last, ConversionRefused):
        return f"a conversion was refused: {last.reason}"
    return None
