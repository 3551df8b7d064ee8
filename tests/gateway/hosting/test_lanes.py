"""What is on its way to the coordinator."""

from gateway.hosting.adoption_steps import Lane
from gateway.hosting.lanes import Lanes
from kafka_codecs.heartbeat import HeartbeatRequest


def beat(member_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)


def test_a_lane_is_answered_in_the_order_of_its_requests() -> None:
    lanes = Lanes()
    ask = lanes.ask(Lane.OTHERS, beat("a"))
    assert (ask.lane, ask.message) == (Lane.OTHERS, beat("a"))
    lanes.ask(Lane.OTHERS, beat("b"))
    assert (lanes.count(Lane.OTHERS), lanes.count(Lane.LEADER)) == (2, 0)
    assert [lanes.take(Lane.OTHERS) for _ in range(2)] == [beat("a"), beat("b")]
    assert Lane.OTHERS not in lanes
