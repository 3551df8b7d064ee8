"""The gateway's private names are hidden in requests and refused in answers."""

from uuid import UUID, uuid4

import pytest

from gateway.data_path.private_names import PrivateNames
from kafka_codecs import decode, encode
from kafka_codecs.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafka_codecs.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_codecs.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafka_codecs.error_codes import ErrorCode

STATE, EVENTS, WRITER = "groupferry-state", "groupferry-events", "groupferry-state-0"
STATE_ID = uuid4()
PRIVATE = PrivateNames((STATE, EVENTS), (WRITER,), topic_ids=lambda: (STATE_ID,))


def names_of(frame: bytes, version: int) -> list[str]:
    """The topics in a CreateTopics request."""
    return [topic.name for topic in decode(CreateTopicsRequest, frame, version).topics]


def creation(*names: str) -> CreateTopicsRequest:
    """A request to create topics."""
    topics = tuple(
        CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names
    )
    return CreateTopicsRequest(topics=topics)


@pytest.mark.parametrize(("version", "compact"), [(4, False), (5, True)])
def test_private_topics_get_impossible_names(version: int, compact: bool) -> None:
    """Each gets its own. Other topics keep their names, even if these contain a private name."""
    others = ["orders", f"my-{STATE}", f"{STATE}-2", STATE[:-1]]
    frame = encode(creation(*others, STATE, EVENTS), version)
    hidden = PRIVATE.hide(frame, compact=compact)
    assert hidden is not None
    assert len(hidden.frame) == len(frame)
    assert not hidden.whole
    assert names_of(hidden.frame, version) == [*others, "!" + STATE[1:], '"' + EVENTS[1:]]


@pytest.mark.parametrize(("version", "compact"), [(4, False), (5, True)])
def test_a_request_without_private_names_is_unchanged(version: int, compact: bool) -> None:
    """The quick search may report one that only looks like it."""
    frame = encode(creation("orders", f"my-{STATE}"), version)
    assert PRIVATE.may_be_in(frame)
    assert PRIVATE.hide(frame, compact=compact) is None
    assert not PRIVATE.may_be_in(encode(creation("orders"), version))


def test_long_names_are_found() -> None:
    """From 127 bytes on a compact string's length takes two bytes."""
    name = "n" * 249
    frame = encode(creation(name), 5)
    hidden = PrivateNames((name,)).hide(frame, compact=True)
    assert hidden is not None
    assert names_of(hidden.frame, 5) == ["!" + name[1:]]


def test_topic_ids_are_hidden_like_names() -> None:
    """The replacement has a uuid version that no generator uses."""
    frame = encode(
        DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=STATE_ID),), timeout_ms=1), 6
    )
    assert PRIVATE.may_be_in(frame)
    hidden = PRIVATE.hide(frame, compact=True)
    assert hidden is not None
    (topic,) = decode(DeleteTopicsRequest, hidden.frame, 6).topics
    assert topic.topic_id.version != STATE_ID.version
    assert PRIVATE.mask_of(STATE_ID.bytes) == topic.topic_id.bytes


def test_the_answer_refuses_exactly_the_hidden_names() -> None:
    """Names and ids return with the error."""
    hidden_id = PRIVATE.mask_of(STATE_ID.bytes)
    assert hidden_id is not None
    answer = PRIVATE.refused(
        DeleteTopicsResponse(
            responses=(
                DeletableTopicResult(name="orders"),
                DeletableTopicResult(
                    name="!" + STATE[1:],
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message="unknown",
                ),
                DeletableTopicResult(name=None, topic_id=UUID(bytes=hidden_id), error_code=100),
            )
        )
    )
    orders, state, by_id = answer.responses
    assert (orders.error_code, state.error_code, by_id.error_code) == (
        0,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
    assert (state.name, state.error_message) == (STATE, "it belongs to the gateway")
    assert by_id.topic_id == STATE_ID


def test_a_private_transactional_id_refuses_the_whole_request() -> None:
    """Otherwise any client could fence the writer of the state log."""
    hidden = PRIVATE.hide(b"\0\x12" + WRITER.encode(), compact=False)
    assert hidden is not None
    assert hidden.whole
    answer = PRIVATE.refused(
        AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=(
                AddPartitionsToTxnTopicResult(
                    name="orders",
                    results_by_partition=(AddPartitionsToTxnPartitionResult(partition_index=0),),
                ),
            )
        ),
        whole=True,
    )
    (topic,) = answer.results_by_topic_v3_and_below
    (result,) = topic.results_by_partition
    assert result.partition_error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert PRIVATE.mask_of(WRITER.encode()) is None  # it is not the name of a topic


def test_without_private_names_nothing_is_searched() -> None:
    """The state is in a file, and events have no topic."""
    assert not PrivateNames()
    assert PRIVATE
