"""Server-side assignors (rule 9.3).

An assignor is a pure function of the members' subscriptions, the topics' partition counts and the
old target. It returns only the members whose target changes. In the new target each partition of a
subscribed topic belongs to exactly one of its subscribers.

Raises GroupError UNKNOWN_SERVER_ERROR if it meets a topic that it does not know.
"""

from collections.abc import Callable, Mapping

from coordinator.assignors.group_spec import GroupSpec, Subscriber, Target, spec_of
from coordinator.assignors.range import assign_range
from coordinator.assignors.uniform import assign_uniformly

Assignor = Callable[[GroupSpec], Target]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_range}

__all__ = ["ASSIGNORS", "Assignor", "GroupSpec", "Subscriber", "Target", "spec_of"]
