"""Limits the number of hosted groups and of their anchors, in total, per principal and per client
address."""

from collections import Counter
from collections.abc import Callable

from gateway.hosting.owner import Owner
from gateway.hosting.remembered import weight


class TooManyGroups(Exception):
    """A limit on hosted or anchored groups is reached."""


class Room:
    """A group counts towards the principal whose request began it, or towards the address of a
    client without one, whoever joins it later: once, or by the `weight` of a long name."""

    def __init__(
        self,
        kind: str,
        *,
        groups_max: int,
        groups_per_address_max: int,
        groups_per_principal_max: int | None = None,
        complain: Callable[[Owner, str, int], None] = lambda _owner, _why, _limit: None,
    ) -> None:
        """`kind`: what the groups are, for people. `groups_per_principal_max`: by default that of
        an address. `complain` learns who has reached a limit."""
        self._kind = kind
        self.limit(groups_max, groups_per_address_max, groups_per_principal_max)
        self._began: dict[str, Owner | None] = {}
        self._used = 0
        self._by_owner: Counter[Owner] = Counter()
        self._complain = complain
        self.on_refusal: Callable[[], None] = lambda: None
        """Called when a group finds no room."""

    def limit(
        self,
        groups_max: int,
        groups_per_address_max: int,
        groups_per_principal_max: int | None = None,
    ) -> None:
        """From now on, these are the limits. Groups that exceed them stay."""
        self.groups_max = groups_max
        self._per_address_max = groups_per_address_max
        self._per_principal_max = groups_per_principal_max or groups_per_address_max

    def check(self, owner: Owner | None) -> None:
        """Raises TooManyGroups if this owner may not begin another group. None stands for a group
        that the gateway begins itself."""
        if self._used >= self.groups_max:
            self.on_refusal()
            raise TooManyGroups(f"the limit of {self.groups_max} {self._kind} groups is reached")
        if owner is None:
            return
        most = self._per_principal_max if owner.is_principal else self._per_address_max
        if self._by_owner[owner] < most:
            return
        self.on_refusal()
        kind, who = self._kind, "user" if owner.is_principal else "client address"
        self._complain(owner, f"too many {kind} groups from this {who}", most)
        raise TooManyGroups(f"the limit of {most} {kind} groups per {who} is reached")

    @property
    def count(self) -> int:
        """The groups that are counted."""
        return len(self._began)

    def has(self, group_id: str) -> bool:
        """Whether the group is counted."""
        return group_id in self._began

    def take(self, group_id: str, owner: Owner | None) -> None:
        """Count a new group."""
        self._began[group_id] = owner
        self._used += weight(group_id)
        if owner is not None:
            self._by_owner[owner] += weight(group_id)

    def give_back(self, group_id: str) -> None:
        """Stop counting a group."""
        owner = self._began.pop(group_id)
        self._used -= weight(group_id)
        if owner is not None:
            self._by_owner[owner] -= weight(group_id)
            if not self._by_owner[owner]:
                del self._by_owner[owner]
