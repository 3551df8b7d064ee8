"""Lines that go to a topic hold nobody up, wherever the cluster is; with a real one see
test_events_topic_with_kafka.py."""

import pytest
import trio
from structlog.testing import capture_logs

from gateway.cluster.librdkafka import client_config
from gateway.events import events_topic
from gateway.events.events_topic import CLIENT_ID, EventsTopic
from tests.support.ports import free_port
from tests.support.until import until

LOOKS = 4
"""More than one, so that one of them finds nothing that waits."""


def cut_off() -> EventsTopic:
    """A topic of a cluster that is away."""
    return EventsTopic(client_config([("127.0.0.1", free_port())], CLIENT_ID), "events")


@pytest.mark.timeout(60)
def test_what_the_buffer_has_no_room_for_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits, and there is one log line however much it is."""
    monkeypatch.setattr(events_topic, "BUFFER_LINES_MAX", 3)
    topic = cut_off()
    with capture_logs() as lines:
        for _ in range(1_000):
            topic.write(["one", "two"], "orders")
    assert topic.lost == 1_997
    assert lines == [
        {
            "event": "events_topic_lost",
            "log_level": "error",
            "topic": "events",
            "reason": "too many lines are waiting for the cluster",
        }
    ]


def test_a_line_that_no_broker_would_take_is_dropped() -> None:
    """The others go on."""
    topic = cut_off()
    with capture_logs() as lines:
        topic.write(["x" * (2 << 20), "short"], None)
    assert topic.lost == 1
    assert "too large" in lines[0]["reason"]


async def test_what_waits_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody need write another line for that to be seen; that nothing waits any more does not mean
    that the cluster is back."""
    monkeypatch.setattr(events_topic, "DELIVERY_TIMEOUT_MS", 300)
    monkeypatch.setattr(events_topic, "LOOK_INTERVAL_S", 0.05)
    topic = cut_off()
    with trio.fail_after(30), capture_logs() as lines:
        topic.write(["one", "two"], "orders")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(topic.run)
            await until(lambda: topic.lost == 2)
            await trio.sleep(LOOKS * events_topic.LOOK_INTERVAL_S)
            nursery.cancel_scope.cancel()
    assert [line["event"] for line in lines] == ["events_topic_lost"]


async def test_the_end_of_the_gateway_waits_for_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """For long; it says how many lines only the files have."""
    monkeypatch.setattr(events_topic, "CLOSE_TIMEOUT_S", 0.1)
    topic = cut_off()
    topic.write(["one", "two"], "orders")
    with trio.fail_after(5), capture_logs() as lines:
        await topic.close()
    assert [(line["event"], line["lost"]) for line in lines] == [("events_topic_left", 2)]
