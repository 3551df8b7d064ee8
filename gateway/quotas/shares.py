"""How owners share what the gateway has a limited amount of: one rule, and one way to count."""

from collections import Counter
from dataclasses import dataclass

from gateway.quotas.quota_key import QuotaKey


@dataclass(slots=True, kw_only=True)
class ShareRule:
    """How much of a limit one owner may have. The numbers are settings, which may change, and count
    from the next use on. None stands for half of what the others leave: many clients may stand
    behind one address, so one that is alone gets half, and those that come later still find
    room."""

    per_address: int | None = None
    per_principal: int | None = None

    def limit_of(self, owner: QuotaKey, left: int) -> int:
        """The most that the owner may have. `left`: what the others leave."""
        limit = self.per_principal if owner.is_principal else self.per_address
        return max(1, left // 2) if limit is None else limit


class SharedTotal:
    """Counts what owners have of a limited total. The caller frees what it has taken."""

    def __init__(self, total: int, rule: ShareRule | None = None) -> None:
        """`rule`: by default, without settings."""
        self.total = total
        """May change. What exceeds it stays."""
        self.rule = rule or ShareRule()
        self.used = 0
        self._used_by: Counter[QuotaKey] = Counter()

    def limit_of(self, owner: QuotaKey) -> int:
        """The most that the owner may have now, whether or not that much is left."""
        return self.rule.limit_of(owner, self.total - self.used + self._used_by[owner])

    @property
    def count_owners(self) -> int:
        """How many owners have any of it."""
        return len(self._used_by)

    def has_any(self, owner: QuotaKey) -> bool:
        """Whether the owner has any of it."""
        return owner in self._used_by

    def has_room(self, owner: QuotaKey | None, count: int = 1) -> bool:
        """Whether so much more may be taken. None stands for the gateway itself, which has no
        share."""
        if self.used + count > self.total:
            return False
        return owner is None or self._used_by[owner] + count <= self.limit_of(owner)

    def take(self, owner: QuotaKey | None, count: int = 1) -> None:
        """Count so much more, whether or not there is room."""
        self.used += count
        if owner is not None:
            self._used_by[owner] += count

    def free(self, owner: QuotaKey | None, count: int = 1) -> None:
        """Give back so much of what was taken."""
        self.used -= count
        if owner is not None:
            self._used_by[owner] -= count
            if not self._used_by[owner]:
                del self._used_by[owner]
