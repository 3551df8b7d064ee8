"""Answers group requests at one process of a fleet: those about other processes' groups are sent to
their owner.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from gateway.data_path.group_apis import CommitUnderWay, GroupRequest, LazyAnswer
from gateway.fleet.coordinator_nodes import answer_for_nodes, ask_brokers, name_owners
from gateway.fleet.member import FleetMember
from gateway.hosting.answers import GroupApi, Situation, code_for
from gateway.requests.group_service import GroupService
from gateway.requests.messages import GroupMessage
from gateway.requests.offset_fetch_shapes import fail_group, groups_of, response_of
from gateway.requests.other_groups import OtherHeartbeat
from gateway.requests.refusals import refuse
from kafka_codecs import consumer_group_describe
from kafka_codecs.alter_configs import AlterConfigsRequest
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_codecs.describe_groups import DescribedGroup, DescribeGroupsRequest
from kafka_codecs.end_txn import EndTxnRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafka_codecs.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafka_codecs.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

ELSEWHERE = "another process of the gateway has the group"
_NOT_HERE = code_for(Situation.NOT_AT_COORDINATOR, GroupApi.ADMIN)

_Batch = DescribeGroupsRequest | ConsumerGroupDescribeRequest | DeleteGroupsRequest
_BATCHES: Mapping[type[Struct], tuple[str, str, Callable[..., Struct]]] = {
    DescribeGroupsRequest: ("groups", "groups", DescribedGroup),
    ConsumerGroupDescribeRequest: ("group_ids", "groups", consumer_group_describe.DescribedGroup),
    DeleteGroupsRequest: ("groups_names", "results", DeletableGroupResult),
}
"""The fields with the groups in a request and in its answer, and what a group gets there."""

_Configs = DescribeConfigsRequest | AlterConfigsRequest | IncrementalAlterConfigsRequest
_CONFIGS: Mapping[type[Struct], tuple[str, Callable[..., Struct]]] = {
    DescribeConfigsRequest: ("results", DescribeConfigsResult),
    AlterConfigsRequest: ("responses", AlterConfigsResourceResponse),
    IncrementalAlterConfigsRequest: ("responses", AlterConfigsResourceResponse),
}
"""The field with the resources in an answer, and what a resource gets there."""

_OTHER_HEARTBEATS: Mapping[type[Struct], Callable[..., Struct]] = {
    ShareGroupHeartbeatRequest: ShareGroupHeartbeatResponse,
    StreamsGroupHeartbeatRequest: StreamsGroupHeartbeatResponse,
}


class FleetGroupService(GroupService):
    """Answers for the groups of this process."""

    def __init__(self, member: FleetMember, *args: Any, **kwargs: Any) -> None:
        """The other arguments are those of `GroupService`."""
        super().__init__(*args, **kwargs)
        self._member = member

    def answer(self, request: GroupRequest) -> Struct | Awaitable[Struct]:
        """See `GroupService`. A request about another process's group gets NOT_COORDINATOR."""
        message = request.message
        if isinstance(message, GroupMessage):
            if not self._member.owns(message.group_id):
                return self._refuse_elsewhere(request)
        elif isinstance(message, OtherHeartbeat):
            if not self._member.owns(message.group_id):
                return _OTHER_HEARTBEATS[type(message)](
                    error_code=ErrorCode.NOT_COORDINATOR, error_message=ELSEWHERE
                )
        elif isinstance(message, FindCoordinatorRequest):
            return LazyAnswer(partial(self._find_owners, request, message))
        elif isinstance(message, ListGroupsRequest):
            return LazyAnswer(partial(self._list_own, request))
        elif isinstance(message, _Batch):
            return LazyAnswer(partial(self._answer_batch, request, message))
        elif isinstance(message, _Configs):
            return LazyAnswer(partial(self._answer_configs, request, message))
        elif isinstance(message, OffsetFetchRequest):
            return LazyAnswer(partial(self._fetch_offsets, request, message))
        return super().answer(request)

    def begin_commit(self, request: GroupRequest, body: bytes) -> CommitUnderWay | None:
        """See `GroupService`."""
        message = cast(OffsetCommitRequest, request.message)
        return super().begin_commit(request, body) if self._member.owns(message.group_id) else None

    async def answer_commits(self, requests: Sequence[GroupRequest]) -> Sequence[Struct]:
        """See `GroupService`."""
        messages = [cast(OffsetCommitRequest, request.message) for request in requests]
        if all(self._member.owns(message.group_id) for message in messages):
            return await super().answer_commits(requests)
        return [
            (await super(FleetGroupService, self).answer_commits((request,)))[0]
            if self._member.owns(message.group_id)
            else self._refuse_elsewhere(request)
            for request, message in zip(requests, messages, strict=True)
        ]

    def note_transaction_end(self, request: EndTxnRequest) -> None:
        """Ignore the end of a transaction. It arrives at any process: the owner of a group with
        offsets in it may have missed the end of an earlier one, and would take this for both."""

    def _refuse_elsewhere(self, request: GroupRequest) -> Struct:
        message = cast(GroupMessage, request.message)
        version = request.header.api_version
        answer = refuse(message, version, Situation.NOT_AT_COORDINATOR, ELSEWHERE)
        self.answers.note(answer)
        return answer

    async def _find_owners(self, request: GroupRequest, message: FindCoordinatorRequest) -> Struct:
        answer = cast(FindCoordinatorResponse, await self._usual(request))
        return name_owners(self._member, message, answer)

    async def _answer_configs(self, request: GroupRequest, message: _Configs) -> Struct:
        """Answer about the groups of this process and all other resources. A coordinator node has
        the configs of the broker that it leads to."""
        others = [one for one in message.resources if self._is_elsewhere(one)]
        own: Any = message
        if others:
            resources = tuple(one for one in message.resources if not self._is_elsewhere(one))
            own = replace(cast(Any, message), resources=resources)
        asked = ask_brokers(own) if isinstance(own, DescribeConfigsRequest) else own
        answered, make_refusal = _CONFIGS[type(message)]
        if own.resources:
            answer: Any = await self._usual(replace(request, message=asked))
        else:
            answer = APIS[ApiKey(request.header.api_key)].response()
        if isinstance(answer, DescribeConfigsResponse):
            answer = answer_for_nodes(own, answer)
        refused = (
            make_refusal(
                error_code=_NOT_HERE,
                error_message=ELSEWHERE,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one in others
        )
        return cast(Struct, replace(answer, **{answered: (*getattr(answer, answered), *refused)}))

    def _is_elsewhere(self, resource: Any) -> bool:
        """Whether these are the configs of a group of another process."""
        is_group = resource.resource_type == ConfigResourceType.GROUP
        return is_group and not self._member.owns(resource.resource_name)

    async def _list_own(self, request: GroupRequest) -> Struct:
        """List a group at the coordinator node of its owner only: clients ask every node, and not
        all remove what they get twice."""
        if not request.upstream.is_at_coordinator_node:
            return ListGroupsResponse()
        answer = cast(ListGroupsResponse, await self._usual(request))
        own = tuple(group for group in answer.groups if self._member.owns(group.group_id))
        return replace(answer, groups=own)

    async def _answer_batch(self, request: GroupRequest, message: _Batch) -> Struct:
        """Answer for the groups of this process, and refuse the others."""
        asked, answered, make_refusal = _BATCHES[type(message)]
        names = getattr(message, asked)
        others = [name for name in names if not self._member.owns(name)]
        if not others:
            return await self._usual(request)
        own = tuple(name for name in names if self._member.owns(name))
        own_message = cast(Struct, replace(cast(Any, message), **{asked: own}))
        answer: Any = await self._usual(replace(request, message=own_message))
        refused = (make_refusal(group_id=name, error_code=_NOT_HERE) for name in others)
        joined = (*getattr(answer, answered), *refused)
        return cast(Struct, replace(answer, **{answered: joined}))

    async def _fetch_offsets(self, request: GroupRequest, message: OffsetFetchRequest) -> Struct:
        """Answer for the groups of this process, and refuse the others."""
        version = request.header.api_version
        groups = groups_of(message, version)
        others = [group for group in groups if not self._member.owns(group.group_id)]
        if not others:
            return await self._usual(request)
        refused = tuple(fail_group(group, _NOT_HERE, version) for group in others)
        if len(others) == len(groups):
            return response_of(refused, version)
        own = tuple(group for group in groups if self._member.owns(group.group_id))
        answer = await self._usual(replace(request, message=replace(message, groups=own)))
        fetched = cast(OffsetFetchResponse, answer)
        return replace(fetched, groups=(*fetched.groups, *refused))

    async def _usual(self, request: GroupRequest) -> Struct:
        answer = super().answer(request)
        return answer if isinstance(answer, Struct) else await answer
