"""The parts of one hosted group that its calls and its move work on."""

from dataclasses import dataclass

from coordinator.interface.config import GroupConfig
from gateway.events.event import GatewayEvent, Level
from gateway.hosting.anchor import Anchor
from gateway.hosting.effects import Effect, EmitNow, Log
from gateway.hosting.group_routing import GroupRouting
from gateway.hosting.logged_engine import LoggedEngine
from gateway.hosting.newest_connections import NewestConnections
from gateway.hosting.rules import HostingRules


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParts:
    """One instance for each group."""

    routing: GroupRouting
    engine: LoggedEngine
    anchor: Anchor
    joined_on: NewestConnections
    committed_on: NewestConnections
    """The connections on which each member has committed, also while the cluster had the group, or
    has tried in vain behind an earlier commit, or a former member has tried, or a native member has
    joined."""

    @property
    def effects(self) -> list[Effect]:
        """What the driver has to do, in this order."""
        return self.routing.outbox

    @property
    def rules(self) -> HostingRules:
        """What all groups share."""
        return self.routing.rules

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self.routing.group_id

    @property
    def config(self) -> GroupConfig:
        """The group's settings."""
        return self.rules.config_of(self.group_id)

    def emit(self, event: GatewayEvent) -> None:
        """Report an event."""
        self.effects.append(EmitNow(event))

    def log(self, level: Level, event: str, **fields: object) -> None:
        """Log a line."""
        self.effects.append(Log(level, event, fields))
