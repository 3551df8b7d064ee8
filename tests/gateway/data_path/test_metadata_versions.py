"""Metadata v12 in front of a broker without topic ids."""

from dataclasses import replace
from uuid import UUID

import pytest

from gateway.cluster.topics import derived_topic_id
from gateway.data_path.metadata_versions import lower_request, raise_answer
from gateway.data_path.offer import offered_versions
from kafka_codecs import decode, encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.metadata import (
    AUTHORIZED_OPERATIONS_OMITTED,
    NO_TOPIC_ID,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.codecs import sample
from tests.support.fake_broker import FakeBroker, answer, running_fake_broker
from tests.support.wire import Wire, open_wire

ORDERS = derived_topic_id("old", "orders")
NOBODY = UUID(int=5)


def _request_for(*topics: str | UUID) -> MetadataRequest:
    return MetadataRequest(
        topics=tuple(
            MetadataRequestTopic(topic_id=topic, name=None)
            if isinstance(topic, UUID)
            else MetadataRequestTopic(name=topic)
            for topic in topics
        ),
        allow_auto_topic_creation=False,
    )


def _response_with(*topics: MetadataResponseTopic) -> MetadataResponse:
    return MetadataResponse(cluster_id="old", topics=topics)


def test_ids_become_names_and_each_topic_is_requested_once() -> None:
    """Unknown ids are not requested."""
    names = {ORDERS: "orders", UUID(int=6): "orders", UUID(int=7): "more"}
    below = lower_request(_request_for(ORDERS, NOBODY, *names), names, 9)
    assert [topic.name for topic in below.topics or ()] == ["orders", "more"]
    assert below.allow_auto_topic_creation is False


@pytest.mark.parametrize("broker_version", range(12))
@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_every_answer_of_an_older_broker_can_be_raised(broker_version: int, version: int) -> None:
    """Before 2.8 brokers state unrequested operations on the cluster, in versions that have such a
    field."""
    body = encode(sample(MetadataResponse, broker_version), broker_version)
    raised = raise_answer(
        decode(MetadataResponse, body, broker_version), _request_for("orders"), {}
    )
    shown = decode(MetadataResponse, encode(raised, version), version)
    assert shown.cluster_authorized_operations == AUTHORIZED_OPERATIONS_OMITTED


def test_requested_operations_are_kept() -> None:
    """The client's version has the field, too."""
    request = replace(_request_for("orders"), include_cluster_authorized_operations=True)
    answered = replace(_response_with(), cluster_authorized_operations=3)
    assert raise_answer(answered, request, {}).cluster_authorized_operations == 3


@pytest.mark.parametrize("name", [None, "", "more"])
def test_a_request_with_an_id_is_by_ids_alone(name: str | None) -> None:
    """Whatever names it has, as in Kafka. Java sends empty ones."""
    topics = (
        MetadataRequestTopic(topic_id=ORDERS, name=name),
        MetadataRequestTopic(name="other"),
    )
    request = MetadataRequest(topics=topics)
    below = lower_request(request, {ORDERS: "orders"}, 9)
    assert [topic.name for topic in below.topics or ()] == ["orders"]
    answered = raise_answer(
        _response_with(MetadataResponseTopic(name="orders")), request, {ORDERS: "orders"}
    )
    assert [(topic.name, topic.topic_id) for topic in answered.topics] == [("orders", ORDERS)]
    gone = raise_answer(_response_with(), request, {})
    assert [(t.error_code, t.name, t.topic_id) for t in gone.topics] == [(100, None, ORDERS)]


def test_an_empty_name_without_an_id_is_a_name() -> None:
    """The broker has an error for it."""
    below = lower_request(_request_for("", "orders"), {}, 9)
    assert [topic.name for topic in below.topics or ()] == ["", "orders"]


def test_a_request_for_all_topics_stays_one() -> None:
    """Null differs from the empty list, which requests none."""
    assert lower_request(MetadataRequest(topics=None), {}, 9).topics is None
    assert lower_request(_request_for(NOBODY), {}, 9).topics == ()


def test_fields_that_an_old_version_lacks_are_omitted() -> None:
    """v8 adds authorized operations. In older versions they count as not requested."""
    request = MetadataRequest(
        topics=(),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert lower_request(request, {}, 8) == request
    assert encode(lower_request(request, {}, 7), 7) == encode(MetadataRequest(topics=()), 7)


def test_topics_get_ids_and_unknown_ids_an_error() -> None:
    """A known topic has the same id every time, and an error has none."""
    answered = raise_answer(
        _response_with(
            MetadataResponseTopic(name="orders"), MetadataResponseTopic(name="bad", error_code=17)
        ),
        _request_for(ORDERS, UUID(int=6), NOBODY),
        {ORDERS: "orders", UUID(int=6): "bad"},
    )
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in answered.topics] == [
        (0, "orders", ORDERS),
        (100, None, UUID(int=6)),
        (100, None, NOBODY),
    ]
    by_name = raise_answer(
        _response_with(
            MetadataResponseTopic(name="orders"), MetadataResponseTopic(name="bad", error_code=17)
        ),
        _request_for("orders", "bad"),
        {},
    )
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in by_name.topics] == [
        (0, "orders", ORDERS),
        (17, "bad", NO_TOPIC_ID),
    ]


def test_an_id_does_not_reveal_a_hidden_name() -> None:
    """The name is returned only if the request has it."""
    forbidden = _response_with(
        MetadataResponseTopic(name="orders", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    )
    names = {ORDERS: "orders"}
    by_id = raise_answer(forbidden, _request_for(ORDERS), names)
    assert [(topic.error_code, topic.name) for topic in by_id.topics] == [(100, None)]
    by_name = raise_answer(forbidden, _request_for("orders"), names)
    assert [(topic.error_code, topic.name) for topic in by_name.topics] == [(29, "orders")]


def test_the_id_of_a_deleted_topic_does_not_match_its_successor() -> None:
    """The gateway has not noticed the deletion and requests the name. A client that also names the
    new id gets the topic."""
    deleted, recreated = UUID(int=1), UUID(int=2)
    names = {deleted: "orders", recreated: "orders"}
    answer = _response_with(MetadataResponseTopic(name="orders", topic_id=recreated))
    by_old = raise_answer(answer, _request_for(deleted), names)
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in by_old.topics] == [
        (ErrorCode.UNKNOWN_TOPIC_ID, None, deleted)
    ]
    by_both = raise_answer(answer, _request_for(deleted, recreated), names)
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in by_both.topics] == [
        (0, "orders", recreated),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, deleted),
    ]


def test_no_data_api_by_topic_id_is_offered_with_derived_ids() -> None:
    """The upstream does not know the gateway's derived ids."""
    speaks = {0: (0, 13), 1: (0, 15), 3: (0, 9), 19: (0, 7), 20: (0, 6), 75: (0, 0)}
    offered = offered_versions(speaks)
    assert offered[ApiKey.METADATA] == (0, 13)
    assert offered[ApiKey.PRODUCE] == (0, 12)
    assert offered[ApiKey.FETCH] == (0, 12)
    assert offered[ApiKey.CREATE_TOPICS] == (0, 6)
    assert offered[ApiKey.DELETE_TOPICS] == (0, 5)
    assert ApiKey.DESCRIBE_TOPIC_PARTITIONS not in offered


async def test_an_old_broker_serves_a_client_of_v12() -> None:
    """The client requests topics by name and by id, and gets the gateway's addresses."""

    async def metadata(wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(MetadataRequest, body, header.api_version)
        exist = ["orders", "more"]
        names = exist if request.topics is None else [topic.name for topic in request.topics]
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
        )
        topics = tuple(
            MetadataResponseTopic(name=name, partitions=(partition,))
            if name in exist
            else MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for name in names
        )
        metadata = broker.metadata()
        await answer(
            wire,
            header,
            MetadataResponse(brokers=metadata.brokers, cluster_id="old", topics=topics),
        )

    broker = FakeBroker(handlers={ApiKey.METADATA: metadata})
    broker.versions = {**broker.versions, ApiKey.METADATA: (0, 8)}
    async with running_fake_broker(broker), running_gateway([broker.address]) as gateway:
        async with open_wire(gateway.address) as client:
            first = await client.ask(_request_for("orders", "none"), 12)
            again = await client.ask(_request_for(ORDERS, NOBODY), 12)
            every = await client.ask(MetadataRequest(topics=None), 10)
            by_id_before = MetadataRequest(
                topics=(MetadataRequestTopic(topic_id=ORDERS, name="orders"),)
            )
            too_old = await client.ask(by_id_before, 11)
        assert [(topic.error_code, topic.name, topic.topic_id) for topic in first.topics] == [
            (0, "orders", ORDERS),
            (3, "none", NO_TOPIC_ID),
        ]
        assert [(topic.error_code, topic.name, topic.topic_id) for topic in again.topics] == [
            (0, "orders", ORDERS),
            (100, None, NOBODY),
        ]
        assert [topic.name for topic in every.topics] == ["orders", "more"]
        assert [(topic.error_code, topic.name) for topic in too_old.topics] == [
            (ErrorCode.INVALID_REQUEST, "orders")
        ]
        assert first.brokers[0].port != broker.address[1]
        assert (await gateway.cluster.topics_for(["orders"]))["orders"].topic_id == ORDERS
