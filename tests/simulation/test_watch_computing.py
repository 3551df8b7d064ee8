"""The check of who computes and installs targets."""

from dataclasses import replace

import pytest

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import InstallAssignmentReceived, PrepareAssignmentReceived
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    InstallAssignmentReply,
    PrepareAssignmentReply,
)
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.computing import assignors
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.watch_computing import ComputingWatch
from tests.support.given_requests import NATIVE_BEAT
from tests.support.simulation import PEACEFUL, Stage

ASKS = PrepareAssignmentReceived(token=1, member_id="n1", member_epoch=2)
PREPARED = Step(replies=((1, PrepareAssignmentReply(group_epoch=3)),))
INSTALLS = InstallAssignmentReceived(token=1, member_id="n1", member_epoch=2, group_epoch=3)
INSTALLED = Step(replies=((1, InstallAssignmentReply()),))


@pytest.fixture
def stage() -> Stage:
    """A group with one member at epoch 2."""
    stage = Stage(plan=PEACEFUL)
    stage.native("n1", client_assignors=assignors((0, 1, 1)))
    stage.wait(2_000)
    return stage


@pytest.fixture
def watch(stage: Stage) -> ComputingWatch:
    """n1 has asked for the group."""
    watch = ComputingWatch()
    watch.after_load(stage.driver.engine.state)
    watch.after_step(stage.driver.engine.state, ASKS, PREPARED)
    return watch


@pytest.mark.parametrize(
    "installs",
    [
        replace(INSTALLS, member_id="n2"),
        replace(INSTALLS, member_epoch=1),
        replace(INSTALLS, group_epoch=2),
    ],
)
def test_an_installation_by_another_or_at_another_epoch_is_found(
    stage: Stage, watch: ComputingWatch, installs: InstallAssignmentReceived
) -> None:
    refused = Step(replies=((1, InstallAssignmentReply(error=ErrorCode.UNKNOWN_MEMBER_ID)),))
    watch.after_step(stage.driver.engine.state, installs, refused)
    with pytest.raises(BrokenInvariantError) as broken:
        watch.after_step(stage.driver.engine.state, installs, INSTALLED)
    assert broken.value.invariant is Invariant.COMPUTED


def test_a_second_installation_is_found(stage: Stage, watch: ComputingWatch) -> None:
    """Also a wrong one, which ends the computation."""
    state = stage.driver.engine.state
    wrong = Step(replies=((1, InstallAssignmentReply(error=ErrorCode.INVALID_ASSIGNMENT)),))
    watch.after_step(state, INSTALLS, wrong)
    with pytest.raises(BrokenInvariantError, match="but asked"):
        watch.after_step(state, INSTALLS, INSTALLED)


def test_a_member_that_cannot_handle_all_versions_is_found(
    stage: Stage, watch: ComputingWatch
) -> None:
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    for name, versions in (("n1", (0, 1, 1)), ("n2", (1, 2, 2))):
        group.members.put(name, replace(group.members["n1"], client_assignors=assignors(versions)))
    told = ConsumerHeartbeatReply(member_id="n1", should_compute=True)
    with pytest.raises(BrokenInvariantError, match="cannot handle"):
        watch.after_step(stage.driver.engine.state, NATIVE_BEAT, Step(replies=((1, told),)))
