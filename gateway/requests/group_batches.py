"""The admin requests that name groups in a list, or among other resources."""

from collections.abc import Callable, Mapping

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
