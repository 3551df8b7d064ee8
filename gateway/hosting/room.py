"""Limits the number of hosted groups and of their anchors, in total and per client address."""

from collections import Counter
from collections.abc import Callable


class TooManyGroups(Exception):
    """A limit on hosted or anchored groups is reached."""


class Room:
    """A group counts towards the address whose request began it, whoever joins it later."""

    def __init__(
        self,
        kind: str,
        *,
        groups_max: int,
        groups_per_address_max: int,
        complain: Callable[[str, str, int], None] = lambda _client_host, _why, _limit: None,
    ) -> None:
        """`kind`: what the groups are, for people. `complain` learns which address has reached its
        limit."""
        self._kind = kind
        self._groups_max = groups_max
        self._groups_per_address_max = groups_per_address_max
        self._began: dict[str, str | None] = {}
        self._per_address: Counter[str] = Counter()
        self._complain = complain
        self.on_refusal: Callable[[], None] = lambda: None
        """Called when a group finds no room."""

    def check(self, client_host: str | None) -> None:
        """Raises TooManyGroups if this address may not begin another group. An address of None
        stands for a group that the gateway begins itself."""
        if len(self._began) >= self._groups_max:
            self.on_refusal()
            raise TooManyGroups(f"the limit of {self._groups_max} {self._kind} groups is reached")
        if client_host is None or self._per_address[client_host] < self._groups_per_address_max:
            return
        self.on_refusal()
        limit, kind = self._groups_per_address_max, self._kind
        self._complain(client_host, f"too many {kind} groups from this address", limit)
        raise TooManyGroups(f"the limit of {limit} {kind} groups per client address is reached")

    def has(self, group_id: str) -> bool:
        """Whether the group is counted."""
        return group_id in self._began

    def take(self, group_id: str, client_host: str | None) -> None:
        """Count a new group."""
        self._began[group_id] = client_host
        if client_host is not None:
            self._per_address[client_host] += 1

    def give_back(self, group_id: str) -> None:
        """Stop counting a group."""
        client_host = self._began.pop(group_id)
        if client_host is not None:
            self._per_address[client_host] -= 1
            if not self._per_address[client_host]:
                del self._per_address[client_host]
