"""Lines for a topic block nothing, even if the cluster is down. test_events_topic_with_kafka.py
uses a real one."""

from collections.abc import Callable, Iterator

import pytest
import trio
from structlog.testing import capture_logs

from gateway.cluster.librdkafka import client_config
from gateway.journal import events_topic
from gateway.journal.events_topic import CLIENT_ID, EventsTopicWriter, open_events_topic
from gateway.state_log.log import StateLogTaken
from tests.support.ports import HOST, free_port
from tests.support.until import until

LOOKS = 4
"""More than one check, so that one of them finds an empty buffer."""
FLUSH_LIMIT_S = 10


@pytest.fixture
def cut_off() -> Iterator[Callable[[], EventsTopicWriter]]:
    """Make a topic of a cluster that is down. At the end its lines are dropped: each refers to the
    producer, which would otherwise look for the cluster until all tests have ended."""
    topics = []

    def make() -> EventsTopicWriter:
        topics.append(EventsTopicWriter(client_config([(HOST, free_port())], CLIENT_ID), "events"))
        return topics[-1]

    yield make
    for topic in topics:
        topic._producer.purge()
        with capture_logs():
            assert not topic._producer.flush(FLUSH_LIMIT_S)


@pytest.mark.timeout(60)
def test_lines_beyond_the_buffer_are_dropped(
    cut_off: Callable[[], EventsTopicWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No writer waits, and one log line reports any number of them."""
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


def test_an_oversized_line_is_dropped(cut_off: Callable[[], EventsTopicWriter]) -> None:
    """The others are sent."""
    topic = cut_off()
    with capture_logs() as lines:
        topic.write(["x" * (2 << 20), "short"], None)
    assert topic.lost == 1
    assert "too large" in lines[0]["reason"]


async def test_a_line_that_waits_too_long_is_dropped(
    cut_off: Callable[[], EventsTopicWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This needs no further line. An empty buffer does not mean that the cluster is back."""
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


async def test_the_end_of_the_gateway_waits_only_briefly(
    cut_off: Callable[[], EventsTopicWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway logs the number of lines that only the files have."""
    monkeypatch.setattr(events_topic, "CLOSE_TIMEOUT_S", 0.1)
    topic = cut_off()
    topic.write(["one", "two"], "orders")
    with trio.fail_after(5), capture_logs() as lines:
        await topic.close()
    assert [(line["event"], line["lost"]) for line in lines] == [("events_topic_left", 2)]


async def test_the_last_lines_of_a_gateway_whose_log_is_taken_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gateway ends by an error, with lines that have just been written."""
    monkeypatch.setattr(events_topic, "CLOSE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(events_topic, "_make_or_check", lambda _config, _topic: None)
    writers: list[EventsTopicWriter] = []

    async def end_by_an_error() -> None:
        async with open_events_topic([(HOST, free_port())], "events") as topic:
            writers.append(topic)
            topic.write(["last"], "orders")
            raise StateLogTaken

    with trio.fail_after(5), capture_logs() as lines, pytest.raises(ExceptionGroup) as caught:
        await end_by_an_error()
    assert caught.group_contains(StateLogTaken)
    assert [(line["event"], line["lost"]) for line in lines] == [("events_topic_left", 1)]
    writers[0]._producer.purge()
    with capture_logs():
        writers[0]._producer.flush(FLUSH_LIMIT_S)
