"""Counts what long requests take that are held in memory, and long answers: in total, and of each
owner."""

from gateway.data_path.config import Limits
from gateway.data_path.errors import TooMuchHeld
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal

COUNTED_FROM_BYTES = 64 * 1024
"""Shorter requests always find room: a connection holds one at a time."""


class HeldRequests:
    """The long requests of all connections."""

    def __init__(self, limits: Limits) -> None:
        self._total = SharedTotal(limits.max_held_requests_bytes)

    @property
    def count_bytes(self) -> int:
        """What all of them take."""
        return self._total.used

    def take(self, owner: QuotaKey, count_bytes: int) -> None:
        """Count so many more bytes that have arrived. Raises TooMuchHeld."""
        total = self._total
        if not total.has_room(owner, count_bytes):
            if total.used + count_bytes > total.total:
                raise TooMuchHeld(
                    f"long requests and answers of all clients take {total.used} bytes already"
                )
            limit = total.limit_of(owner)
            raise TooMuchHeld(
                f"long requests and answers of the {owner} may take {limit} bytes at the moment"
            )
        total.take(owner, count_bytes)

    def give_back(self, owner: QuotaKey, count_bytes: int) -> None:
        """Stop counting so many bytes: they are answered, or their connection has ended."""
        self._total.free(owner, count_bytes)
