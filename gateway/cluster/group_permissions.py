"""Questions that tell what a user may do with groups.

A broker checks permissions before anything else. So each question is an operation that needs the
permission and has no effect: the error is the same whether the group exists, and at every broker.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from kafka_codecs.declaration import Struct
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_codecs.offset_delete import OffsetDeleteRequest

NOBODY = "groupferry-permission-check"
"""A member id that no coordinator has made."""

_GROUP_CONFIG = ConfigResourceType.GROUP


class Operation(IntEnum):
    """An operation that an ACL may allow, with Kafka's code."""

    READ = 3
    WRITE = 4
    DELETE = 6
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


def questions_about(operation: Operation, group_ids: Sequence[str]) -> Sequence[Struct]:
    """The questions whether a user may do this with each group: one for all groups, or one for
    each."""
    match operation:
        case Operation.READ:
            return [
                HeartbeatRequest(group_id=group_id, generation_id=-1, member_id=NOBODY)
                for group_id in group_ids
            ]
        case Operation.DELETE:
            return [OffsetDeleteRequest(group_id=group_id, topics=()) for group_id in group_ids]
        case Operation.DESCRIBE:
            return [DescribeGroupsRequest(groups=tuple(group_ids))]
        case Operation.DESCRIBE_CONFIGS:
            described = (
                DescribeConfigsResource(
                    resource_type=_GROUP_CONFIG, resource_name=group_id, configuration_keys=()
                )
                for group_id in group_ids
            )
            return [DescribeConfigsRequest(resources=tuple(described))]
        case Operation.ALTER_CONFIGS:
            altered = (
                AlterConfigsResource(
                    resource_type=_GROUP_CONFIG, resource_name=group_id, configs=()
                )
                for group_id in group_ids
            )
            return [IncrementalAlterConfigsRequest(resources=tuple(altered), validate_only=True)]
        case Operation.WRITE:
            raise ValueError("groups cannot be written")


def codes_in(answers: Sequence[Any], group_ids: Sequence[str]) -> Mapping[str, int]:
    """The error for each group in the answers to `questions_about`."""
    match answers[0]:
        case DescribeGroupsResponse(groups=groups):
            return {group.group_id: group.error_code for group in groups}
        case DescribeConfigsResponse(results=results):
            return {result.resource_name: result.error_code for result in results}
        case IncrementalAlterConfigsResponse(responses=responses):
            return {response.resource_name: response.error_code for response in responses}
        case _:
            codes = [answer.error_code for answer in answers]
            return dict(zip(group_ids, codes, strict=True))
