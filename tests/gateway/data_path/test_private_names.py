"""The gateway's private names are masked in requests, refused in answers, and left out of lists."""

from uuid import UUID

import pytest

from gateway.data_path.private_names import NOTHING_MASKED, Masks, PrivateNames, restore_names
from kafka_codecs.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafka_codecs.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_codecs.declaration import Entity, Struct
from kafka_codecs.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafka_codecs.describe_log_dirs import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_codecs.list_transactions import ListedTransaction, ListTransactionsResponse
from kafka_codecs.metadata import MetadataResponse, MetadataResponseTopic

STATE, EVENTS, WRITER = "groupferry-state", "groupferry-events", "groupferry-state-0"
STATE_ID = UUID("3f2b8c1e-5d4a-4c6b-9a7e-0123456789ab")
PRIVATE = PrivateNames((STATE, EVENTS), (WRITER,), topic_ids=lambda: (STATE_ID,))
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def creation(*names: str, config: str = "") -> CreateTopicsRequest:
    """A request to create topics, with the same config."""
    topics = tuple(
        CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=(CreatableTopicConfig(name=config, value=config),),
        )
        for name in names
    )
    return CreateTopicsRequest(topics=topics)


def test_private_topics_get_impossible_names() -> None:
    """Each gets its own. Other topics keep their names, even if these contain a private name."""
    others = ["orders", f"my-{STATE}", f"{STATE}-2", STATE[:-1]]
    request, masks = PRIVATE.mask(creation(*others, STATE, EVENTS))
    masked = ["!" + STATE[1:], '"' + EVENTS[1:]]
    assert [topic.name for topic in request.topics] == [*others, *masked]
    assert masks.names == dict(zip(masked, (STATE, EVENTS), strict=True))
    assert not masks.refuses_all


def test_only_names_of_topics_are_masked() -> None:
    """A config's value may equal the name of a private topic."""
    request = creation("orders", config=STATE)
    assert PRIVATE.mask(request) == (request, NOTHING_MASKED)


def test_the_absence_of_a_name_is_certain() -> None:
    """Its presence is not: the bytes may be a part of another name."""
    assert not PRIVATE.may_be_in(b"\x07orders")
    assert PRIVATE.may_be_in(b"\x14my-" + STATE.encode())
    assert PRIVATE.may_be_in(b"\x00" + STATE_ID.bytes)


def test_topic_ids_are_masked_like_names() -> None:
    """The replacement has a uuid version that no generator uses."""
    topics = (DeleteTopicState(topic_id=STATE_ID), DeleteTopicState(name=STATE))
    request, masks = PRIVATE.mask(DeleteTopicsRequest(topics=topics, timeout_ms=1))
    by_id, by_name = request.topics
    assert by_id.topic_id.version != STATE_ID.version
    assert masks.names[by_id.topic_id] == STATE_ID
    assert by_name == DeleteTopicState(name="!" + STATE[1:])


@pytest.mark.parametrize(("resource_type", "is_masked"), [(2, True), (4, False), (32, False)])
def test_a_config_resource_is_masked_if_it_is_a_topic(resource_type: int, is_masked: bool) -> None:
    """A group may have the name of a private topic."""
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=STATE, configs=())
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    assert bool(PRIVATE.mask(request)[1]) == is_masked


@pytest.mark.parametrize(
    ("entity", "name"),
    [
        (Entity.TOPIC, STATE.encode()),
        (Entity.TOPIC_ID, STATE_ID.bytes),
        (Entity.TRANSACTIONAL_ID, WRITER.encode()),
    ],
)
def test_a_mask_in_place_is_as_long_as_the_name(entity: Entity, name: bytes) -> None:
    """A request that is relayed while it is read cannot change its length."""
    masks = Masks()
    mask = PRIVATE.mask_bytes(name, entity, masks)
    assert mask is not None
    assert len(mask) == len(name)
    assert masks
    assert masks.refuses_all == (entity is Entity.TRANSACTIONAL_ID)
    assert PRIVATE.mask_bytes(name + b"2", entity, masks) is None


def test_a_topic_may_have_the_name_of_a_private_transactional_id() -> None:
    """Topics and transactional ids are different things."""
    assert PRIVATE.mask_bytes(WRITER.encode(), Entity.TOPIC, Masks()) is None
    assert not PRIVATE.mask(creation(WRITER))[1]


def test_the_answer_refuses_exactly_the_masked_names() -> None:
    """Names and ids return with the error."""
    topics = (DeleteTopicState(name=STATE), DeleteTopicState(topic_id=STATE_ID))
    request, masks = PRIVATE.mask(DeleteTopicsRequest(topics=topics, timeout_ms=1))
    answer = restore_names(
        DeleteTopicsResponse(
            responses=(
                DeletableTopicResult(name="orders"),
                DeletableTopicResult(
                    name=request.topics[0].name,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message="unknown",
                ),
                DeletableTopicResult(
                    name=None, topic_id=request.topics[1].topic_id, error_code=100
                ),
            )
        ),
        masks,
    )
    orders, state, by_id = answer.responses
    assert (orders.error_code, state.error_code, by_id.error_code) == (0, REFUSED, REFUSED)
    assert (state.name, state.error_message) == (STATE, "it belongs to the gateway")
    assert by_id.topic_id == STATE_ID


def test_a_private_transactional_id_refuses_the_whole_request() -> None:
    """Any client could fence the writer of the state log without the refusal. The broker sees no
    private id, because it would take an unknown one for new."""
    request, masks = PRIVATE.mask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=WRITER,
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=2,
            v3_and_below_topics=(),
        )
    )
    assert request.v3_and_below_transactional_id == ""
    assert masks.refuses_all
    result = AddPartitionsToTxnPartitionResult(partition_index=0)
    topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=(result,))
    answer = restore_names(
        AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(topic,)), masks
    )
    (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
    assert result.partition_error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _log_dirs(*names: str) -> DescribeLogDirsResponse:
    topics = tuple(DescribeLogDirsTopic(name=name, partitions=()) for name in names)
    return DescribeLogDirsResponse(results=(DescribeLogDirsResult(log_dir="/d", topics=topics),))


def _metadata(*names: str) -> MetadataResponse:
    return MetadataResponse(topics=tuple(MetadataResponseTopic(name=name) for name in names))


def _transactions(*ids: str) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        transaction_states=tuple(
            ListedTransaction(transactional_id=name, producer_id=1, transaction_state="Empty")
            for name in ids
        )
    )


@pytest.mark.parametrize(
    ("listed", "shown"),
    [
        (_metadata("orders", STATE, EVENTS, WRITER), _metadata("orders", WRITER)),
        (_log_dirs("orders", STATE), _log_dirs("orders")),
        (_transactions("mine", WRITER, STATE), _transactions("mine", STATE)),
    ],
    ids=["topics", "nested topics", "transactional ids"],
)
def test_lists_leave_private_names_out(listed: Struct, shown: Struct) -> None:
    """A client that takes all topics would be refused with each of them."""
    assert PRIVATE.without_private(listed) == shown


def test_without_private_names_nothing_is_searched() -> None:
    """The state is in a file, and events have no topic."""
    assert not PrivateNames()
    assert PRIVATE


def test_masks_of_ids_are_no_ids_of_topics() -> None:
    """A mask must not be the id of another topic."""
    topics = (DeleteTopicState(topic_id=STATE_ID),)
    request, _masks = PRIVATE.mask(DeleteTopicsRequest(topics=topics, timeout_ms=1))
    assert UUID(int=request.topics[0].topic_id.int).version not in range(1, 9)
