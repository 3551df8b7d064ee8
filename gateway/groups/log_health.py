"""Remembers whether the latest write to the state log succeeded.

The anchor joins a group in the cluster before the first member's records are written. While the log
rejects everything, as on a full disk, that join would be useless. Each shard of a fleet has a log
of its own, which fails alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.hosting.inputs import Damage

TRY_AGAIN_MS = 1_000
"""How often a group may begin despite the failure; its write shows whether the log has
recovered."""


@dataclass(slots=True)
class _Failure:
    """The failed writes since the last one that succeeded."""

    group_id: str
    """A group of the shard."""
    failed_ms: int
    next_try_ms: int


class LogHealth:
    """Learns of each write of each group, and is asked before a group begins."""

    def __init__(self, shard_of: Callable[[str], int] = lambda _group_id: 0) -> None:
        """`shard_of`: the shard of a group."""
        self._shard_of = shard_of
        self._failures: dict[int, _Failure] = {}

    @property
    def failed_ms(self) -> int | None:
        """When the latest write failed; None if the latest ones of all shards succeeded."""
        return max((failure.failed_ms for failure in self._failures.values()), default=None)

    def on_write(self, group_id: str, damage: Damage | None, now_ms: int) -> None:
        """A write has ended; None: well. A record that is too large says nothing about the log."""
        shard = self._shard_of(group_id)
        if damage is None:
            self._failures.pop(shard, None)
        elif damage is not Damage.REFUSED:
            first = _Failure(group_id, now_ms, next_try_ms=now_ms + TRY_AGAIN_MS)
            self._failures.setdefault(shard, first).failed_ms = now_ms

    def may_begin(self, group_id: str, now_ms: int) -> bool:
        """Whether the shard's latest write succeeded or a new attempt is due."""
        failure = self._failures.get(self._shard_of(group_id))
        if failure is None:
            return True
        if now_ms < failure.next_try_ms:
            return False
        failure.next_try_ms = now_ms + TRY_AGAIN_MS
        return True

    def forget(self, concerns: Callable[[str], bool]) -> None:
        """Another process has these groups now, and their log."""
        self._failures = {
            shard: failure
            for shard, failure in self._failures.items()
            if not concerns(failure.group_id)
        }
