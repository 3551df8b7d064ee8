"""Asks the cluster whether it takes members of the new protocol."""

from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.groups.coordinator_configs import config_of_broker
from gateway.hosting.move_requests import NewProtocol
from kafka_codecs.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_codecs.apis import ApiKey

POLICY = "group.consumer.migration.policy"
_ALLOWS_UPGRADE = ("bidirectional", "upgrade")
"""A classic member may come first, so the native ones must be able to convert the group."""
_FIRST_WITH_FEATURES = 3
_GROUP_VERSION = "group.version"


async def new_protocol_of(cluster: Cluster, group_id: str) -> NewProtocol:
    """What the group's coordinator says. What it does not say is no."""
    try:
        node_id = await cluster.coordinator_of(group_id)
        versions = await cluster.versions_of(node_id)
        if (
            ApiKey.CONSUMER_GROUP_HEARTBEAT not in versions
            or versions[ApiKey.API_VERSIONS][1] < _FIRST_WITH_FEATURES
            or not await _is_switched_on(cluster, node_id)
        ):
            return NewProtocol(why_no_natives="the cluster does not have it")
        return NewProtocol(why_not_mixed=await _why_not_mixed(cluster, node_id))
    except UpstreamError as error:
        return NewProtocol(why_no_natives=f"the cluster does not say whether it has it ({error})")


async def _is_switched_on(cluster: Cluster, node_id: int) -> bool:
    question = ApiVersionsRequest(
        client_software_name="groupferry", client_software_version="release"
    )
    answer: ApiVersionsResponse = await cluster.ask(node_id, question, _FIRST_WITH_FEATURES)
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return levels.get(_GROUP_VERSION, 0) > 0


async def _why_not_mixed(cluster: Cluster, node_id: int) -> str:
    """Raises UpstreamError."""
    policy = await config_of_broker(cluster, node_id, POLICY)
    if policy is None:
        return f"the cluster does not tell its {POLICY} (DESCRIBE_CONFIGS on the cluster)"
    if policy.lower() in _ALLOWS_UPGRADE:
        return ""
    return f"the cluster keeps the two apart ({POLICY} = {policy.lower()})"
