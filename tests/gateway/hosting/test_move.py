"""What adoptions and releases have in common. `test_group_adoption.py` and
`test_group_release.py` have the rest."""

from typing import Any

import pytest

from gateway.hosting.calls import Call
from gateway.hosting.effects import Ask, Conclude, Describe, Load, Write
from gateway.hosting.inputs import Damage, Ending, MoveRequested, Resumed
from gateway.hosting.lookup_outcome import LiveMembers
from gateway.hosting.move_requests import AdoptRequest, AnyRequest, NewProtocol, ReleaseRequest
from tests.support.hosted_scene import HostedScene, hosting_rules

KINDS = pytest.mark.parametrize("kind", [AdoptRequest, ReleaseRequest])


class Scene(HostedScene):
    """A group that is not loaded, and the requests that were concluded."""

    def __init__(self, **how: Any) -> None:
        super().__init__(hosting_rules(**how))
        self.concluded: list[AnyRequest] = []
        self.found = LiveMembers("consumer", ("a",), "range")
        self.hold(Ask, Describe)

    def conclude(self, request: AnyRequest) -> None:
        self.concluded.append(request)

    def request(self, kind: type[AnyRequest]) -> AnyRequest:
        request = kind()
        self.feed(MoveRequested(request))
        return request


def reasons(request: AnyRequest) -> tuple[str, ...]:
    """Why the request was refused; it has its outcome."""
    assert request.outcome is not None
    return tuple(request.outcome.reasons)


def unread_release() -> Scene:
    """The next process with a log that has a release."""
    live = Scene()
    live.found = None
    live.classic_member()
    live.wait(1_000)
    live.request(ReleaseRequest)
    assert live.group.move.has_begun
    again = Scene()
    again.records, again.coordinator, again.now_ms = live.records, live.coordinator, live.now_ms
    again.hold(Load)
    return again


def is_waiting(call: Call) -> bool:
    return call.answer is None


@pytest.fixture
def on() -> Scene:
    return Scene()


@KINDS
def test_a_request_is_concluded_once(on: Scene, kind: type[AnyRequest]) -> None:
    """This holds also if nothing was begun."""
    on.load_failure = "it is gone"
    requests = [on.request(kind), on.request(kind)]
    on.feed(Ending())
    assert sorted(map(id, on.concluded)) == sorted(map(id, requests))
    assert all(reasons(request) for request in requests)


@KINDS
def test_nothing_begins_while_the_log_cannot_be_read(on: Scene, kind: type[AnyRequest]) -> None:
    on.load_failure = "it is gone"
    assert reasons(on.request(kind)) == ("its state log cannot be read",)
    assert not on.group.is_moving


@KINDS
def test_nothing_begins_once_the_gateway_shuts_down(on: Scene, kind: type[AnyRequest]) -> None:
    on.feed(Ending())
    (reason,) = reasons(on.request(kind))
    assert "shutting down" in reason
    assert on.count(Load) == 0


@KINDS
def test_a_request_for_the_other_kind_is_refused(on: Scene, kind: type[AnyRequest]) -> None:
    """Requests for the same kind wait for one outcome."""
    on.hold(Load)
    first, same = on.request(kind), on.request(kind)
    (other,) = {AdoptRequest, ReleaseRequest} - {kind}
    (reason,) = reasons(on.request(other))
    assert reason.endswith("try again")
    assert (first.outcome, same.outcome) == (None, None)


def test_a_move_of_the_log_precedes_any_request() -> None:
    """The request for the other kind came before the log was read."""
    again = unread_release()
    request = again.request(AdoptRequest)
    again.release(Load)
    assert reasons(request) == ("it is being released: try again",)
    assert again.group.move.has_begun


def test_a_request_joins_a_move_of_the_same_kind_that_the_log_has() -> None:
    """Before the log was read, its kind was unknown."""
    again = unread_release()
    again.feed(Resumed(is_moving=True))
    request = again.request(ReleaseRequest)
    again.release(Load)
    assert request.outcome is None
    assert again.group.move.has_begun


def test_calls_wait_while_the_log_of_a_move_is_unread(on: Scene) -> None:
    on.hold(Load)
    on.feed(Resumed(is_moving=True))
    call = on.beat("m", 1)
    assert is_waiting(call)
    assert on.group.is_moving
    on.release(Load)
    assert not is_waiting(call)


def test_a_release_whose_beginning_cannot_be_stored_is_refused() -> None:
    on = Scene()
    on.found = None
    on.classic_member()
    on.wait(1_000)
    on.damage = Damage.NONE
    assert reasons(on.request(ReleaseRequest)) == ("the state log failed: try again",)
    on.damage = None
    on.request(ReleaseRequest)
    assert on.group.move.has_begun


def test_a_release_that_does_not_begin_while_the_gateway_shuts_down_is_forgotten() -> None:
    """Its requests were refused while the engine decided, and then a member joined that the cluster
    does not take."""
    on = Scene()
    on.found = None
    on.classic_member()
    on.wait(1_000)
    on.hold(Write)
    on.native("n")
    assert on.waits(Write)
    request = ReleaseRequest(new_protocol=NewProtocol(why_no_natives="it has none"))
    on.feed(MoveRequested(request))
    assert request.outcome is None
    on.feed(Ending())
    assert "shutting down" in reasons(request)[0]
    on.release(Write)
    assert not on.group.is_moving


def test_a_bug_concludes_the_requests_and_the_log_decides_how_the_move_continues() -> None:
    on = Scene()
    on.found = None
    on.classic_member()
    on.wait(1_000)
    on.hold(Write)
    request = on.request(ReleaseRequest)
    on.release(Write)
    on.hold(Load)
    on.record(on.group.start_again(on.now_ms))
    assert reasons(request) == ("a bug: see the log",)
    assert on.group.is_moving
    on.release(Load)
    assert on.group.move.has_begun


def test_a_bug_loses_no_request(on: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request to adopt the group waits for its place among the limits."""
    request = AdoptRequest()
    with monkeypatch.context() as bug:
        bug.setattr(on.group.move, "advance", None)
        with pytest.raises(TypeError):
            on.group.handle(MoveRequested(request), on.now_ms)
    on.record(on.group.start_again(on.now_ms))
    on.run()
    assert on.group.is_moving


def test_the_outcome_is_an_effect() -> None:
    """Effects keep the outcome in order with log lines and events."""
    on = Scene()
    on.feed(Ending())
    effects = on.group.handle(MoveRequested(ReleaseRequest()), on.now_ms)
    assert [type(effect) for effect in effects] == [Conclude]
