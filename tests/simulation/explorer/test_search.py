"""A search plays everything, and says what it does not know."""

from dataclasses import replace

import pytest

from gateway.hosting.anchor import Anchor
from tests.simulation.explorer import script, search
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.search import (
    NO_REST,
    REST_WITHIN_MOVES,
    TOO_FAR,
    Bounds,
    Finding,
    Search,
    explore,
)
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.worlds import WORLDS

SWITCH = WORLDS["switch"]
ALONE = (("a", Kind.COOPERATIVE),)
"""The only consumer of a world."""


def test_a_small_world_is_exhausted() -> None:
    report = explore(SWITCH)
    assert report.is_exhausted
    assert report.finding is None
    assert (report.unexpanded, report.unknown) == (0, 0)
    assert report.states > 500
    assert report.transitions > report.states
    assert report.at_rest > 10
    assert 10 < report.moves_to_rest <= REST_WITHIN_MOVES


def test_a_bound_leaves_states_unknown() -> None:
    report = explore(SWITCH, Bounds(transitions_max=200))
    assert not report.is_exhausted
    assert report.unexpanded > 0
    assert report.unknown > 0
    assert report.finding is None


def test_a_finding_is_the_shortest_way_to_a_broken_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Anchor, "confirm", lambda _anchor: -1)
    shape = replace(SWITCH, begins_at_rest=False, budgets={"start": 2})
    report = explore(shape)
    assert report.finding is not None
    assert "anchor in doubt" in report.finding.reason
    assert not report.is_exhausted
    with pytest.raises(BrokenPromiseError, match="anchor in doubt"):
        list(script.play(shape, report.finding.moves))
    unsettled = explore(SWITCH).finding
    assert unsettled is not None
    assert not unsettled.moves


def test_a_state_without_a_way_to_rest_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Anchor, "_end_strays", lambda _anchor, _now_ms: None)
    shape = replace(WORLDS["stray"], consumers=ALONE, budgets={"commit": 1, "lose": 1})
    report = explore(shape)
    assert report.finding is not None
    assert report.finding.reason == NO_REST
    assert any(move.startswith("lose") for move in report.finding.moves)
    with pytest.raises(BrokenPromiseError, match=NO_REST):
        list(script.play(shape, report.finding.moves))


def test_a_long_way_to_rest_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = replace(SWITCH, consumers=ALONE)
    far = explore(shape).moves_to_rest
    monkeypatch.setattr(search, "REST_WITHIN_MOVES", far - 1)
    report = explore(shape)
    assert report.finding is not None
    assert report.finding.reason == TOO_FAR
    assert not report.is_exhausted
    with pytest.raises(BrokenPromiseError, match=TOO_FAR):
        list(script.play(shape, report.finding.moves))
    monkeypatch.setattr(search, "REST_WITHIN_MOVES", far)
    list(script.play(shape, report.finding.moves))


def test_an_unknown_state_hides_no_other_that_is_too_far_from_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """State 0 is at rest, 4 is unexpanded; 2 and 3 are two moves away, and only 2 may be nearer."""
    monkeypatch.setattr(search, "REST_WITHIN_MOVES", 1)
    played = Search(SWITCH, Bounds())
    played._moves, played._rest = ["", "to 1", "to 2", "to 3", "to 4"], [0]
    played._parents.extend([-1, 0, 0, 0, 0])
    played._calm_from.extend([1, 2, 3, 2])
    played._calm_to.extend([0, 1, 1, 4])
    finding = played._judge([4]).finding
    assert finding == Finding(reason=TOO_FAR, moves=("to 3",))


def test_progress_is_reported_after_each_layer() -> None:
    layers: list[tuple[int, ...]] = []
    explore(SWITCH, Bounds(transitions_max=50), lambda *layer: layers.append(layer))
    assert [depth for depth, *_ in layers] == [*range(1, len(layers) + 1)]
