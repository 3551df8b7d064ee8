"""Classic joins that a consumer group refuses are reported with the reason."""

from collections.abc import Mapping
from typing import Any

from coordinator.engine import Step
from coordinator.interface.config import GroupConfig, MigrationPolicy
from coordinator.interface.events import Event
from gateway.events.refusals import refused_conversion
from tests.support.group_script import GroupScript


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
        found = refused_conversion(self.engine.state, event, step)
        if found is not None:
            self.refused.append(found.fields)
        return super().feed(event)


def test_a_refused_classic_join_is_reported() -> None:
    """The event has the engine's reason."""
    group = Refused()
    group.native("n")
    member_id = group.take_id()
    group.join(member_id, metadata=b"\x00")
    (told,) = group.refused
    assert told["direction"] == "consumer->classic"
    assert (told["member_id"], told["client_id"]) == (member_id, "client")
    assert told["reason"]


def test_the_policy_may_be_the_reason() -> None:
    """An operator chose it."""
    group = Refused(MigrationPolicy.DISABLED)
    group.native("n")
    group.join()
    (told,) = group.refused
    assert "migration policy disabled" in told["reason"]


def test_other_refusals_are_not_reported() -> None:
    """They concern unknown ids, errors within a classic group, and members that may join."""
    group = Refused()
    group.native("n")
    group.join("stranger", owned={"foo": [0]})
    group.join(group.take_id())
    assert group.refused == []
    classic = Refused()
    classic.stable_classic_group({"a": {"foo": [0, 1, 2]}})
    classic.join(protocol="unheard-of")
    assert classic.refused == []
