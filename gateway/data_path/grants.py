"""What the cluster has lately allowed one client, or all clients without credentials. Pure."""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from gateway.data_path.config import Limits
from gateway.hosting.owner import Owner
from gateway.hosting.remembered import NameQuota, Remembered

OF_ONE_CLIENT_MAX = 1_000
"""Grants remembered for one authenticated connection. Beyond that the oldest is asked for again."""
OF_THE_ANONYMOUS_MAX = 10_000
"""Grants remembered for all clients without credentials: to the cluster they are one principal."""

ASK_AGAIN_S = 10.0
"""How long a member goes on after the cluster could not be asked."""


class Resource(IntEnum):
    """A kind of resource, with Kafka's code."""

    TOPIC = 2
    GROUP = 3
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """An operation that an ACL may allow, with Kafka's code."""

    READ = 3
    WRITE = 4
    DELETE = 6
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


class Grant(NamedTuple):
    """The permission to do something with one resource."""

    resource: Resource
    operation: Operation
    name: str


class Grants:
    """Remembers what the cluster allowed, never what it refused: a new permission counts at once,
    and a lost one after the lifetime of the grant."""

    def __init__(
        self,
        limits: Limits,
        grants_max: int = OF_ONE_CLIENT_MAX,
        quota: NameQuota | None = None,
    ) -> None:
        """A grant is asked for again `permission_lifetime_s` after the cluster gave it. `quota`: of
        each owner; None if there is one."""
        self._limits = limits
        only = NameQuota(per_address=grants_max, per_principal=grants_max)
        self._given_s: Remembered[Grant, float] = Remembered(grants_max, quota or only)

    def add(self, grant: Grant, now_s: float, owner: Owner) -> None:
        """The cluster has allowed this to the owner's client."""
        self._given_s.put(grant, now_s, owner)

    def keep(self, grants: Iterable[Grant], now_s: float, owner: Owner) -> None:
        """The cluster could not be asked: rely on these a little longer."""
        for grant in grants:
            self.add(grant, now_s - self._limits.permission_lifetime_s + ASK_AGAIN_S, owner)

    def remove(self, grant: Grant) -> None:
        """The cluster has refused this."""
        self._given_s.pop(grant)

    def has(self, grant: Grant, now_s: float) -> bool:
        """Whether the cluster need not be asked about this."""
        given_s = self._given_s.get(grant)
        return given_s is not None and now_s - given_s < self._limits.permission_lifetime_s

    def had(self, grants: Iterable[Grant]) -> bool:
        """Whether the cluster allowed all of this when it was last asked, however long ago."""
        return all(grant in self._given_s for grant in grants)
