"""What the check makes of a cluster that does not protect a group as Kafka does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.check.anchor_trial import try_anchor
from gateway.check.finding import Finding, Result
from gateway.cluster.access import PLAIN_ACCESS
from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from kafka_codecs.describe_groups import DescribedGroup, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorResponse
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.support.fake_broker import FakeBroker, answer, running_fake_broker
from tests.support.wire import Wire

GROUP = "groupferry-check-1"


@asynccontextmanager
async def careless_broker(
    *, lets_outsiders_in: bool = False, fences: bool = True, error: ErrorCode = ErrorCode.NONE
) -> AsyncIterator[BrokerConnection]:
    """A coordinator that answers every join of an instance immediately."""
    broker = FakeBroker()
    used = (ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS)
    broker.versions = {**broker.versions, **dict.fromkeys(used, (0, 3))}
    joins = 0

    async def find(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        host, port = broker.address
        await answer(wire, header, FindCoordinatorResponse(node_id=1, host=host, port=port))

    async def join(wire: Wire, header: RequestHeader, body: bytes) -> None:
        nonlocal joins
        request = decode(JoinGroupRequest, body, header.api_version)
        if request.group_instance_id is None:
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            if lets_outsiders_in:
                code = ErrorCode.MEMBER_ID_REQUIRED
            await answer(wire, header, JoinGroupResponse(error_code=code))
            return
        joins += 1
        member_id = f"anchor-{joins}"
        joined = JoinGroupResponse(generation_id=1, leader=member_id, member_id=member_id)
        await answer(wire, header, replace(joined, error_code=error))

    async def sync(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        await answer(wire, header, SyncGroupResponse())

    async def beat(wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(HeartbeatRequest, body, header.api_version)
        is_fenced = fences and request.member_id != f"anchor-{joins}"
        code = ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.NONE
        await answer(wire, header, HeartbeatResponse(error_code=code))

    async def describe(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        group = DescribedGroup(group_id=GROUP, group_state="Stable", protocol_type="consumer")
        await answer(wire, header, DescribeGroupsResponse(groups=(group,)))

    async def leave(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        await answer(wire, header, LeaveGroupResponse())

    async def delete(wire: Wire, header: RequestHeader, _body: bytes) -> None:
        result = DeletableGroupResult(group_id=GROUP)
        await answer(wire, header, DeleteGroupsResponse(results=(result,)))

    broker.handlers = {
        ApiKey.FIND_COORDINATOR: find,
        ApiKey.JOIN_GROUP: join,
        ApiKey.SYNC_GROUP: sync,
        ApiKey.HEARTBEAT: beat,
        ApiKey.DESCRIBE_GROUPS: describe,
        ApiKey.LEAVE_GROUP: leave,
        ApiKey.DELETE_GROUPS: delete,
    }
    async with (
        running_fake_broker(broker),
        await BrokerConnection.open(*broker.address) as connection,
    ):
        yield connection


async def findings_of(connection: BrokerConnection) -> list[Finding]:
    findings: list[Finding] = []
    await try_anchor(connection, PLAIN_ACCESS, GROUP, findings.append)
    return findings


async def test_a_cluster_that_protects_the_group_passes() -> None:
    async with careless_broker() as connection:
        findings = await findings_of(connection)
    assert {finding.result for finding in findings} == {Result.WORKS}


async def test_a_cluster_that_lets_outsiders_in_fails() -> None:
    async with careless_broker(lets_outsiders_in=True) as connection:
        findings = await findings_of(connection)
    (failed,) = [finding for finding in findings if finding.result is Result.FAILS]
    assert failed.detail == "an outside consumer of the old protocol got MEMBER_ID_REQUIRED"
    assert failed.remedy == "do not host groups on this cluster"


async def test_a_cluster_that_does_not_fence_the_predecessor_fails() -> None:
    async with careless_broker(fences=False) as connection:
        findings = await findings_of(connection)
    (failed,) = [finding for finding in findings if finding.result is Result.FAILS]
    assert failed.detail == "taken again after a kill, but the predecessor got NONE"


@pytest.mark.parametrize(
    "error", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION]
)
async def test_a_refused_join_is_reported_with_its_code(error: ErrorCode) -> None:
    async with careless_broker(error=error) as connection:
        findings = await findings_of(connection)
    (failed,) = findings
    assert failed.result is Result.FAILS
    assert failed.detail == f"JoinGroup with an instance id: {error.name}"
