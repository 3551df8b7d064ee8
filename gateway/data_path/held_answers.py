"""Counts the long answers of brokers that are held in memory: in total, and of each owner.

An answer that has begun to arrive cannot be refused. One without room stays in the socket until
others are done, so its broker waits, too. Each owner takes its turn, and one answer always finds
room, however long it is.
"""

from collections import deque

import trio

from gateway.data_path.errors import TooMuchHeld
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal

TOTAL_BYTES_MAX = 512 * 1024 * 1024
"""What long answers take together until they are decoded, or sent to the client."""
WAIT_S = 30.0
"""How long an answer waits for room. Its request has waited for the broker before."""


class HeldAnswer:
    """One long answer, which has its room, or waits for it."""

    __slots__ = ("_answers", "granted", "owner", "size")

    def __init__(self, answers: "HeldAnswers", owner: QuotaKey, size: int) -> None:
        self._answers = answers
        self.size = size
        """Bytes; 0 once the room is free."""
        self.owner = owner
        self.granted: trio.Event | None = None
        """Set once the answer has its room; None if it never had to wait."""

    def free(self) -> None:
        """Let other answers have the room. More calls change nothing."""
        size, self.size = self.size, 0
        if size:
            self._answers.free(self.owner, size)


class HeldAnswers:
    """The long answers of all connections."""

    def __init__(self, total_bytes: int = TOTAL_BYTES_MAX) -> None:
        self._total = SharedTotal(total_bytes)
        self._waiting: dict[QuotaKey, deque[HeldAnswer]] = {}
        """Whose turn it is next comes first."""

    async def take(self, owner: QuotaKey, size: int) -> HeldAnswer:
        """Wait until an answer of this size may be held. Raises TooMuchHeld if that takes too
        long."""
        room = HeldAnswer(self, owner, size)
        if not self._waiting and self._has_room(room):
            self._total.take(owner, size)
            return room
        granted = room.granted = trio.Event()
        self._waiting.setdefault(owner, deque()).append(room)
        self._grant()  # the shares of others may be what is used up
        try:
            with trio.move_on_after(WAIT_S):
                await granted.wait()
        except trio.Cancelled:
            self._leave(room)
            raise
        if not granted.is_set():
            self._leave(room)
            raise TooMuchHeld(f"long answers of brokers take {self._total.used} bytes already")
        return room

    def free(self, owner: QuotaKey, size: int) -> None:
        """Let others have what an answer has taken."""
        self._total.free(owner, size)
        self._grant()

    def _leave(self, room: HeldAnswer) -> None:
        """Give up the place among those who wait, or the room."""
        assert room.granted is not None
        if room.granted.is_set():
            room.free()
            return
        rooms = self._waiting[room.owner]
        rooms.remove(room)
        if not rooms:
            del self._waiting[room.owner]
        self._grant()  # it may have been first

    def _grant(self) -> None:
        """Give what is free to those who wait, one owner after the other. No one overtakes an
        answer that waits only for the total, so that each has its turn."""
        while self._grant_each_owner_one():
            pass

    def _grant_each_owner_one(self) -> bool:
        """Give room to one answer of each owner. Returns whether the next ones may have some."""
        has_given = False
        for owner in tuple(self._waiting):
            rooms = self._waiting[owner]
            room = rooms[0]
            if not self._has_room(room):
                if self._is_full_for(room):
                    return False
                continue
            assert room.granted is not None
            self._total.take(owner, room.size)
            room.granted.set()
            has_given = True
            rooms.popleft()
            del self._waiting[owner]
            if rooms:
                self._waiting[owner] = rooms
        return has_given

    def _has_room(self, room: HeldAnswer) -> bool:
        if not self._total.used:
            return True
        is_first = not self._total.has_any(room.owner)
        return self._total.has_room(None if is_first else room.owner, room.size)

    def _is_full_for(self, room: HeldAnswer) -> bool:
        return not self._total.has_room(None, room.size)
