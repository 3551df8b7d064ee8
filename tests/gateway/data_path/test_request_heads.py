"""Names are masked in a Produce or Fetch request that is cut anywhere, without reading records."""

import struct
from itertools import pairwise
from uuid import UUID

import pytest

from gateway.data_path.errors import BadFrame
from gateway.data_path.private_names import PrivateNames
from gateway.data_path.request_heads import FetchHead, ProduceHead, RequestHead
from kafka_codecs import decode, encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafka_codecs.header import decode_request_header
from tests.support.wire import produce_frame, request_frame

PRODUCE_VERSIONS = [0, 2, 3, 8, 9, 12, 13]
FETCH_VERSIONS = range(16)
OURS = b"ours-123-is-16-b"
OURS_ID = UUID(bytes=OURS)
MASK = b"!" + OURS[1:]
ID_MASK = UUID(int=OURS_ID.int | 0xF << 76)
OTHER = b"other-456-16-byt"
WRITER = "writer-1"
TOPICS: dict[bytes, list[bytes | None]] = {
    OTHER: [b"r" * 300, OURS, None],
    OURS: [b"s" * 40, b""],
    b"third-789-16-byt": [],
}
PRIVATE = PrivateNames((OURS.decode(),), (WRITER,), topic_ids=lambda: (OURS_ID,))


def produce_head(version: int, entries_max: int = 1_000) -> ProduceHead:
    """A parser for this version of Produce."""
    return ProduceHead(version, PRIVATE.mask_bytes, entries_max)


def fetch_head(version: int, entries_max: int = 1_000) -> FetchHead:
    """A parser for this version of Fetch."""
    return FetchHead(version, PRIVATE.mask_bytes, entries_max)


def relay_frame(head: RequestHead, frame: bytes, cuts: list[int]) -> bytes:
    """The frame after it passed in pieces."""
    passed, arrived, skip = b"", bytearray(), 0
    for start, end in pairwise([0, *cuts, len(frame)]):
        arrived += frame[start:end]
        while True:
            gone = min(skip, len(arrived))
            passed, skip = passed + bytes(arrived[:gone]), skip - gone
            del arrived[:gone]
            if skip or head.is_done:
                break
            with memoryview(arrived) as view:
                skip = head.advance(view)
            if not skip:
                break
    assert head.is_done
    return passed + bytes(arrived)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_only_the_topic_changes_wherever_the_frame_is_cut(version: int) -> None:
    """Its name within records is not a topic."""
    frame = produce_frame(version, TOPICS)
    at, mask = frame.rindex(OURS), ID_MASK.bytes if version >= 13 else MASK
    wanted = frame[:at] + mask + frame[at + len(mask) :]
    for cuts in ([], list(range(1, len(frame))), *([cut] for cut in range(len(frame)))):
        head = produce_head(version)
        assert relay_frame(head, frame, cuts) == wanted
        assert list(head.masks.names.values()) == [OURS_ID if version >= 13 else OURS.decode()]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS[2:])  # v3 is the first with such an id
def test_a_private_transactional_id_is_masked(version: int) -> None:
    """The broker does not know the mask, and the answer refuses everything."""
    frame = produce_frame(version, {OTHER: [b"r"]})
    is_flexible = ApiKey.PRODUCE.is_flexible(version)
    _header, body_at = decode_request_header(frame[4:])
    null = b"\0" if is_flexible else b"\xff\xff"
    size = bytes([len(WRITER) + 1]) if is_flexible else struct.pack(">h", len(WRITER))
    start, rest = frame[: 4 + body_at], frame[4 + body_at + len(null) :]
    frame = start + size + WRITER.encode() + rest
    head = produce_head(version)
    assert relay_frame(head, frame, []) == start + size + b"!" + WRITER[1:].encode() + rest
    assert head.masks.refuses_all


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_request_without_topics_passes(version: int) -> None:
    """A request without topics is unusual but valid."""
    head = produce_head(version)
    frame = bytearray(produce_frame(version, {}))
    assert 0 < head.advance(memoryview(frame)) <= len(frame)
    assert head.is_done
    assert not head.masks


def fetch_request(version: int) -> FetchRequest:
    """A Fetch that names three topics, and forgets two, in the way of its version."""
    partition = FetchPartition(partition=1, fetch_offset=2, partition_max_bytes=3)

    def topic_name(name: bytes) -> dict[str, str | UUID]:
        return {"topic_id": UUID(bytes=name)} if version >= 13 else {"topic": name.decode()}

    def topic(name: bytes, partitions: int) -> FetchTopic:
        return FetchTopic(partitions=(partition,) * partitions, **topic_name(name))  # type: ignore[arg-type]

    def forgotten(name: bytes) -> ForgottenTopic:
        return ForgottenTopic(partitions=(1, 2, 3), **topic_name(name))  # type: ignore[arg-type]

    return FetchRequest(
        max_wait_ms=4,
        min_bytes=5,
        session_id=6 if version >= 7 else 0,
        session_epoch=7 if version >= 7 else -1,
        topics=(topic(OTHER, 3), topic(OURS, 2), topic(OTHER, 0)),
        forgotten_topics_data=(forgotten(OTHER), forgotten(OURS)) if version >= 7 else (),
        rack_id="rack" if version >= 11 else "",
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_topics_to_fetch_and_to_forget_are_masked(version: int) -> None:
    """A part of the frame is never taken for another, wherever it is cut."""
    request = fetch_request(version)
    masked, _masks = PRIVATE.mask(request)
    frame = request_frame(ApiKey.FETCH, version, 7, encode(request, version))
    wanted = request_frame(ApiKey.FETCH, version, 7, encode(masked, version))
    assert wanted != frame
    for cuts in ([], list(range(1, len(frame))), *([cut] for cut in range(len(frame)))):
        assert relay_frame(fetch_head(version), frame, cuts) == wanted


def test_overlong_lengths_are_read_as_kafka_reads_them() -> None:
    """Kafka takes any varint of up to five bytes. Reading a length otherwise would miss a name."""
    version = 12
    frame = request_frame(ApiKey.FETCH, version, 7, encode(fetch_request(version), version))
    size = bytes([len(OURS) + 1])
    overlong = bytes([size[0] | 0x80]) + b"\x80\x80\x80\0"
    assert frame.count(size + OURS) == 2
    passed = relay_frame(fetch_head(version), frame.replace(size + OURS, overlong + OURS), [])
    assert passed.count(overlong + MASK) == 2
    _header, body_at = decode_request_header(passed[4:])
    request = decode(FetchRequest, passed[4 + body_at :], version)
    assert [topic.topic for topic in request.topics][1] == MASK.decode()


def test_a_varint_above_32_bits_is_refused() -> None:
    """Kafka drops the upper bits, so that its length would be a different one."""
    frame = bytearray(produce_frame(9, {OURS: [b"r"]}))
    size = bytes([len(OURS) + 1])
    frame = frame.replace(size + OURS, bytes([size[0] | 0x80]) + b"\x80\x80\x80\x10" + OURS)
    with pytest.raises(BadFrame, match="varint above 32 bits"):
        produce_head(9).advance(memoryview(frame))


def test_the_number_of_entries_is_limited() -> None:
    """Each costs time, however few its bytes."""
    frame = bytearray(produce_frame(8, {OTHER: [None] * 10}))
    produce_head(8, entries_max=11).advance(memoryview(frame))
    with pytest.raises(BadFrame, match="more than 10 entries"):
        produce_head(8, entries_max=10).advance(memoryview(frame))


@pytest.mark.parametrize(
    ("where", "bad", "reason"), [(-6, -2, "records of -2 bytes"), (-14, -1, "without a name")]
)
def test_impossible_lengths_are_refused(where: int, bad: int, reason: str) -> None:
    """More bytes would not help."""
    frame = bytearray(produce_frame(3, {b"abcd": [b"xy"]}))
    assert ApiKey.PRODUCE.first_flexible_version == 9
    layout = ">i" if where == -6 else ">h"
    struct.pack_into(layout, frame, len(frame) + where - (6 if where == -14 else 0), bad)
    with pytest.raises(BadFrame, match=reason):
        produce_head(3).advance(memoryview(frame))
