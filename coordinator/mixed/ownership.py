"""What a JoinGroup proves of the partitions that its sender owns (DEV D5).

What a classic member does not list it has given up: Kafka believes every list. But a JoinGroup that
was delayed, or sent again, tells what the client owned back then. So a list counts only for what
was granted up to the generation it was made in; what was granted later is taken to be owned still,
and the member is asked once more. An eager client that revoked all of it states its generation and
an empty list, which proves just that.

A subscription without a generation is believed as in Kafka: that of an older client (v0, v1), of
one that starts anew, and of librdkafka's eager assignors, which always write -1.
"""

from collections.abc import Mapping

from coordinator.conversion.embedded import owned_partitions
from coordinator.topics import Partition, Topics
from kafka_codecs.consumer_protocol import NO_GENERATION, Subscription


def owned_by_sender(
    subscription: Subscription, held: Mapping[Partition, int], topics: Topics
) -> frozenset[Partition]:
    """What the sender has to be taken to own; `held` gives the assignment epoch of what the group
    believes it to have, assigned or pending revocation."""
    stated = owned_partitions(subscription.owned_partitions, topics)
    if subscription.generation_id <= NO_GENERATION:
        return stated
    granted_later = {p for p, epoch in held.items() if epoch > subscription.generation_id}
    return stated | granted_later
