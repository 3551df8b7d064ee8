"""Owned partitions that members state are reported as stated, and classic joins that a consumer
group refuses with the reason."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator.engine import Step
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.events import Event
from gateway.events.request_translator import refused_conversion, statement
from tests.support.engine_requests import CLASSIC_JOIN
from tests.support.group_script import GroupScript, embedded_assignment, subscription

NO_DELAYS = GroupConfig(consumer_assignment_interval_ms=0, classic_initial_rebalance_delay_ms=0)


class Stated(GroupScript):
    """A group, and the statements of its members' requests."""

    def __init__(self) -> None:
        self.stated: list[Mapping[str, Any]] = []
        super().__init__(config=NO_DELAYS)

    def feed(self, event: Event) -> Step:
        step = super().feed(event)
        event_fields = statement(event, step, self.topics)
        if event_fields is not None:
            self.stated.append(event_fields.fields)
        return step


def test_a_changed_statement_of_a_native_member_is_reported() -> None:
    """Stating no partitions at the join counts, but omitting the list does not."""
    group = Stated()
    epoch = group.native("n").member_epoch
    group.native("n", epoch)
    group.native("n", epoch, owned={"foo": [2, 0]})
    assert group.stated == [
        {"member_id": "n", "member_epoch": 0, "partitions": {}},
        {"member_id": "n", "member_epoch": epoch, "partitions": {"foo": [0, 2]}},
    ]


def test_a_refused_request_is_no_statement() -> None:
    """Its sender is not a member of the group."""
    group = Stated()
    group.native("n")
    group.stated.clear()
    group.native("stranger", 7, owned={"foo": [0]})
    assert group.stated == []


def test_a_classic_rejoin_is_a_statement() -> None:
    """Without a member id there is no owner."""
    group = Stated()
    group.send_join("")
    assert group.stated == []
    ids = group.stable_classic_group({"a": {"foo": [0, 1, 2]}})
    group.stated.clear()
    group.send_join(ids["a"], owned={"foo": [1, 0]})
    (stated,) = group.stated
    assert (stated["member_id"], stated["partitions"]) == (ids["a"], {"foo": [0, 1]})


@pytest.mark.parametrize(
    ("protocol_type", "metadata"),
    [
        ("consumer", b"\x00\x00" + subscription(["foo"])[2:]),
        ("consumer", b"\x00"),
        ("consumer", embedded_assignment({"foo": [0]})[:-1]),
        ("connect", subscription(["foo"], owned={"foo": [0]})),
    ],
)
def test_a_subscription_without_owned_partitions_is_no_statement(
    protocol_type: str, metadata: bytes
) -> None:
    """The subscription has the oldest version, is malformed, or belongs to another protocol."""
    event = replace(CLASSIC_JOIN, protocol_type=protocol_type, protocols=(("range", metadata),))
    assert statement(event, Step(), Stated().topics) is None


class Refused(GroupScript):
    """A group, and the clients that it refused."""

    def __init__(self, policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> None:
        self.refused: list[Mapping[str, Any]] = []
        super().__init__(
            config=GroupConfig(
                consumer_assignment_interval_ms=0,
                classic_initial_rebalance_delay_ms=0,
                consumer_migration_policy=policy,
            )
        )

    def feed(self, event: Event) -> Step:
        step = self.engine.handle(event, now_ms=self.now_ms, topics=self.topics)
        refusal = refused_conversion(self.engine.state, event, step)
        if refusal is not None:
            self.refused.append(refusal.fields)
        return super().feed(event)


def test_a_refused_classic_join_is_reported() -> None:
    """The event has the engine's reason."""
    group = Refused()
    group.native("n")
    member_id = group.take_id()
    group.join(member_id, metadata=b"\x00")
    (refusal,) = group.refused
    assert refusal["direction"] == "consumer->classic"
    assert (refusal["member_id"], refusal["client_id"]) == (member_id, "client")
    assert refusal["reason"]


def test_the_policy_may_be_the_reason() -> None:
    """An operator chose it."""
    group = Refused(MigrationPolicy.DISABLED)
    group.native("n")
    group.join()
    (refusal,) = group.refused
    assert "migration policy disabled" in refusal["reason"]


def test_other_refusals_are_not_reported() -> None:
    """Other refusals concern unknown ids, errors within a classic group, and members that may
    join."""
    group = Refused()
    group.native("n")
    group.join("stranger", owned={"foo": [0]})
    group.join(group.take_id())
    assert group.refused == []
    classic = Refused()
    classic.stable_classic_group({"a": {"foo": [0, 1, 2]}})
    classic.join(protocol="unheard-of")
    assert classic.refused == []
