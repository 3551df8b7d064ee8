"""Creates, grows and deletes topics at a real broker with hand-packed requests.

The gateway relays these requests without decoding them, so the codecs lack them.
"""

import itertools
import struct
from dataclasses import replace

import trio

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import decode_response_header
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from tests.support.until import until_answered
from tests.support.wire import Wire, request_frame

Address = tuple[str, int]

CREATE_VERSION, GROW_VERSION, DELETE_VERSION = 2, 0, 1
HEARTBEAT_VERSION = 0
JOINING, LEAVING = 0, -1
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
        body = _array(_text(name) + struct.pack(">ih", partitions, 1) + _array() + _array())
        await self._ask(ApiKey.CREATE_TOPICS, CREATE_VERSION, body + _timeout() + b"\0")
        made = await self._wait_until(name, partitions)
        await self._wait_until_assigned(name)
        return made

    async def grow(self, name: str, partitions: int) -> None:
        """Add partitions to a topic."""
        body = _array(_text(name) + struct.pack(">ii", partitions, -1))
        await self._ask(ApiKey.CREATE_PARTITIONS, GROW_VERSION, body + _timeout() + b"\0")
        await self._wait_until(name, partitions)

    async def delete(self, name: str) -> None:
        """Delete a topic."""
        body = _array(_text(name)) + _timeout()
        await self._ask(ApiKey.DELETE_TOPICS, DELETE_VERSION, body)
        await self._wait_until(name, 0)

    async def _ask(self, key: ApiKey, version: int, body: bytes) -> None:
        stream = await trio.open_tcp_stream(*self._address)
        async with stream:
            wire = Wire(stream)
            await wire.send(request_frame(key, version, 1, body))
            answer = await wire.frame()
        _, offset = decode_response_header(key, version, answer)
        # The throttle time, one entry with its name, and its error.
        (length,) = struct.unpack_from(">h", answer, offset + 8)
        (error,) = struct.unpack_from(">h", answer, offset + 10 + length)
        assert error == 0, f"{key.name} failed with error {error}"

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
        join = ConsumerGroupHeartbeatRequest(
            group_id="",
            member_id="nobody",
            member_epoch=JOINING,
            rebalance_timeout_ms=TIMEOUT_MS,
            subscribed_topic_names=(name,),
            topic_partitions=(),
        )
        with trio.fail_after(READY_TIMEOUT_S):
            async with await BrokerConnection.open(*self._address) as connection:
                for attempt in itertools.count():
                    join = replace(join, group_id=f"who has {name}, attempt {attempt}")
                    answer = await connection.ask(join, HEARTBEAT_VERSION)
                    if answer.error_code not in OTHER_COORDINATOR:
                        assert answer.error_code == 0, answer
                        await connection.ask(replace(join, member_epoch=LEAVING), HEARTBEAT_VERSION)
                        if answer.assignment and answer.assignment.topic_partitions:
                            return
                    await trio.sleep(0.02)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _array(*items: bytes) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def _timeout() -> bytes:
    return struct.pack(">i", TIMEOUT_MS)
