"""Answers that grant partitions wait until the cluster has confirmed the anchor."""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ConsumerHeartbeatReceived
from coordinator.interface.replies import ConsumerHeartbeatReply
from gateway.hosting.answers import RefusalReason
from gateway.hosting.effects import AskCoordinator, Write
from gateway.hosting.states import Stage
from kafka_codecs.error_codes import ErrorCode
from tests.support.broken_engine import break_engine
from tests.support.hosted_scene import HostedScene, cause_of, error_of


def test_a_grant_waits_for_the_anchor_though_its_member_has_left_again() -> None:
    """Both requests are in one batch, after which the group is empty."""
    on = HostedScene()
    on.native_member()
    on.hold(Write, AskCoordinator)
    on.native("second")
    on.native("second", -1)
    granted = on.native("n")
    on.native("n", -1)
    on.release(Write)
    assert not on.group.is_live
    assert granted.answer is None
    on.release(AskCoordinator)
    assert cause_of(granted) is RefusalReason.NOT_ANCHORED


def test_a_withheld_join_does_not_reach_a_member_that_was_removed_meanwhile() -> None:
    """The engine would let it join again, but what it has granted belongs to another member."""
    on = HostedScene(config=GroupConfig(consumer_assignment_interval_ms=0))
    on.native_member()
    on.native("n", -1)
    on.hold(AskCoordinator)
    withheld = on.native("removed")
    assert withheld.stage is Stage.CONFIRMING
    on.leave("removed")
    other = on.native("other")
    on.release(AskCoordinator)
    assert isinstance(other.answer, ConsumerHeartbeatReply)
    assert len(other.answer.assignment or ()) == 3
    assert cause_of(withheld) is RefusalReason.NOT_ANCHORED


def test_a_withheld_grant_does_not_reach_a_member_that_was_removed_meanwhile() -> None:
    """Its partitions may have another owner by the time the anchor is confirmed."""
    on = HostedScene()
    epoch = on.native_member("n").member_epoch
    on.native_member("m")
    on.hold(AskCoordinator)
    withheld = on.native("n", epoch, owned={})
    assert withheld.stage is Stage.CONFIRMING
    on.native("n", -1)
    assert on.group.engine.is_live
    on.release(AskCoordinator)
    assert error_of(withheld) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_withheld_grant_of_a_member_that_is_still_there_is_not_decided_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand members may wait for one heartbeat of the anchor."""
    on = HostedScene()
    epoch = on.native_member("n").member_epoch
    on.hold(AskCoordinator)
    withheld = on.native("n", epoch, owned={})
    assert withheld.stage is Stage.CONFIRMING
    break_engine(monkeypatch, ConsumerHeartbeatReceived, AssertionError("decided again"))
    on.release(AskCoordinator)
    assert error_of(withheld) is ErrorCode.NONE
    on.native("n", epoch, owned={})
    assert "group_failed" in on.log_names()


def test_a_withheld_grant_reaches_a_member_whose_epoch_it_moves() -> None:
    """The member named partitions that it never had, so the same request would be fenced now."""
    on = HostedScene()
    epoch = on.native_member("n").member_epoch
    on.native_member("m")
    on.wait(on.rules.config.consumer_assignment_interval_ms)
    on.native("n", epoch, owned={"foo": (0, 1, 2)})
    on.hold(AskCoordinator)
    withheld = on.native("n", epoch, owned={"bar": (1,)})
    assert withheld.stage is Stage.CONFIRMING
    on.release(AskCoordinator)
    assert error_of(withheld) is ErrorCode.NONE
