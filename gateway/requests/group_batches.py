"""The admin requests that name groups in a list."""

from collections.abc import Callable, Mapping

from kafka_codecs import consumer_group_describe
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from kafka_codecs.describe_groups import DescribedGroup, DescribeGroupsRequest

Batch = DescribeGroupsRequest | ConsumerGroupDescribeRequest | DeleteGroupsRequest
BATCHES: Mapping[type[Struct], tuple[str, str, Callable[..., Struct]]] = {
    DescribeGroupsRequest: ("groups", "groups", DescribedGroup),
    ConsumerGroupDescribeRequest: ("group_ids", "groups", consumer_group_describe.DescribedGroup),
    DeleteGroupsRequest: ("groups_names", "results", DeletableGroupResult),
}
"""The fields with the groups in a request and in its answer, and what a group gets there."""
