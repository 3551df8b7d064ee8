"""The newest connection on which each member is known to have done something.

A request may wait unread on a connection that its client has given up, behind another one that has
no answer yet. The client has gone on elsewhere, so what the request says is no longer true.
"""

from collections.abc import Callable, Collection, Iterable


class NewestConnections:
    """The newest connection of each member. Later connections have higher numbers."""

    def __init__(self, members: Callable[[], Collection[str]]) -> None:
        """`members`: the ids of the members that the group has now. Others are forgotten when there
        are too many of them."""
        self._members = members
        self._by_key: dict[object, int] = {}

    def note(self, keys: Iterable[object], number: int) -> None:
        """The members have used this connection."""
        for key in keys:
            self._by_key[key] = max(number, self._by_key.get(key, 0))
        members = self._members()
        if len(self._by_key) > 2 * max(1, len(members)):
            self._by_key = {key: at for key, at in self._by_key.items() if key in members}

    def has_newer(self, keys: Iterable[object], number: int) -> bool:
        """Whether one of the members has used a newer connection than this one."""
        for key in keys:  # noqa: SIM110  # every commit comes here
            if self._by_key.get(key, 0) > number:
                return True
        return False
