"""Answers to requests with names that cannot be written.

Kafka replaces the malformed bytes of a name, which may make it longer than any name that a message
or a record can hold. So no such group, member or topic exists, and a broker that has to write the
name fails. The answers here repeat names in the bytes that the client has sent.
"""

from typing import Any, cast, get_args

from gateway.data_path.conversions import without_coordinator
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.requests.coordinators import FIRST_FIND_VERSION_WITH_BATCHES
from gateway.requests.messages import GroupMessage
from gateway.requests.offset_fetch_shapes import fail_group, groups_of, response_of
from gateway.requests.refusals import refuse
from kafka_codecs import consumer_group_describe as described
from kafka_codecs.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kafka_codecs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_codecs.offset_fetch import OffsetFetchRequest
from kafka_codecs.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafka_codecs.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

_WHY = RefusalReason.UNWRITABLE_NAME.value
_CODE = code_for(RefusalReason.UNWRITABLE_NAME, GroupApi.ADMIN)


def refused_for_its_names(message: Struct, version: int) -> Struct:
    """The answer to a request that names something unwritable, for all that it names."""
    match message:
        case OffsetFetchRequest():
            code = code_for(RefusalReason.UNWRITABLE_NAME, GroupApi.FETCH)
            groups = groups_of(message, version)
            return response_of(tuple(fail_group(group, code, version) for group in groups), version)
        case FindCoordinatorRequest():
            if version >= FIRST_FIND_VERSION_WITH_BATCHES:
                return without_coordinator(message.coordinator_keys, _CODE)
            return FindCoordinatorResponse(error_code=_CODE, node_id=-1, port=-1)
        case DescribeGroupsRequest():
            return DescribeGroupsResponse(
                groups=tuple(
                    DescribedGroup(group_id=group_id, error_code=_CODE)
                    for group_id in message.groups
                )
            )
        case ConsumerGroupDescribeRequest():
            return ConsumerGroupDescribeResponse(
                groups=tuple(
                    described.DescribedGroup(
                        group_id=group_id, error_code=_CODE, error_message=_WHY
                    )
                    for group_id in message.group_ids
                )
            )
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(
                results=tuple(
                    DeletableGroupResult(group_id=group_id, error_code=_CODE)
                    for group_id in message.groups_names
                )
            )
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=_CODE)
        case DescribeConfigsRequest():
            return DescribeConfigsResponse(
                results=tuple(
                    DescribeConfigsResult(
                        error_code=_CODE,
                        error_message=_WHY,
                        resource_type=resource.resource_type,
                        resource_name=resource.resource_name,
                    )
                    for resource in message.resources
                )
            )
        case AlterConfigsRequest():
            return AlterConfigsResponse(responses=_not_altered(message))
        case IncrementalAlterConfigsRequest():
            return IncrementalAlterConfigsResponse(responses=_not_altered(message))
        case ShareGroupHeartbeatRequest() | StreamsGroupHeartbeatRequest():
            is_share = isinstance(message, ShareGroupHeartbeatRequest)
            response = ShareGroupHeartbeatResponse if is_share else StreamsGroupHeartbeatResponse
            return response(error_code=_CODE, error_message=_WHY)
        case _:
            assert isinstance(message, get_args(GroupMessage)), f"no case for {type(message)}"
            return refuse(cast(Any, message), version, RefusalReason.UNWRITABLE_NAME, _WHY)


def _not_altered(
    message: AlterConfigsRequest | IncrementalAlterConfigsRequest,
) -> tuple[AlterConfigsResourceResponse, ...]:
    return tuple(
        AlterConfigsResourceResponse(
            error_code=_CODE,
            error_message=_WHY,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in message.resources
    )
