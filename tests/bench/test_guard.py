"""The judgment on counted work."""

from tests.bench.bench_guard import HEARTBEAT, IN_FLEET, JOIN, PATHS, judge


def test_a_count_above_the_room_of_its_path_is_dearer() -> None:
    committed = {"Heartbeat": {"lines": 100.0, "bytes": 100.0}}
    assert judge({HEARTBEAT: {"lines": 104.0, "bytes": 102.0}}, committed) == {HEARTBEAT: {"lines"}}
    assert not judge({HEARTBEAT: {"lines": 102.0, "bytes": 90.0}}, committed)


def test_a_path_with_several_clients_has_more_room() -> None:
    assert not judge({JOIN: {"lines": 107.0}}, {"Join": {"lines": 100.0}})


def test_a_path_that_was_never_counted_is_not_dearer() -> None:
    assert not judge({HEARTBEAT: {"lines": 104.0}}, {})


def test_a_process_of_a_fleet_costs_a_tenth_more_at_most() -> None:
    """The limit is relative to a single gateway, whatever was committed for it."""
    of_fleet = IN_FLEET[HEARTBEAT]
    committed = {of_fleet.name: {"lines": 120.0}}
    single = {HEARTBEAT: {"lines": 100.0}}
    assert judge({**single, of_fleet: {"lines": 111.0}}, committed) == {of_fleet: {"lines"}}
    assert not judge({**single, of_fleet: {"lines": 110.0}}, committed)


def test_the_paths_have_different_names() -> None:
    """The committed counts are kept by name."""
    assert len({path.name for path in PATHS}) == len(PATHS)
