"""Routes every group request: to the engine for a hosted group, to the cluster for any other.

This is the data path's `GroupApis`. A client at a listener other than that of the group's
coordinator gets NOT_COORDINATOR. No member joins, and no answer with partitions leaves, unless the
group's anchor holds the group in the cluster.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard, cast
from uuid import uuid4

import structlog
import trio

from coordinator.interface.replies import (
    HeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    SyncGroupReply,
)
from gateway.anchor.anchors import JOIN_PATIENCE_S, MEMBER_PATIENCE_S, Anchors
from gateway.anchor.errors import NotAnchored
from gateway.cluster.errors import UpstreamError
from gateway.data_path.conversions import TopicNames
from gateway.data_path.errors import UpstreamLost
from gateway.data_path.group_apis import GroupRequest
from gateway.events.event import Tell
from gateway.events.log_lines import write_to_log
from gateway.groups import messages
from gateway.groups.admin_apis import AdminApis
from gateway.groups.clients_seen import ClientsSeen
from gateway.groups.commit_parts import joined
from gateway.groups.commit_topic_ids import FIRST_VERSION_WITH_TOPIC_IDS, completed, named
from gateway.groups.config_apis import ConfigApis
from gateway.groups.connection_members import ConnectionMembers
from gateway.groups.coordinators import Coordinators
from gateway.groups.embedded_upstream import is_embedded
from gateway.groups.forwarding import forward, highest_version
from gateway.groups.hosting import STREAMS_PROTOCOL, Hosting, Mode
from gateway.groups.inbox import MakeRequest
from gateway.groups.offset_apis import OffsetApis
from gateway.groups.offset_fetch import OffsetFetchApi
from gateway.groups.offset_fetch_shapes import failed, groups_of, response_of
from gateway.groups.offset_reporter import OffsetReporter
from gateway.groups.refusals import GroupMessage, refusal
from gateway.groups.registry import Registry
from gateway.room import TooManyGroups
from gateway.state_log.log import StateLogError
from kafka_codecs.alter_configs import AlterConfigsRequest
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_configs import DescribeConfigsRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest
from kafka_codecs.list_config_resources import ListConfigResourcesRequest
from kafka_codecs.list_groups import ListGroupsRequest
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.offset_delete import OffsetDeleteRequest
from kafka_codecs.offset_fetch import OffsetFetchRequest
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

log = structlog.get_logger()

Entry = JoinGroupRequest | ConsumerGroupHeartbeatRequest
"""A request that may add a member."""


class GroupService:
    """Answers group requests; see `gateway.data_path.group_apis.GroupApis`."""

    def __init__(
        self,
        registry: Registry,
        hosting: Hosting,
        coordinators: Coordinators,
        anchors: Anchors,
        *,
        topic_names: TopicNames,
        offsets: OffsetReporter,
        shows_members: bool,
        tell: Tell = write_to_log,
    ) -> None:
        """`topic_names` names the topics that exist now; `shows_members`: whether DescribeGroups
        lists the members of consumer groups."""
        self._registry = registry
        self._hosting = hosting
        self._coordinators = coordinators
        self._anchors = anchors
        self._topic_names = topic_names
        self._admin = AdminApis(
            registry, hosting, coordinators, anchors, shows_members=shows_members
        )
        self._configs = ConfigApis(registry)
        self._offsets = OffsetApis(registry, anchors)
        self._connection_members = ConnectionMembers()
        self._fetch = OffsetFetchApi(registry, offsets, self._connection_members)
        self._clients = ClientsSeen(tell)
        self._offset_reporter = offsets

    async def answer(self, request: GroupRequest) -> Struct:
        """The answer to one request.

        Raises UpstreamLost if the broker is away and the api has no error to say so, or GroupFailed
        after a bug in the gateway; either closes the connection.
        """
        version, first_by_id = request.header.api_version, FIRST_VERSION_WITH_TOPIC_IDS
        match request.message:
            case TxnOffsetCommitRequest() as commit if version >= first_by_id:
                return await self._answer_by_topic_id(request, commit)
            case _:
                return await self._answer_by_name(request)

    async def _answer_by_topic_id(
        self, request: GroupRequest, message: TxnOffsetCommitRequest
    ) -> Struct:
        """Store the commit for known topics. As in Kafka, the others get UNKNOWN_TOPIC_ID."""
        version = request.header.api_version
        try:
            names = await self._topic_names({topic.topic_id for topic in message.topics})
        except UpstreamError as error:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return refusal(message, version, code, str(error))
        known, unknown = named(message, names)
        refused = refusal(unknown, version, ErrorCode.UNKNOWN_TOPIC_ID, "")
        if not known.topics:
            return refused
        return joined(await self._answer_by_name(replace(request, message=known)), refused)

    async def _answer_by_name(self, request: GroupRequest) -> Struct:
        try:
            answer = await self._answer(request)
        except UpstreamLost:
            return await self._answer_alone(request)
        return self._noted(request, answer)

    async def answer_commits(self, requests: Sequence[GroupRequest]) -> Sequence[Struct]:
        """The answers to OffsetCommits that arrived together. If all belong to one live group, the
        cluster gets them without a wait in between."""
        if len(requests) == 1 or not await self._are_of_one_live_group(requests):
            return [await self.answer(request) for request in requests]
        try:
            answers = await self._offsets.commit(requests)
        except TooManyGroups:  # the group has just ended
            return [await self.answer(request) for request in requests]
        return [
            await self._answer_alone(request) if answer is None else self._noted(request, answer)
            for request, answer in zip(requests, answers, strict=True)
        ]

    async def _are_of_one_live_group(self, requests: Sequence[GroupRequest]) -> bool:
        group_ids = {cast(OffsetCommitRequest, each.message).group_id for each in requests}
        group_id, *others = group_ids
        if others or not self._registry.is_live(group_id):
            return False
        try:
            return await self._is_at_coordinator(requests[0], group_id)
        except UpstreamError:
            return False

    def _noted(self, request: GroupRequest, answer: Struct) -> Struct:
        self._clients.note(request, answer)
        self._connection_members.note(request, answer)
        self._offset_reporter.note_commit(request, answer)
        self._offset_reporter.note_delete(request, answer)
        return answer

    async def _answer_alone(self, request: GroupRequest) -> Struct:
        """Answer while the broker is away: the client retries here or at the new coordinator.

        Raises UpstreamLost.
        """
        message, version = request.message, request.header.api_version
        match message:
            case OffsetFetchRequest():
                groups = groups_of(message, version)
                answers = [
                    failed(each, await self._when_away(request, each.group_id), version)
                    for each in groups
                ]
                return response_of(tuple(answers), version)
            case _ if isinstance(message, GroupMessage):
                code = await self._when_away(request, message.group_id)
                return refusal(message, version, code, "the broker is away")
            case _:
                raise UpstreamLost

    async def _when_away(self, request: GroupRequest, group_id: str) -> ErrorCode:
        """The error for a client whose broker is away. NOT_COORDINATOR only if there is another
        coordinator: while a client looks for one, it sends no heartbeats."""
        node_id = await self._coordinators.where_instead(group_id, request.node_id)
        if node_id in (None, request.node_id):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    async def _answer(self, request: GroupRequest) -> Struct:
        message = request.message
        match message:
            case FindCoordinatorRequest():
                return await self._coordinators.find(request, message)
            case OffsetFetchRequest():
                return await self._fetch.fetch(request, message)
            case (
                DescribeGroupsRequest()
                | ConsumerGroupDescribeRequest()
                | ListGroupsRequest()
                | DeleteGroupsRequest()
            ):
                return await self._admin.answer(request, message)
            case (
                DescribeConfigsRequest()
                | AlterConfigsRequest()
                | IncrementalAlterConfigsRequest()
                | ListConfigResourcesRequest()
            ):
                return await self._configs.answer(request, message)
            case TxnOffsetCommitRequest():
                stored = await self._about_one_group(request, message)
                return completed(cast(TxnOffsetCommitResponse, stored), message)
            case _:
                return await self._about_one_group(request, cast(GroupMessage, message))

    def last_word(self, request: GroupRequest, response: Struct) -> Struct:
        """Replace an answer that members rely on if the state log is no longer surely ours: another
        gateway may have fenced the member while this one was paused or cut off."""
        message = request.message
        if (
            isinstance(message, ByMember)
            and not self._registry.may_answer
            and not self._belongs_to_cluster(message)
        ):
            return refusal(
                message,
                request.header.api_version,
                ErrorCode.NOT_COORDINATOR,
                "another gateway may own the state log",
            )
        return response

    def _belongs_to_cluster(self, message: GroupMessage) -> bool:
        if self._registry.is_live(message.group_id):
            return False
        is_foreign = isinstance(message, JoinGroupRequest) and _is_foreign(message)
        return is_foreign or self._hosting.is_forwarded(message.group_id)

    async def _about_one_group(self, request: GroupRequest, message: GroupMessage) -> Struct:
        version = request.header.api_version
        if not message.group_id:
            if isinstance(message, OffsetCommitRequest):
                # The empty group id has offsets but never members (rule 2.9).
                return await _ask_cluster(request, message)
            is_native = isinstance(message, ConsumerGroupHeartbeatRequest)
            code = ErrorCode.INVALID_REQUEST if is_native else ErrorCode.INVALID_GROUP_ID
            return refusal(message, version, code, "the group id is empty")
        is_live = self._registry.is_live(message.group_id)
        if isinstance(message, JoinGroupRequest) and not is_live and _is_foreign(message):
            return await self._join_in_cluster(request, message)
        verdict = await self._registry.mode_of(message.group_id, lets_in=_lets_in(message))
        match verdict.mode:
            case Mode.ELSEWHERE if _is_from_member(message):
                # The member was ours, and its partitions belong to others now.
                return refusal(message, version, ErrorCode.UNKNOWN_MEMBER_ID, verdict.why)
            case Mode.UNKNOWN | Mode.ELSEWHERE:
                code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                return refusal(message, version, code, verdict.why)
            case Mode.OCCUPIED if isinstance(message, JoinGroupRequest):
                code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
                return refusal(message, version, code, verdict.why)
            case Mode.OCCUPIED if isinstance(message, ConsumerGroupHeartbeatRequest):
                was_here = _is_from_member(message)
                code = ErrorCode.UNKNOWN_MEMBER_ID if was_here else ErrorCode.GROUP_ID_NOT_FOUND
                return refusal(message, version, code, verdict.why)
            case Mode.OCCUPIED | Mode.FORWARDED:
                # The group may have classic members that joined through an earlier gateway. The
                # cluster knows no member of ours.
                return await _ask_cluster(request, message)
            case Mode.HOSTED:
                return await self._hosted(request, message)

    async def _join_in_cluster(self, request: GroupRequest, message: JoinGroupRequest) -> Struct:
        """Let the cluster answer a join with a foreign protocol; if it succeeds, the group is
        forwarded. The group is empty here and may take any protocol, so its anchor leaves first."""
        try:
            await self._anchors.drop(message.group_id)
        except NotAnchored as error:
            code, version = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, request.header.api_version
            return refusal(message, version, code, str(error))
        answer = await _ask_cluster(request, message)
        if isinstance(answer, JoinGroupResponse) and not answer.error_code:
            why = f"it uses the protocol {message.protocol_type}/{answer.protocol_name}"
            self._hosting.forward(message.group_id, why)
        return answer

    async def _hosted(self, request: GroupRequest, message: GroupMessage) -> Struct:
        version = request.header.api_version
        try:
            if not await self._is_at_coordinator(request, message.group_id):
                return refusal(message, version, ErrorCode.NOT_COORDINATOR, "")
            was_held = self._anchors.is_here(message.group_id)
            if _lets_in(message):
                refused = await self._refused(request, message)
                if refused is not None:
                    return refused
                await self._hold(request, message)
            answer = await self._ask_engine(request, message)
            if self._registry.is_live(message.group_id):
                await self._keep(message.group_id, gives=_grants_partitions(answer))
            elif not was_held and _is_refusal(answer):
                self._anchors.let_go(message.group_id)
        except NotAnchored as error:
            code, why = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)
        except UpstreamError as error:
            log.warning("coordinator_unknown", group_id=message.group_id, reason=str(error))
            code, why = ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator is known"
        except (StateLogError, TooManyGroups) as error:
            code, why = ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)
        else:
            return answer
        return refusal(message, version, code, why)

    async def _refused(self, request: GroupRequest, message: Entry) -> Struct | None:
        """The engine's refusal, checked before the anchor joins the group in the cluster for
        nothing. Raises TooManyGroups."""
        if self._anchors.is_here(message.group_id):
            return None
        reply = await self._registry.refusal(
            message.group_id, _join_event(request, message), client_host=request.client_host
        )
        return None if reply is None else _join_answer(reply, request.header.api_version)

    async def _hold(self, request: GroupRequest, message: GroupMessage) -> None:
        """Hold the group before a member may join. Raises NotAnchored, StateLogError,
        TooManyGroups."""
        group_id = message.group_id
        is_live = self._registry.is_live(group_id)
        if not (is_live or self._anchors.is_here(group_id)) and _is_a_rejoin(message):
            return  # the engine refuses a rejoin to a group that was never here
        if not is_live:
            self._registry.check_beginning(group_id, request.client_host)
        patience_s = MEMBER_PATIENCE_S if is_live else JOIN_PATIENCE_S
        await self._anchors.hold(group_id, client_host=request.client_host, patience_s=patience_s)

    async def _keep(self, group_id: str, *, gives: bool) -> None:
        """Keep a live group anchored. Before an answer gives partitions away, confirm the anchor
        once more: an admin may have just removed it. Raises NotAnchored."""
        if gives:
            now_s = trio.current_time()
            await self._anchors.hold(group_id, patience_s=MEMBER_PATIENCE_S, since_s=now_s)
        else:
            self._anchors.need(group_id)

    async def _is_at_coordinator(self, request: GroupRequest, group_id: str) -> bool:
        return is_embedded(request.upstream.versions) or await self._coordinators.is_at(
            group_id, request.node_id
        )

    async def _ask_engine(self, request: GroupRequest, message: GroupMessage) -> Struct:
        header = request.header
        match message:
            case JoinGroupRequest() | ConsumerGroupHeartbeatRequest():
                _token, reply = await self._registry.ask(
                    message.group_id, _join_event(request, message), client_host=request.client_host
                )
                return _join_answer(reply, header.api_version)
            case SyncGroupRequest():
                synced: SyncGroupReply = await self._ask(
                    message, lambda token, _: messages.sync_event(token, header, message)
                )
                return messages.sync_response(synced)
            case HeartbeatRequest():
                beaten: HeartbeatReply = await self._ask(
                    message, lambda token, _: messages.heartbeat_event(token, message)
                )
                return messages.heartbeat_response(beaten)
            case LeaveGroupRequest():
                left: LeaveGroupReply = await self._ask(
                    message, lambda token, _: messages.leave_event(token, header, message)
                )
                return messages.leave_response(left, header.api_version)
            case OffsetCommitRequest() | TxnOffsetCommitRequest():
                (stored,) = await self._offsets.commit((request,))
                if stored is None:
                    raise UpstreamLost
                return stored
            case OffsetDeleteRequest():
                return await self._offsets.delete(request, message)

    async def _ask(self, message: GroupMessage, make: MakeRequest) -> Any:
        _token, reply = await self._registry.ask(message.group_id, make)
        return reply


ByMember = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerGroupHeartbeatRequest
)
"""Requests whose answers the engine decides. The outcome of a commit is the cluster's."""


def _join_event(request: GroupRequest, message: Entry) -> MakeRequest:
    header, host = request.header, request.client_host
    match message:
        case JoinGroupRequest():
            return lambda token, _: messages.join_event(token, header, message, host, uuid4())
        case ConsumerGroupHeartbeatRequest():
            return lambda token, _: messages.consumer_heartbeat_event(
                token, header, message, host, uuid4()
            )


def _join_answer(reply: Any, version: int) -> Struct:
    if isinstance(reply, JoinGroupReply):
        return messages.join_response(reply, version)
    return messages.consumer_heartbeat_response(reply)


def _lets_in(message: GroupMessage) -> TypeGuard[Entry]:
    """Whether the request may add a member."""
    match message:
        case JoinGroupRequest():
            return True
        case ConsumerGroupHeartbeatRequest(member_epoch=epoch):
            return epoch == 0
        case _:
            return False


def _is_a_rejoin(message: GroupMessage) -> bool:
    return isinstance(message, JoinGroupRequest) and bool(message.member_id)


def _is_from_member(message: GroupMessage) -> bool:
    """Whether only a client that considers itself a member sends this request."""
    match message:
        case HeartbeatRequest() | SyncGroupRequest():
            return True
        case ConsumerGroupHeartbeatRequest(member_epoch=epoch):
            return epoch > 0
        case _:
            return False


def _grants_partitions(answer: Struct) -> bool:
    """Whether the client may start to consume partitions, or assign them, because of this answer.

    The engine counts them as granted already. It repeats a withheld answer, like a lost one, until
    the member acknowledges it.
    """
    match answer:
        case JoinGroupResponse(error_code=0) | SyncGroupResponse(error_code=0):
            return True
        case ConsumerGroupHeartbeatResponse(error_code=0, assignment=assignment):
            return assignment is not None
        case _:
            return False


def _is_refusal(answer: Struct) -> bool:
    """Whether a join failed for good. A client that must come back with a member id does so."""
    match answer:
        case JoinGroupResponse(error_code=code) | ConsumerGroupHeartbeatResponse(error_code=code):
            return code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
        case _:
            return False


def _is_foreign(message: JoinGroupRequest) -> bool:
    """Whether the join uses another embedded protocol: Connect, Schema Registry, Streams.

    A join without a protocol type goes to the engine, which refuses it.
    """
    if message.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return any(protocol.name == STREAMS_PROTOCOL for protocol in message.protocols)
    return bool(message.protocol_type)


async def _ask_cluster(request: GroupRequest, message: GroupMessage) -> Struct:
    version = request.header.api_version
    why = "the group is forwarded to the cluster, which does not know the new protocol"
    if highest_version(request.upstream, ApiKey(request.header.api_key)) < 0:
        # ConsumerGroupHeartbeat is the only group api offered without the cluster's support.
        return refusal(message, version, ErrorCode.GROUP_ID_NOT_FOUND, why)
    answer: Struct = await forward(request)
    match answer:
        # A broker may list the api although the protocol is switched off, as Kafka 3.9 does.
        case ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION):
            return refusal(message, version, ErrorCode.GROUP_ID_NOT_FOUND, why)
        case _:
            return answer
