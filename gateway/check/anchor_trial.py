"""An anchor in a temporary group: the gateway's own member that holds a hosted group upstream.

The steps are those of a hosted group's life: it joins, outsiders are refused, a successor takes it
after a kill and the predecessor is fenced, it leaves. `../docs/anchor.md` says what each is for.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import uuid4

import trio

from gateway.check.finding import Finding, Result, works
from gateway.check.limits import ANCHOR_SESSIONS_MS
from gateway.cluster.access import Access
from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.hosting.identity import Gateway
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    encode_subscription,
)
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import (
    FIRST_LEAVE_VERSION_WITH_MEMBERS,
    LeaveGroupRequest,
    MemberIdentity,
)
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest

SUBJECT = "anchor"
TIMEOUT_S = 45.0
"""Enough for an initial rebalance delay and a coordinator that has to be made first."""
COORDINATOR_WAIT_S = 0.5
_NOT_YET = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
_REBALANCE_TIMEOUT_MS = 60_000
_LEAVE_EPOCH = -1


class _StepFailed(Exception):
    """A step that the others need was not answered as a broker answers it."""


@dataclass(frozen=True, slots=True)
class _Membership:
    """A member in the group."""

    member_id: str
    generation: int
    session_timeout_ms: int


async def try_anchor(
    bootstrap: BrokerConnection,
    access: Access,
    group_id: str,
    report: Callable[[Finding], None],
) -> None:
    """Play an anchor's life in this group, which must not exist. Raises UpstreamError."""
    try:
        with trio.fail_after(TIMEOUT_S):
            address = await _coordinator(bootstrap, group_id)
            async with await BrokerConnection.open(*address, access=access) as connection:
                await _Trial(connection, address, access, group_id, report).play()
    except trio.TooSlowError:
        report(_failure(f"not answered in {TIMEOUT_S:g} s"))
    except _StepFailed as failure:
        report(_failure(str(failure)))


def _failure(detail: str) -> Finding:
    return Finding(
        subject=SUBJECT,
        result=Result.FAILS,
        detail=detail,
        effect="no group can be hosted on this cluster; forwarded groups are not affected",
    )


async def _coordinator(bootstrap: BrokerConnection, group_id: str) -> Address:
    """The address of the group's coordinator. The first group of a new cluster makes it wait for
    the topic of offsets."""
    while True:
        answer = await bootstrap.ask(FindCoordinatorRequest(key=group_id), 0)
        if not answer.error_code:
            return answer.host, answer.port
        if answer.error_code not in _NOT_YET:
            raise _StepFailed(f"FindCoordinator: {name_of(answer.error_code)}")
        await trio.sleep(COORDINATOR_WAIT_S)


class _Trial:
    def __init__(
        self,
        connection: BrokerConnection,
        address: Address,
        access: Access,
        group_id: str,
        report: Callable[[Finding], None],
    ) -> None:
        self._connection = connection
        self._address = address
        self._access = access
        self._group_id = group_id
        self._report = report
        self._identity = Gateway(log_id=uuid4().hex, run_id=1)

    async def play(self) -> None:
        started_s = trio.current_time()
        member = await self._join()
        try:
            waited_ms = round((trio.current_time() - started_s) * 1000)
            session_s = member.session_timeout_ms // 1000
            await self._beat(member)
            self._report(
                works(
                    SUBJECT, f"joined in {waited_ms} ms with a session of {session_s} s, and holds"
                )
            )
            await self._try_classic_outsider()
            await self._try_native_outsider(member)
            await self._try_description()
            member = await self._try_successor(member)
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(10):
                await self._clean_up(member)

    async def _join(self) -> _Membership:
        """Join as an anchor, with the longest session that the broker allows, and sync."""
        join_metadata = self._identity.join_metadata
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=0,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id="",
            group_instance_id=join_metadata.instance_id,
            protocol_type=join_metadata.protocol_type,
            protocols=(
                JoinGroupProtocol(name=join_metadata.protocol, metadata=join_metadata.metadata),
            ),
        )
        for session_timeout_ms in ANCHOR_SESSIONS_MS:
            answer = await self._ask_join(replace(request, session_timeout_ms=session_timeout_ms))
            if answer.error_code != ErrorCode.INVALID_SESSION_TIMEOUT:
                break
        if answer.error_code:
            raise _StepFailed(f"JoinGroup with an instance id: {name_of(answer.error_code)}")
        sync = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            group_instance_id=join_metadata.instance_id,
            protocol_type=join_metadata.protocol_type,
            protocol_name=join_metadata.protocol,
            assignments=(SyncGroupAssignment(member_id=answer.member_id, assignment=b""),),
        )
        synced = await self._connection.ask(sync)
        if synced.error_code:
            raise _StepFailed(f"SyncGroup: {name_of(synced.error_code)}")
        return _Membership(answer.member_id, answer.generation_id, session_timeout_ms)

    async def _ask_join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        """The answer, once the coordinator has loaded."""
        while True:
            answer: JoinGroupResponse = await self._connection.ask(request)
            if answer.error_code not in _NOT_YET:
                return answer
            await trio.sleep(COORDINATOR_WAIT_S)

    async def _beat(self, member: _Membership) -> None:
        if code := await self._heartbeat(self._connection, member):
            raise _StepFailed(f"Heartbeat: {name_of(code)}")

    async def _heartbeat(self, connection: BrokerConnection, member: _Membership) -> int:
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=self._identity.join_metadata.instance_id,
        )
        return int((await connection.ask(request)).error_code)

    async def _try_classic_outsider(self) -> None:
        """A consumer that goes around the gateway must be refused, and not merely wait."""
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=ANCHOR_SESSIONS_MS[-1],
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id="",
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=(
                JoinGroupProtocol(
                    name="range", metadata=encode_subscription(Subscription(topics=()), 0)
                ),
            ),
        )
        answer = await self._connection.ask(request)
        if answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self._report(works(SUBJECT, "an outside consumer of the old protocol is refused"))
            return
        if answer.member_id:
            await self._leave(answer.member_id, None)
        self._report(
            _unsafe(f"an outside consumer of the old protocol got {name_of(answer.error_code)}")
        )

    async def _try_native_outsider(self, member: _Membership) -> None:
        if ApiKey.CONSUMER_GROUP_HEARTBEAT not in self._connection.versions:
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=f"{uuid4()}",
            member_epoch=0,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=(self._group_id,),
            topic_partitions=(),
        )
        answer = await self._connection.ask(request)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            return  # the cluster has the api, but not the protocol
        if not answer.error_code:
            await self._connection.ask(
                replace(request, member_id=answer.member_id, member_epoch=_LEAVE_EPOCH)
            )
            self._report(_unsafe("an outside consumer of the new protocol was let in"))
        elif await self._heartbeat(self._connection, member):
            self._report(_unsafe("an outside consumer of the new protocol drove it out"))
        else:
            self._report(works(SUBJECT, "an outside consumer of the new protocol is refused"))

    async def _try_description(self) -> None:
        """Tools that talk to the cluster must still show a consumer group."""
        answer = await self._connection.ask(DescribeGroupsRequest(groups=(self._group_id,)))
        (group,) = answer.groups
        if (group.group_state, group.protocol_type) == ("Stable", CONSUMER_PROTOCOL_TYPE):
            self._report(works(SUBJECT, "tools see a stable consumer group"))
            return
        self._report(
            Finding(
                subject=SUBJECT,
                result=Result.LIMITED,
                detail=f"tools see a group of type {group.protocol_type or '?'} in state"
                f" {group.group_state or '?'}",
                effect="dashboards that talk to the cluster show hosted groups as that",
            )
        )

    async def _try_successor(self, member: _Membership) -> _Membership:
        """The gateway was killed: the next one joins under the same instance id, with a new member
        id, and the old one must be fenced."""
        async with await BrokerConnection.open(*self._address, access=self._access) as connection:
            killed, self._connection = self._connection, connection
            try:
                successor = await self._join()
                await self._beat(successor)
            finally:
                self._connection = killed
        code = await self._heartbeat(self._connection, member)
        if code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID):
            self._report(works(SUBJECT, "taken again after a kill; the predecessor is fenced"))
        else:
            self._report(
                _unsafe(f"taken again after a kill, but the predecessor got {name_of(code)}")
            )
        return successor

    async def _leave(self, member_id: str, instance_id: str | None) -> None:
        one = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
        request = LeaveGroupRequest(group_id=self._group_id, members=(one,))
        version = self._connection.highest_version(ApiKey.LEAVE_GROUP)
        if version < FIRST_LEAVE_VERSION_WITH_MEMBERS:
            request = LeaveGroupRequest(group_id=self._group_id, member_id=member_id)
        await self._connection.ask(request, version)

    async def _clean_up(self, member: _Membership) -> None:
        with suppress(UpstreamError):
            await self._leave(member.member_id, self._identity.join_metadata.instance_id)
            request = DeleteGroupsRequest(groups_names=(self._group_id,))
            (result,) = (await self._connection.ask(request)).results
            if result.error_code == ErrorCode.NONE:
                self._report(works(SUBJECT, "its group was deleted"))
                return
        self._report(
            works(
                SUBJECT,
                f"group {self._group_id} is left empty, without offsets: without DELETE on it, the"
                " cluster forgets it by itself (offsets.retention.check.interval.ms, ten minutes)",
            )
        )


def _unsafe(detail: str) -> Finding:
    return Finding(
        subject=SUBJECT,
        result=Result.FAILS,
        detail=detail,
        effect="a consumer that goes around the gateway could own partitions a second time",
        remedy="do not host groups on this cluster",
    )
