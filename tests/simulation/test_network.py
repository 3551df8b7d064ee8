"""Connections keep order and may lose requests."""

from dataclasses import replace
from typing import Any

from coordinator.interface.events import HeartbeatReceived
from tests.simulation.driver import Answer
from tests.simulation.network import LATE_MS_MAX, Ask, Fate, Line
from tests.support.given_requests import NATIVE_BEAT
from tests.support.simulation import Stage


def beat(stage: Stage, heard: list[int], lost: list[int]) -> Ask:
    """A heartbeat whose number goes to `heard` or to `lost`."""
    token = stage.network.next_token()

    def hear(_answer: Answer) -> None:
        heard.append(token)

    return Ask(
        request=HeartbeatReceived(token=token, member_id="", instance_id=None, generation=0),
        heard=hear,
        lost=lambda: lost.append(token),
    )


def test_a_connection_keeps_the_order() -> None:
    """Requests are handled in order, so answers are in order too."""
    stage, heard, lost = Stage(), list[int](), list[int]()
    line = Line(stage.network, "c1")
    for _ in range(20):
        line.send(beat(stage, heard, lost))
    stage.wait(2_000)
    assert (heard, lost) == (list(range(1, 21)), [])


def test_every_request_is_answered_or_reported_lost() -> None:
    """This includes late requests, whose client has abandoned the connection."""
    stage, heard, lost = Stage(4), list[int](), list[int]()
    stage.network.loss_rate, stage.network.late_rate = 0.2, 0.1
    line = Line(stage.network, "c1")
    for _ in range(200):
        line.send(beat(stage, heard, lost))
        stage.wait(50)
    stage.wait(LATE_MS_MAX)
    assert sorted(heard + lost) == list(range(1, 201))
    assert lost
    assert stage.world.counts["requests"] > len(heard)


def test_a_late_request_counts_as_overtaken() -> None:
    """Newer requests of the same client overtook it."""
    stage, heard, lost = Stage(), list[int](), list[int]()
    overtaken: list[int] = []
    stage.network.overtaken = lambda _name, request: overtaken.append(request.token)
    line = Line(stage.network, "c1")
    fates = iter([Fate.LATE, Fate.FINE])
    stage.network.fate = lambda _request: next(fates)  # type: ignore[method-assign,assignment]
    line.send(beat(stage, heard, lost))
    line.send(beat(stage, heard, lost))
    stage.wait(LATE_MS_MAX)
    assert (heard, lost, set(overtaken)) == ([2], [1], {1})


def test_a_client_lacks_an_answer_from_an_error_in_its_place_until_the_next_assignment() -> None:
    """As in the gateway: what it states meanwhile proves nothing (DEV D90, seed 61002436)."""
    stage, follows = Stage(), list[bool]()
    line = Line(stage.network, "c1")
    full: dict[str, Any] = {
        "topic_names": ("foo",),
        "rebalance_timeout_ms": 3_000,
        "owned": frozenset(),
    }
    fate = Fate.FINE
    stage.network.fate = lambda _request: fate  # type: ignore[method-assign,assignment]
    for epoch, how in ((0, full), (2, {}), (2, {}), (2, full), (2, {})):
        fate = Fate.ERROR_INSTEAD if len(follows) == 1 else Fate.FINE
        token = stage.network.next_token()
        request = replace(NATIVE_BEAT, token=token, member_epoch=epoch, **how)
        ask = Ask(request=request, heard=lambda _answer: None, lost=lambda: None)
        line.send(ask)
        stage.wait(1_000)
        follows.append(ask.follows_answers)
    assert follows == [True, True, False, False, True]


def test_a_crash_breaks_every_connection() -> None:
    """Clients learn that their requests are lost."""
    stage, heard, lost = Stage(), list[int](), list[int]()
    line = Line(stage.network, "c1")
    line.send(beat(stage, heard, lost))
    stage.driver.crash(100)
    stage.wait(2_000)
    assert (heard, lost) == ([], [1])
