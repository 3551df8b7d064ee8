"""Answers group requests at one process of a fleet: members of other processes' groups are sent to
their owner, and for admin clients the owner is asked.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from gateway.data_path.errors import ConnectionAbandoned
from gateway.data_path.group_apis import CommitUnderWay, GroupRequest, LazyAnswer
from gateway.fleet.coordinator_nodes import answer_for_nodes, ask_brokers, name_owners
from gateway.fleet.member import FleetMember
from gateway.fleet.seated_member import FLEET_CLIENT_ID
from gateway.groups.group_drivers import GroupRefused
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.requests.config_apis import refuse_configs
from gateway.requests.group_batches import BATCHES, CONFIGS, Batch, Configs
from gateway.requests.group_service import GroupService
from gateway.requests.messages import GroupMessage
from gateway.requests.offset_fetch import without_private
from gateway.requests.offset_fetch_shapes import (
    FIRST_VERSION_WITH_BATCHES,
    answer_about,
    fail_group,
    groups_of,
    response_of,
)
from gateway.requests.other_groups import OtherHeartbeat
from gateway.requests.owner_calls import AWAY, OwnerAsker, OwnerAway
from gateway.requests.refusals import refuse
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_configs import ConfigResourceType, DescribeConfigsRequest
from kafka_codecs.end_txn import EndTxnRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.offset_delete import OffsetDeleteRequest
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kafka_codecs.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafka_codecs.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

ELSEWHERE = "another process of the gateway has the group"
_NOT_HERE = code_for(RefusalReason.NOT_AT_COORDINATOR, GroupApi.FETCH)
_AWAY = code_for(RefusalReason.LOADING, GroupApi.ADMIN)

STRAY_S = 2.0
"""How long a client is sent elsewhere on one connection: a table of the fleet is everywhere within
a second."""
STRAY_PAUSE_S = 10.0
"""After a pause of this length the time begins again."""

_NOBODY = -1
"""A value in place of a slot, for groups that no process serves yet: this one is about to."""

_OTHER_HEARTBEATS: Mapping[type[Struct], Callable[..., Struct]] = {
    ShareGroupHeartbeatRequest: ShareGroupHeartbeatResponse,
    StreamsGroupHeartbeatRequest: StreamsGroupHeartbeatResponse,
}


class FleetGroupService(GroupService):
    """Answers for the groups of this process."""

    def __init__(self, member: FleetMember, calls: OwnerAsker, *args: Any, **kwargs: Any) -> None:
        """The other arguments are those of `GroupService`."""
        super().__init__(*args, **kwargs)
        self._member = member
        self._calls = calls

    def answer(self, request: GroupRequest) -> Struct | Awaitable[Struct]:
        """See `GroupService`. A request about another process's group gets NOT_COORDINATOR."""
        message = request.message
        if isinstance(message, OffsetDeleteRequest):
            return LazyAnswer(partial(self._delete_offsets, request, message))
        if isinstance(message, GroupMessage):
            if not self._member.serves(message.group_id):
                return LazyAnswer(partial(self._refuse_or_end, request))
        elif isinstance(message, OtherHeartbeat):
            if not self._member.serves(message.group_id):
                return _OTHER_HEARTBEATS[type(message)](
                    error_code=ErrorCode.NOT_COORDINATOR, error_message=ELSEWHERE
                )
        elif isinstance(message, FindCoordinatorRequest):
            return LazyAnswer(partial(self._find_owners, request, message))
        elif isinstance(message, ListGroupsRequest):
            return LazyAnswer(partial(self._list_own, request))
        elif isinstance(message, Batch):
            return LazyAnswer(partial(self._answer_batch, request, message))
        elif isinstance(message, Configs):
            return LazyAnswer(partial(self._answer_configs, request, message))
        elif isinstance(message, OffsetFetchRequest):
            return LazyAnswer(partial(self._fetch_offsets, request, message))
        elif isinstance(message, ListConfigResourcesRequest):
            return LazyAnswer(partial(self._list_config_resources, request))
        else:
            raise TypeError(f"no process is chosen for {type(message).__name__}")
        return super().answer(request)

    def begin_commit(self, request: GroupRequest, body: bytes) -> CommitUnderWay | None:
        """See `GroupService`."""
        group_id = cast(OffsetCommitRequest, request.message).group_id
        return super().begin_commit(request, body) if self._member.serves(group_id) else None

    async def answer_commits(self, requests: Sequence[GroupRequest]) -> Sequence[Struct]:
        """See `GroupService`."""
        messages = [cast(OffsetCommitRequest, request.message) for request in requests]
        try:
            if all(self._member.serves(message.group_id) for message in messages):
                return await super().answer_commits(requests)
            return [
                (await super(FleetGroupService, self).answer_commits((request,)))[0]
                if self._member.serves(message.group_id)
                else await self._refuse_or_end(request)
                for request, message in zip(requests, messages, strict=True)
            ]
        except GroupRefused:  # the group was given up meanwhile
            return [self._refuse(request) for request in requests]

    def record_transaction_end(self, request: EndTxnRequest) -> None:
        """Ignore the end of a transaction. It arrives at any process: the owner of a group with
        offsets in it may have missed the end of an earlier one, and would take this for both."""

    async def _refuse_or_end(self, request: GroupRequest) -> Struct:
        """The refusal of a member's request about a group that is not served here. Raises
        ConnectionAbandoned if the client has been sent elsewhere for so long that it must have an
        old address: some ask for another one only once they are disconnected."""
        group_id = cast(GroupMessage, request.message).group_id
        if not self._member.owns(group_id):
            now_s = request.at_s
            first_s, latest_s = request.upstream.sent_elsewhere_s or (now_s, now_s)
            if now_s - latest_s > STRAY_PAUSE_S:
                first_s = now_s
            request.upstream.sent_elsewhere_s = first_s, now_s
            if now_s - first_s > STRAY_S:
                raise ConnectionAbandoned("its group is elsewhere")
        return self._refuse(request)

    def _refuse(self, request: GroupRequest) -> Struct:
        """Refuse a request about a group that another process has, or that is about to come here
        from there."""
        message = cast(GroupMessage, request.message)
        version = request.header.api_version
        # NOT_COORDINATOR would end the process of librdkafka's admin client.
        is_admin = isinstance(message, OffsetDeleteRequest)
        if is_admin or self._member.owns(message.group_id):
            answer = refuse(message, version, RefusalReason.LOADING, RefusalReason.LOADING.value)
        else:
            answer = refuse(message, version, RefusalReason.NOT_AT_COORDINATOR, ELSEWHERE)
        self.answers.record(answer)
        return answer

    async def _check_and_answer(self, request: GroupRequest) -> Struct:
        try:
            return await super()._check_and_answer(request)
        except GroupRefused:  # the group was given up meanwhile
            if not isinstance(request.message, GroupMessage):
                raise  # to `_answer_here`
            return self._refuse(request)

    async def _later(self, request: GroupRequest, pending: Awaitable[Struct]) -> Struct:
        try:
            return await super()._later(request, pending)
        except GroupRefused:
            if not isinstance(request.message, GroupMessage):
                raise  # to `_answer_here`
            return self._refuse(request)

    async def _find_owners(self, request: GroupRequest, message: FindCoordinatorRequest) -> Struct:
        answer = cast(FindCoordinatorResponse, await self._usual(request))
        return name_owners(self._member, message, answer)

    async def _answer_configs(self, request: GroupRequest, message: Configs) -> Struct:
        """Answer about all resources: for groups of other processes these are asked. A coordinator
        node has the configs of the broker that it leads to."""
        answered = CONFIGS[type(message)][0]
        parts: dict[int, list[Any]] = defaultdict(list)
        for resource in message.resources:
            is_group = resource.resource_type == ConfigResourceType.GROUP
            slot = self._find_slot(resource.resource_name) if is_group else self._member.slot
            parts[slot].append(resource)
        results: list[Struct] = []
        whole: Any = APIS[ApiKey(request.header.api_key)].response()
        for slot, resources in parts.items():
            part: Any = replace(cast(Any, message), resources=tuple(resources))
            is_here = slot == self._member.slot
            is_question = is_here and isinstance(part, DescribeConfigsRequest)
            question = ask_brokers(part) if is_question else part
            try:
                answer = await self._ask(slot, request, question)
                if is_here:
                    answer = whole = answer_for_nodes(part, answer) if is_question else answer
                results += getattr(answer, answered)
            except OwnerAway:
                results += [
                    refuse_configs(message, resource, _AWAY, AWAY) for resource in resources
                ]
        return cast(Struct, replace(whole, **{answered: tuple(results)}))

    async def _list_config_resources(self, request: GroupRequest) -> Struct:
        """List what any process knows, each thing once."""
        answer = cast(ListConfigResourcesResponse, await self._usual(request))
        if answer.error_code:
            return answer
        resources = dict.fromkeys(answer.config_resources)
        for slot in tuple(self._member.other_slots()):
            try:
                other = await self._calls.ask(slot, request, request.message)
            except OwnerAway:
                continue  # others have its groups, or will
            resources |= dict.fromkeys(other.config_resources)
        return replace(answer, config_resources=tuple(resources))

    async def _list_own(self, request: GroupRequest) -> Struct:
        """List a group at the coordinator node of its owner only: clients ask every node, and not
        all remove what they get twice. Another gateway gets the groups that operators see here: the
        cluster may have others that no client has ever asked for."""
        if not request.upstream.is_at_coordinator_node:
            return ListGroupsResponse()
        answer = cast(ListGroupsResponse, await self._usual(request))
        own = [group for group in answer.groups if self._member.owns(group.group_id)]
        if request.header.client_id == FLEET_CLIENT_ID:
            known = await self._groups.views.all_ids()
            own = [group for group in own if group.group_id in known]
        return replace(answer, groups=tuple(own))

    async def _answer_batch(self, request: GroupRequest, message: Batch) -> Struct:
        """Answer for all groups: for those of other processes these are asked."""
        names_field, answered, make_refusal = BATCHES[type(message)]
        parts: dict[int, list[str]] = defaultdict(list)
        for name in dict.fromkeys(getattr(message, names_field)):
            parts[self._find_slot(name)].append(name)
        if not parts.keys() - {self._member.slot}:
            try:
                return await self._answer_here(request)
            except OwnerAway:
                parts = {_NOBODY: parts[self._member.slot]}
        groups: list[Struct] = []
        for slot, names in parts.items():
            part = cast(Struct, replace(cast(Any, message), **{names_field: tuple(names)}))
            try:
                groups += getattr(await self._ask(slot, request, part), answered)
            except OwnerAway:
                groups += [make_refusal(group_id=name, error_code=_AWAY) for name in names]
        response: Any = APIS[ApiKey(request.header.api_key)].response()
        return cast(Struct, replace(response, **{answered: tuple(groups)}))

    async def _delete_offsets(self, request: GroupRequest, message: OffsetDeleteRequest) -> Struct:
        try:
            slot = self._find_slot(message.group_id)
            return cast(Struct, await self._ask(slot, request, message))
        except OwnerAway:
            return refuse(message, request.header.api_version, RefusalReason.LOADING, AWAY)

    async def _fetch_offsets(self, request: GroupRequest, message: OffsetFetchRequest) -> Struct:
        """Answer for all groups: for those of other processes these are asked, unless a member
        fetches, who then looks for its coordinator."""
        version = request.header.api_version
        parts: dict[int, list[OffsetFetchRequestGroup]] = defaultdict(list)
        groups = groups_of(message, version)
        for group in groups:
            parts[self._find_slot(group.group_id)].append(group)
        if not parts.keys() - {self._member.slot}:
            try:
                return await self._answer_here(request)
            except OwnerAway:
                parts = {_NOBODY: parts[self._member.slot]}
        fetched: list[OffsetFetchResponseGroup] = []
        for slot, wanted in parts.items():
            fetchable = wanted
            if slot not in (self._member.slot, _NOBODY):
                fetchable = [group for group in wanted if not group.member_id]
                members = [group for group in wanted if group.member_id]
                fetched += [fail_group(group, _NOT_HERE, version) for group in members]
            if fetchable:
                fetched += await self._fetch_of(slot, request, message, fetchable)
        return response_of(tuple(fetched), version)

    async def _fetch_of(
        self,
        slot: int,
        request: GroupRequest,
        message: OffsetFetchRequest,
        groups: Sequence[OffsetFetchRequestGroup],
    ) -> Sequence[OffsetFetchResponseGroup]:
        """What the process of a slot answers about these groups of a request."""
        version = request.header.api_version
        has_batches = version >= FIRST_VERSION_WITH_BATCHES
        part = replace(message, groups=tuple(groups)) if has_batches else message
        try:
            answer = cast(OffsetFetchResponse, await self._ask(slot, request, part))
        except OwnerAway:
            return [fail_group(group, _AWAY, version) for group in groups]
        fetched = answer.groups
        if not has_batches:
            fetched = (answer_about(groups[0].group_id, answer),)
        # The owner of the groups does not know which topics are the gateway's own.
        lists_all = {group.group_id for group in groups if group.topics is None}
        return [
            without_private(request, group) if group.group_id in lists_all else group
            for group in fetched
        ]

    async def _ask(self, slot: int, request: GroupRequest, message: Struct) -> Any:
        """The answer to a message in place of the request's own, of this process or another one.
        Raises OwnerAway, BrokerLost."""
        if slot == _NOBODY:
            raise OwnerAway
        if slot == self._member.slot:
            return await self._answer_here(replace(request, message=message))
        return await self._calls.ask(slot, request, message)

    async def answer_owner_call(self, request: GroupRequest) -> Struct:
        """The answer to a request at another process, about groups that this one has. Raises
        OwnerAway if it does not serve them."""
        if not all(map(self._member.serves, _groups_in(request))):
            raise OwnerAway
        return await self._answer_here(request)

    def _find_slot(self, group_id: str) -> int:
        """The slot that has the group; `_NOBODY` if that is this one and it does not serve yet."""
        is_opening = self._member.owns(group_id) and not self._member.serves(group_id)
        return _NOBODY if is_opening else self._member.slot_of(group_id)

    async def _answer_here(self, request: GroupRequest) -> Struct:
        """The answer of this process to an admin client, which never learns by NOT_COORDINATOR
        that a group was given up meanwhile. Raises OwnerAway, BrokerLost."""
        try:
            answer: Any = await self._usual(request)
        except GroupRefused:
            raise OwnerAway from None
        for name in ("groups", "results", "responses"):
            if parts := getattr(answer, name, ()):
                hidden = tuple(self._hide_move(part, part) for part in parts)
                return cast(Struct, replace(answer, **{name: hidden}))
        return cast(Struct, self._hide_move(answer, request.message))

    def _hide_move(self, answer: Any, naming: Any) -> Any:
        """The answer about the group that `naming` names, without NOT_COORDINATOR if this process
        does not serve it any more."""
        if getattr(answer, "error_code", None) != ErrorCode.NOT_COORDINATOR:
            return answer
        group_id = getattr(naming, "group_id", None) or getattr(naming, "resource_name", None)
        if group_id is None or self._member.serves(group_id):
            return answer
        return replace(answer, error_code=_AWAY)

    async def _usual(self, request: GroupRequest) -> Struct:
        answer = super().answer(request)
        return answer if isinstance(answer, Struct) else await answer


def _groups_in(request: GroupRequest) -> Sequence[str]:
    """The groups that an admin request is about."""
    message = request.message
    if isinstance(message, OffsetDeleteRequest):
        return (message.group_id,)
    if isinstance(message, OffsetFetchRequest):
        return [group.group_id for group in groups_of(message, request.header.api_version)]
    if isinstance(message, Batch):
        return cast(Sequence[str], getattr(message, BATCHES[type(message)][0]))
    if isinstance(message, Configs):
        return [
            resource.resource_name
            for resource in message.resources
            if resource.resource_type == ConfigResourceType.GROUP
        ]
    return ()
