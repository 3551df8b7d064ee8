"""Server-side assignors: who should have which partition (rule 9.3).

An assignor is a pure function of the members' subscriptions, the topics' partition counts and
the old target. It returns the members whose part changes. With that, each partition of a subscribed
topic is given to exactly one subscriber, and no member has a topic it does not subscribe to.

Raises GroupError UNKNOWN_SERVER_ERROR if it meets a topic that it does not know.
"""

from collections.abc import Callable, Mapping

from coordinator.assignors.group_spec import GroupSpec, Subscriber, Target
from coordinator.assignors.range import assign_range
from coordinator.assignors.uniform import assign_uniformly

Assignor = Callable[[GroupSpec], Target]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_range}

__all__ = ["ASSIGNORS", "Assignor", "GroupSpec", "Subscriber", "Target"]
