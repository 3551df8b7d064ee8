"""The admin apis: DescribeGroups, ConsumerGroupDescribe, ListGroups, DeleteGroups.

The engines answer for hosted groups, classic or consumer. The cluster answers for all other groups,
on the client's own connection.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import trio

from coordinator.interface.events import DeleteGroupReceived
from coordinator.interface.replies import GroupView
from coordinator.interface.topics import Topics
from gateway.batches import batches
from gateway.data_path.errors import BrokerLost
from gateway.data_path.grants import Resource
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.cluster_group_reader import is_unknown
from gateway.groups.group_drivers import GroupRefused
from gateway.groups.groups import Groups
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.identity import log_of
from gateway.hosting.states import Mode
from gateway.requests.answer_budget import AnswerBudget
from gateway.requests.authorization import refused_names
from gateway.requests.coordinators import Coordinators
from gateway.requests.forwarding import forward, highest_version
from gateway.requests.group_descriptions import (
    FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND,
    describe_classic,
    describe_consumer,
    topics_of,
    unknown_classic,
    unknown_consumer,
    with_hidden_topics,
)
from gateway.state_log.log import StateLogError
from kafka_codecs import consumer_group_describe as described
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_codecs.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
    encode_assignment,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.errors import WireError
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

AdminMessage = (
    DescribeGroupsRequest | ConsumerGroupDescribeRequest | ListGroupsRequest | DeleteGroupsRequest
)

FIRST_DESCRIBE_VERSION_WITH_OPERATIONS = 3
_CLASSIC = "classic"


UNREAD = (
    code_for(RefusalReason.LOADING, GroupApi.ADMIN),
    "the group cannot be read from the state log",
)

_G = TypeVar("_G", DescribedGroup, described.DescribedGroup)


@dataclass(slots=True)
class _Shown(Generic[_G]):
    """The gateway's own knowledge of the requested groups."""

    known: dict[str, _G] = field(default_factory=dict)
    """Groups in the state log or in memory, empty ones included."""
    live: set[str] = field(default_factory=set)
    """Groups with members in this gateway."""
    refused: dict[str, tuple[ErrorCode, str]] = field(default_factory=dict)

    async def withhold(self, request: GroupRequest) -> None:
        """Refuse the groups that the client may not describe, or may not while that is unknown."""
        code, reason = ErrorCode.GROUP_AUTHORIZATION_FAILED, ""
        try:
            withheld: Collection[str] = await refused_names(request, Resource.GROUP, self.known)
        except BrokerLost:
            withheld = tuple(self.known)
            code, reason = code_for(RefusalReason.BROKER_AWAY, GroupApi.ADMIN), "the broker is away"
        for group_id in withheld:
            del self.known[group_id]
            self.refused[group_id] = code, reason

    def not_live(self, group_ids: Iterable[str]) -> tuple[str, ...]:
        """Groups without members here; they may have members in the cluster."""
        return tuple(
            group_id
            for group_id in group_ids
            if group_id not in self.live and group_id not in self.refused
        )

    def forget(self, group_ids: Iterable[str]) -> None:
        """Leave out groups that exist no more."""
        for group_id in group_ids:
            self.known.pop(group_id, None)

    def add_to(self, groups: dict[str, _G]) -> None:
        """Show the known groups, except where the cluster has members."""
        for group_id, group in self.known.items():
            if group_id not in groups or not groups[group_id].members:
                groups[group_id] = group


class AdminApis:
    """Views over all groups, hosted and not."""

    def __init__(
        self,
        groups: Groups,
        coordinators: Coordinators,
        *,
        shows_members: bool,
    ) -> None:
        """`shows_members`: whether DescribeGroups lists the members of consumer groups."""
        self._groups = groups
        self._coordinators = coordinators
        self._shows_members = shows_members

    async def answer(self, request: GroupRequest, message: AdminMessage) -> Struct:
        """The answer to one request. Raises BrokerLost, GroupFailed."""
        match message:
            case DescribeGroupsRequest():
                return await self._describe_groups(request, message)
            case ConsumerGroupDescribeRequest():
                return await self._describe_consumer_groups(request, message)
            case ListGroupsRequest():
                return await self._list_groups(request, message)
            case DeleteGroupsRequest():
                return await self._delete_groups(request, message)

    async def _describe_groups(
        self, request: GroupRequest, message: DescribeGroupsRequest
    ) -> DescribeGroupsResponse:
        """Describe groups of either kind as classic groups.

        DEV D44: the members of a consumer group are listed too, so that older dashboards keep
        working.
        """
        budget = AnswerBudget(request.hold)
        groups: list[DescribedGroup] = []
        for wanted in batches(tuple(dict.fromkeys(message.groups))):
            groups += await self._described_groups(request, message, wanted, budget)
        return DescribeGroupsResponse(groups=tuple(groups))

    async def _described_groups(
        self,
        request: GroupRequest,
        message: DescribeGroupsRequest,
        wanted: Sequence[str],
        budget: AnswerBudget,
    ) -> list[DescribedGroup]:
        version = request.header.api_version
        shown = await self._show(
            wanted, lambda view, _: self._describe_classic(view, version), budget
        )
        await shown.withhold(request)
        others = shown.not_live(wanted)
        groups = {group_id: unknown_classic(group_id, version) for group_id in others}
        highest = highest_version(request.upstream, ApiKey.DESCRIBE_GROUPS)
        if others and highest >= 0:
            question = DescribeGroupsRequest(
                groups=others,
                include_authorized_operations=(
                    message.include_authorized_operations
                    and highest >= FIRST_DESCRIBE_VERSION_WITH_OPERATIONS
                ),
            )
            answer: DescribeGroupsResponse = await forward(request, question)
            shown.forget(self._deleted_beside(answer))
            # A broker older than v6 reports an unknown group as Dead instead of an error.
            groups |= {
                group.group_id: _without_private(request, self._without_anchor(group))
                for group in answer.groups
                if group.error_code or not _is_dead(group)
            }
        if message.include_authorized_operations:
            await add_operations(request, shown.known)
        shown.add_to(groups)
        for group_id, (code, reason) in shown.refused.items():
            groups[group_id] = DescribedGroup(
                group_id=group_id,
                error_code=code,
                error_message=reason if version >= FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND else None,
            )
        return [groups[group_id] for group_id in wanted]

    def _describe_classic(self, view: GroupView, version: int) -> DescribedGroup:
        if view.group_type == "consumer" and not self._shows_members:
            return unknown_classic(
                view.group_id, version, f"Group {view.group_id} is not a classic group."
            )
        return describe_classic(view)

    async def _describe_consumer_groups(
        self, request: GroupRequest, message: ConsumerGroupDescribeRequest
    ) -> ConsumerGroupDescribeResponse:
        """Describe consumer groups."""
        budget = AnswerBudget(request.hold)
        groups: list[described.DescribedGroup] = []
        for wanted in batches(tuple(dict.fromkeys(message.group_ids))):
            groups += await self._described_consumer_groups(request, message, wanted, budget)
        return ConsumerGroupDescribeResponse(groups=tuple(groups))

    async def _described_consumer_groups(
        self,
        request: GroupRequest,
        message: ConsumerGroupDescribeRequest,
        wanted: Sequence[str],
        budget: AnswerBudget,
    ) -> list[described.DescribedGroup]:
        shown = await self._show(wanted, describe_consumer, budget)
        await shown.withhold(request)
        topics = {name for group in shown.known.values() for name in topics_of(group)}
        if hidden := await refused_names(request, Resource.TOPIC, topics):
            for group_id, group in shown.known.items():
                if not hidden.isdisjoint(topics_of(group)):
                    shown.known[group_id] = with_hidden_topics(group_id)
        others = shown.not_live(wanted)
        groups = {group_id: unknown_consumer(group_id) for group_id in others}
        describe_groups = highest_version(request.upstream, ApiKey.DESCRIBE_GROUPS)
        empty = tuple(group_id for group_id in others if group_id in shown.known)
        if empty and describe_groups >= 0:
            # ConsumerGroupDescribe does not distinguish a group without members from none.
            descriptions: DescribeGroupsResponse = await request.upstream.ask(
                DescribeGroupsRequest(groups=empty), describe_groups
            )
            shown.forget(self._deleted_beside(descriptions))
        if others and highest_version(request.upstream, ApiKey.CONSUMER_GROUP_DESCRIBE) >= 0:
            question = ConsumerGroupDescribeRequest(
                group_ids=others,
                include_authorized_operations=message.include_authorized_operations,
            )
            answer: ConsumerGroupDescribeResponse = await forward(request, question)
            # A broker may list the api although the protocol is switched off, as Kafka 3.9 does.
            # Tools then ask DescribeGroups, as for every group that is not of the new protocol.
            groups |= {
                group.group_id: group
                for group in answer.groups
                if group.error_code != ErrorCode.UNSUPPORTED_VERSION
            }
        if message.include_authorized_operations:
            await add_operations(request, shown.known)
        shown.add_to(groups)
        for group_id, (code, reason) in shown.refused.items():
            groups[group_id] = described.DescribedGroup(
                group_id=group_id, error_code=code, error_message=reason
            )
        return [groups[group_id] for group_id in wanted]

    async def _list_groups(
        self, request: GroupRequest, message: ListGroupsRequest
    ) -> ListGroupsResponse:
        """List the cluster's groups on this broker, and hosted groups in place of theirs."""
        listed: dict[str, ListedGroup] = {}
        error = int(ErrorCode.NONE)
        if (version := highest_version(request.upstream, ApiKey.LIST_GROUPS)) >= 0:
            answer: ListGroupsResponse = await request.upstream.ask(ListGroupsRequest(), version)
            # A cluster before v5 has no other groups.
            listed = {
                group.group_id: replace(group, group_type=group.group_type or _CLASSIC)
                for group in answer.groups
            }
            error = answer.error_code
        is_complete = version >= 0 and not error
        try:
            ours = await self._groups.views.group_ids()
            listed |= await self._without_anchors(request, listed, ours)
            unlisted = [group_id for group_id in ours if group_id not in listed]
            only_here = await self._only_here(unlisted, request.node_id)
            only_here -= await refused_names(request, Resource.GROUP, only_here)
            for group_id in ours:
                await trio.lowlevel.checkpoint()  # the list may have thousands of groups
                theirs = listed.get(group_id)
                if theirs is None and group_id not in only_here:
                    continue
                listing = await self._list_group(group_id)
                if listing is None or _is_live(theirs, beside=listing):
                    continue
                if theirs is None and is_complete and listing.group_state == "Empty":
                    continue  # it was deleted in the cluster, or its offsets have expired there
                listed[group_id] = listing
        except StateLogError:
            error = code_for(RefusalReason.LOADING, GroupApi.ADMIN)
        passed = tuple(group for group in listed.values() if _passes(group, message))
        return ListGroupsResponse(error_code=error, groups=passed)

    async def _list_group(self, group_id: str) -> ListedGroup | None:
        view = await self._groups.views.summary(group_id)
        if view is None:
            return None
        return ListedGroup(
            group_id=group_id,
            protocol_type=view.protocol_type,
            group_state=view.state,
            group_type=view.group_type or _CLASSIC,
        )

    async def _delete_groups(
        self, request: GroupRequest, message: DeleteGroupsRequest
    ) -> DeleteGroupsResponse:
        """Delete empty groups, first here and then in the cluster."""
        results: list[DeletableGroupResult] = []
        for wanted in batches(tuple(dict.fromkeys(message.groups_names))):
            results += await self._deleted_groups(request, wanted)
        return DeleteGroupsResponse(results=tuple(results))

    async def _deleted_groups(
        self, request: GroupRequest, wanted: Sequence[str]
    ) -> list[DeletableGroupResult]:
        decisions = await self._groups.router.find_decisions(wanted, request.owner)
        results: dict[str, DeletableGroupResult] = {}
        known, held = set(), set()
        for group_id in wanted:
            await trio.lowlevel.checkpoint()  # the request may name thousands of groups
            try:
                if await self._groups.drivers.knows(group_id):
                    known.add(group_id)
            except StateLogError:
                results[group_id] = _refuse_deletion(group_id, *UNREAD)
                continue
            if decisions[group_id].has_anchor or self._groups.drivers.is_held(group_id):
                held.add(group_id)
        for group_id in await refused_names(request, Resource.GROUP, known | held):
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            results[group_id] = _refuse_deletion(group_id, code, None)
        for group_id in wanted:
            if group_id not in results:
                decision, is_known = decisions[group_id], group_id in known
                code, reason = await self._delete_here(group_id, decision, is_known=is_known)
                if code:
                    results[group_id] = _refuse_deletion(group_id, code, reason)
        deletable = tuple(group_id for group_id in wanted if group_id not in results)
        if deletable:
            question = DeleteGroupsRequest(groups_names=deletable)
            answer: DeleteGroupsResponse = await forward(request, question)
            results |= {result.group_id: result for result in answer.results}
        for group_id in known.intersection(deletable):
            code_of_deletion = results[group_id].error_code
            # Once its anchor has left, the cluster does not know a group that never committed.
            if code_of_deletion == ErrorCode.GROUP_ID_NOT_FOUND and group_id in held:
                results[group_id] = DeletableGroupResult(group_id=group_id)
            if code_of_deletion in {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}:
                await self._forget_here(group_id)
        return [results[group_id] for group_id in wanted]

    async def _delete_here(
        self, group_id: str, decision: RoutingDecision, *, is_known: bool
    ) -> tuple[ErrorCode, str]:
        """Delete the group here. Returns the error, or NONE if the cluster may delete it too."""
        if decision.mode is Mode.UNKNOWN:
            return code_for(RefusalReason.HOLDER_UNKNOWN, GroupApi.ADMIN), decision.reason
        if decision.mode is not Mode.HOSTED:
            return ErrorCode.NONE, ""
        try:
            if is_known:
                reply = await self._groups.drivers.ask(
                    group_id, lambda token, _topics: DeleteGroupReceived(token=token)
                )
                if reply.error:
                    return reply.error, reply.reason
            if decision.has_anchor or self._groups.drivers.is_held(group_id):
                await self._groups.drivers.drop_anchor(group_id)
        except GroupRefused as error:
            return code_for(error.cause, GroupApi.ADMIN), error.reason
        return ErrorCode.NONE, ""

    def _deleted_beside(self, answer: DescribeGroupsResponse) -> Iterable[str]:
        """The groups that were deleted in the cluster, or whose offsets have expired there: Dead as
        in Kafka, though the state log still has them. While an anchor joins, that is unknown."""
        return (
            group.group_id
            for group in answer.groups
            if is_unknown(group) and not self._groups.drivers.is_held(group.group_id)
        )

    async def _forget_here(self, group_id: str) -> None:
        """Delete what is left here of a group that the cluster served and has deleted."""
        with suppress(GroupRefused, StateLogError):
            if await self._groups.drivers.knows(group_id):
                await self._groups.drivers.ask(
                    group_id, lambda token, _topics: DeleteGroupReceived(token=token)
                )

    def _without_anchor(self, group: DescribedGroup) -> DescribedGroup:
        """Hide our anchor: the group is shown as an empty consumer group. Another gateway's anchor
        is shown as the cluster reports it."""
        if log_of(group) is None or not self._is_empty(group):
            return group
        return DescribedGroup(
            group_id=group.group_id,
            group_state="Empty",
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            authorized_operations=group.authorized_operations,
        )

    def _is_empty(self, group: DescribedGroup) -> bool:
        return (
            not group.members
            or self._groups.drivers.is_held(group.group_id)
            or self._groups.drivers.is_ours(group)
        )

    async def _without_anchors(
        self, request: GroupRequest, listed: Mapping[str, ListedGroup], ours: Iterable[str]
    ) -> dict[str, ListedGroup]:
        """The groups of a list that are empty apart from our anchors, shown as such. ListGroups
        does not say whether an anchor holds a group, so the cluster describes those groups in our
        log that have members in the cluster and none here: an earlier process may have left an
        anchor behind."""
        empty, unsure = [], []
        for group_id in set(ours) & listed.keys():
            if self._groups.drivers.is_live(group_id):
                continue
            if listed[group_id].group_state == "Empty" or self._groups.drivers.is_held(group_id):
                empty.append(group_id)
            elif listed[group_id].protocol_type == CONSUMER_PROTOCOL_TYPE:
                unsure.append(group_id)
        version = highest_version(request.upstream, ApiKey.DESCRIBE_GROUPS)
        for batch in batches(unsure):
            answer: DescribeGroupsResponse = await request.upstream.ask(
                DescribeGroupsRequest(groups=tuple(batch)), version
            )
            empty += [
                group.group_id
                for group in answer.groups
                if not group.error_code and self._is_empty(group)
            ]
        return {
            group_id: replace(
                listed[group_id], protocol_type=CONSUMER_PROTOCOL_TYPE, group_state="Empty"
            )
            for group_id in empty
        }

    async def _show(
        self,
        group_ids: Iterable[str],
        show: Callable[[GroupView, Topics], _G],
        budget: AnswerBudget,
    ) -> _Shown[_G]:
        shown = _Shown[_G]()
        for group_id in group_ids:
            await trio.lowlevel.checkpoint()  # the request may name thousands of groups
            if budget.refusal is not None:
                shown.refused[group_id] = budget.refusal
                continue
            try:
                viewed = await self._groups.views.view(group_id)
            except StateLogError:
                shown.refused[group_id] = UNREAD
                continue
            if viewed is None:
                continue
            group = show(*viewed)
            budget.take(group)
            if budget.refusal is not None:
                shown.refused[group_id] = budget.refusal
                continue
            shown.known[group_id] = group
            if viewed[0].members:
                shown.live.add(group_id)
        return shown

    async def _only_here(self, unlisted: Iterable[str], node_id: int) -> frozenset[str]:
        """Choose the groups to add to this broker's list, out of those that the cluster leaves out
        because it has never heard of them.

        A group belongs in the list of its coordinator; an unknown coordinator puts it in every
        broker's list, because twice is better than never. The listener that holds a group's anchor
        lists it already, so anchored groups are skipped.
        """
        homeless = [group_id for group_id in unlisted if not self._groups.drivers.is_held(group_id)]
        nodes = await self._coordinators.nodes_of(homeless)
        return frozenset(
            group_id for group_id in homeless if nodes.get(group_id, node_id) == node_id
        )


def _refuse_deletion(group_id: str, code: ErrorCode, reason: str | None) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=reason)


def _without_private(request: GroupRequest, group: DescribedGroup) -> DescribedGroup:
    """The group without what its members have of the gateway's topics, which they read directly
    from the cluster: tools ask for the ends of all partitions, and give up at a refusal."""
    private = request.private_names
    if not private or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return group

    def public_part(assignment: bytes) -> bytes:
        if not private.may_be_in(assignment):
            return assignment
        try:
            version, decoded = decode_assignment(assignment)
        except WireError:
            return assignment
        assigned = decoded.assigned_partitions
        public = tuple(entry for entry in assigned if not private.has_topic(entry.topic))
        return encode_assignment(replace(decoded, assigned_partitions=public), version)

    members = tuple(
        replace(member, member_assignment=public_part(member.member_assignment))
        for member in group.members
    )
    return replace(group, members=members)


def _is_dead(group: DescribedGroup) -> bool:
    return group.group_state == "Dead"


def _is_live(theirs: ListedGroup | None, *, beside: ListedGroup) -> bool:
    """Whether the group continued in the cluster after it became empty here. Only a group with
    members has a protocol type there; a group with offsets alone has none. Old brokers do not list
    states, hence the second check."""
    return (
        theirs is not None
        and beside.group_state == "Empty"
        and theirs.group_state not in ("Empty", "Dead")
        and bool(theirs.protocol_type)
    )


def _passes(group: ListedGroup, message: ListGroupsRequest) -> bool:
    """Filters ignore case, and an unknown value matches no group (rule 3.14)."""
    states = {state.lower() for state in message.states_filter}
    types = {type_.lower() for type_ in message.types_filter}
    return (not states or group.group_state.lower() in states) and (
        not types or group.group_type.lower() in types
    )


async def add_operations(request: GroupRequest, groups: dict[str, _G]) -> None:
    """Add the client's authorized operations to hosted groups. The cluster knows them, and is asked
    on the client's own connection; without its answer they stay omitted."""
    wanted = tuple(group_id for group_id, group in groups.items() if not group.error_code)
    version = highest_version(request.upstream, ApiKey.DESCRIBE_GROUPS)
    if not wanted or version < FIRST_DESCRIBE_VERSION_WITH_OPERATIONS:
        return
    question = DescribeGroupsRequest(groups=wanted, include_authorized_operations=True)
    # From v6 on, the error for an unknown group has no operations.
    version = min(version, FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND - 1)
    try:
        answer: DescribeGroupsResponse = await request.upstream.ask(question, version)
    except BrokerLost:
        return
    for group in answer.groups:
        if group.group_id in groups and not group.error_code:
            groups[group.group_id] = replace(
                groups[group.group_id], authorized_operations=group.authorized_operations
            )
