"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and ConsumerGroupHeartbeat: the group's engine
answers, or the cluster if the group is not hosted."""

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from coordinator.group.topic_names import topics_of_request
from coordinator.interface.events import JOIN_EPOCH, ConsumerHeartbeatReceived, Request
from coordinator.interface.replies import PrepareAssignmentReply, Reply
from gateway.data_path.connected_clients import ConnectedClients
from gateway.data_path.errors import ConnectionAbandoned
from gateway.data_path.group_apis import GroupRequest, LazyAnswer
from gateway.groups.compute_thread import ComputeThread
from gateway.groups.group_driver import GroupDriver
from gateway.groups.group_drivers import require_reply
from gateway.groups.groups import Groups
from gateway.hosting.answers import JOINS, RefusalReason
from gateway.hosting.calls import Abandoned, Answer, Call, Forwarded, Refused, next_token
from gateway.hosting.forwarded import Client
from gateway.hosting.inputs import SeenForeign
from gateway.hosting.lookup_outcome import STREAMS_PROTOCOL
from gateway.requests import messages
from gateway.requests.coordinators import Coordinators
from gateway.requests.forwarding import ask_cluster
from gateway.requests.messages import MemberMessage, api_of
from gateway.requests.refusals import refuse
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.consumer_group_install_assignment import ConsumerGroupInstallAssignmentRequest
from kafka_codecs.consumer_group_prepare_assignment import ConsumerGroupPrepareAssignmentRequest
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse

_OF_A_WHOLE_GROUP = (ConsumerGroupPrepareAssignmentRequest, ConsumerGroupInstallAssignmentRequest)


@dataclass(slots=True, kw_only=True)
class PendingRequest:
    """A request that its group answers later."""

    request: GroupRequest
    message: MemberMessage
    call: Call
    driver: GroupDriver

    @property
    def answer(self) -> Struct | None:
        """The answer, None if there is none yet, or if it takes the cluster or a thread. Raises
        ConnectionAbandoned, GroupFailed."""
        match self.call.answer:
            case None | Forwarded() | PrepareAssignmentReply():
                return None
            case answer:
                return _translate(self.request, self.message, answer)


class MemberApis:
    """Answers members, and clients that want to be one."""

    def __init__(
        self,
        groups: Groups,
        coordinators: Coordinators,
        compute_thread: ComputeThread,
        connected_clients: ConnectedClients | None,
    ) -> None:
        """Messages that describe a whole group may take 0.1 s: `compute_thread` translates them."""
        self._groups = groups
        self._compute_thread = compute_thread
        self._coordinators = coordinators
        self._connected_clients = connected_clients

    def answer(
        self, request: GroupRequest, message: MemberMessage
    ) -> Struct | PendingRequest | Awaitable[Struct]:
        """The answer to one request, what to `finish`, or what to await for it. All raise
        BrokerLost, ConnectionAbandoned, GroupFailed."""
        group_id, version = message.group_id, request.header.api_version
        if not group_id:
            return refuse(message, version, RefusalReason.EMPTY_GROUP_ID, "the group id is empty")
        if isinstance(message, _OF_A_WHOLE_GROUP):
            return LazyAnswer(partial(self._translated_aside, request, message))
        event = messages.event(
            next_token(),
            request.header,
            message,
            request.client_host,
            connection=request.upstream.number,
            newest_connection=request.upstream.newest_number,
            follows_answers=request.follows_answers and not request.lacks_answer,
            calls_within_ms=request.calls_within_ms,
        )
        if self._connected_clients is not None and isinstance(event, ConsumerHeartbeatReceived):
            event = _with_presence(self._connected_clients, event, request, group_id)
        driver = self._groups.drivers.in_memory(group_id)
        is_at_coordinator = self._coordinators.is_at_lately(group_id, request)
        answer: object = None
        if driver is not None and is_at_coordinator:
            answer = driver.answer_at_rest(event)
        if answer is None:
            call = _call(request, message, event, is_at_coordinator=is_at_coordinator)
            if driver is None:
                if call.api not in JOINS and not self._groups.drivers.needs_driver(group_id):
                    return LazyAnswer(partial(self._ask, request, message, call))
                driver = self._groups.drivers.driver(group_id, request.owner)
            pending = PendingRequest(request=request, message=message, call=call, driver=driver)
            answer = driver.begin(call)
        return messages.response(answer, version) if isinstance(answer, Reply) else pending

    async def _ask(self, request: GroupRequest, message: MemberMessage, call: Call) -> Struct:
        """The answer about a group that is not in memory, and need not be as long as no client
        joins it."""
        answer = await self._groups.router.answer_without_driver(message.group_id, call)
        if answer is None:
            answer = await self._groups.drivers.driver(message.group_id, request.owner).ask(call)
        return await self._response(request, message, call, answer)

    async def _translated_aside(self, request: GroupRequest, message: MemberMessage) -> Struct:
        header, host = request.header, request.client_host
        translate = partial(messages.event, next_token(), header, message, host)
        event = await self._compute_thread.run(translate)
        is_at_coordinator = self._coordinators.is_at_lately(message.group_id, request)
        call = _call(request, message, event, is_at_coordinator=is_at_coordinator)
        return await self._ask(request, message, call)

    async def finish(self, pending: PendingRequest) -> Struct:
        """The answer to a request that the group, or the cluster, answers later."""
        answer = await pending.driver.finish(pending.call)
        return await self._response(pending.request, pending.message, pending.call, answer)

    async def _response(
        self, request: GroupRequest, message: MemberMessage, call: Call, answer: Answer
    ) -> Struct:
        group_id, version = message.group_id, request.header.api_version
        match answer:
            case Forwarded(reason):
                with self._groups.drivers.relaying(group_id, call):
                    relayed = await ask_cluster(request, message, reason)
                    client = _client(request)
                    self._groups.router.record_relayed(group_id, client, message, relayed)
                if call.is_foreign:
                    self._record_foreign(message, relayed)
                    return relayed
                is_moving = self._groups.drivers.is_moving(group_id)
                cause = why_withheld(relayed, is_moving=is_moving)
                if cause is RefusalReason.HOLDER_CHANGED and await self._groups.router.is_forwarded(
                    group_id, request.owner
                ):
                    cause = None
                if cause is not None:
                    return refuse(message, version, cause, cause.value)
                return relayed
            case PrepareAssignmentReply():
                return await self._compute_thread.run(partial(messages.response, answer, version))
            case _:
                return _translate(request, message, answer)

    def _record_foreign(self, message: MemberMessage, answer: Struct) -> None:
        match message, answer:
            case JoinGroupRequest(), JoinGroupResponse(error_code=0):
                reason = f"it uses the protocol {message.protocol_type}/{answer.protocol_name}"
                self._groups.drivers.driver(message.group_id).feed(SeenForeign(reason))
            case _:
                pass


def _call(
    request: GroupRequest, message: MemberMessage, event: Request, *, is_at_coordinator: bool | None
) -> Call:
    return Call(
        api=api_of(message),
        token=event.token,
        event=event,
        owner=request.owner,
        connection=request.upstream.number,
        newest_connection=request.upstream.newest_number,
        node_id=request.node_id,
        is_foreign=isinstance(message, JoinGroupRequest) and is_foreign(message),
        is_at_coordinator=is_at_coordinator,
        topic_names=topics_of_request(event),
    )


def _translate(request: GroupRequest, message: MemberMessage, answer: Answer) -> Struct:
    """The client's answer. Raises ConnectionAbandoned, GroupFailed."""
    version = request.header.api_version
    if isinstance(answer, Abandoned):
        raise ConnectionAbandoned("its client has moved on")
    if isinstance(answer, Refused):
        request.is_refused = True
        return refuse(message, version, answer.cause, answer.reason)
    return messages.response(require_reply(answer), version)


def _with_presence(
    connected_clients: ConnectedClients,
    event: ConsumerHeartbeatReceived,
    request: GroupRequest,
    group_id: str,
) -> Request:
    """The event of a native member, which is there; a static one may replace one that has gone."""
    gone = frozenset[str]()
    if event.member_epoch == JOIN_EPOCH and event.instance_id is not None:
        gone = connected_clients.find_gone(group_id, request.owner)
    connected_clients.mark_seen((group_id, event.member_id))
    return replace(event, disconnected=gone) if gone else event


def _client(request: GroupRequest) -> Client:
    software = request.upstream.introduction
    return Client(
        client_id=request.header.client_id or "",
        client_host=messages.shown_host(request.client_host),
        owner=request.owner,
        connection=request.upstream.number,
        software_name=software.name if software else None,
        software_version=software.version if software else None,
    )


def why_withheld(answer: Struct, *, is_moving: bool) -> RefusalReason | None:
    """Why the cluster's answer must not reach the client; None if it may. It may be that to an
    outsider of an anchored group, which clients take as final, and the client one whose group was
    forwarded a moment ago: HOLDER_CHANGED, unless a lookup in the cluster finds the group
    forwarded. `is_moving`: whether the group is, for which brokers have one more error."""
    match answer:
        case JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
            pass
        case ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND):
            pass
        case ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR) if is_moving:
            pass
        case _:
            return None
    return RefusalReason.MOVING if is_moving else RefusalReason.HOLDER_CHANGED


def is_foreign(message: JoinGroupRequest) -> bool:
    """Whether the join uses another embedded protocol: Connect, Schema Registry, Streams.

    A join without a protocol type goes to the engine, which refuses it.
    """
    if message.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return any(protocol.name == STREAMS_PROTOCOL for protocol in message.protocols)
    return bool(message.protocol_type)


def record_member(request: GroupRequest, answer: Struct) -> None:
    """Remember the member of a connection if its own request, or its join, has succeeded.

    An OffsetFetch before version 9 names no member, but every client sends it on the connection
    that carries its heartbeats.
    """
    message = cast(MemberMessage, request.message)
    match answer:
        case HeartbeatResponse(error_code=0) | SyncGroupResponse(error_code=0):
            member_id: str | None = message.member_id
        case (
            ConsumerGroupHeartbeatResponse(error_code=0, member_id=member_id)
            | JoinGroupResponse(error_code=0, member_id=member_id)
        ):
            pass
        case _:
            return
    if member_id:
        request.upstream.member = (message.group_id, member_id)


def member_of(request: GroupRequest, group_id: str) -> str | None:
    """The id of the group's member on the connection of the request, if one is known."""
    known = request.upstream.member
    return known[1] if known is not None and known[0] == group_id else None
