"""The checks of answers as they leave the gateway."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.interface.events import OffsetCommitReceived, OffsetFetchReceived
from gateway.hosting import answers
from gateway.hosting.call_stages import CallStages
from tests.simulation.cluster import Commit
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.support.simulation import PEACEFUL, Stage


def test_an_unconfirmed_grant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The anchor's join is no confirmation: the decision followed it."""

    def decided(stages: Any, call: Any, outcome: Any, _now_ms: int) -> None:
        stages.open_calls.answer(call, outcome)

    monkeypatch.setattr(CallStages, "_on_decision", decided)
    stage = Stage()
    stage.native("n1")
    with pytest.raises(BrokenInvariantError) as broken:
        stage.wait()
    assert broken.value.invariant is Invariant.ANCHORED


def test_a_grant_from_before_a_consumer_had_the_group_is_found() -> None:
    stage = Stage()
    stage.native("n1")
    stage.wait()
    stage.driver.process.given_up_ms = stage.world.now_ms + 60_000
    stage.native("n2")
    with pytest.raises(BrokenInvariantError, match="since the decision") as broken:
        stage.wait()
    assert broken.value.invariant is Invariant.ANCHORED


def test_a_grant_during_a_commit_of_another_is_found() -> None:
    """The cluster may still store it."""
    stage = Stage()
    first = stage.native("n1")
    stage.wait()
    partitions = frozenset(stage.foo(0, 1, 2, 3))
    ids = stage.driver.process.group.anchor.ids(stage.driver.now_ms)
    stage.cluster.delay_ms_max = 1
    stray = Commit(
        who="gone",
        request=_commit_of(partitions),
        positions=dict.fromkeys(partitions, 1),
        ids=ids,
        sender=0,
    )
    stage.cluster._on_the_way[stray] = None
    assert first.claims
    stage.native("n2")
    with pytest.raises(BrokenInvariantError) as broken:
        stage.wait()
    assert broken.value.invariant is Invariant.IN_FLIGHT


def test_heirs_may_have_partitions_whose_commit_has_no_answer_yet() -> None:
    """A static member's successor, and again its successor, by whatever instance id (seed 1550944).
    Their fetches wait for the commit."""
    config = replace(PEACEFUL.config, lost_commit_hold_ms=30_000)
    stage = Stage(plan=replace(PEACEFUL, config=config))
    first = stage.native("n1", instance_id="i1")
    stage.wait(1_000)
    stage.cluster.lost_answer_rate = 1.0
    first.close()
    stage.wait(2_000)
    second = stage.native("n2", instance_id="i1")
    stage.wait(1_000)
    assert stage.cluster.may_store(lambda commit: commit.who == "n1")
    second.take_place("i2")
    stage.wait(1_000)
    assert second.heard == stage.foo(0, 1, 2, 3)


@pytest.mark.parametrize("is_former", [False, True])
def test_a_fetch_during_a_commit_of_another_is_found(*, is_former: bool) -> None:
    """Unless no rule can prevent it: up to v8 it does not say that its client is a former member
    (seeds 66544 and 67092)."""
    stage = Stage()
    client = stage.classic("c1")
    stage.native("n1")
    stage.wait(10_000)
    partitions = frozenset(stage.foo(0, 1, 2, 3))
    stray = Commit(
        who="n1",
        request=_commit_of(partitions),
        positions=dict.fromkeys(partitions, 1),
        ids=stage.driver.process.group.anchor.ids(stage.driver.now_ms),
        sender=0,
    )
    stage.cluster._on_the_way[stray] = None
    fetch = OffsetFetchReceived(token=1, member_id=None, epoch=-1, partitions=partitions)
    if is_former:
        client.member_id = "former"
        stage.network.fetch("c1", fetch)
    else:
        with pytest.raises(BrokenInvariantError) as broken:
            stage.network.fetch("c1", fetch)
        assert broken.value.invariant is Invariant.IN_FLIGHT


def test_an_answer_of_a_gateway_that_has_lost_its_log_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gateway that took the log may have fenced the member."""
    monkeypatch.setattr(answers, "OF_MEMBERSHIP", frozenset())
    stage = Stage()
    stage.native("n1")
    stage.wait()
    stage.driver.process.around.log.take()
    with pytest.raises(BrokenInvariantError) as broken:
        stage.wait()
    assert broken.value.invariant is Invariant.LEASE


def _commit_of(partitions: frozenset[Any]) -> Any:
    return OffsetCommitReceived(
        token=10_000,
        version=9,
        member_id="gone",
        instance_id=None,
        epoch=1,
        partitions=partitions,
    )
