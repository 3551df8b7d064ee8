"""Requests that the cluster answers, and the version in which they are forwarded to it."""

from dataclasses import replace
from uuid import UUID

import pytest

from gateway.cluster.broker_connection import Versions
from gateway.data_path.config import Limits
from gateway.data_path.grants import Grants
from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.offer import NOTHING_OFFERED
from gateway.data_path.private_names import PrivateNames
from gateway.data_path.upstream import Upstream
from gateway.quotas.quota_key import QuotaKey
from gateway.requests.forwarding import ask_cluster, forward, highest_version
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_codecs.consumer_group_prepare_assignment import ConsumerGroupPrepareAssignmentRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.hosted_groups import lone_request


class Recorder(Upstream):
    """An upstream that records its requests."""

    def __init__(self, *, answer: Struct | None = None, **versions: tuple[int, int]) -> None:
        spoken: Versions = {ApiKey[name.upper()]: span for name, span in versions.items()}
        self.offer = replace(NOTHING_OFFERED, versions=spoken)
        self.asked: list[tuple[Struct, int]] = []
        self._answer = answer or HeartbeatResponse()

    async def ask(self, message: Struct, version: int) -> Struct:
        self.asked.append((message, version))
        return self._answer


MESSAGE = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def request(upstream: Upstream, version: int) -> GroupRequest:
    """A client's Heartbeat."""
    return GroupRequest(
        header=RequestHeader(
            api_key=ApiKey.HEARTBEAT, api_version=version, correlation_id=1, client_id="c"
        ),
        message=MESSAGE,
        client_host="127.0.0.1",
        owner=QuotaKey("127.0.0.1"),
        upstream=upstream,
        node_id=1,
        grants=Grants(Limits()),
        at_s=0.0,
    )


@pytest.mark.parametrize(
    ("client", "broker", "spoken"),
    [(4, (0, 4), 4), (2, (0, 4), 2), (4, (0, 3), 3), (0, (1, 1), 1), (1, (2, 4), 2)],
)
async def test_the_version_is_the_clients_or_the_nearest(
    client: int, broker: tuple[int, int], spoken: int
) -> None:
    """The broker does not support all versions that the gateway advertises."""
    upstream = Recorder(heartbeat=broker)
    await forward(request(upstream, client))
    assert upstream.asked == [(MESSAGE, spoken)]


async def test_another_message_may_replace_the_request() -> None:
    """Examples are a commit without its member, and the part of a batch that belongs to the
    cluster."""
    upstream = Recorder(heartbeat=(0, 4))
    other = HeartbeatRequest(group_id="h", generation_id=1, member_id="m")
    await forward(request(upstream, 3), other)
    assert upstream.asked == [(other, 3)]


def test_an_api_that_the_broker_lacks_has_no_version() -> None:
    """The result is -1, below every version."""
    assert highest_version(Recorder(heartbeat=(0, 4)), ApiKey.HEARTBEAT) == 4
    assert highest_version(Recorder(), ApiKey.HEARTBEAT) == -1


async def test_a_cluster_without_the_new_protocol_has_no_such_group() -> None:
    """The client reads why its group cannot become a consumer group."""
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    answer = await ask_cluster(lone_request(message, 0), message)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND  # type: ignore[attr-defined]
    assert "does not know the new protocol" in answer.error_message  # type: ignore[attr-defined]


async def test_a_cluster_without_regular_expressions_is_not_asked_about_one() -> None:
    """Version 0 has no field for it. The client reads the reason."""
    message = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_regex="a.*"
    )
    upstream = Recorder(consumer_group_heartbeat=(0, 0))
    answer = await ask_cluster(replace(lone_request(message, 1), upstream=upstream), message)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION  # type: ignore[attr-defined]
    assert "regular expressions" in answer.error_message  # type: ignore[attr-defined]
    assert upstream.asked == []


async def test_a_regular_expression_taken_back_is_none() -> None:
    """An empty one and a missing one are alike."""
    message = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=3, subscribed_topic_regex=""
    )
    upstream = Recorder(consumer_group_heartbeat=(0, 0))
    await ask_cluster(replace(lone_request(message, 1), upstream=upstream), message)
    assert upstream.asked == [(replace(message, subscribed_topic_regex=None), 0)]


async def test_a_group_of_the_cluster_has_no_client_side_assignor() -> None:
    """No Kafka has the apis, so nothing is sent there."""
    message = ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="m", member_epoch=1)
    answer = await ask_cluster(lone_request(message, 0), message)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND  # type: ignore[attr-defined]
    assert "client-side assignors" in answer.error_message  # type: ignore[attr-defined]


async def test_a_member_gets_no_partition_of_the_gateways_topics() -> None:
    """The cluster does not know that the client may not describe them."""
    ours, other = UUID(int=1), UUID(int=2)
    topics = tuple(TopicPartitions(topic_id=id_, partitions=(0, 1)) for id_ in (ours, other))
    answer = ConsumerGroupHeartbeatResponse(assignment=Assignment(topic_partitions=topics))
    message = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_regex=".*"
    )
    private = PrivateNames(("state",), topic_ids=lambda: (ours,))
    upstream = Recorder(consumer_group_heartbeat=(0, 1), answer=answer)
    join = replace(lone_request(message, 1), upstream=upstream, private_names=private)
    assert await ask_cluster(join, message) == replace(
        answer, assignment=Assignment(topic_partitions=topics[1:])
    )


async def test_no_member_subscribes_to_the_gateways_topics() -> None:
    """A member may subscribe to no topic that it may not describe, as in Kafka."""
    message = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=("orders", "state")
    )
    upstream = Recorder(consumer_group_heartbeat=(0, 1))
    private = PrivateNames(("state",))
    join = replace(lone_request(message, 1), upstream=upstream, private_names=private)
    answer = await ask_cluster(join, message)
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED  # type: ignore[attr-defined]
    assert upstream.asked == []
