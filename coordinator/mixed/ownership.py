"""Which partitions the sender of a JoinGroup still owns (DEV D5).

A classic member gives up a partition by omitting it from its list, and Kafka believes every list.
But a delayed or repeated JoinGroup lists what the client owned earlier. Here a list proves
something only about partitions granted up to the list's generation. Partitions granted later count
as owned, and the member is asked again. An eager client that revoked everything states its
generation and an empty list, which proves exactly that.

A subscription without a generation is believed, as in Kafka. It comes from an older client (v0,
v1), from a client that starts, or from librdkafka's eager assignors, which always send -1.
"""

from collections.abc import Mapping

from coordinator.group.embedded_protocol import owned_partitions
from coordinator.interface.topics import Partition, Topics
from kafka_codecs.consumer_protocol import NO_GENERATION, Subscription


def owned_by_sender(
    subscription: Subscription, held: Mapping[Partition, int], topics: Topics
) -> frozenset[Partition]:
    """The partitions that count as owned by the sender. `held` has the partitions that the group
    granted it, assigned or pending revocation, with their assignment epochs."""
    stated = owned_partitions(subscription.owned_partitions, topics)
    if subscription.generation_id <= NO_GENERATION:
        return stated
    granted_later = {p for p, epoch in held.items() if epoch > subscription.generation_id}
    return stated | granted_later
