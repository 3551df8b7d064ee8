"""The Fetch that replaces one with private topics."""

from dataclasses import replace

import pytest

from gateway.data_path.fetch_held import FETCHED_BYTES_MAX, held_fetch
from kafka_codecs import decode, encode
from kafka_codecs.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

VERSION = 12
PARTITION = FetchPartition(partition=3, fetch_offset=17, partition_max_bytes=1 << 20)
ASKED = FetchRequest(
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=50 << 20,
    isolation_level=1,
    session_id=77,
    session_epoch=0,
    topics=(FetchTopic(topic="numbers", partitions=(PARTITION,)),),
    forgotten_topics_data=(ForgottenTopic(topic="letters", partitions=(1,)),),
    rack_id="a",
)


def test_the_client_gets_the_requested_partitions() -> None:
    """Offsets, isolation level and rack are those of the request."""
    held = held_fetch(ASKED, VERSION)
    assert held.topics == ASKED.topics
    assert (held.isolation_level, held.rack_id) == (1, "a")
    assert decode(FetchRequest, encode(held, VERSION), VERSION) == held


def test_the_broker_answers_without_waiting() -> None:
    """The gateway buffers the whole answer, and later requests of the connection wait behind it."""
    assert held_fetch(ASKED, VERSION).max_wait_ms == 0


def test_the_size_of_an_answer_is_limited() -> None:
    """The client's own limit may be smaller."""
    assert held_fetch(ASKED, VERSION).max_bytes == FETCHED_BYTES_MAX
    small = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=9, topics=())
    assert held_fetch(small, VERSION).max_bytes == 9


@pytest.mark.parametrize("version", range(3))
def test_each_partition_has_a_share_where_the_answer_has_no_limit(version: int) -> None:
    """Before v3 a request limits only partitions."""
    two = (PARTITION, replace(PARTITION, partition=4, partition_max_bytes=9))
    asked = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic="numbers", partitions=two),) * 2
    )
    held = held_fetch(asked, version)
    limits = [
        partition.partition_max_bytes for topic in held.topics for partition in topic.partitions
    ]
    assert limits == [FETCHED_BYTES_MAX // 4, 9] * 2
    assert held_fetch(replace(asked, topics=()), version).topics == ()
    assert encode(held, version)


def test_no_session_is_opened() -> None:
    """A session would name a topic only once, and the next Fetch may not be buffered."""
    held = held_fetch(ASKED, VERSION)
    assert (held.session_id, held.session_epoch) == (0, -1)
    assert held.forgotten_topics_data == ()
