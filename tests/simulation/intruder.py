"""A consumer that bypasses the gateway, and joins the group in the cluster."""

from uuid import UUID

from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.volatile_records import Token
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, Subscription
from tests.simulation.leader import write_subscription

INTRUDER = "intruder"
"""Its client id. It is never silent."""
_NO_SUBSCRIPTION = Subscription(topics=(), owned_partitions=(), generation_id=-1, rack_id=None)


def join_of_intruder(token: Token, session_timeout_ms: int) -> JoinGroupReceived:
    """Its JoinGroup, without a first request for an id."""
    return JoinGroupReceived(
        token=token,
        version=3,
        member_id="",
        instance_id=None,
        client_id=INTRUDER,
        client_host="/127.0.0.1",
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=(("range", write_subscription(_NO_SUBSCRIPTION, 1)),),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=session_timeout_ms,
        fresh_id=UUID(int=token),
    )
