"""The present members with their clients, and the obstacles to a conversion."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from coordinator.interface.records import RemovalCause
from gateway.events.group_events import (
    ConversionRefused,
    Direction,
    GroupConverted,
    GroupCreated,
    GroupForwarded,
    HostingStarted,
)
from gateway.events.member_events import ClientSeen, MemberJoined, MemberLeft, Protocol
from gateway.pipeline.fold.readiness import ReadinessRow
from tests.support.event_writer import EventWriter, WriteHistory, lines_of
from tests.support.folded_lines import folded
from tests.support.group_events import speaks
from tests.support.simulated_events import SimulatedStep, undisturbed
from tests.support.simulated_lines import write

JAVA = "apache-kafka-java"


def comes(
    writer: EventWriter,
    member_id: str,
    version: str,
    *,
    protocol: Protocol = "classic",
    protocol_type: str = "consumer",
    embedded_version: int | None = 3,
    instance_id: str | None = None,
) -> None:
    """A client that was seen and then joined."""
    is_seen(
        writer,
        member_id,
        version,
        protocol=protocol,
        protocol_type=protocol_type,
        embedded_version=embedded_version,
        instance_id=instance_id,
    )
    writer.tell(
        1,
        MemberJoined(
            member_id=member_id,
            client_id="c",
            client_host="/h",
            instance_id=instance_id,
            protocol=protocol,
        ),
    )


def is_seen(
    writer: EventWriter,
    member_id: str,
    version: str,
    *,
    protocol: Protocol,
    protocol_type: str = "consumer",
    embedded_version: int | None = None,
    instance_id: str | None = None,
) -> None:
    """It may be about to join."""
    writer.beside(
        1,
        ClientSeen(
            member_id=member_id,
            client_id="c",
            client_host="/h",
            instance_id=instance_id,
            software_name=JAVA if version else None,
            software_version=version or None,
            protocol=protocol,
            protocol_type=protocol_type,
            embedded_version=embedded_version,
            assignors=("range",),
        ),
    )


def refused(
    writer: EventWriter, direction: Direction = "classic->consumer", member_id: str = "n"
) -> None:
    writer.beside(
        2,
        ConversionRefused(direction=direction, member_id=member_id, client_id="c", reason="policy"),
    )


def restarted_in_the_cluster(writer: EventWriter) -> None:
    """A client that came in the place of another one is the only one left."""
    writer.beside(0, GroupForwarded(reason="rule"))
    for member_id, version in (("a", "3.9.2"), ("b", "4.1.0")):
        is_seen(writer, member_id, version, protocol="classic", embedded_version=3)
        writer.beside(1, speaks(member_id, 1))


def ready(writer: EventWriter) -> None:
    """Members are counted by version, without those that left."""
    comes(writer, "a", "4.1.0")
    comes(writer, "b", "4.1.0", instance_id="i")
    comes(writer, "c", "3.9.2")
    comes(writer, "d", "3.9.2")
    comes(writer, "e", "")
    writer.tell(3, MemberLeft(member_id="d", cause=RemovalCause.LEFT))


def foreign(writer: EventWriter) -> None:
    """Kafka Connect's workers are not consumers."""
    comes(writer, "a", "4.1.0", protocol_type="connect", embedded_version=None)


def unread(writer: EventWriter) -> None:
    """The subscription has a custom format."""
    comes(writer, "a", "4.1.0", embedded_version=None)


def refused_once(writer: EventWriter) -> None:
    """The reason of the last refused attempt."""
    comes(writer, "a", "4.1.0")
    refused(writer)


def refused_and_then_not(writer: EventWriter) -> None:
    """A later successful attempt counts."""
    comes(writer, "a", "4.1.0")
    refused(writer)
    writer.tell(
        4,
        GroupConverted(
            direction="classic->consumer", is_live=True, group_epoch=1, members=1, cause="n joined"
        ),
    )
    comes(writer, "n", "4.1.0", protocol="consumer", embedded_version=None)


def refused_the_way_back(writer: EventWriter) -> None:
    """It is a consumer group, and no obstacle prevents it from becoming classic."""
    writer.tell(1, GroupCreated(kind="consumer"))
    comes(writer, "n", "4.1.0", protocol="consumer", embedded_version=None)
    comes(writer, "a", "4.1.0")
    refused(writer, "consumer->classic", "b")


def unread_since(writer: EventWriter) -> None:
    """A classic member of a consumer group tried to join with unreadable metadata."""
    refused_the_way_back(writer)
    is_seen(writer, "a", "4.1.0", protocol="classic")


def turned_away(writer: EventWriter) -> None:
    """A client that was seen but refused is no member. One that returned and joined is."""
    comes(writer, "a", "4.1.0")
    for member_id in ("m", "n"):
        is_seen(writer, member_id, "4.2.0", protocol="consumer")
        refused(writer, member_id=member_id)
    writer.tell(
        3,
        GroupConverted(
            direction="classic->consumer", is_live=True, group_epoch=1, members=1, cause="n joined"
        ),
    )
    comes(writer, "n", "4.2.0", protocol="consumer", embedded_version=None)


def forwarded(writer: EventWriter) -> None:
    """The cluster holds the group."""
    comes(writer, "a", "4.1.0")
    writer.beside(2, GroupForwarded(reason="as configured"))


def hosted_again(writer: EventWriter) -> None:
    """The cluster held the group until it was empty."""
    forwarded(writer)
    writer.beside(3, HostingStarted(reason="it has no members in the cluster"))


Found = tuple[str | None, str, int, int, bool | None, str | None]
"""Version, protocol, members, static members, support of KIP-848, obstacle."""

CASES: Mapping[object, Sequence[Found]] = {
    hosted_again: [("4.1.0", "classic", 1, 0, True, None)],
    restarted_in_the_cluster: [
        ("4.1.0", "classic", 1, 0, False, "the cluster has the group: rule")
    ],
    ready: [
        ("3.9.2", "classic", 1, 0, False, None),
        ("4.1.0", "classic", 2, 1, True, None),
        (None, "classic", 1, 0, None, None),
    ],
    foreign: [
        ("4.1.0", "classic", 1, 0, True, "its members are not consumers: protocol type connect")
    ],
    unread: [("4.1.0", "classic", 1, 0, True, "a member's subscription cannot be read")],
    refused_once: [("4.1.0", "classic", 1, 0, True, "a conversion was refused: policy")],
    refused_and_then_not: [
        ("4.1.0", "classic", 1, 0, True, None),
        ("4.1.0", "consumer", 1, 0, True, None),
    ],
    refused_the_way_back: [
        ("4.1.0", "classic", 1, 0, True, None),
        ("4.1.0", "consumer", 1, 0, True, None),
    ],
    unread_since: [
        ("4.1.0", "classic", 1, 0, True, None),
        ("4.1.0", "consumer", 1, 0, True, None),
    ],
    turned_away: [
        ("4.1.0", "classic", 1, 0, True, None),
        ("4.2.0", "consumer", 1, 0, True, None),
    ],
    forwarded: [("4.1.0", "classic", 1, 0, True, "the cluster has the group: as configured")],
}
HISTORIES = (
    ready,
    foreign,
    unread,
    refused_once,
    refused_and_then_not,
    refused_the_way_back,
    unread_since,
    turned_away,
    forwarded,
)


@pytest.fixture(scope="module")
def runs() -> Mapping[int, Sequence[SimulatedStep]]:
    """The runs by seed."""
    return undisturbed()


@pytest.fixture(scope="module")
def rows(runs: Mapping[int, Sequence[SimulatedStep]]) -> Sequence[ReadinessRow]:
    """The rows of all histories."""
    told: dict[str, WriteHistory] = {tell.__name__: tell for tell in HISTORIES}
    told |= {f"seed {seed}": partial(write, steps) for seed, steps in runs.items()}
    return folded(*lines_of(told)).readiness


@pytest.mark.parametrize("tell", HISTORIES)
def test_hand_written_histories_have_the_expected_rows(
    tell: object, rows: Sequence[ReadinessRow]
) -> None:
    """Each history is explained where it is defined."""
    found = [
        (
            row.software_version,
            row.protocol,
            row.members,
            row.static_members,
            row.speaks_consumer,
            row.blocked_by,
        )
        for row in rows
        if row.group_id == getattr(tell, "__name__", None)
    ]
    assert sorted(found, key=str) == sorted(CASES[tell], key=str)
    assert all(row.can_convert == (row.blocked_by is None) for row in rows)


def test_members_agree_with_the_simulator(
    runs: Mapping[int, Sequence[SimulatedStep]], rows: Sequence[ReadinessRow]
) -> None:
    """The last members, static or not, by protocol."""
    for seed, steps in runs.items():
        found: Counter[tuple[str, bool]] = Counter()
        for row in rows:
            if row.group_id == f"seed {seed}":
                found[row.protocol, True] += row.static_members
                found[row.protocol, False] += row.members - row.static_members
        there = steps[-1].members.values()
        assert found == Counter((m.protocol, m.instance_id is not None) for m in there), seed
