"""Which topics the regular expressions of groups may match: those that a member may describe.

Only the cluster knows the permissions, and it is asked on a member's own connection. As in Kafka,
its answer for one member counts for the whole group. A resolution that needs a permission which is
not known yet waits for the group's next heartbeat.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import trio

from gateway.data_path.config import Limits
from gateway.quotas.quota_cache import weight

ASK_AGAIN_S = 10.0
"""The shortest time between two questions for one group while the cluster does not answer."""
GROUPS_MAX = 10_000
"""Groups that are remembered, by the `weight` of their names. For others the cluster is asked
again."""
TOPICS_MAX = 200_000
"""Topics of all these groups, for which the same holds."""


@dataclass(slots=True)
class _PermittedRegexes:
    answers: dict[str, tuple[float, bool]] = field(default_factory=dict)
    """When the cluster was asked about a topic, and whether it may be described."""
    asked_s: float = -math.inf
    changed: trio.Event = field(default_factory=trio.Event)


class RegexPermissions:
    """The permissions of all groups."""

    def __init__(self, limits: Limits) -> None:
        """The cluster is asked again `permission_lifetime_s` after it has answered."""
        self._limits = limits
        self.waiting: dict[str, frozenset[str]] = {}
        """The topics that resolutions wait for, by group, until its next heartbeat asks."""
        self._groups: dict[str, _PermittedRegexes] = {}
        self._weight = self._topics = 0

    async def find_describable(self, group_id: str, names: Collection[str]) -> frozenset[str]:
        """The topics among these that the group may match. Waits for a heartbeat of the group if
        the cluster has not been asked about all of them lately."""
        group = self._group(group_id)
        try:
            while unknown := self.unknown(group_id, names):
                self.waiting[group_id], group.changed = unknown, trio.Event()
                await group.changed.wait()
        finally:
            self.waiting.pop(group_id, None)
        return frozenset(name for name in names if group.answers[name][1])

    def list_topics_to_ask(self, group_id: str) -> frozenset[str]:
        """The topics to ask about on the connection of this heartbeat, which is then expected to
        `record` the answer."""
        group, now_s = self._group(group_id), trio.current_time()
        wanted = self.waiting.get(group_id, frozenset())
        if not wanted or now_s - group.asked_s < ASK_AGAIN_S:
            return frozenset()
        group.asked_s = now_s
        return wanted

    def unknown(self, group_id: str, names: Collection[str]) -> frozenset[str]:
        """The topics among these that the cluster has not been asked about lately."""
        answers, since_s = self._group(group_id).answers, self._since_s
        return frozenset(
            name for name in names if name not in answers or answers[name][0] <= since_s
        )

    def record(self, group_id: str, names: Collection[str], refused: Collection[str]) -> None:
        """The cluster has answered: a member may describe all but the refused topics."""
        group, now_s, since_s = self._group(group_id), trio.current_time(), self._since_s
        self._topics -= len(group.answers)
        group.answers = {
            name: answer for name, answer in group.answers.items() if answer[0] > since_s
        }
        group.answers |= {name: (now_s, name not in refused) for name in names}
        self._topics += len(group.answers)
        group.asked_s = -math.inf
        group.changed.set()
        self._bound(group_id)

    @property
    def _since_s(self) -> float:
        """The time from which on answers still count."""
        return trio.current_time() - self._limits.permission_lifetime_s

    def _group(self, group_id: str) -> _PermittedRegexes:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _PermittedRegexes()
            self._weight += weight(group_id)
            self._bound(group_id)
        return group

    def _bound(self, group_id: str) -> None:
        """Forget the oldest groups but this one, unless a resolution waits for them."""
        while self._weight > GROUPS_MAX or self._topics > TOPICS_MAX:
            others = (other for other in self._groups if other not in self.waiting)
            oldest = next((other for other in others if other != group_id), None)
            if oldest is None:
                return
            self._weight -= weight(oldest)
            self._topics -= len(self._groups.pop(oldest).answers)
