"""What the cluster has lately allowed one client, or all clients without credentials."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

import trio

from gateway.cluster.group_permissions import Operation
from gateway.data_path.config import Limits
from gateway.quotas.quota_cache import QuotaCache, weight
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal, ShareRule

OF_ONE_CLIENT_MAX = 1_000
"""Grants remembered for one authenticated connection. Beyond that the oldest is asked for again."""
OF_THE_ANONYMOUS_MAX = 10_000
"""Grants remembered for all clients without credentials: to the cluster they are one principal."""
OF_ALL_CLIENTS_MAX = 500_000
"""Grants remembered for all authenticated connections together, by the `weight` of their names.
Beyond that, or beyond its principal's share, a connection forgets its own oldest ones."""

ASK_AGAIN_S = 10.0
"""How long a member may continue after the cluster could not be asked."""


class Resource(IntEnum):
    """A kind of resource, with Kafka's code."""

    TOPIC = 2
    GROUP = 3
    TRANSACTIONAL_ID = 5


class Permission(NamedTuple):
    """The permission to do something with one resource."""

    resource: Resource
    operation: Operation
    name: str


def _weigh(grant: Permission) -> int:
    return weight(grant.name)


class Grants:
    """Remembers what the cluster allowed, never what it refused: a new permission counts
    immediately, and a lost one after the lifetime of the grant."""

    def __init__(
        self,
        limits: Limits,
        grants_max: int = OF_ONE_CLIENT_MAX,
        rule: ShareRule | None = None,
        total: SharedTotal | None = None,
    ) -> None:
        """A grant is asked for again `permission_lifetime_s` after the cluster gave it. `rule`: for
        the owners; None if there is one. `total`: what these share with other connections."""
        self._limits = limits
        only = ShareRule(per_address=grants_max, per_principal=grants_max)
        self._given_s: QuotaCache[Permission, float] = QuotaCache(grants_max, rule or only, _weigh)
        self._total = total or SharedTotal(OF_ALL_CLIENTS_MAX)
        self._questions: dict[tuple[int, Permission], trio.Event] = {}
        """By broker and permission, those that the cluster is being asked about."""
        self._taken = 0
        self._owner: QuotaKey | None = None
        """Whose part of the room these take: the first owner's."""

    def add(self, grant: Permission, now_s: float, owner: QuotaKey) -> None:
        """The cluster has allowed this to the owner's client."""
        self._owner = self._owner or owner
        if grant in self._given_s or self._make_room(_weigh(grant), self._owner):
            self._given_s.put(grant, now_s, owner)
            self._settle()

    async def wait_for_answers(self, grants: Iterable[Permission], node_id: int) -> None:
        """Wait for what other clients are asking this broker about these permissions: thousands of
        members may come back together. No client waits for another broker, which may hang."""
        for grant in grants:
            if (answered := self._questions.get((node_id, grant))) is not None:
                await answered.wait()

    @contextmanager
    def ask_about(self, grants: Sequence[Permission], node_id: int) -> Iterator[None]:
        """Let others wait until the end of the block, which asks this broker about these."""
        answered = trio.Event()
        unanswered = [
            (node_id, grant) for grant in grants if (node_id, grant) not in self._questions
        ]
        self._questions |= dict.fromkeys(unanswered, answered)
        try:
            yield
        finally:
            for question in unanswered:
                del self._questions[question]
            answered.set()

    def keep(self, grants: Iterable[Permission], now_s: float, owner: QuotaKey) -> None:
        """The cluster could not be asked: rely on these a little longer."""
        for grant in grants:
            self.add(grant, now_s - self._limits.permission_lifetime_s + ASK_AGAIN_S, owner)

    def remove(self, grant: Permission) -> None:
        """The cluster has refused this."""
        self._given_s.pop(grant)
        self._settle()

    def close(self) -> None:
        """Give the room back: the connection has ended."""
        if self._owner is not None:
            self._total.free(self._owner, self._taken)
            self._taken = 0

    def has(self, grant: Permission, now_s: float) -> bool:
        """Whether the cluster need not be asked about this."""
        given_s = self._given_s.get(grant)
        return given_s is not None and now_s - given_s < self._limits.permission_lifetime_s

    def had(self, grants: Iterable[Permission]) -> bool:
        """Whether the cluster allowed all of this when it was last asked, however long ago."""
        return all(grant in self._given_s for grant in grants)

    def _make_room(self, count: int, owner: QuotaKey) -> bool:
        """Forget the oldest ones, until there is room. False if they are too few."""
        while not self._total.has_room(owner, count) and len(self._given_s):
            self._given_s.pop_oldest()
            self._settle()
        return self._total.has_room(owner, count)

    def _settle(self) -> None:
        """Take as much room as there are grants."""
        if self._owner is not None:
            self._total.free(self._owner, self._taken - self._given_s.weight)
            self._taken = self._given_s.weight
