"""The heartbeats of members of share groups and streams groups, which the cluster serves.

They pass. The gateway learns that there is such a group, so that operators see it, and a consumer
with the name of one is not hosted.
"""

from coordinator.interface.events import JOIN_EPOCH
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.groups import Groups
from gateway.requests.forwarding import forward
from kafka_codecs.declaration import Struct
from kafka_codecs.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafka_codecs.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

OtherHeartbeat = ShareGroupHeartbeatRequest | StreamsGroupHeartbeatRequest


async def relay_heartbeat(request: GroupRequest, message: OtherHeartbeat, groups: Groups) -> Struct:
    """The cluster's answer to a heartbeat. Once a member has joined, the group is looked up,
    whatever was known of it until then.

    Raises BrokerLost.
    """
    answer: ShareGroupHeartbeatResponse | StreamsGroupHeartbeatResponse = await forward(request)
    if message.member_epoch == JOIN_EPOCH and not answer.error_code:
        await groups.router.is_forwarded(message.group_id, request.owner)
    return answer
