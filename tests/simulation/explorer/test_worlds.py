"""Named worlds, played completely.

One class per world, because the test runner gives a class to one worker.
"""

import pytest

from tests.simulation.explorer.prices import BUDGETS
from tests.simulation.explorer.search import Report, explore
from tests.simulation.explorer.worlds import WORLDS

EXHAUSTED = {
    **{"upgrade": 12_000, "slot": 2_000, "temporary-eager": 3_500},
    **{
        "compute": 3_000,
        "adopt-restart": 38_000,
        "release-restart": 9_300,
    },
    **{"release-setting": 8_500, "release-native-setting": 900},
    **{"adopt": 14_000, "release": 11_000, "release-native": 10_000, "release-librdkafka": 5_500},
    **{"release-fail": 3_400},
}
"""The worlds that are played here, and roughly how many transitions each has. If a world has become
smaller, find out why before you lower its number. `poe explore` plays the others: `restart` and
`eager` alone have as many transitions as all of these."""


def exhaust(name: str) -> Report:
    report = explore(WORLDS[name])
    assert report.finding is None, report.finding
    assert report.is_exhausted
    assert report.unknown == 0
    assert report.transitions >= EXHAUSTED[name]
    return report


@pytest.mark.simulation
@pytest.mark.timeout(900)
class TestStart:
    def test_a_replacement_may_take_a_place_or_come_too_late(self) -> None:
        exhaust("slot")

    def test_another_may_be_the_owner_until_a_replacement_comes(self) -> None:
        exhaust("temporary-eager")

    def test_a_member_may_leave_while_it_computes_the_target(self) -> None:
        exhaust("compute")

    def test_a_consumer_may_switch_while_answers_are_lost(self) -> None:
        exhaust("upgrade")


@pytest.mark.simulation
@pytest.mark.timeout(900)
class TestMoves:
    def test_the_gateway_may_be_killed_at_any_step_of_an_adoption(self) -> None:
        exhaust("adopt-restart")

    def test_the_gateway_may_be_killed_at_any_step_of_a_release(self) -> None:
        exhaust("release-restart")


@pytest.mark.simulation
@pytest.mark.timeout(900)
class TestCommits:
    def test_consumers_may_commit_while_their_group_is_adopted(self) -> None:
        exhaust("adopt")

    def test_consumers_may_commit_while_their_group_is_released(self) -> None:
        exhaust("release")

    def test_consumers_may_commit_while_a_mixed_group_is_released(self) -> None:
        exhaust("release-native")


@pytest.mark.simulation
@pytest.mark.timeout(900)
class TestRelease:
    def test_the_coordinator_or_the_log_may_fail_while_a_group_is_released(self) -> None:
        exhaust("release-fail")

    def test_a_client_of_librdkafka_may_sleep_while_its_group_is_released(self) -> None:
        exhaust("release-librdkafka")

    def test_a_setting_releases_a_group_as_an_operator_does(self) -> None:
        exhaust("release-setting")

    def test_a_setting_releases_a_mixed_group_as_well(self) -> None:
        exhaust("release-native-setting")


def test_the_worlds_played_here_have_more_than_120_000_transitions() -> None:
    assert sum(EXHAUSTED.values()) > 120_000


def test_every_world_has_a_name_of_its_own_and_a_budget() -> None:
    for name, shape in WORLDS.items():
        assert shape.name == name
        assert shape.budgets.keys() <= set(BUDGETS)
        assert any(shape.budgets.values())
