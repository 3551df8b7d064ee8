"""How many groups are hosted at a time: in all, and of those that one client address began.

Must not know what a group is doing.
"""

from collections import Counter

from gateway.data_path.complaints import Complaints


class TooManyGroups(Exception):
    """A limit of hosted groups is reached."""


class Room:
    """A group counts for the address whose request began it, whoever joins it later."""

    def __init__(self, *, groups_max: int, groups_per_address_max: int) -> None:
        self._groups_max = groups_max
        self._groups_per_address_max = groups_per_address_max
        self._began: dict[str, str | None] = {}
        self._per_address: Counter[str] = Counter()
        self._complaints = Complaints()

    def check(self, client_host: str | None) -> None:
        """Raises TooManyGroups if there is no room for one more of this address; of None for one
        that no client begins."""
        if len(self._began) >= self._groups_max:
            raise TooManyGroups(f"{self._groups_max} groups are hosted already")
        if client_host is None or self._per_address[client_host] < self._groups_per_address_max:
            return
        limit = self._groups_per_address_max
        self._complaints.tell(
            "groups_refused", client_host, reason="too many groups of this address", limit=limit
        )
        raise TooManyGroups(f"{limit} groups of this address are hosted already")

    def take(self, group_id: str, client_host: str | None) -> None:
        """Count a group that is hosted from now on."""
        self._began[group_id] = client_host
        if client_host is not None:
            self._per_address[client_host] += 1

    def give_back(self, group_id: str) -> None:
        """Count a group no longer."""
        client_host = self._began.pop(group_id)
        if client_host is not None:
            self._per_address[client_host] -= 1
            if not self._per_address[client_host]:
                del self._per_address[client_host]
