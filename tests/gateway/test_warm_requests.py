"""A request of a group at rest passes through few functions. Each costs every request time, and
each reader of the code a step. They are counted, from the client's bytes to the answer's.

The broker of these tests shares the process, and adds some functions of the codecs.
"""

from collections.abc import Collection
from types import CodeType

import trio
import trio.testing

from kafka_codecs import encode
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.support.commits import commit_of
from tests.support.offset_stage import OffsetStage, offset_stage
from tests.support.operations import called_functions
from tests.support.wire import request_frame

OFFSETS = {"numbers": {0: 7}}
REQUESTS = 10
"""Timers may go off during one of them."""


async def test_a_heartbeat_passes_through_few_functions() -> None:
    async with offset_stage() as stage:
        joined = await stage.client.enter()
        beat = HeartbeatRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
        )
        called = await functions_for(stage, beat, 4)
    assert len(called) <= 62
    assert files_of(called) <= 29


async def test_a_native_heartbeat_passes_through_few_functions() -> None:
    async with offset_stage() as stage:
        joined = await stage.client.native("n")
        beat = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="n", member_epoch=joined.member_epoch
        )
        called = await functions_for(stage, beat, 1)
    assert len(called) <= 70
    assert files_of(called) <= 33


async def test_a_commit_to_a_classic_group_passes_through_few_functions() -> None:
    async with offset_stage() as stage:
        joined = await stage.client.enter()
        commit = commit_of(OFFSETS, member_id=joined.member_id, epoch=joined.generation_id)
        called = await functions_for(stage, commit, 8)
    assert len(called) <= 133
    assert files_of(called) <= 41


async def test_a_commit_to_a_native_group_passes_through_few_functions() -> None:
    async with offset_stage() as stage:
        joined = await stage.client.native("n")
        commit = commit_of(OFFSETS, member_id="n", epoch=joined.member_epoch)
        called = await functions_for(stage, commit, 9)
    assert len(called) <= 136
    assert files_of(called) <= 43


async def functions_for(stage: OffsetStage, message: Struct, version: int) -> Collection[CodeType]:
    """The gateway's functions for one of several such requests: the fewest."""
    key = message.SCHEMA.api_key
    assert key is not None
    frame = request_frame(key, version, 1, encode(message, version))
    fewest: Collection[CodeType] | None = None
    stream = await trio.open_tcp_stream(*stage.gateway.address)
    async with stream:
        for _ in range(REQUESTS):
            await trio.testing.wait_all_tasks_blocked(0.01)
            with called_functions() as called:
                await stream.send_all(frame)
                assert await stream.receive_some()
            fewest = min(fewest or called, called, key=len)
    assert fewest
    return fewest


def files_of(called: Collection[CodeType]) -> int:
    """The number of their files."""
    return len({code.co_filename for code in called})
