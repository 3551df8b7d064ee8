"""The queue of one group's task: requests, happenings and the next deadline.

It defines their order, and limits how many requests wait.
"""

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

import trio

from coordinator.interface.events import Happening, Request, TimePassed
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from gateway.groups.clock import Clock
from gateway.groups.process_pauses import ProcessPauses

INBOX_MAX = 64
"""Requests that wait for one group's task; further ones wait in their connections."""

MakeRequest = Callable[[int, Topics], Request]
"""Makes the engine's event from a token and the image of the topics."""

_tokens = itertools.count(1)


@dataclass(slots=True, kw_only=True)
class Ask:
    """A request, and the place for its answer."""

    make: MakeRequest
    topic_names: frozenset[str]
    is_trial: bool = False
    """Whether the request only asks if it would be refused."""
    token: int = field(default_factory=lambda: next(_tokens))
    event: Request | None = None
    reply: Reply | None = None
    answered: trio.Event = field(default_factory=trio.Event)
    is_abandoned: bool = False
    """Whether the caller has gone and will not see the answer."""

    def answer(self, reply: Reply | None) -> None:
        self.reply = reply
        self.answered.set()


class Inbox:
    """Any task puts items in, the group's task takes them out. A closed inbox accepts nothing."""

    def __init__(self, clock: Clock, pauses: ProcessPauses) -> None:
        self._clock = clock
        self._pauses = pauses
        self._send, self._receive = trio.open_memory_channel[Ask](INBOX_MAX)
        # Bounded by the clients' connections: at most one per accepted commit, and one of each
        # other kind.
        self._happened: deque[Happening] = deque()
        self._idle = trio.CancelScope()
        self._not_before_ms = 0
        self._asked_since_due = 0

    async def put(self, ask: Ask) -> None:
        """Wait for room. Raises trio.ClosedResourceError or BrokenResourceError once closed."""
        await self._send.send(ask)

    def note(self, event: Happening) -> None:
        """Add a happening. Never blocks, so that none is lost."""
        self._happened.append(event)
        self.wake()

    def postpone(self, event: Happening, length_ms: int) -> None:
        """Put back a happening that could not be handled. Nobody will repeat it, so it must not be
        lost. Until `length_ms` have passed, only requests come out."""
        if not isinstance(event, TimePassed):
            self._happened.appendleft(event)
        self._not_before_ms = self._clock.now_ms() + length_ms

    def wake(self) -> None:
        """Let `next` return early."""
        self._idle.cancel()

    @property
    def has_asks(self) -> bool:
        """Whether a request waits."""
        inbox = self._receive.statistics()
        return bool(inbox.current_buffer_used or inbox.tasks_waiting_send)

    async def ask(self) -> Ask:
        """The next request; happenings stay in the inbox."""
        return await self._receive.receive()

    def next_ask(self) -> Ask | None:
        """A request that already waits, or None. Counts it, see `next`."""
        try:
            ask = self._receive.receive_nowait()
        except trio.WouldBlock:
            return None
        self._asked_since_due += 1
        return ask

    async def next(self, deadline_ms: int | None) -> Ask | Happening | None:
        """The next item: happenings first, then requests; None after `wake`.

        Waiting requests come before a due deadline: if the task itself is late, a member that spoke
        in time must not be fenced. At most INBOX_MAX requests do so, since time must pass. For
        members that could not even send during a pause of the process see `ProcessPauses`.
        """
        if deadline_ms is not None:
            deadline_ms = max(deadline_ms, self._pauses.not_before_ms())
        at_ms = 0 if self._happened else deadline_ms
        due_ms = None if at_ms is None else max(at_ms, self._not_before_ms)
        if due_ms is not None and due_ms <= self._clock.now_ms():
            if self._happened:
                return self._happened.popleft()
            if self._asked_since_due < INBOX_MAX and (ask := self.next_ask()) is not None:
                return ask
            self._asked_since_due = 0
            return TimePassed()
        self._asked_since_due = 0
        with trio.move_on_after(self._clock.seconds_until(due_ms)) as self._idle:
            return await self._receive.receive()
        return None

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._send.close()
        self._receive.close()
