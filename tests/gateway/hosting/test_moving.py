"""What an adoption and a release do in the same way."""

from coordinator.interface.events import AdoptionEnded
from gateway.hosting.effects import Ask, Requester
from gateway.hosting.moving import Moving
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.gateway.hosting.move_parts import move_parts
from tests.support.adoption import GATEWAY, GROUP


def test_a_move_knows_its_steps_until_they_have_a_result() -> None:
    """A result is taken for a move only if it has begun the step."""
    parts = move_parts(GROUP, GATEWAY)
    moving = Moving(parts)
    moving._ask(Requester.OTHERS, HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"))
    (step,) = parts.take()
    assert isinstance(step, Ask)
    assert moving.steps == [step]


def test_a_record_is_no_step() -> None:
    """The engine decides on it, and the log's answer names no effect."""
    parts = move_parts(GROUP, GATEWAY)
    moving = Moving(parts)
    moving._store(AdoptionEnded())
    assert parts.take() == [AdoptionEnded()]
    assert moving.steps == []
