"""Answers group requests, with the hosted groups, the cluster, or both.

This is the data path's `GroupApis`.
"""

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import trio

from coordinator.interface.events import JOIN_EPOCH, LEAVE_EPOCH
from gateway.batches import batches
from gateway.cluster.errors import UpstreamError
from gateway.data_path.client_warnings import ClientWarnings
from gateway.data_path.connected_clients import ConnectedClients
from gateway.data_path.conversions import TopicNames
from gateway.data_path.errors import BrokerLost
from gateway.data_path.group_apis import AnswerUnderWay, CommitUnderWay, GroupRequest, LazyAnswer
from gateway.events.event import EventSink
from gateway.groups.compute_thread import ComputeThread
from gateway.groups.groups import Groups
from gateway.hosting.answers import GroupApi, RefusalReason, code_for, needs_lease
from gateway.logs import write_to_log
from gateway.observers.clients_seen import ClientsSeen
from gateway.observers.counts import AnswerCounts
from gateway.observers.offset_reporter import OffsetReporter
from gateway.quotas.shares import ShareRule
from gateway.requests.admin_apis import AdminApis
from gateway.requests.authorization import is_known_to_be_allowed, why_refused
from gateway.requests.commit_parts import join_answers
from gateway.requests.commit_topic_ids import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    complete_topics,
    split_by_existence,
)
from gateway.requests.commits import CommitApis, CommitOnItsWay
from gateway.requests.config_apis import ConfigApis
from gateway.requests.coordinators import Coordinators
from gateway.requests.defective_joins import DefectiveJoins
from gateway.requests.member_apis import MemberApis, PendingRequest, is_foreign, record_member
from gateway.requests.messages import GroupMessage, MemberMessage, api_of
from gateway.requests.offset_delete import OffsetDeleteApi
from gateway.requests.offset_fetch import OffsetFetchApi
from gateway.requests.offset_fetch_shapes import fail_group, groups_of, response_of
from gateway.requests.other_groups import relay_heartbeat
from gateway.requests.refusals import refusal, refuse
from gateway.requests.regex_questions import RegexQuestions
from gateway.requests.unwritable_names import refused_for_its_names
from kafka_codecs.alter_configs import AlterConfigsRequest
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_configs import DescribeConfigsRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.end_txn import EndTxnRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest
from kafka_codecs.list_config_resources import ListConfigResourcesRequest
from kafka_codecs.list_groups import ListGroupsRequest
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_codecs.offset_delete import OffsetDeleteRequest
from kafka_codecs.offset_fetch import OffsetFetchRequest
from kafka_codecs.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_codecs.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_codecs.sync_group import SyncGroupRequest
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse


class GroupService:
    """Answers group requests; see `gateway.data_path.group_apis.GroupApis`."""

    def __init__(
        self,
        groups: Groups,
        coordinators: Coordinators,
        *,
        topic_names: TopicNames,
        regexes: RegexQuestions,
        compute_thread: ComputeThread,
        offsets: OffsetReporter,
        shows_members: bool,
        refuses_defective: bool = False,
        emit: EventSink = write_to_log,
        names: ShareRule,
        client_warnings: ClientWarnings,
        connected_clients: ConnectedClients | None = None,
    ) -> None:
        """`topic_names` names the topics that exist now; `shows_members`: whether DescribeGroups
        lists the members of consumer groups; `refuses_defective`: whether client versions that are
        known to be defective are refused the new protocol; `names`: how many names of one client
        are remembered; `connected_clients`: who is connected, if that counts (DEV D82)."""
        self._groups = groups
        self._coordinators = coordinators
        self._topic_names = topic_names
        self._regexes = regexes
        self._client_warnings = client_warnings
        self._connected_clients = connected_clients
        self._members = MemberApis(groups, coordinators, compute_thread, connected_clients)
        self._admin = AdminApis(groups, coordinators, shows_members=shows_members)
        self._configs = ConfigApis(groups, names)
        self.answers = AnswerCounts()
        self._commits = CommitApis(groups, coordinators, offsets, self.answers)
        self._deletes = OffsetDeleteApi(groups, coordinators)
        self._fetch = OffsetFetchApi(groups, offsets)
        self._clients = ClientsSeen(emit, names)
        self._defective = DefectiveJoins(groups, refuses=refuses_defective, names=names)
        self._offset_reporter = offsets

    def answer(self, request: GroupRequest) -> Struct | Awaitable[Struct]:
        """The answer to one request, or what to await for it.

        Raises BrokerLost if the broker is away and the api has no error to say so, or GroupFailed
        after a bug in the gateway; either closes the connection.
        """
        message = request.message
        if not request.follows_answers and isinstance(message, ConsumerGroupHeartbeatRequest):
            self._client_warnings.warn(
                "heartbeat_answered_too_late",
                request.client_host,
                group_id=message.group_id,
                client_id=request.header.client_id,
                member_id=message.member_id,
                calls_within_ms=request.calls_within_ms,
            )
        if isinstance(message, MemberMessage) and self._has_no_question(request, message):
            answer = self._members.answer(request, message)
            if isinstance(answer, Struct):
                return self._record_answer(request, answer)
            if isinstance(answer, PendingRequest):
                return _UnderWay(self, answer)
            return LazyAnswer(partial(self._later, request, answer))
        return LazyAnswer(partial(self._check_and_answer, request))

    def record_recalled(self, answer: Struct) -> None:
        """See `GroupApis`."""
        self.answers.record(answer)

    def _has_no_question(self, request: GroupRequest, message: MemberMessage) -> bool:
        if request.names_unwritable or not is_known_to_be_allowed(request, message):
            return False
        if not isinstance(message, ConsumerGroupHeartbeatRequest):
            return True
        joins = message.member_epoch == JOIN_EPOCH
        return not (
            self._regexes.has_one(message) or (joins and self._defective.is_concerned(message))
        )

    async def _check_and_answer(self, request: GroupRequest) -> Struct:
        """The answer, after the cluster has been asked what the client may do."""
        if request.names_unwritable:
            return self._refused_for_its_names(request)
        try:
            refused = await self._refuse_unauthorized((request,))
        except BrokerLost:
            return await self._answer_alone(request)
        if refused:
            self.answers.record(refused[0])
        return refused[0] if refused else await self._later(request, self._answer_allowed(request))

    def _refused_for_its_names(self, request: GroupRequest) -> Struct:
        """The answer to a request whose names no answer, record or request to a broker can hold. No
        broker is asked: it might never answer."""
        self._client_warnings.warn(
            "unwritable_name_refused",
            request.client_host,
            api=ApiKey(request.header.api_key).name,
            client_id=request.header.client_id,
        )
        answer = refused_for_its_names(request.message, request.header.api_version)
        self.answers.record(answer)
        return answer

    async def _answer_allowed(self, request: GroupRequest) -> Struct:
        message = request.message
        if isinstance(message, MemberMessage):
            await self._regexes.ask(request, message)
            answer = self._members.answer(request, message)
            if isinstance(answer, PendingRequest):
                return await self._members.finish(answer)
            return answer if isinstance(answer, Struct) else await answer
        return await self._answer(request)

    async def finish(self, pending: PendingRequest) -> Struct:
        """The answer to a request that is under way. Raises as `answer` does."""
        return await self._later(pending.request, self._members.finish(pending))

    async def _later(self, request: GroupRequest, pending: Awaitable[Struct]) -> Struct:
        try:
            answer = await pending
        except BrokerLost:
            return await self._answer_alone(request)
        return self.recorded_after(request, answer)

    def recorded_after(self, request: GroupRequest, answer: Struct) -> Struct:
        """The answer to a request that has waited, once it is noted."""
        self.answers.record_wait(type(answer), trio.current_time() - request.at_s)
        return self._record_answer(request, answer)

    async def _refuse_unauthorized(self, requests: Sequence[GroupRequest]) -> Sequence[Struct]:
        """The answers to a client that may not send such requests about their one group; none if it
        may. The other apis check each group that they answer for. Raises BrokerLost."""
        first = requests[0]
        if not isinstance(first.message, GroupMessage):
            return ()
        code = await why_refused(first, first.message)
        version = first.header.api_version
        if not code:
            if (reason := self._defective.why_refused(first)) is None:
                return ()
            self._client_warnings.warn(
                "defective_client_refused",
                first.client_host,
                group_id=first.message.group_id,
                client_id=first.header.client_id,
                reason=reason,
            )
            return [refusal(first.message, version, ErrorCode.UNSUPPORTED_VERSION, reason)]
        self._client_warnings.warn(
            "permission_refused",
            first.client_host,
            group_id=first.message.group_id,
            api=ApiKey(first.header.api_key).name,
            error_code=code.name,
            user=first.user,
        )
        return [
            refusal(cast(GroupMessage, request.message), version, code, "") for request in requests
        ]

    def begin_commit(self, request: GroupRequest, body: bytes) -> CommitUnderWay | None:
        """Have a commit accepted immediately, if nothing has to be asked or written first."""
        message = request.message
        assert isinstance(message, OffsetCommitRequest)
        if request.names_unwritable or not is_known_to_be_allowed(request, message):
            return None
        return self._commits.begin(request, message, body)

    async def end_commit(self, request: GroupRequest, commit: CommitUnderWay) -> Struct:
        """The answer to a commit that the broker has not simply stored."""
        try:
            answer = await cast(CommitOnItsWay, commit).answer()
        except BrokerLost:
            answer = None
        return await self._noted_or_alone(request, answer)

    async def answer_commits(self, requests: Sequence[GroupRequest]) -> Sequence[Struct]:
        """The answers to OffsetCommits that arrived together. If all belong to one group, the
        cluster gets them without a wait in between."""
        group_ids = {cast(OffsetCommitRequest, request.message).group_id for request in requests}
        if len(group_ids) > 1 or any(request.names_unwritable for request in requests):
            return [await self._check_and_answer(request) for request in requests]
        try:
            if refused := await self._refuse_unauthorized(requests):
                return refused
            answers = await self._commits.answer(requests)
        except BrokerLost:
            answers = [None] * len(requests)
        for request in requests:
            self.answers.record_wait(OffsetCommitResponse, trio.current_time() - request.at_s)
        return [
            await self._noted_or_alone(request, answer)
            for request, answer in zip(requests, answers, strict=True)
        ]

    async def _noted_or_alone(self, request: GroupRequest, answer: Struct | None) -> Struct:
        """The answer to a commit; None if the cluster may never have seen it. Raises
        BrokerLost."""
        if answer is None:
            return await self._answer_alone(request)
        return self._record_answer(request, answer)

    def last_word(self, request: GroupRequest, response: Struct) -> Struct:
        """Replace an answer that members rely on if the state log is no longer surely ours: another
        gateway may have fenced the member while this one was paused or cut off."""
        message = request.message
        if not isinstance(message, MemberMessage):
            return response
        if self._groups.drivers.may_answer_for(message.group_id):
            return response
        if self._belongs_to_cluster(message):
            return response  # a commit's or fetch's own api has checked the engine's decision
        if needs_lease(api_of(message)):
            reason = "another gateway may own the state log"
            request.is_refused = True
            return refuse(message, request.header.api_version, RefusalReason.LOG_NOT_OURS, reason)
        return response

    def _belongs_to_cluster(self, message: MemberMessage) -> bool:
        if self._groups.drivers.is_live(message.group_id):
            return False
        joins_another = isinstance(message, JoinGroupRequest) and is_foreign(message)
        return joins_another or self._groups.drivers.belongs_to_cluster(message.group_id)

    async def _answer(self, request: GroupRequest) -> Struct:
        match request.message:
            case FindCoordinatorRequest() as message:
                return await self._coordinators.find(request, message)
            case OffsetFetchRequest() as message:
                return await self._fetch.fetch(request, message)
            case (
                DescribeGroupsRequest()
                | ConsumerGroupDescribeRequest()
                | ListGroupsRequest()
                | DeleteGroupsRequest()
            ) as message:
                return await self._admin.answer(request, message)
            case (
                DescribeConfigsRequest()
                | AlterConfigsRequest()
                | IncrementalAlterConfigsRequest()
                | ListConfigResourcesRequest()
            ) as message:
                return await self._configs.answer(request, message)
            case OffsetCommitRequest():
                return await self._commit(request)
            case TxnOffsetCommitRequest() as message:
                return await self._commit_in_transaction(request, message)
            case (ShareGroupHeartbeatRequest() | StreamsGroupHeartbeatRequest()) as message:
                return await relay_heartbeat(request, message, self._groups)
            case OffsetDeleteRequest() as message:
                return await self._deletes.answer(request, message)
            case message:
                raise TypeError(f"{type(message).__name__} is not about groups")

    async def _commit(self, request: GroupRequest) -> Struct:
        (answer,) = await self._commits.answer((request,))
        if answer is None:
            raise BrokerLost
        return answer

    async def _commit_in_transaction(
        self, request: GroupRequest, message: TxnOffsetCommitRequest
    ) -> Struct:
        """Since v6 a commit names topics by id. As in Kafka, unknown ones get UNKNOWN_TOPIC_ID."""
        version = request.header.api_version
        if version < FIRST_VERSION_WITH_TOPIC_IDS:
            return await self._commit(request)
        try:
            names = await self._topic_names({topic.topic_id for topic in message.topics})
        except UpstreamError as error:
            return refuse(message, version, RefusalReason.HOLDER_UNKNOWN, str(error))
        known, unknown = split_by_existence(message, names)
        rest = refusal(unknown, version, ErrorCode.UNKNOWN_TOPIC_ID, "")
        if not known.topics:
            return rest
        stored = await self._commit(replace(request, message=known))
        return join_answers(complete_topics(cast(TxnOffsetCommitResponse, stored), known), rest)

    def _record_answer(self, request: GroupRequest, answer: Struct) -> Struct:
        self.answers.record(answer)
        match request.message:
            case HeartbeatRequest() | SyncGroupRequest():
                record_member(request, answer)
            case JoinGroupRequest():
                self._clients.record(request, answer)
                record_member(request, answer)
            case ConsumerGroupHeartbeatRequest(member_epoch=epoch):
                if epoch == JOIN_EPOCH:
                    self._clients.record(request, answer)
                    self._defective.record(request, answer)
                elif epoch == LEAVE_EPOCH:
                    self._record_departure(request, answer)
                record_member(request, answer)
                if self._connected_clients is not None and request.upstream.member is not None:
                    self._connected_clients.spoke(request.upstream.member, request.upstream.number)
            case OffsetCommitRequest() | TxnOffsetCommitRequest():
                self._offset_reporter.record_commit(request, answer)
            case OffsetDeleteRequest():
                self._offset_reporter.record_delete(request, answer)
            case LeaveGroupRequest():
                self._record_departure(request, answer)
            case _:
                pass
        return answer

    def record_transaction_end(self, request: EndTxnRequest) -> None:
        """See `GroupApis`."""
        self._offset_reporter.record_transaction_end(
            request.transactional_id, is_committed=request.committed
        )

    def _record_departure(self, request: GroupRequest, answer: Struct) -> None:
        """Note who leaves a forwarded group. The engine reports those who leave a hosted one."""
        message = cast(LeaveGroupRequest | ConsumerGroupHeartbeatRequest, request.message)
        if self._groups.drivers.belongs_to_cluster(message.group_id):
            self._clients.record_departure(request, answer)
        elif self._groups.drivers.is_live(message.group_id):
            upstream = request.upstream
            driver = self._groups.drivers.driver(message.group_id, request.owner)
            driver.watch_leaver(_leaver_id(message), lambda: upstream.has_client)

    async def _answer_alone(self, request: GroupRequest) -> Struct:
        """Answer while the broker is away: the client retries here or at the new coordinator.

        Raises BrokerLost.
        """
        message, version = request.message, request.header.api_version
        if isinstance(message, OffsetFetchRequest):
            answers = []
            for batch in batches(groups_of(message, version)):
                situations = await self._when_away(request, [group.group_id for group in batch])
                answers += [
                    fail_group(group, code_for(situations[group.group_id], GroupApi.FETCH), version)
                    for group in batch
                ]
            return response_of(tuple(answers), version)
        if isinstance(message, GroupMessage):
            situations = await self._when_away(request, (message.group_id,))
            cause = situations[message.group_id]
            return refuse(message, version, cause, "the broker is away")
        raise BrokerLost

    async def _when_away(
        self, request: GroupRequest, group_ids: Collection[str]
    ) -> Mapping[str, RefusalReason]:
        """NOT_COORDINATOR only if there is another coordinator: while a client looks for one, it
        sends no heartbeats."""
        nodes = await self._coordinators.nodes_instead(group_ids, request)
        return {
            group_id: RefusalReason.BROKER_AWAY
            if nodes.get(group_id) in (None, request.node_id)
            else RefusalReason.COORDINATOR_MOVED
            for group_id in group_ids
        }


class _UnderWay(AnswerUnderWay):
    """The answer to a request of a member, which its group gives later."""

    __slots__ = ("_asked", "_service")

    def __init__(self, service: GroupService, pending: PendingRequest) -> None:
        self._service = service
        self._pending = pending

    def __await__(self) -> Generator[Any, None, Struct]:
        return self._service.finish(self._pending).__await__()

    def watch(self, changed: Callable[[], None]) -> bool:
        return self._pending.driver.watch(self._pending.call, changed)

    def take(self) -> Struct | None:
        answer = self._pending.answer
        if answer is None:
            return None
        return self._service.recorded_after(self._pending.request, answer)

    def abandon(self) -> None:
        self._pending.driver.abandon(self._pending.call)


def _leaver_id(message: LeaveGroupRequest | ConsumerGroupHeartbeatRequest) -> str:
    """The member that leaves, or one of them: a place is kept only for one that leaves alone."""
    if isinstance(message, LeaveGroupRequest) and message.members:
        return message.members[0].member_id
    return message.member_id
