"""The door to the hosting machine."""

import pytest

from coordinator.interface.records import ReleaseRecord, ReleaseState
from gateway.hosting.effects import Ask, Hold, Look, Requester
from gateway.hosting.lookup_outcome import NoMembers
from gateway.hosting.move_requests import NewProtocol
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.simulation.coordinator import anchored_group
from tests.simulation.explorer.group_port import GroupPort, name_of_effect
from tests.simulation.explorer.numbers import GROUP, LOG_ID, START_MS
from tests.simulation.explorer.small_consumers import small_topics
from tests.simulation.explorer.worlds import WORLDS

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def port() -> GroupPort:
    return GroupPort.start(WORLDS["release"], 1, small_topics(2))


def test_an_effect_is_taken_out_once(port: GroupPort) -> None:
    port.release(NewProtocol(), START_MS)
    assert [name_of_effect(effect) for effect in port.take_effects()] == ["Load"]
    assert not port.take_effects()
    assert port.is_moving


def test_a_step_of_a_move_is_named_after_its_requester() -> None:
    assert name_of_effect(Ask(Requester.RELEASE, BEAT)) == "release"
    assert name_of_effect(Look()) == "Look"


def test_a_process_resumes_only_what_the_log_has(port: GroupPort) -> None:
    port.resume((), NewProtocol(), START_MS)
    assert not port.take_effects()
    port.resume((ReleaseRecord(value=ReleaseState(guard_id="g")),), NewProtocol(), START_MS)
    assert port.is_moving


def test_the_group_is_forwarded_by_a_setting() -> None:
    topics = small_topics(2)
    port = GroupPort.start(WORLDS["release"], 1, topics, forwards=True)
    assert port.is_forwarded(NoMembers(), START_MS)


def test_an_anchor_in_a_group_that_is_left_to_the_cluster_is_removed() -> None:
    topics, shape = small_topics(2), WORLDS["release"]
    port = GroupPort.start(shape, 1, topics, forwards=True)
    assert not port.is_forwarded(anchored_group(LOG_ID, 1, group_id=GROUP), START_MS)
    assert port.is_moving


def test_an_effect_that_cannot_fail_has_no_failure(port: GroupPort) -> None:
    with pytest.raises(TypeError, match="does not fail"):
        port.on_failed(Hold(), START_MS)
