"""What the gateway's own user may do in the cluster."""

from collections.abc import AsyncIterator, Collection

from gateway.check.finding import Finding, Result, works
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.own_permissions import missing_permissions

SUBJECT = "permissions"


async def check_permissions(
    connection: BrokerConnection,
    topics: Collection[str],
    transactional_ids: Collection[str],
    fleet_group: str | None,
) -> AsyncIterator[Finding]:
    """A finding for each permission that is missing. Raises UpstreamError."""
    missing = await missing_permissions(connection, topics, transactional_ids, fleet_group)
    for permission in missing:
        yield Finding(
            subject=SUBJECT,
            result=Result.LIMITED,
            detail=f"no {permission.operation} on {permission.resource}",
            effect=permission.effect,
            remedy="the commands in gateway/docs/security.md, The gateway's own rights",
        )
    if not missing:
        yield works(SUBJECT, "all that the gateway needs for hosting groups and its own topics")
