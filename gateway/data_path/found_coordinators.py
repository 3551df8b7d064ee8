"""The coordinators of groups, as the cluster has told clients without credentials lately. To the
cluster these clients are one principal: what it tells one of them, it tells all.

When all clients come back at once, the members of a group ask the same, and each would need an
upstream connection for nothing else.
"""

import math
from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple

import trio

from gateway.data_path.group_apis import AnswerUnderWay, GroupRequest
from gateway.data_path.rewrite import addresses_in
from gateway.quotas.quota_cache import QuotaCache, weight
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from kafka_codecs.declaration import Struct
from kafka_codecs.find_coordinator import (
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FRESH_S = 1.0
"""How long an answer is given again. Brokers learn of a new coordinator hardly sooner."""
REMEMBERED_MAX = 10_000
"""Answers that are remembered. Of more, the oldest is forgotten."""

_FIRST_WITH_BATCHES = 4


class CoordinatorQuestion(NamedTuple):
    """What a client asks about one group."""

    group_id: str
    version: int
    """The version of the request: an answer may have more fields in a later one."""


def question_of(message: FindCoordinatorRequest, version: int) -> CoordinatorQuestion | None:
    """What the client asks. None if it asks about something else than one group."""
    if message.key_type != CoordinatorType.GROUP:
        return None
    if version < _FIRST_WITH_BATCHES:
        return CoordinatorQuestion(message.key, version)
    if len(message.coordinator_keys) != 1:
        return None
    return CoordinatorQuestion(message.coordinator_keys[0], version)


class FoundCoordinators:
    """The answers, and the questions that the cluster is being asked."""

    def __init__(self, names: ShareRule, on_recalled: Callable[[Struct], None]) -> None:
        """`names`: how many of them one client may have. `on_recalled` is called with each answer
        that is given again."""
        self._on_recalled = on_recalled
        self._answers: QuotaCache[CoordinatorQuestion, tuple[FindCoordinatorResponse, float]] = (
            QuotaCache(REMEMBERED_MAX, names, lambda question: weight(question.group_id))
        )
        self.under_way: dict[tuple[int, CoordinatorQuestion], CoordinatorLookup] = {}
        """By broker and question, the client that asks while others wait for its answer. Nobody
        waits for another broker, which may hang."""

    def recall(
        self, question: CoordinatorQuestion, now_s: float, is_in_doubt: Callable[[int], bool]
    ) -> FindCoordinatorResponse | None:
        """The answer, if the cluster need not be asked: it was lately, and no client doubts that
        the broker can be reached."""
        answer, answered_s = self._answers.get(question) or (None, -math.inf)
        if answer is None or now_s - answered_s >= FRESH_S:
            return None
        if any(map(is_in_doubt, addresses_in(answer))):
            return None
        self._on_recalled(answer)
        return answer

    def remember(
        self,
        question: CoordinatorQuestion,
        answer: FindCoordinatorResponse,
        now_s: float,
        owner: QuotaKey,
    ) -> None:
        """Note what the cluster has answered, unless that is an error."""
        if not answer.error_code and not any(one.error_code for one in answer.coordinators):
            self._answers.put(question, (answer, now_s), owner)


class CoordinatorLookup(AnswerUnderWay):
    """A client's question: asked already by another client, or to be asked for it."""

    __slots__ = (
        "_ask",
        "_coordinators",
        "_is_first",
        "_is_in_doubt",
        "_owner",
        "_place",
        "_question",
        "_waiting",
    )

    def __init__(
        self,
        coordinators: FoundCoordinators,
        question: CoordinatorQuestion,
        request: GroupRequest,
        ask: Callable[[], Awaitable[Struct]],
    ) -> None:
        """`ask` asks the cluster. If no client does so yet, later ones wait for this one."""
        self._coordinators = coordinators
        self._question = question
        self._owner = request.owner
        self._is_in_doubt = request.upstream.is_in_doubt
        self._place = request.node_id, question
        self._ask = ask
        self._waiting: dict[CoordinatorLookup, Callable[[], None]] = {}
        self._is_first = coordinators.under_way.setdefault(self._place, self) is self

    def __await__(self) -> Generator[Any, None, Struct]:
        return self._run().__await__()

    async def _run(self) -> Struct:
        try:
            answer = await self._ask()
            if isinstance(answer, FindCoordinatorResponse):
                now_s = trio.current_time()
                self._coordinators.remember(self._question, answer, now_s, self._owner)
            return answer
        finally:
            self._end()

    def watch(self, changed: Callable[[], None]) -> bool:
        """See `AnswerUnderWay`."""
        first = self._coordinators.under_way[self._place]
        if first is not self:
            first._waiting[self] = changed
        return first is not self

    def take(self) -> Struct | None:
        """See `AnswerUnderWay`."""
        now_s = trio.current_time()
        return self._coordinators.recall(self._question, now_s, self._is_in_doubt)

    def abandon(self) -> None:
        """See `AnswerUnderWay`."""
        if (first := self._coordinators.under_way.get(self._place)) is not None:
            first._waiting.pop(self, None)
        self._end()

    def _end(self) -> None:
        """If this is the client that asks: it does not any more."""
        if self._is_first:
            self._is_first = False
            del self._coordinators.under_way[self._place]
            waiting, self._waiting = self._waiting, {}
            for changed in waiting.values():
                changed()
