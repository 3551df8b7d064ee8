"""The admin requests that name groups in a list, or among other resources."""

from collections.abc import Callable, Mapping
from typing import Any

from kafka_codecs import consumer_group_describe
from kafka_codecs.alter_configs import AlterConfigsRequest
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from kafka_codecs.describe_configs import DescribeConfigsRequest, DescribeConfigsResult
from kafka_codecs.describe_groups import DescribedGroup, DescribeGroupsRequest
from kafka_codecs.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)

Batch = DescribeGroupsRequest | ConsumerGroupDescribeRequest | DeleteGroupsRequest
BATCHES: Mapping[type[Struct], tuple[str, str, Callable[..., Struct]]] = {
    DescribeGroupsRequest: ("groups", "groups", DescribedGroup),
    ConsumerGroupDescribeRequest: ("group_ids", "groups", consumer_group_describe.DescribedGroup),
    DeleteGroupsRequest: ("groups_names", "results", DeletableGroupResult),
}
"""The fields with the groups in a request and in its answer, and what a group gets there."""

Configs = DescribeConfigsRequest | AlterConfigsRequest | IncrementalAlterConfigsRequest
CONFIGS: Mapping[type[Struct], tuple[str, Callable[..., Struct]]] = {
    DescribeConfigsRequest: ("results", DescribeConfigsResult),
    AlterConfigsRequest: ("responses", AlterConfigsResourceResponse),
    IncrementalAlterConfigsRequest: ("responses", AlterConfigsResourceResponse),
}
"""The field with the resources in an answer, and what a resource gets there."""


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
