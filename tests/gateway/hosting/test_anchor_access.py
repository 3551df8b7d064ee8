"""The anchor holds a group before its first member joins, and leaves if none does."""

import pytest

from coordinator.interface.errors import InvariantError
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
)
from gateway.hosting.answers import Situation
from gateway.hosting.calls import Released
from gateway.hosting.effects import AskCoordinator, Write
from gateway.hosting.inputs import Damage
from gateway.hosting.standing import Nobody
from gateway.hosting.states import Stage
from gateway.hosting.upstream_member import HEARTBEAT_INTERVAL_MS, LAST_BACKOFF_MS
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.leave_group import LeaveGroupRequest
from tests.simulation.coordinator import FakeGroup
from tests.support.broken_engine import break_engine
from tests.support.hosted_scene import (
    HostedScene,
    error_of,
    situation_of,
)


def test_no_member_joins_before_the_group_is_held(on: HostedScene) -> None:
    """A consumer in the cluster may join first."""
    on.hold(AskCoordinator)
    call = on.native("n")
    assert (call.answer, call.stage) == (None, Stage.ADMITTING)
    assert not on.group.is_live
    on.release(AskCoordinator)
    assert error_of(call) is ErrorCode.NONE


def test_whoever_joins_first_in_the_cluster_has_the_group(on: HostedScene) -> None:
    """The look saw nobody, and then a consumer joined there."""
    on.coordinator.groups[on.group.group_id] = FakeGroup(
        protocol_type="consumer", protocol="range", member_id="theirs", is_synced=True
    )
    on.found = Nobody()
    on.hold(AskCoordinator)
    call = on.native("n")
    on.found = None
    on.release(AskCoordinator)
    on.wait(1_000)
    assert situation_of(call) is Situation.NOT_ANCHORED
    assert on.in_cluster.member_id == "theirs"
    assert not on.group.is_live
    on.wait(1_000)
    assert on.group.is_idle


def test_an_anchor_taken_for_a_refused_join_leaves_at_once(
    on: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No member was admitted. Otherwise it would linger."""
    on.hold(AskCoordinator)
    call = on.native("n")
    break_engine(monkeypatch, ConsumerHeartbeatReceived, InvariantError("a bug"))
    on.release(AskCoordinator)
    assert situation_of(call) is Situation.RELOADING
    assert not on.group.anchor.is_here
    assert on.in_cluster.member_id == ""


def test_a_join_that_fails_keeps_the_anchor_for_one_that_waits(on: HostedScene) -> None:
    """The second would otherwise wait until the anchor has left and joined again."""
    on.hold(Write)
    first = on.native("a")
    on.in_cluster.remove_member()
    on.coordinator.refuses_joins_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    on.wait(HEARTBEAT_INTERVAL_MS)
    second = on.native("b")
    assert second.stage is Stage.ADMITTING
    on.damage = Damage.NONE
    on.release(Write)
    assert situation_of(first) is Situation.LOG_FAILED
    on.damage, on.coordinator.refuses_joins_with = None, 0
    on.wait(LAST_BACKOFF_MS)
    assert error_of(second) is ErrorCode.NONE
    assert on.asked(LeaveGroupRequest) == 0


def test_an_anchor_stays_for_a_client_that_comes_back_with_its_id(on: HostedScene) -> None:
    """MEMBER_ID_REQUIRED is no refusal for good."""
    assert error_of(on.join()) is ErrorCode.MEMBER_ID_REQUIRED
    assert on.asked(LeaveGroupRequest) == 0


def test_without_anchors_the_cluster_is_not_asked() -> None:
    """The embedded cluster has none, and other clients are not kept out."""
    on = HostedScene(can_anchor=False)
    on.native_member()
    assert on.count(AskCoordinator) == 0
    on.native("n", -1)
    assert isinstance(on.free().answer, Released)
