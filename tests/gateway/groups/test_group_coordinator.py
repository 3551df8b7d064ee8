"""The coordinator is looked up when it is first needed, and again once it may have moved."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from gateway.cluster.errors import UpstreamError
from gateway.groups.group_coordinator import GroupCoordinator
from gateway.hosting.effects import Ask, AskCoordinator, Requester
from gateway.hosting.inputs import Done, Failed, Input
from gateway.quotas.quota_key import QuotaKey
from gateway.state_log.memory import MemoryLog
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.sync_group import SyncGroupRequest

GROUP = "orders"
REQUEST = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
ANCHOR = AskCoordinator(REQUEST, looks_up=False)
MOVE = Ask(Requester.LEADER, REQUEST)


def answer(code: ErrorCode = ErrorCode.NONE) -> HeartbeatResponse:
    """An answer with this error code."""
    return HeartbeatResponse(error_code=code)


@dataclass(slots=True)
class Brokers:
    """A cluster that names a new coordinator at each look-up and gives these answers in turn."""

    answers: list[Struct | UpstreamError]
    expected: Struct = REQUEST
    asked: list[int] = field(default_factory=list)
    """The nodes that were asked."""
    look_ups: int = 0

    async def coordinator_of(self, group_id: str, owner: QuotaKey | None) -> int:
        """The next node."""
        assert (group_id, owner) == (GROUP, None)
        self.look_ups += 1
        return self.look_ups

    async def ask(self, node_id: int, message: Struct) -> Struct:
        """The next answer."""
        assert message == self.expected
        self.asked.append(node_id)
        next_answer = self.answers.pop(0)
        if isinstance(next_answer, UpstreamError):
            raise next_answer
        return next_answer


async def ask(
    brokers: Brokers, effects: Sequence[Ask | AskCoordinator], log: MemoryLog | None = None
) -> list[Input]:
    """The results of these effects, one after another."""
    coordinator = GroupCoordinator(GROUP, brokers.coordinator_of, brokers.ask, log or MemoryLog())
    return [
        await coordinator.ask_for_move(effect)
        if isinstance(effect, Ask)
        else await coordinator.ask_for_anchor(effect)
        for effect in effects
    ]


async def test_a_coordinator_is_remembered() -> None:
    brokers = Brokers([answer(), answer()])
    assert await ask(brokers, [ANCHOR, MOVE]) == [Done(ANCHOR, answer()), Done(MOVE, answer())]
    assert brokers.asked == [1, 1]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
async def test_a_coordinator_that_has_moved_has_not_answered_a_move(code: ErrorCode) -> None:
    """The former coordinator has done nothing, and the next request goes to the present one."""
    brokers = Brokers([answer(code), answer()])
    assert await ask(brokers, [MOVE, MOVE]) == [Failed(MOVE, code.name), Done(MOVE, answer())]
    assert brokers.asked == [1, 2]


async def test_an_anchor_decides_itself_when_to_look_for_the_coordinator() -> None:
    brokers = Brokers([answer(ErrorCode.NOT_COORDINATOR), answer()])
    moved = AskCoordinator(REQUEST, looks_up=True)
    first, _second = await ask(brokers, [ANCHOR, moved])
    assert first == Done(ANCHOR, answer(ErrorCode.NOT_COORDINATOR))
    assert brokers.asked == [1, 2]


async def test_a_broker_that_is_away_is_a_failure() -> None:
    """A move looks for the coordinator again."""
    brokers = Brokers([UpstreamError("no answer"), UpstreamError("no answer"), answer()])
    failed = [Failed(ANCHOR, "no answer"), Failed(MOVE, "no answer")]
    assert await ask(brokers, [ANCHOR, MOVE, MOVE]) == [*failed, Done(MOVE, answer())]
    assert brokers.asked == [1, 1, 2]


async def test_a_gateway_that_may_have_lost_its_log_moves_nothing() -> None:
    """Another one may continue with the move, and knows better who still owns something."""
    log = MemoryLog()
    log.may_answer = False
    brokers = Brokers([])
    (failed,) = await ask(brokers, [MOVE], log)
    assert failed == Failed(MOVE, "another gateway may continue the adoption")
    assert brokers.look_ups == 0


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize(
    "takes_place",
    [
        JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=1, member_id="m", protocol_type="c", protocols=()
        ),
        SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m", assignments=()),
    ],
    ids=["join", "sync"],
)
async def test_an_anchor_takes_a_place_only_while_the_log_is_certainly_ours(
    takes_place: Struct, *, is_ours: bool
) -> None:
    """After a long pause it would take the place of the next owner's, and the commits of members
    that were fenced there would be stored under its ids."""
    log = MemoryLog()
    log.may_answer = is_ours
    brokers = Brokers([answer()], takes_place)
    (outcome,) = await ask(brokers, [AskCoordinator(takes_place, looks_up=False)], log)
    assert isinstance(outcome, Done if is_ours else Failed)
    assert brokers.asked == [1] * is_ours


async def test_an_anchor_leaves_also_without_a_lease() -> None:
    """Its heartbeats and its departure do not take another member's place."""
    log = MemoryLog()
    log.may_answer = False
    assert await ask(Brokers([answer()]), [ANCHOR], log) == [Done(ANCHOR, answer())]
