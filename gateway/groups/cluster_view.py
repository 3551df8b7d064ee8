"""What the cluster says of forwarded groups, asked only while an operator looks at them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import trio

from gateway.groups.clock import Clock
from gateway.groups.cluster_group_reader import ClusterGroupReader
from gateway.hosting.forwarded import WatchedGroups
from gateway.hosting.group import watch_occupants
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.lookup_outcome import LookupFailed, LookupOutcome
from gateway.hosting.states import Mode

FRESH_FOR_MS = 3_000
"""How old a description may be before an operator's next look asks for another one."""
ASKED_TOGETHER_MAX = 200
"""Groups that one look asks about: those whose descriptions are oldest."""
REMEMBERED_MAX = 1_000
WAIT_S = 1.0
"""How long the board waits for the cluster. After that it shows what is known, with its age."""


@dataclass(frozen=True, slots=True)
class SeenInCluster:
    """What a lookup in the cluster has found of one group."""

    outcome: LookupOutcome
    at_ms: int


class ClusterView:
    """The latest descriptions. The cluster is asked nothing unless an operator looks."""

    def __init__(
        self,
        look: ClusterGroupReader,
        watched: WatchedGroups,
        clock: Clock,
        is_forwarded: Callable[[str], bool],
    ) -> None:
        """`is_forwarded`: whether the cluster answers for a group. No other is asked about."""
        self._look = look
        self._watched = watched
        self._clock = clock
        self._is_forwarded = is_forwarded
        self.on_described: Callable[[str], None] = lambda _group_id: None
        """Called with each group that the cluster has described."""
        self._latest: dict[str, SeenInCluster] = {}
        self._asking = trio.Lock()

    def latest_of(self, group_id: str) -> SeenInCluster | None:
        """The latest description of a group; None if no operator has looked at it lately."""
        return self._latest.get(group_id)

    async def refresh(self, group_ids: Iterable[str]) -> None:
        """Have the cluster describe those of the groups that are forwarded and were not described
        lately. A cluster that is slow to answer delays a look by WAIT_S at most."""
        fresh_since_ms = self._clock.now_ms() - FRESH_FOR_MS
        old = [
            group_id
            for group_id in group_ids
            if self._is_forwarded(group_id) and self._described_ms(group_id) < fresh_since_ms
        ]
        if not old:
            return
        old.sort(key=self._described_ms)
        with trio.move_on_after(WAIT_S):
            async with self._asking:
                await self._ask(old[:ASKED_TOGETHER_MAX])

    async def _ask(self, group_ids: list[str]) -> None:
        outcomes = await self._look.look_up_all(group_ids)
        now_ms = self._clock.now_ms()
        for group_id, outcome in outcomes.items():
            if isinstance(outcome, LookupFailed) or not self._is_forwarded(group_id):
                continue
            watch_occupants(self._watched, group_id, outcome, RoutingDecision(Mode.FORWARDED))
            self._latest.pop(group_id, None)
            self._latest[group_id] = SeenInCluster(outcome, now_ms)
            self.on_described(group_id)
        while len(self._latest) > REMEMBERED_MAX:
            del self._latest[next(iter(self._latest))]

    def _described_ms(self, group_id: str) -> int:
        latest = self._latest.get(group_id)
        return -1 if latest is None else latest.at_ms
