"""Limits the number of hosted groups and of their anchors, in total, per principal and per client
address."""

from collections.abc import Callable

from gateway.quotas.owner import Owner
from gateway.quotas.remembered import weight
from gateway.quotas.shares import SharedTotal, ShareRule


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
        share: ShareRule | None = None,
        complain: Callable[[Owner, str, int], None] = lambda _owner, _why, _limit: None,
    ) -> None:
        """`kind`: what the groups are, for people. `complain` learns who has reached a limit."""
        self._kind = kind
        self._total = SharedTotal(groups_max, share)
        self._began: dict[str, Owner | None] = {}
        self._complain = complain
        self.on_refusal: Callable[[], None] = lambda: None
        """Called when a group finds no room."""

    @property
    def groups_max(self) -> int:
        """The limit in total."""
        return self._total.total

    def limit(self, groups_max: int, share: ShareRule) -> None:
        """From now on, these are the limits. Groups that exceed them stay."""
        self._total.total, self._total.rule = groups_max, share

    def check(self, owner: Owner | None) -> None:
        """Raises TooManyGroups if this owner may not begin another group. None stands for a group
        that the gateway begins itself."""
        if self._total.has_room(owner):
            return
        self.on_refusal()
        if owner is None or not self._total.has_room(None):
            raise TooManyGroups(f"the limit of {self.groups_max} {self._kind} groups is reached")
        limit = self._total.limit_of(owner)
        kind, who = self._kind, "user" if owner.is_principal else "client address"
        self._complain(owner, f"too many {kind} groups from this {who}", limit)
        raise TooManyGroups(f"the limit of {limit} {kind} groups per {who} is reached")

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
        self._total.take(owner, weight(group_id))

    def give_back(self, group_id: str) -> None:
        """Stop counting a group."""
        self._total.free(self._began.pop(group_id), weight(group_id))
