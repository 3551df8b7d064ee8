"""What admin tools ask: DescribeGroups, ConsumerGroupDescribe, ListGroups, DeleteGroups.

Hosted groups are answered from their engines, whatever their kind; the cluster is asked about the
others, on the client's own connection.
"""

from collections.abc import Iterable, Mapping

from coordinator.errors import ErrorCode
from coordinator.events import DeleteGroupReceived
from coordinator.replies import GroupView, MemberView
from coordinator.topics import Topics
from gateway.cluster.errors import UpstreamError
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.coordinators import Coordinators
from gateway.groups.forwarding import forward, highest_version
from gateway.groups.hosting import Mode
from gateway.groups.registry import Registry, TooManyGroups
from kafka_codecs import consumer_group_describe as described
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    MemberType,
)
from kafka_codecs.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

Views = dict[str, tuple[GroupView, Topics]]

# DescribeGroups v6 is the first that may say that a group is not there.
FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND = 6

# How a consumer group's states look to tools that know only the generic ones.
_GENERIC_STATES = {
    "Assigning": "PreparingRebalance",
    "Reconciling": "PreparingRebalance",
}


class AdminApis:
    """Views over all groups, hosted and not."""

    def __init__(self, registry: Registry, coordinators: Coordinators) -> None:
        self._registry = registry
        self._coordinators = coordinators

    async def describe_groups(
        self, request: GroupRequest, message: DescribeGroupsRequest
    ) -> DescribeGroupsResponse:
        """The classic view. Raises UpstreamLost.

        DEV (spec 11.3): a consumer group shows its members too, so that older dashboards keep
        working.
        """
        version = request.header.api_version
        views = await self._views(message.groups)
        others = _not_live(message.groups, views)
        groups = {group_id: _unknown_classic(group_id, version) for group_id in others}
        if others and highest_version(request.upstream, ApiKey.DESCRIBE_GROUPS) >= 0:
            asked = DescribeGroupsRequest(
                groups=others, include_authorized_operations=message.include_authorized_operations
            )
            answer: DescribeGroupsResponse = await forward(request, asked)
            groups |= {group.group_id: group for group in answer.groups}
        for group_id, (view, _) in views.items():
            if group_id not in groups or not groups[group_id].members:
                groups[group_id] = _classic_view(view)
        return DescribeGroupsResponse(groups=tuple(groups[each] for each in message.groups))

    async def describe_consumer_groups(
        self, request: GroupRequest, message: ConsumerGroupDescribeRequest
    ) -> ConsumerGroupDescribeResponse:
        """The view of the new protocol. Raises UpstreamLost."""
        views = await self._views(message.group_ids)
        others = _not_live(message.group_ids, views)
        groups = {group_id: _no_consumer_group(group_id) for group_id in others}
        if others and highest_version(request.upstream, ApiKey.CONSUMER_GROUP_DESCRIBE) >= 0:
            asked = ConsumerGroupDescribeRequest(
                group_ids=others,
                include_authorized_operations=message.include_authorized_operations,
            )
            answer: ConsumerGroupDescribeResponse = await forward(request, asked)
            groups |= {group.group_id: group for group in answer.groups}
        for group_id, (view, topics) in views.items():
            if group_id not in groups or not groups[group_id].members:
                groups[group_id] = _consumer_view(view, topics)
        return ConsumerGroupDescribeResponse(
            groups=tuple(groups[each] for each in message.group_ids)
        )

    async def list_groups(
        self, request: GroupRequest, message: ListGroupsRequest
    ) -> ListGroupsResponse:
        """The groups of this broker: the cluster's own, and in their place those that we host.

        Raises UpstreamLost.
        """
        listed: dict[str, ListedGroup] = {}
        error = int(ErrorCode.NONE)
        if (version := highest_version(request.upstream, ApiKey.LIST_GROUPS)) >= 0:
            answer: ListGroupsResponse = await request.upstream.ask(ListGroupsRequest(), version)
            listed = {group.group_id: group for group in answer.groups}
            error = answer.error_code
        views = [task.describe()[0] for task in self._registry.all_running()]
        views += [
            view
            for view in await self._registry.quiet()
            # Offsets only, or somebody of the cluster's own by now?
            if view.group_id not in listed or not listed[view.group_id].protocol_type
        ]
        for view in views:
            if view.group_type is not None and await self._is_here(view.group_id, request.node_id):
                listed[view.group_id] = ListedGroup(
                    group_id=view.group_id,
                    protocol_type=view.protocol_type,
                    group_state=view.state,
                    group_type=view.group_type,
                )
        passed = tuple(group for group in listed.values() if _passes(group, message))
        return ListGroupsResponse(error_code=error, groups=passed)

    async def delete_groups(
        self, request: GroupRequest, message: DeleteGroupsRequest
    ) -> DeleteGroupsResponse:
        """Delete what is empty, here and then in the cluster. Raises UpstreamLost."""
        refused: dict[str, int] = {}
        were_here: set[str] = set()
        for group_id in message.groups_names:
            if await self._views([group_id]):
                were_here.add(group_id)
            if code := await self._delete_here(group_id):
                refused[group_id] = code
        deletable = tuple(each for each in message.groups_names if each not in refused)
        deleted: dict[str, int] = {}
        if deletable:
            asked = DeleteGroupsRequest(groups_names=deletable)
            answer: DeleteGroupsResponse = await forward(request, asked)
            deleted = {result.group_id: result.error_code for result in answer.results}
        for group_id in were_here:
            # It had members but never an offset: the cluster has not heard of it.
            if deleted.get(group_id) == ErrorCode.GROUP_ID_NOT_FOUND:
                deleted[group_id] = ErrorCode.NONE
        codes = deleted | refused
        return DeleteGroupsResponse(
            results=tuple(
                DeletableGroupResult(group_id=each, error_code=codes[each])
                for each in message.groups_names
            )
        )

    async def _delete_here(self, group_id: str) -> ErrorCode:
        verdict = await self._registry.mode_of(group_id)
        if verdict.mode is Mode.UNKNOWN:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if verdict.mode is not Mode.HOSTED:
            return ErrorCode.NONE
        try:
            _token, reply = await self._registry.ask(
                group_id, lambda token, _topics: DeleteGroupReceived(token=token)
            )
        except TooManyGroups:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return reply.error

    async def _views(self, group_ids: Iterable[str]) -> Views:
        """The groups that are hosted now, or were and are empty."""
        views = {}
        for group_id in group_ids:
            view = await self._registry.view(group_id)
            if view is not None and view[0].group_type is not None:
                views[group_id] = view
        return views

    async def _is_here(self, group_id: str, node_id: int) -> bool:
        known = self._coordinators.last_known(group_id)
        if known is not None:
            return known == node_id  # no question to the cluster for each of thousands of groups
        try:
            return await self._coordinators.is_at(group_id, node_id)
        except UpstreamError:
            return True  # better shown twice than not at all


def _not_live(group_ids: Iterable[str], views: Views) -> tuple[str, ...]:
    """Those without members here: somebody may be in them in the cluster."""
    return tuple(each for each in group_ids if each not in views or not views[each][0].members)


def _passes(group: ListedGroup, message: ListGroupsRequest) -> bool:
    """Filters know no upper and lower case; an unknown value lets nothing pass (spec 3.14)."""
    states = {state.lower() for state in message.states_filter}
    types = {type_.lower() for type_ in message.types_filter}
    return (not states or group.group_state.lower() in states) and (
        not types or (group.group_type or "classic").lower() in types
    )


def _classic_view(view: GroupView) -> DescribedGroup:
    return DescribedGroup(
        group_id=view.group_id,
        group_state=_GENERIC_STATES.get(view.state, view.state),
        protocol_type=view.protocol_type,
        protocol_data=view.protocol or view.assignor,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment_bytes,
            )
            for member in view.members
        ),
    )


def _unknown_classic(group_id: str, version: int) -> DescribedGroup:
    if version < FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND:
        return DescribedGroup(group_id=group_id, group_state="Dead")
    return DescribedGroup(
        group_id=group_id,
        group_state="Dead",
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} not found.",
    )


def _consumer_view(view: GroupView, topics: Topics) -> described.DescribedGroup:
    if view.group_type != "consumer":
        return _no_consumer_group(view.group_id)
    return described.DescribedGroup(
        group_id=view.group_id,
        group_state=view.state,
        group_epoch=view.group_epoch,
        assignment_epoch=view.assignment_epoch,
        assignor_name=view.assignor,
        members=tuple(_consumer_member(member, topics) for member in view.members),
    )


def _no_consumer_group(group_id: str) -> described.DescribedGroup:
    return described.DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} is not a consumer group.",
    )


def _consumer_member(member: MemberView, topics: Topics) -> described.Member:
    return described.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assignment, topics),
        target_assignment=_assignment(member.target, topics),
        member_type=MemberType.CLASSIC if member.is_classic else MemberType.CONSUMER,
    )


def _assignment(named: Mapping[str, tuple[int, ...]], topics: Topics) -> described.Assignment:
    return described.Assignment(
        topic_partitions=tuple(
            described.TopicPartitions(
                topic_id=topics.by_name[name].topic_id, topic_name=name, partitions=numbers
            )
            for name, numbers in named.items()
        )
    )
