"""The connection on which each member was last known to do something.

A request may wait unread on a connection that its client has given up, behind another one that has
no answer yet. The client has moved to another connection, so what the request says is no longer
true.
"""

from collections.abc import Collection, Iterable


class NewestConnections:
    """The newest connection of each member. Later connections have higher numbers."""

    def __init__(self) -> None:
        self._by_key: dict[object, tuple[int, int]] = {}
        """The connection, and the newest one of all clients when it was last used."""

    def record(self, keys: Collection[object], number: int, newest: int = 0) -> bool:
        """The members have used this connection. `newest`: the newest one of all clients at that
        time; by default this one. Returns whether one of the members was unknown."""
        has_unknown = False
        for key in keys:  # every commit comes here
            used = self._by_key.get(key)
            if used is None:
                has_unknown = True
            elif used[1] >= (newest if used[0] == number else number):
                continue  # nothing is new, or this request may be late itself
            self._by_key[key] = number, max(number, newest)
        return has_unknown

    def take_over(self, earlier: "NewestConnections") -> None:
        """Learn what was recorded while the cluster had the group."""
        for key, (number, newest) in earlier._by_key.items():
            self.record((key,), number, newest)

    def forget_others(self, members: Collection[str]) -> None:
        """Forget all but these members, if there are too many others."""
        if len(self._by_key) > 2 * max(1, len(members)):
            self._by_key = {key: used for key, used in self._by_key.items() if key in members}

    def has_newer(self, keys: Iterable[object], number: int) -> bool:
        """Whether one of the members has used another connection when this one was open already:
        requests may have waited here since before."""
        for key in keys:  # every commit comes here
            used = self._by_key.get(key)
            if used is not None and used[0] != number <= used[1]:
                return True
        return False
