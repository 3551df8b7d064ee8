"""Parts for a move without the group around it.

The test decides what comes of each effect, and of each record that the log is asked to store.
"""

from typing import Any, cast

from coordinator.interface.events import Happening
from coordinator.interface.records import DurableRecord
from gateway.hosting.effects import Effect, EmitNow, Log
from gateway.hosting.group_parts import GroupParts
from gateway.hosting.identity import Gateway
from gateway.hosting.logged_engine import LoggedEngine
from tests.support.hosted_scene import HostedScene, hosting_rules


class MoveParts(GroupParts):
    """Parts whose engine passes on what it is asked to decide."""

    def take(self) -> list[Any]:
        """What the move has begun or asked to store since, except lines and events."""
        effects = [effect for effect in self.effects if not isinstance(effect, Log | EmitNow)]
        self.effects.clear()
        return effects


class _Engine(LoggedEngine):
    def observe(self, event: Happening) -> None:
        self._effects.append(cast(Effect, event))


def move_parts(group_id: str, gateway: Gateway, *stored: DurableRecord) -> MoveParts:
    """Parts of a group whose log has these records."""
    rules = hosting_rules()
    rules.gateway = gateway
    group = HostedScene(rules, group_id=group_id).group
    engine = _Engine(group_id, rules.config, effects=group.routing.outbox)
    for record in stored:
        engine.core.apply(record)
    return MoveParts(
        routing=group.routing,
        engine=engine,
        anchor=group.anchor,
        joined_on=group.joined_on,
        committed_on=group.committed_on,
    )
