"""Server-side assignors: who should have which partition (spec section 9).

An assignor is a pure function of the members' subscriptions, the topics' partition counts and
the old target. It returns an entry for every member, gives each partition of a subscribed topic
to exactly one subscriber, and never gives a member a topic it does not subscribe to.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

from coordinator.assignors.range import assign_range
from coordinator.assignors.subscriber import Subscriber, Target
from coordinator.assignors.uniform import assign_uniformly

Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, int], Target], Target]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_range}

__all__ = ["ASSIGNORS", "Assignor", "Subscriber", "Target"]
