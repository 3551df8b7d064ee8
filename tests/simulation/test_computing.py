"""Clients that run an assignor themselves (rule 9.7)."""

from dataclasses import replace

import pytest

from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import InstallAssignmentReceived
from tests.simulation import computing
from tests.simulation.computing import assignors
from tests.support.simulation import PEACEFUL, Stage

ALL_VERSIONS = assignors((-1, 3, 3))


@pytest.fixture
def stage() -> Stage:
    """A group whose members may compute the target, without faults."""
    config = replace(PEACEFUL.config, client_side_assignors=True)
    stage = Stage(plan=replace(PEACEFUL, config=config))
    stage.network.is_calm = True
    return stage


def installations(stage: Stage) -> list[InstallAssignmentReceived]:
    return [
        what
        for _at_ms, _who, what in stage.world.transcript
        if isinstance(what, InstallAssignmentReceived)
    ]


def assignor(stage: Stage) -> str | None:
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    return group.assignor


def test_members_compute_their_targets_in_turn(stage: Stage) -> None:
    """Only those that handle all versions do."""
    clients = [stage.native("n1", client_assignors=assignors((-1, 1, 1)))]
    stage.wait()
    clients.append(stage.native("n2", client_assignors=ALL_VERSIONS))
    stage.wait()
    assert [len(client.claims) for client in clients] == [2, 2]
    assert [each.member_id for each in installations(stage)] == ["n1", "n2"]
    assert assignor(stage) == "cooperative-sticky"


def test_a_mixed_group_has_its_target_from_a_native_member(stage: Stage) -> None:
    """Classic members support the assignor by their protocol, and are told what it says."""
    classic = stage.classic("c1", protocols=("cooperative-sticky",), is_cooperative=True)
    stage.wait()
    native = stage.native("n1", client_assignors=ALL_VERSIONS)
    stage.wait(20_000)
    assert (len(classic.claims), len(native.claims)) == (2, 2)
    assert assignor(stage) == "cooperative-sticky"


def test_a_group_gets_its_target_although_members_fail(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are slow, silent and wrong until the faults end."""
    monkeypatch.setattr(computing, "FAILURE_RATE", 1.0)
    stage.network.is_calm = False
    clients = [stage.native(name, client_assignors=ALL_VERSIONS) for name in ("n1", "n2")]
    stage.wait(60_000)
    assert not any(client.claims for client in clients)
    stage.network.is_calm = True
    stage.wait(60_000)
    assert [len(client.claims) for client in clients] == [2, 2]
