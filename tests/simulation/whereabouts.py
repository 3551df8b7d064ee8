"""Where the members of the group are: in the gateway, in the cluster, or on their way between."""

from collections.abc import Mapping, Set

from coordinator.engine import GroupEngine
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.records import ClassicGroupMember
from tests.simulation.cluster import Cluster
from tests.simulation.driver import Driver


class Whereabouts:
    """The group here, the group in the cluster, and the record of a move."""

    def __init__(self, driver: Driver, cluster: Cluster) -> None:
        self._driver, self._cluster = driver, cluster

    @property
    def here(self) -> ClassicGroup | ConsumerGroup | None:
        """The group in the gateway."""
        return self._driver.engine.state.group

    @property
    def there(self) -> ClassicGroup | ConsumerGroup | None:
        """The group in the cluster."""
        return self._cluster.group.state

    @property
    def is_hosted(self) -> bool:
        """Whether the group has members here."""
        return self.here is not None and bool(self.here.members)

    @property
    def engine(self) -> GroupEngine:
        """The engine of the coordinator that serves the members."""
        if self.is_hosted or not self._cluster.group.has_other_members:
            return self._driver.engine
        return self._cluster.group.engine

    @property
    def state(self) -> GroupState:
        """The group as this coordinator knows it."""
        return self.engine.state

    @property
    def moving(self) -> Mapping[str, ClassicGroupMember]:
        """The members in the record of an adoption or a release, who may hold partitions."""
        state = self._driver.engine.state
        values = [
            move.group
            for move in (state.adoption, state.release)
            if move is not None and move.group
        ]
        return {member.member_id: member for value in values for member in value.members}

    @property
    def members(self) -> Set[str]:
        """All members, wherever they are."""
        return frozenset(
            {
                *(self.here.members if self.here is not None else ()),
                *(self.there.members if self.there is not None else ()),
                *self.moving,
            }
        )
