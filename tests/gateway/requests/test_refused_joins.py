"""A refused join leaves nothing behind in the cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.groups.group_limits import ANCHORS_PER_GROUP
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_client import GroupClient
from tests.support.hosted_groups import ScriptedLog
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import offset_stage
from tests.support.until import until, until_answered

NAMES = 30


@asynccontextmanager
async def open_scene(**how: Any) -> AsyncIterator[tuple[OffsetBroker, GroupClient]]:
    """A broker that supports anchors, and a client of the gateway."""
    async with offset_stage(**how) as stage:
        yield stage.broker, stage.client


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_a_malformed_join_takes_no_group(how: dict[str, object], code: int) -> None:
    """The engine refuses it before the cluster is involved."""
    async with open_scene() as (broker, client):
        refused = await client.join(version=3, **how)  # type: ignore[arg-type]
        assert refused.error_code == code
        assert ApiKey.JOIN_GROUP not in {header.api_key for header in broker.seen}


async def test_a_malformed_heartbeat_takes_no_group() -> None:
    """The engine refuses it before the cluster is involved."""
    async with open_scene() as (broker, client):
        refused = await client.native("")
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert ApiKey.JOIN_GROUP not in {header.api_key for header in broker.seen}


async def test_a_failing_log_lets_few_groups_be_taken() -> None:
    """Each name would needlessly occupy a group in the cluster for a moment."""
    state_log = ScriptedLog()
    state_log.is_failing = True
    async with open_scene(state_log=state_log) as (broker, client):
        for name in range(NAMES):
            client.group = f"g{name}"
            refused = await client.native("n")
            assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        joins = [header for header in broker.seen if header.api_key == ApiKey.JOIN_GROUP]
        assert 0 < len(joins) < NAMES


async def test_a_join_that_cannot_be_written_releases_the_group() -> None:
    """With a full disk no client can join, however many names it tries."""
    state_log = ScriptedLog()
    state_log.is_failing = True
    async with open_scene(state_log=state_log) as (broker, client):
        refused = await client.native("n")
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await until(lambda: not broker.coordinator.group("g").member_id)
        state_log.is_failing = False
        await until_answered(lambda: client.native("n"), lambda joined: not joined.error_code)
        assert broker.coordinator.group("g").member_id


async def test_joining_and_leaving_under_many_names_takes_few_groups() -> None:
    """An anchor lingers after the last member, so their number per address is limited."""
    async with open_scene(max_groups_per_address=1) as (broker, client):
        codes = []
        for name in range(4):
            client.group = f"g{name}"
            codes.append((await client.native("n")).error_code)
            await client.native("n", -1)
        anchors_max = ANCHORS_PER_GROUP
        assert codes == [0] * anchors_max + [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * (
            4 - anchors_max
        )
        held = [name for name in range(4) if broker.coordinator.group(f"g{name}").member_id]
        assert len(held) == anchors_max


async def test_one_address_begins_a_limited_number_of_groups() -> None:
    """Groups that have members count; a further one is refused before it takes an anchor."""
    async with open_scene(max_groups_per_address=1) as (broker, client):
        codes = []
        for name in range(2):
            client.group = f"g{name}"
            codes.append((await client.native("n")).error_code)
        assert codes == [0, ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert not broker.coordinator.group("g1").member_id
