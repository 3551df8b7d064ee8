"""Admin requests about groups of other gateways, in a fleet that runs on several machines.

Another process of the machine is asked as in `owner_calls`. A gateway elsewhere is asked at its
coordinator node, as by any Kafka client, with the gateway's own user. So what the client may see
and do is found out here first, on the client's own connection, and no refusal of the gateway's own
user is taken for one of the client. Committed offsets are the cluster's, which answers on the
client's own connection.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.data_path.grants import Resource
from gateway.data_path.group_apis import GroupRequest
from gateway.fleet.member import coordinator_id
from gateway.fleet.seated_member import FLEET_CLIENT_ID, SeatedMember
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.requests.admin_apis import add_operations
from gateway.requests.answer_budget import AnswerBudget
from gateway.requests.authorization import refused_names
from gateway.requests.config_apis import listable, refuse_configs
from gateway.requests.group_batches import BATCHES, CONFIGS, Batch, Configs
from gateway.requests.group_descriptions import topics_of, with_hidden_topics
from gateway.requests.offset_delete import delete_allowed
from gateway.requests.offset_fetch import fetch_from_cluster
from gateway.requests.owner_calls import (
    AWAY,
    CALLS_MAX,
    OwnerAway,
    OwnerCalls,
)
from gateway.requests.zookeeper_offsets import FIRST_VERSION_IN_KAFKA
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_configs import ConfigResourceType
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka_codecs.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_codecs.offset_fetch import OffsetFetchRequest

ANSWER_S = 10.0
"""How long a gateway elsewhere may take to answer, the connection included."""

_AWAY = code_for(RefusalReason.LOADING, GroupApi.ADMIN)
_NOT_FOR_CLIENTS = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors about the gateway's own user, or its question. The client gets a retriable one."""


class MachineCalls:
    """Asks the other processes of this machine, and gateways elsewhere."""

    def __init__(self, member: SeatedMember, folder: Path | None, access: Access) -> None:
        """`folder`: the state folder of all processes of this machine; None for a single one.
        `access`: that of the gateway's own user to other gateways."""
        self._member, self._access = member, access
        self._processes = None if folder is None else OwnerCalls(folder)
        self._places = trio.CapacityLimiter(CALLS_MAX)

    async def ask(self, slot: int, request: GroupRequest, message: Struct) -> Any:
        """See `OwnerAsker`."""
        process = self._member.process_in(slot)
        if process is not None and self._processes is not None:
            return await self._processes.ask(process, request, message)
        # Who is asked by a gateway does not ask on: two might each take the other for the owner.
        if request.header.client_id == FLEET_CLIENT_ID:
            raise OwnerAway
        match message:
            case OffsetFetchRequest() if request.header.api_version >= FIRST_VERSION_IN_KAFKA:
                return await fetch_from_cluster(request, message)
            case OffsetDeleteRequest():
                return await self._delete_offsets(slot, request, message)
            case _ if isinstance(message, Batch):
                return await self._answer_batch(slot, request, message)
            case _ if isinstance(message, Configs):
                return await self._answer_configs(slot, request, message)
            case ListConfigResourcesRequest():
                return await self._list_config_resources(slot, request, message)
            case _:
                raise OwnerAway

    async def _delete_offsets(
        self, slot: int, request: GroupRequest, message: OffsetDeleteRequest
    ) -> OffsetDeleteResponse:
        if await refused_names(request, Resource.GROUP, (message.group_id,)):
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

        async def delete(allowed: OffsetDeleteRequest) -> OffsetDeleteResponse:
            answer: OffsetDeleteResponse = await self._ask_elsewhere(slot, request, allowed)
            codes = [part.error_code for topic in answer.topics for part in topic.partitions]
            if not _NOT_FOR_CLIENTS.isdisjoint((answer.error_code, *codes)):
                raise OwnerAway
            return answer

        return await delete_allowed(request, message, delete)

    async def _answer_batch(self, slot: int, request: GroupRequest, message: Batch) -> Struct:
        names_field, answered, make_refusal = BATCHES[type(message)]
        names = cast(tuple[str, ...], getattr(message, names_field))
        refused = await refused_names(request, Resource.GROUP, names)
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        groups: dict[str, Any] = {
            name: make_refusal(group_id=name, error_code=code) for name in refused
        }
        if allowed := tuple(name for name in names if name not in refused):
            part: Any = replace(cast(Any, message), **{names_field: allowed})
            if not isinstance(part, DeleteGroupsRequest):
                part = replace(part, include_authorized_operations=False)
            answer = await self._ask_elsewhere(slot, request, part)
            budget = AnswerBudget(request.hold)
            for group in getattr(answer, answered):
                budget.take(group)
                is_ours = group.error_code not in _NOT_FOR_CLIENTS and budget.refusal is None
                code = _AWAY if budget.refusal is None else budget.refusal[0]
                refusal = make_refusal(group_id=group.group_id, error_code=code)
                groups[group.group_id] = group if is_ours else refusal
        if groups.keys() != set(names):
            raise OwnerAway
        if isinstance(message, ConsumerGroupDescribeRequest):
            await _hide_topics(request, groups)
        if not isinstance(message, DeleteGroupsRequest) and message.include_authorized_operations:
            await add_operations(request, groups)
        response: Any = APIS[ApiKey(request.header.api_key)].response()
        return cast(Struct, replace(response, **{answered: tuple(groups[name] for name in names)}))

    async def _answer_configs(self, slot: int, request: GroupRequest, message: Configs) -> Struct:
        answered = CONFIGS[type(message)][0]
        resources: Sequence[Any] = message.resources
        names = [resource.resource_name for resource in resources if resource.resource_name]
        refused = await refused_names(request, Resource.GROUP, names)
        results: list[Any] = [
            refuse_configs(message, resource, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for resource in resources
            if resource.resource_name in refused
        ]
        allowed = tuple(one for one in resources if one.resource_name not in refused)
        if allowed:
            part: Any = replace(cast(Any, message), resources=allowed)
            answer = await self._ask_elsewhere(slot, request, part)
            budget = AnswerBudget(request.hold)
            for result in getattr(answer, answered):
                budget.take(result)
                is_ours = result.error_code not in _NOT_FOR_CLIENTS and budget.refusal is None
                refusal = (_AWAY, AWAY) if budget.refusal is None else budget.refusal
                results.append(result if is_ours else refuse_configs(message, result, *refusal))
        response: Any = APIS[ApiKey(request.header.api_key)].response()
        return cast(Struct, replace(response, **{answered: tuple(results)}))

    async def _list_config_resources(
        self, slot: int, request: GroupRequest, message: ListConfigResourcesRequest
    ) -> ListConfigResourcesResponse:
        answer: ListConfigResourcesResponse = await self._ask_elsewhere(slot, request, message)
        groups = (
            resource
            for resource in answer.config_resources
            if resource.resource_type == ConfigResourceType.GROUP
        )
        return replace(answer, config_resources=tuple(await listable(request, groups)))

    async def _ask_elsewhere(self, slot: int, request: GroupRequest, message: Struct) -> Any:
        """What the gateway with this slot answers. Raises OwnerAway."""
        address = self._member.address_of(coordinator_id(slot, request.node_id))
        if address is None:
            raise OwnerAway
        key, version, place = ApiKey(request.header.api_key), request.header.api_version, object()
        try:
            self._places.acquire_on_behalf_of_nowait(place)
        except trio.WouldBlock:
            raise OwnerAway from None
        try:
            with trio.fail_after(ANSWER_S):
                async with await BrokerConnection.open(
                    *address, access=self._access, client_id=FLEET_CLIENT_ID
                ) as connection:
                    low, high = connection.versions.get(key, (0, -1))
                    if not low <= version <= high:
                        raise OwnerAway
                    return await connection.ask(message, version)
        except (UpstreamError, trio.TooSlowError):
            raise OwnerAway from None
        finally:
            self._places.release_on_behalf_of(place)


async def _hide_topics(request: GroupRequest, groups: dict[str, Any]) -> None:
    """Hide the groups with topics that the client may not describe."""
    topics = {name for group in groups.values() for name in topics_of(group)}
    if hidden := await refused_names(request, Resource.TOPIC, topics):
        for group_id, group in groups.items():
            if not hidden.isdisjoint(topics_of(group)):
                groups[group_id] = with_hidden_topics(group_id)
