"""Creates, grows and deletes topics at a real broker."""

import itertools
from dataclasses import replace
from typing import Any

import trio

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_codecs.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_topics import DeleteTopicsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from tests.support.group_requests import native_request
from tests.support.until import until_answered

Address = tuple[str, int]

VERSION = 2
"""The version of these apis that every release knows."""
HEARTBEAT_VERSION = 0
LEAVING = -1
OTHER_COORDINATOR = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
TIMEOUT_MS = 10_000
READY_TIMEOUT_S = 20


class TopicAdmin:
    """The topics of one broker. Each call returns when the broker's own metadata shows the change,
    and `create` when its group coordinator knows the topic as well, which is a moment later."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def create(self, name: str, partitions: int) -> MetadataResponseTopic:
        """Create a topic and return its Metadata."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = await self._ask(CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS))
        assert answer.topics[0].error_code == 0, answer
        created = await self._wait_until(name, partitions)
        await self._wait_until_assigned(name)
        return created

    async def grow(self, name: str, partitions: int) -> None:
        topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        answer = await self._ask(
            CreatePartitionsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS, validate_only=False)
        )
        assert answer.results[0].error_code == 0, answer
        await self._wait_until(name, partitions)

    async def delete(self, name: str) -> None:
        answer = await self._ask(DeleteTopicsRequest(topic_names=(name,), timeout_ms=TIMEOUT_MS))
        assert answer.responses[0].error_code == 0, answer
        await self._wait_until(name, 0)

    async def _ask(self, request: Struct) -> Any:
        async with await BrokerConnection.open(*self._address) as connection:
            return await connection.ask(request, VERSION)

    async def _wait_until(self, name: str, partitions: int) -> MetadataResponseTopic:
        request = MetadataRequest(
            topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False
        )
        with trio.fail_after(READY_TIMEOUT_S):
            async with await BrokerConnection.open(*self._address) as connection:
                answer = await until_answered(
                    lambda: connection.ask(request, 12),
                    lambda answer: len(answer.topics[0].partitions) == partitions,
                )
                topic: MetadataResponseTopic = answer.topics[0]
                return topic

    async def _wait_until_assigned(self, name: str) -> None:
        """Join and leave a group of this broker repeatedly, until its coordinator assigns the
        topic."""
        attempts = itertools.count()

        async def is_assigned() -> bool:
            group_id = f"who has {name}, attempt {next(attempts)}"
            join = replace(native_request("", "nobody", topics=(name,)), group_id=group_id)
            answer = await connection.ask(join, HEARTBEAT_VERSION)
            if answer.error_code in OTHER_COORDINATOR:
                return False
            assert answer.error_code == 0, answer
            await connection.ask(replace(join, member_epoch=LEAVING), HEARTBEAT_VERSION)
            return bool(answer.assignment and answer.assignment.topic_partitions)

        with trio.fail_after(READY_TIMEOUT_S):
            async with await BrokerConnection.open(*self._address) as connection:
                await until_answered(is_assigned)
