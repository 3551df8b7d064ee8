"""Client versions that are known to be defective may be refused the new protocol."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio

from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.groups.groups import Groups
from gateway.quotas.shares import ShareRule
from gateway.requests import defective_joins
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.error_codes import ErrorCode
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient
from tests.support.hosted_groups import lone_request
from tests.support.mock_cluster import running_mock_cluster

LIMIT_S = 30
OLD, NEW = "2.8.0", "2.16.1"


@asynccontextmanager
async def gateway_that(*, refuses: bool) -> AsyncIterator[Address]:
    """A gateway with this setting."""
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as upstream:
            await upstream.create_topic("numbers", 3)
            async with whole_gateway(upstream.bootstrap, refuses_defective=refuses) as gateway:
                yield gateway.address


@asynccontextmanager
async def librdkafka(address: Address, version: str) -> AsyncIterator[GroupClient]:
    """A client that introduces itself so."""
    async with await BrokerConnection.open(
        *address, software_name="librdkafka", software_version=version
    ) as connection:
        yield GroupClient(connection, "g")


async def test_a_defective_version_is_refused_with_the_first_good_one() -> None:
    """Its classic protocol works, and so does the new protocol of a good version."""
    async with (
        gateway_that(refuses=True) as address,
        librdkafka(address, OLD) as old,
        librdkafka(address, NEW) as new,
    ):
        refused = await old.native("n")
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (refused.error_message or "").startswith(f"librdkafka {OLD} is defective with")
        assert "Use version 2.15 or later, or group.protocol=classic" in str(refused.error_message)
        assert (await new.native("m")).error_code == 0
        joined = await old.enter()
        assert joined.error_code == 0


async def test_nobody_is_refused_by_default() -> None:
    """Defects are only reported."""
    async with gateway_that(refuses=False) as address, librdkafka(address, OLD) as old:
        assert (await old.native("n")).error_code == 0


async def test_a_member_that_is_in_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member continues, may repeat its join, and comes back under its id after it was fenced or
    has lost its connection."""
    async with gateway_that(refuses=True) as address:
        with monkeypatch.context() as while_it_joins:
            while_it_joins.setattr(defective_joins, "defects_of", lambda *_: ())
            async with librdkafka(address, OLD) as old:
                joined = await old.native("n")
                assert joined.error_code == 0
        async with librdkafka(address, OLD) as old, librdkafka(address, OLD) as stranger:
            assert (await old.native("n", joined.member_epoch)).error_code == 0
            assert (await old.native("n")).error_code == 0
            assert (await old.native("n", -1)).error_code == 0
            assert (await old.native("n")).error_code == 0
            refused = await stranger.native("s")
            assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_bounded_number_of_members_is_remembered() -> None:
    """The oldest of a client are forgotten."""
    groups = cast(Groups, None)
    joins = defective_joins.DefectiveJoins(groups, refuses=True, names=ShareRule(per_address=3))
    for number in range(9):
        asked = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=f"{number}", member_epoch=defective_joins.JOIN_EPOCH
        )
        joins.record(lone_request(asked, 1), ConsumerGroupHeartbeatResponse(member_id=f"{number}"))
    assert len(joins._members) == 3
