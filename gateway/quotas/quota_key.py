"""The owner that a connection or a group counts towards."""

from typing import NamedTuple


class QuotaKey(NamedTuple):
    """A client address, or the principal behind it.

    A principal is the user whose credentials the cluster has accepted, or the subject of a verified
    certificate. It counts towards limits and gives no permission.
    """

    name: str
    is_principal: bool = False

    def __str__(self) -> str:
        return f"user {self.name}" if self.is_principal else f"address {self.name}"
