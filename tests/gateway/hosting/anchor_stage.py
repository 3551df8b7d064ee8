"""One anchor, without the group around it."""

from dataclasses import replace

from gateway.hosting.anchor import (
    Anchor,
    Loss,
)
from gateway.hosting.effects import AskCoordinator, Effect, Log
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.identity import AnchorIds
from gateway.hosting.states import Mode
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.coordinator import FakeCoordinator, FakeGroup
from tests.support.hosted_scene import GROUP, OURS, commit_of_client


class ShownTopic:
    """What the anchor shows: a topic with some partitions."""

    partition_count = 2

    def assignment(self) -> bytes:
        return b"a topic with %d partitions" % self.partition_count


class AnchorStage:
    """An anchor, and a coordinator that answers immediately or as the test decides."""

    def __init__(self, *, linger_ms: int = 60_000, spread: float = 1.0) -> None:
        self.now_ms = 1_000_000
        self.effects: list[Effect] = []
        self.coordinator = FakeCoordinator()
        self.failure: str | None = None
        self.is_live = False
        """Whether the group has members here."""
        self.mode = Mode.HOSTED
        """What a look finds."""
        self.looks = 0
        """How often the anchor asked for a look."""
        self.is_holding = False
        """Whether answers are held back."""
        self.asked: list[tuple[int, AskCoordinator]] = []
        self.loss: Loss | None = None
        """What the anchor has told last of another member."""
        self.lines: list[Log] = []
        self.ended: list[int] = []
        self.shown = ShownTopic()
        self.anchor = Anchor(
            GROUP,
            OURS,
            assignment=self.shown.assignment,
            linger_ms=linger_ms,
            spread=spread,
            effects=self.effects,
            end_commit=lambda commit: self.ended.append(commit.token),
        )

    @property
    def group(self) -> FakeGroup:
        return self.coordinator.group(GROUP)

    def run(self) -> None:
        """Answer everything that is due now."""
        for _ in range(100):
            self.anchor.advance(self.now_ms, is_live=self.is_live)
            if self.is_holding:
                return
            if self.anchor.wants_look:
                self.looks += 1
                self.anchor.on_look(self._verdict(), self.now_ms)
            elif not self._answer():
                return
        raise AssertionError("the anchor asks without end")

    def _verdict(self) -> RoutingDecision:
        return RoutingDecision(self.mode)

    def _answer(self) -> bool:
        for effect in self._take_asks():
            if self.failure is not None:
                self.anchor.on_failure(self.failure, self.now_ms)
            else:
                answer = self.coordinator.answer(effect.message)
                self.loss = self.anchor.on_answer(answer, self.now_ms) or self.loss
            return True
        return False

    def _take_asks(self) -> list[AskCoordinator]:
        effects = list(self.effects)
        self.effects.clear()
        self.lines += (effect for effect in effects if isinstance(effect, Log))
        asks = [effect for effect in effects if isinstance(effect, AskCoordinator)]
        self.asked += ((self.now_ms, ask) for ask in asks)
        return asks

    def take_ask(self) -> AskCoordinator:
        """The one request that waits for its answer."""
        (ask,) = self._take_asks()
        return ask

    def wait(self, length_ms: int) -> None:
        end_ms, loops = self.now_ms + length_ms, 0
        self.run()
        while (at_ms := self.anchor.next_ms(is_live=self.is_live)) is not None and at_ms <= end_ms:
            loops = loops + 1 if at_ms <= self.now_ms else 0
            assert loops < 100, "time stands still"
            self.now_ms = max(self.now_ms, at_ms)
            self.run()
        self.now_ms = end_ms

    def hold(self) -> AnchorIds:
        self.anchor.need(self.now_ms, is_live=self.is_live)
        self.run()
        assert self.ids is not None, self.anchor.reason
        return self.ids

    @property
    def ids(self) -> AnchorIds | None:
        return self.anchor.ids(self.now_ms)

    def until_held(self, at_most_ms: int = 60_000) -> AnchorIds:
        """Wait until the anchor is Stable."""
        end_ms = self.now_ms + at_most_ms
        while self.ids is None:
            assert self.now_ms < end_ms
            self.wait(10)
        return self.ids

    @property
    def is_here(self) -> bool:
        return self.anchor.is_here

    def messages(self, kind: type[Struct]) -> list[Struct]:
        return [ask.message for _, ask in self.asked if isinstance(ask.message, kind)]

    def times_ms(self, kind: type[Struct]) -> list[int]:
        """When they were sent."""
        return [at_ms for at_ms, ask in self.asked if isinstance(ask.message, kind)]

    def log_names(self) -> list[str]:
        return [line.event for line in self.lines]

    def doubt(self, ids: AnchorIds, code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """The cluster refused a commit."""
        self.anchor.doubt(ids, "a commit", code, self.now_ms)

    def lose_commit(self, ids: AnchorIds | None, sent_ms: int | None = None) -> None:
        """The answer to a commit under these ids is lost, which was sent just now by default."""
        commit = replace(commit_of_client("m", 1, {"foo": [0]}), token=5)
        commit.ids, commit.sent_ms = ids, self.now_ms if sent_ms is None else sent_ms
        self.anchor.need(self.now_ms)
        self.anchor.renew(commit, self.now_ms)
