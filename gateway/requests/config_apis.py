"""The config apis: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

The engines answer for the configs of hosted groups. The cluster answers for all other resources and
for its own groups, on the client's own connection. One request may name both.

A name that no group has yet may become one of a share group or a streams group. The configs of
these kinds are always the cluster's, and every group has them.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar

import structlog
import trio

from coordinator.handlers.group_configs import KEYS
from coordinator.interface.errors import GroupError
from coordinator.interface.events import ConfigChange, ConfigOperation, ConfigsReceived
from coordinator.interface.replies import ConfigView, Reply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.batches import batches
from gateway.data_path.config_addresses import (
    altered_without_addresses,
    described_without_addresses,
)
from gateway.data_path.grants import Resource
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.group_drivers import GroupRefused
from gateway.groups.groups import Groups
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.hosting.states import Mode
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal, ShareRule
from gateway.requests.admin_apis import UNREAD
from gateway.requests.answer_budget import AnswerBudget
from gateway.requests.authorization import refused_names
from gateway.requests.forwarding import forward, highest_version
from gateway.requests.group_batches import CONFIGS, Configs
from gateway.state_log.log import StateLogError
from kafka_codecs import alter_configs
from kafka_codecs import incremental_alter_configs as incremental
from kafka_codecs.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_codecs.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

log = structlog.get_logger()

ConfigMessage = (
    DescribeConfigsRequest
    | AlterConfigsRequest
    | IncrementalAlterConfigsRequest
    | ListConfigResourcesRequest
)

FIRST_DESCRIBE_VERSION_WITH_DOCUMENTATION = 3
# Before v1 a request names no types, and the answer lists client metrics only.
FIRST_LIST_VERSION_WITH_TYPES = 1

CONFIGS_ALONE_MAX = 1_000
"""Groups that do not exist yet but whose configs are stored; see also `forgetting`."""

_OPERATIONS = {
    incremental.ConfigOperation.SET: ConfigOperation.SET,
    incremental.ConfigOperation.DELETE: ConfigOperation.DELETE,
    incremental.ConfigOperation.APPEND: ConfigOperation.APPEND,
    incremental.ConfigOperation.SUBTRACT: ConfigOperation.SUBTRACT,
}

_OTHER_KINDS = ("share.", "streams.", "errors.")
"""The prefixes of configs that the cluster has for every group. The "errors" are those of share
groups (KIP-1191)."""

_Resource = (
    DescribeConfigsResource | alter_configs.AlterConfigsResource | incremental.AlterConfigsResource
)
_Key = tuple[int, str]
_R = TypeVar("_R", DescribeConfigsResource, incremental.AlterConfigsResource)
_T = TypeVar("_T", DescribeConfigsResult, AlterConfigsResourceResponse)


class ConfigApis:
    """Configs of groups and, through the cluster, of all other resources."""

    def __init__(self, groups: Groups, names: ShareRule) -> None:
        self._groups = groups
        self._alone = SharedTotal(CONFIGS_ALONE_MAX, names)
        """The groups that do not exist but have configs."""
        self._counted: dict[str, QuotaKey | None] = {}
        """These groups, and who has stored the configs; None if that was before the start."""
        self._under_way: set[str] = set()
        """The groups whose first config is being stored."""

    async def answer(self, request: GroupRequest, message: ConfigMessage) -> Struct:
        """The answer to one request. Raises BrokerLost, GroupFailed."""
        match message:
            case DescribeConfigsRequest():
                return await self._describe(request, message)
            case AlterConfigsRequest():
                groups = [
                    _as_incremental(resource)
                    for resource in message.resources
                    if _is_group(resource) and not _is_of_other_kinds(resource)
                ]
                altered = await self._alter(request, message, groups)
                return AlterConfigsResponse(responses=altered)
            case IncrementalAlterConfigsRequest():
                groups = [
                    resource for resource in message.resources if not _is_of_other_kinds(resource)
                ]
                altered = await self._alter(request, message, groups)
                return IncrementalAlterConfigsResponse(responses=altered)
            case ListConfigResourcesRequest():
                return await self._list(request, message)

    async def _describe(
        self, request: GroupRequest, message: DescribeConfigsRequest
    ) -> DescribeConfigsResponse:
        budget = AnswerBudget(request.hold)
        results: list[DescribeConfigsResult] = []
        each_once = {_key(resource): resource for resource in message.resources}.values()
        for batch in batches(tuple(each_once)):
            results += await self._describe_batch(
                request, replace(message, resources=batch), budget
            )
        return DescribeConfigsResponse(results=tuple(results))

    async def _describe_batch(
        self, request: GroupRequest, message: DescribeConfigsRequest, budget: AnswerBudget
    ) -> tuple[DescribeConfigsResult, ...]:
        entries = cache(partial(_entry, message=message))  # most groups have the same configs

        async def describe(resource: DescribeConfigsResource) -> DescribeConfigsResult:
            if budget.refusal is not None:
                raise GroupError(*budget.refusal)
            views = await self._groups.views.configs(resource.resource_name)
            wanted = resource.configuration_keys or KEYS
            result = DescribeConfigsResult(
                error_message="",  # not null, as in Kafka
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=tuple(entries(view) for view in views if view.name in wanted),
            )
            budget.take(result)
            if budget.refusal is not None:
                raise GroupError(*budget.refusal)
            return result

        empty_name_reason = "Group name must not be empty"
        ours = await self._answer_hosted(
            request, message.resources, describe, _refuse_description, empty_name_reason
        )
        forwarded = tuple(
            resource
            for resource in message.resources
            if (result := ours.get(_key(resource))) is None or not result.error_code
        )
        version = highest_version(request.upstream, ApiKey.DESCRIBE_CONFIGS)
        theirs: dict[_Key, DescribeConfigsResult] = {}
        if forwarded and version >= 0:
            documented = version >= FIRST_DESCRIBE_VERSION_WITH_DOCUMENTATION
            question = replace(
                message,
                resources=forwarded,
                include_documentation=message.include_documentation and documented,
            )
            answer: DescribeConfigsResponse = await forward(request, question)
            theirs = {
                _key(result): described_without_addresses(result) for result in answer.results
            }
        hosted = {
            key: _with_other_kinds(result, theirs[key]) if key in theirs else result
            for key, result in ours.items()
        }
        return _in_order(message.resources, theirs | hosted, _refuse_description)

    async def _alter(
        self,
        request: GroupRequest,
        message: AlterConfigsRequest | IncrementalAlterConfigsRequest,
        groups: Sequence[incremental.AlterConfigsResource],
    ) -> tuple[AlterConfigsResourceResponse, ...]:
        counts = Counter(map(_key, message.resources))

        async def alter(resource: incremental.AlterConfigsResource) -> AlterConfigsResourceResponse:
            if counts[_key(resource)] > 1:
                reason = "Each resource must appear at most once."
                raise GroupError(ErrorCode.INVALID_REQUEST, reason)
            if any(_is_of_other_kind(config.name) for config in resource.configs):
                reason = "configs of share and streams groups are the cluster's: change them alone"
                raise GroupError(ErrorCode.INVALID_REQUEST, reason)
            event = ConfigsReceived(
                token=0, changes=_changes(resource), validate_only=message.validate_only
            )
            reply = await self._change(resource.resource_name, event, request.owner)
            return _report_alteration(resource, reply.error, reply.reason)

        with suppress(StateLogError):  # then the latest count is good enough
            await self._count_alone()
        empty_name_reason = "Default group resources are not allowed."
        ours = await self._answer_hosted(
            request, groups, alter, _report_alteration, empty_name_reason
        )
        others = tuple(resource for resource in message.resources if _key(resource) not in ours)
        theirs: dict[_Key, AlterConfigsResourceResponse] = {}
        if others and highest_version(request.upstream, ApiKey(request.header.api_key)) >= 0:
            plain: Any = message  # the resources are of the same api as the message
            answer: AlterConfigsResponse | IncrementalAlterConfigsResponse = await forward(
                request, replace(plain, resources=others)
            )
            theirs = {
                _key(response): altered_without_addresses(response) for response in answer.responses
            }
        return _in_order(message.resources, theirs | ours, _report_alteration)

    async def _count_alone(self) -> None:
        """Count the groups that do not exist but have configs: once per request, not per name."""
        alone = await self._groups.views.configs_alone()
        for group_id in self._counted.keys() - alone - self._under_way:
            self._alone.free(self._counted.pop(group_id))
        for group_id in alone - self._counted.keys():
            self._count(group_id, None)

    def _count(self, group_id: str, owner: QuotaKey | None) -> None:
        self._counted[group_id] = owner
        self._alone.take(owner)

    async def _change(self, group_id: str, event: ConfigsReceived, owner: QuotaKey) -> Reply:
        """Change configs of one group. What changes nothing, or is refused, takes no driver.

        Raises GroupError with INVALID_REQUEST if configs of too many groups that do not exist are
        stored, in total or by this owner since the start. DEV D58: Kafka has no such limit and
        keeps the configs for good.
        """
        is_new = group_id not in self._counted and not await self._groups.drivers.knows(group_id)
        if is_new and not self._alone.has_room(owner):
            reason = f"configs of {self._alone.used} groups that do not exist are stored already"
            raise GroupError(ErrorCode.INVALID_REQUEST, reason)

        def make(token: Token, _topics: Topics) -> ConfigsReceived:
            return replace(event, token=token)

        reply = await self._groups.router.decide_from_log(group_id, make)
        if reply is not None and (reply.error or event.validate_only):
            return reply
        if is_new:
            self._count(group_id, owner)
        self._under_way.add(group_id)
        try:
            return await self._groups.drivers.ask(group_id, make, owner=owner)
        finally:
            self._under_way.discard(group_id)

    async def _answer_hosted(
        self,
        request: GroupRequest,
        resources: Iterable[_R],
        answer: Callable[[_R], Awaitable[_T]],
        refused: Callable[[_R, ErrorCode, str], _T],
        empty_name_reason: str,
    ) -> dict[_Key, _T]:
        """Answer for hosted groups. The caller asks the cluster about all resources left out."""
        answered: dict[_Key, _T] = {}
        groups = {resource.resource_name: resource for resource in resources if _is_group(resource)}
        decisions = await self._groups.router.find_decisions(filter(None, groups), request.owner)
        hosted = [
            group_id for group_id, decision in decisions.items() if decision.mode is Mode.HOSTED
        ]
        not_allowed: set[str] = set()
        for batch in batches(hosted):
            not_allowed |= await refused_names(request, Resource.GROUP, batch)
        for group_id, resource in groups.items():
            await trio.lowlevel.checkpoint()  # the request may name thousands of groups
            try:
                if not group_id:
                    raise GroupError(ErrorCode.INVALID_REQUEST, empty_name_reason)  # noqa: TRY301
                decision = decisions[group_id]
                if group_id in not_allowed:
                    raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "")  # noqa: TRY301
                if decision.mode is Mode.UNKNOWN:
                    raise GroupRefused(RefusalReason.HOLDER_UNKNOWN, decision.reason)  # noqa: TRY301
                if decision.mode is not Mode.HOSTED:
                    continue
                result = await answer(resource)
            except GroupError as refusal:
                result = refused(resource, refusal.code, refusal.reason)
            except StateLogError as error:
                log.warning("configs_unknown", group_id=resource.resource_name, reason=str(error))
                result = refused(resource, *UNREAD)
            except GroupRefused as error:
                result = refused(resource, code_for(error.cause, GroupApi.ADMIN), error.reason)
            answered[_key(resource)] = result
        return answered

    async def _list(
        self, request: GroupRequest, message: ListConfigResourcesRequest
    ) -> ListConfigResourcesResponse:
        wanted = frozenset(message.resource_types)
        if request.header.api_version < FIRST_LIST_VERSION_WITH_TYPES:
            wanted = frozenset({ConfigResourceType.CLIENT_METRICS})
        ours: Collection[str] = ()
        if not wanted or ConfigResourceType.GROUP in wanted:
            try:
                ours = await self._groups.views.groups_with_configs()
            except StateLogError:
                code, _reason = UNREAD
                return ListConfigResourcesResponse(error_code=code)
        theirs = await _listed_by_cluster(request, message, wanted)
        group_resources = (
            ConfigResource(resource_name=group_id, resource_type=ConfigResourceType.GROUP)
            for group_id in ours
        )
        own = await listable(request, group_resources)
        merged = dict.fromkeys((*theirs.config_resources, *own))
        return replace(theirs, config_resources=() if theirs.error_code else tuple(merged))


def refuse_configs(request: Configs, named: Any, code: int, reason: str = "") -> Struct:
    """What a resource gets in the answer to this request instead of its configs. `named`: what has
    its type and name."""
    _answered, make = CONFIGS[type(request)]
    return make(
        error_code=code,
        error_message=reason,
        resource_type=named.resource_type,
        resource_name=named.resource_name,
    )


async def listable(
    request: GroupRequest, resources: Iterable[ConfigResource]
) -> Sequence[ConfigResource]:
    """The resources of these groups that the client may list, if the cluster has answered its
    request without an error. Raises BrokerLost."""
    groups = tuple(resources)
    version = highest_version(request.upstream, ApiKey.LIST_CONFIG_RESOURCES)
    if version >= FIRST_LIST_VERSION_WITH_TYPES:  # the cluster has checked the permission
        return groups
    names = [group.resource_name for group in groups]
    refused = await refused_names(request, Resource.GROUP, names)
    return [group for group in groups if group.resource_name not in refused]


async def _listed_by_cluster(
    request: GroupRequest, message: ListConfigResourcesRequest, wanted: frozenset[int]
) -> ListConfigResourcesResponse:
    """The cluster's part of the list. A broker without v1 lists client metrics or nothing at all;
    a request for every type then means these and groups."""
    version = highest_version(request.upstream, ApiKey.LIST_CONFIG_RESOURCES)
    known = {ConfigResourceType.GROUP}
    if version >= 0:
        known.add(ConfigResourceType.CLIENT_METRICS)
    answer = ListConfigResourcesResponse()
    if version >= FIRST_LIST_VERSION_WITH_TYPES:
        answer = await forward(request, message)
    elif not wanted <= known:
        answer = replace(answer, error_code=ErrorCode.UNSUPPORTED_VERSION)
    elif ConfigResourceType.CLIENT_METRICS in (wanted or known):
        answer = await request.upstream.ask(ListConfigResourcesRequest(), version)
    return answer


def _key(resource: _Resource | DescribeConfigsResult | AlterConfigsResourceResponse) -> _Key:
    return resource.resource_type, resource.resource_name


def _is_group(resource: _Resource) -> bool:
    return resource.resource_type == ConfigResourceType.GROUP


def _is_of_other_kind(name: str) -> bool:
    return name.startswith(_OTHER_KINDS)


def _is_of_other_kinds(
    resource: alter_configs.AlterConfigsResource | incremental.AlterConfigsResource,
) -> bool:
    """Whether a change is about configs of share and streams groups alone."""
    names = [config.name for config in resource.configs]
    return bool(names) and all(map(_is_of_other_kind, names))


def _with_other_kinds(
    ours: DescribeConfigsResult, theirs: DescribeConfigsResult
) -> DescribeConfigsResult:
    """A hosted group's configs, and those that the cluster has of it, in the cluster's order."""
    if theirs.error_code:
        return ours
    hosted = {config.name: config for config in ours.configs}
    merged = [
        hosted.pop(config.name, config)
        for config in theirs.configs
        if config.name in hosted or _is_of_other_kind(config.name)
    ]
    return replace(ours, configs=(*merged, *hosted.values()))


def _in_order(
    resources: Iterable[_Resource],
    answers: Mapping[_Key, _T],
    refused: Callable[[_Resource, ErrorCode, str], _T],
) -> tuple[_T, ...]:
    """One answer per resource, in the order of the request."""
    reason = "the cluster does not answer for this resource"
    return tuple(
        answers.get(_key(resource)) or refused(resource, ErrorCode.UNSUPPORTED_VERSION, reason)
        for resource in resources
    )


def _refuse_description(resource: _Resource, code: ErrorCode, reason: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=reason,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _report_alteration(
    resource: _Resource, code: ErrorCode, reason: str
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=reason or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _as_incremental(
    resource: alter_configs.AlterConfigsResource,
) -> incremental.AlterConfigsResource:
    """AlterConfigs replaces all overrides of a group: a config that is not named is deleted."""
    named = [
        incremental.AlterableConfig(
            name=config.name, config_operation=incremental.ConfigOperation.SET, value=config.value
        )
        for config in resource.configs
    ]
    others = [
        incremental.AlterableConfig(
            name=name, config_operation=incremental.ConfigOperation.DELETE, value=None
        )
        for name in KEYS.keys() - {config.name for config in resource.configs}
    ]
    return incremental.AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(*named, *others),
    )


def _changes(resource: incremental.AlterConfigsResource) -> tuple[ConfigChange, ...]:
    """The engine's changes. Raises GroupError for an operation that Kafka does not have."""
    for config in resource.configs:
        if config.config_operation not in _OPERATIONS:
            reason = f"Unknown operation {config.config_operation}"
            raise GroupError(ErrorCode.INVALID_REQUEST, reason)
    return tuple(
        ConfigChange(
            name=config.name,
            operation=_OPERATIONS[incremental.ConfigOperation(config.config_operation)],
            value=config.value,
        )
        for config in resource.configs
    )


def _entry(view: ConfigView, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    """One config; the first of its synonyms is the effective value (KIP-226)."""
    synonyms = [(view.broker_name, view.default, ConfigSource.DEFAULT)]
    if view.broker_value != view.default:
        synonyms.insert(0, (view.broker_name, view.broker_value, ConfigSource.STATIC_BROKER))
    if view.override is not None:
        synonyms.insert(0, (view.name, view.override, ConfigSource.DYNAMIC_GROUP))
    _name, value, source = synonyms[0]
    return DescribeConfigsResourceResult(
        name=view.name,
        value=str(value),
        read_only=False,
        is_default=source is ConfigSource.DEFAULT,
        config_source=source,
        is_sensitive=False,
        synonyms=tuple(
            DescribeConfigsSynonym(name=name, value=str(value), source=source)
            for name, value, source in (synonyms if message.include_synonyms else ())
        ),
        config_type=ConfigType.INT,
        documentation=view.documentation if message.include_documentation else None,
    )
