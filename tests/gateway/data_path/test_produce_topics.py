"""Topics are found in a Produce request that is cut anywhere, without reading its records."""

import struct
from itertools import pairwise

import pytest

from gateway.data_path.errors import BadFrame
from gateway.data_path.produce_topics import ProduceTopics
from kafka_codecs.apis import ApiKey
from tests.support.wire import produce_frame

VERSIONS = [3, 8, 9, 12, 13]
OURS = b"ours-123-is-16-b"
MASK = b"!" * len(OURS)
OTHER = b"other-456-16-byt"
TOPICS: dict[bytes, list[bytes | None]] = {
    OTHER: [b"r" * 300, OURS, None],
    OURS: [b"s" * 40, b""],
    b"third-789-16-byt": [],
}


def mask_of(topic: bytes) -> bytes | None:
    """Exactly one topic is private."""
    return MASK if topic == OURS else None


def scan(version: int, entries_max: int = 1_000) -> ProduceTopics:
    """A parser for this version of the request."""
    return ProduceTopics(version, mask_of, entries_max=entries_max)


def played(frame: bytes, version: int, cuts: list[int]) -> bytes:
    """The frame after it passed in pieces."""
    topics, passed, arrived = scan(version), b"", bytearray()
    skip = 0
    for start, end in pairwise([0, *cuts, len(frame)]):
        arrived += frame[start:end]
        while True:
            gone = min(skip, len(arrived))
            passed, skip = passed + bytes(arrived[:gone]), skip - gone
            del arrived[:gone]
            if skip or topics.is_done:
                break
            with memoryview(arrived) as view:
                skip = topics.advance(view)
            if not skip:
                break
    assert topics.is_done
    assert topics.masked
    return passed + bytes(arrived)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_topic_changes_wherever_the_frame_is_cut(version: int) -> None:
    """Its name within records is not a topic."""
    frame = produce_frame(version, TOPICS)
    at = frame.rindex(OURS)
    wanted = frame[:at] + MASK + frame[at + len(MASK) :]
    assert played(frame, version, []) == wanted
    for cut in range(len(frame)):
        assert played(frame, version, [cut]) == wanted
    assert played(frame, version, list(range(1, len(frame)))) == wanted


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_without_topics_passes(version: int) -> None:
    """It is unusual but valid."""
    topics = scan(version)
    frame = bytearray(produce_frame(version, {}))
    assert 0 < topics.advance(memoryview(frame)) <= len(frame)
    assert topics.is_done
    assert not topics.masked


def test_the_number_of_entries_is_limited() -> None:
    """Each costs time, however few its bytes."""
    frame = bytearray(produce_frame(8, {OTHER: [None] * 10}))
    scan(8, entries_max=11).advance(memoryview(frame))
    with pytest.raises(BadFrame, match="more than 10 entries"):
        scan(8, entries_max=10).advance(memoryview(frame))


@pytest.mark.parametrize(
    ("where", "bad", "why"), [(-6, -2, "records of -2 bytes"), (-14, -1, "a topic name of")]
)
def test_impossible_lengths_are_refused(where: int, bad: int, why: str) -> None:
    """More bytes would not help."""
    frame = bytearray(produce_frame(3, {b"abcd": [b"xy"]}))
    assert ApiKey.PRODUCE.first_flexible_version == 9
    layout = ">i" if where == -6 else ">h"
    struct.pack_into(layout, frame, len(frame) + where - (6 if where == -14 else 0), bad)
    with pytest.raises(BadFrame, match=why):
        scan(3).advance(memoryview(frame))
