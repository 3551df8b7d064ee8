"""What the gateway remembers by names that clients choose, with a limit in total and for each
owner."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule

LONG_NAME_CHARS = 1_000
"""A name counts again for each this many characters, because Kafka's may have 32 KiB. So limits on
names limit memory, too."""

_K = TypeVar("_K")
_V = TypeVar("_V")


def weight(name: object) -> int:
    """How many names this one counts as. What is no text has a fixed size."""
    return 1 + len(name) // LONG_NAME_CHARS if isinstance(name, str) else 1


class QuotaCache(Generic[_K, _V]):
    """A table of limited size; entries count by the `weight` of their names. An entry belongs to
    the client that named it first, so that no client takes over the names of others. An owner
    beyond its share loses its own oldest entry; only a table that is full loses the oldest of
    all."""

    def __init__(
        self, entries_max: int, rule: ShareRule, weigh: Callable[[_K], int] = weight
    ) -> None:
        """`weigh`: for how many entries one with this key counts."""
        self._weigh = weigh
        self._entries_max = entries_max
        self._rule = rule
        self._entries: dict[_K, tuple[_V, QuotaKey | None]] = {}
        self._of: dict[QuotaKey, dict[_K, None]] = {}
        self.weight = 0
        """The weight of all entries."""
        self._weight_of: Counter[QuotaKey] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[_K]:
        return iter(self._entries)

    def items(self) -> Iterator[tuple[_K, _V]]:
        """The keys with their values, the oldest first."""
        return ((key, value) for key, (value, _owner) in self._entries.items())

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: _K) -> _V | None:
        """The value of a key; None if it is not remembered."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: _K, value: _V, owner: QuotaKey | None = None) -> Sequence[_V]:
        """Remember a value as the latest. `owner`: who has named the key; None if no client.
        Returns what is forgotten instead."""
        if key in self._entries:
            owner = self._entries[key][1]
            self.pop(key)
        self._entries[key] = value, owner
        self.weight += self._weigh(key)
        forgotten: list[_V] = []
        if owner is not None:
            keys = self._of.setdefault(owner, {})
            keys[key] = None
            self._weight_of[owner] += self._weigh(key)
            # Entries of others may be forgotten, so the others leave all of the table.
            limit = self._rule.limit_of(owner, self._entries_max)
            while self._weight_of[owner] > limit and len(keys) > 1:
                forgotten += self.pop(next(iter(keys)))
        while self.weight > self._entries_max and len(self._entries) > 1:
            forgotten += self.pop(next(iter(self._entries)))
        return forgotten

    def pop(self, key: _K) -> Sequence[_V]:
        """Forget a key. Returns its value, if it was remembered."""
        if key not in self._entries:
            return ()
        value, owner = self._entries.pop(key)
        self.weight -= self._weigh(key)
        if owner is not None:
            keys = self._of[owner]
            del keys[key]
            self._weight_of[owner] -= self._weigh(key)
            if not keys:
                del self._of[owner], self._weight_of[owner]
        return (value,)

    def pop_oldest(self) -> None:
        """Forget the oldest entry, of whichever owner. There must be one."""
        self.pop(next(iter(self._entries)))
