"""Asks the coordinator of a group for its configs, as far as the cluster lets the gateway:
DESCRIBE_CONFIGS on it."""

from gateway.cluster.broker_configs import configs_in, configs_request
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError

LONGEST_SESSION = "group.max.session.timeout.ms"


async def longest_session_ms_of(cluster: Cluster, group_id: str) -> int | None:
    """The longest session that the group's coordinator admits; None if it does not tell."""
    try:
        node_id = await cluster.coordinator_of(group_id)
        text = await config_of_broker(cluster, node_id, LONGEST_SESSION)
    except UpstreamError:
        return None
    return int(text) if text is not None and text.isdecimal() else None


async def config_of_broker(cluster: Cluster, node_id: int, name: str) -> str | None:
    """A config of a broker; None if it does not have or tell it. Raises UpstreamError."""
    answer = await cluster.ask(node_id, configs_request(node_id, (name,)))
    return configs_in(answer).get(name)
