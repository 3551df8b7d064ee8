"""Counts what long requests take that are held in memory: in total, and of each owner."""

from collections import Counter

from gateway.data_path.config import Limits
from gateway.data_path.errors import TooMuchHeld
from gateway.hosting.owner import Owner

COUNTED_FROM_BYTES = 64 * 1024
"""Shorter requests always find room: a connection holds one at a time."""


class HeldRequests:
    """Those of all connections. One owner has half of the room, so that others have the rest."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.count_bytes = 0
        """Of all of them."""
        self._bytes_of: Counter[Owner] = Counter()

    def take(self, owner: Owner, count_bytes: int) -> None:
        """So many more bytes have arrived. Raises TooMuchHeld."""
        most = self._limits.max_held_requests_bytes
        if self._bytes_of[owner] + count_bytes > most // 2:
            raise TooMuchHeld(f"long requests of the {owner} take {most // 2} bytes already")
        if self.count_bytes + count_bytes > most:
            raise TooMuchHeld(f"long requests of all clients take {most} bytes already")
        self.count_bytes += count_bytes
        self._bytes_of[owner] += count_bytes

    def give_back(self, owner: Owner, count_bytes: int) -> None:
        """So many bytes are answered, or their connection has ended."""
        self.count_bytes -= count_bytes
        self._bytes_of[owner] -= count_bytes
        if not self._bytes_of[owner]:
            del self._bytes_of[owner]
