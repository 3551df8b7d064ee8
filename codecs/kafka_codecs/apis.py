"""The APIs that this package can decode: the mapping from an API key to its messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kafka_codecs.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafka_codecs.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafka_codecs.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_codecs.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafka_codecs.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from kafka_codecs.api_keys import ApiKey
from kafka_codecs.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from kafka_codecs.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from kafka_codecs.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafka_codecs.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_codecs.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kafka_codecs.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafka_codecs.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafka_codecs.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafka_codecs.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kafka_codecs.describe_quorum import DescribeQuorumResponse
from kafka_codecs.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka_codecs.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafka_codecs.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafka_codecs.end_txn import EndTxnRequest, EndTxnResponse
from kafka_codecs.errors import WireError
from kafka_codecs.fetch import FetchRequest, FetchResponse
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_codecs.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_codecs.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_codecs.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka_codecs.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka_codecs.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafka_codecs.metadata import MetadataRequest, MetadataResponse
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_codecs.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafka_codecs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka_codecs.produce import ProduceResponse
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_codecs.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_codecs.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_codecs.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_codecs.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafka_codecs.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafka_codecs.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

__all__ = ["APIS", "Api", "ApiKey", "first_flexible_version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """An api with its messages; `request` is None if the package decodes only its responses."""

    key: ApiKey
    versions: range
    request: type[Struct] | None
    response: type[Struct]


_MESSAGES: tuple[tuple[type[Struct] | None, type[Struct]], ...] = (
    (None, ProduceResponse),
    (FetchRequest, FetchResponse),
    (ListOffsetsRequest, ListOffsetsResponse),
    (MetadataRequest, MetadataResponse),
    (OffsetCommitRequest, OffsetCommitResponse),
    (OffsetFetchRequest, OffsetFetchResponse),
    (FindCoordinatorRequest, FindCoordinatorResponse),
    (JoinGroupRequest, JoinGroupResponse),
    (HeartbeatRequest, HeartbeatResponse),
    (LeaveGroupRequest, LeaveGroupResponse),
    (SyncGroupRequest, SyncGroupResponse),
    (DescribeGroupsRequest, DescribeGroupsResponse),
    (ListGroupsRequest, ListGroupsResponse),
    (SaslHandshakeRequest, SaslHandshakeResponse),
    (ApiVersionsRequest, ApiVersionsResponse),
    (CreateTopicsRequest, CreateTopicsResponse),
    (DeleteTopicsRequest, DeleteTopicsResponse),
    (DeleteRecordsRequest, DeleteRecordsResponse),
    (InitProducerIdRequest, InitProducerIdResponse),
    (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    (EndTxnRequest, EndTxnResponse),
    (WriteTxnMarkersRequest, WriteTxnMarkersResponse),
    (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
    (DescribeConfigsRequest, DescribeConfigsResponse),
    (AlterConfigsRequest, AlterConfigsResponse),
    (AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
    (CreatePartitionsRequest, CreatePartitionsResponse),
    (SaslAuthenticateRequest, SaslAuthenticateResponse),
    (DeleteGroupsRequest, DeleteGroupsResponse),
    (ElectLeadersRequest, ElectLeadersResponse),
    (IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    (AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
    (OffsetDeleteRequest, OffsetDeleteResponse),
    (None, DescribeQuorumResponse),
    (DescribeClusterRequest, DescribeClusterResponse),
    (DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
    (DescribeLogDirsRequest, DescribeLogDirsResponse),
    (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    (DescribeProducersRequest, DescribeProducersResponse),
    (DescribeTransactionsRequest, DescribeTransactionsResponse),
    (ListTransactionsRequest, ListTransactionsResponse),
    (ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
    (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    (ListConfigResourcesRequest, ListConfigResourcesResponse),
    (ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
    (ShareFetchRequest, ShareFetchResponse),
    (ShareAcknowledgeRequest, ShareAcknowledgeResponse),
    (StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse),
    (ConsumerGroupPrepareAssignmentRequest, ConsumerGroupPrepareAssignmentResponse),
    (ConsumerGroupInstallAssignmentRequest, ConsumerGroupInstallAssignmentResponse),
)


def _api(request: type[Struct] | None, response: type[Struct]) -> Api:
    schema = response.SCHEMA
    assert schema.api_key is not None
    return Api(key=schema.api_key, versions=schema.versions, request=request, response=response)


APIS: Mapping[ApiKey, Api] = MappingProxyType(
    {api.key: api for api in (_api(request, response) for request, response in _MESSAGES)}
)


def first_flexible_version(api_key: int) -> int | None:
    """First version of an api with compact lengths and tagged fields; None if no version has them.

    Raises `WireError` for an api key that Kafka does not have.
    """
    try:
        return ApiKey(api_key).first_flexible_version
    except ValueError:
        raise WireError(f"unknown api key {api_key}") from None
