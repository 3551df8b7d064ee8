"""Which groups are shown differently since an earlier list. Pure.

A watcher of all groups asks once a second, and most of them have not changed.
"""

from collections import deque
from collections.abc import Collection, Hashable, Iterator

GONE_MAX = 1_000
"""Groups that are remembered as gone. A list since a revision before the oldest is complete."""


class Changes:
    """The marks of all groups in the latest lists."""

    def __init__(self, revision: int) -> None:
        """`revision`: where to begin. It must be greater than any of an earlier process."""
        self.revision = revision
        """The number of the latest list."""
        self._first = revision + 1
        """The earliest list since which all changes are known."""
        self._shown: dict[str, tuple[Hashable, int]] = {}
        """The mark of each group, and the list that had it first."""
        self._gone: deque[tuple[int, str]] = deque()

    def begin(self, group_ids: Collection[str]) -> int:
        """Begin a list of all groups, which are these. Returns its number."""
        self.revision += 1
        for group_id in self._shown.keys() - set(group_ids):
            del self._shown[group_id]
            self._gone.append((self.revision, group_id))
        while len(self._gone) > GONE_MAX:
            self._first = self._gone.popleft()[0]
        return self.revision

    def knows_since(self, since: int) -> bool:
        """Whether everything is known that has changed since this list: never since 0."""
        return self._first <= since <= self.revision

    def record(self, group_id: str, mark: Hashable) -> int:
        """The group has this mark now. Returns the number of the list that had it first."""
        shown = self._shown.get(group_id)
        if shown is None or shown[0] != mark:
            shown = self._shown[group_id] = mark, self.revision
        return shown[1]

    def gone_since(self, since: int) -> Iterator[str]:
        """The groups that have gone since this list, and not come back."""
        for revision, group_id in self._gone:
            if revision > since and group_id not in self._shown:
                yield group_id
