"""The simulator finds every planted bug, through a check that is meant for it."""

import re
from pathlib import Path

import pytest

from tests.gateway.hosting import test_grants
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs import hosting
from tests.simulation.planted_bugs.bug import Bug
from tests.simulation.planted_bugs.hunt import BUGS, SEEDS_MAX, hunt
from tests.simulation.run import simulate
from tests.simulation.sweep import failure
from tests.simulation.test_run import FIXED_SEEDS

PAGE = Path(__file__).with_name("README.md")


def seed_on_the_page(bug: Bug) -> int:
    row = re.search(rf"^\| `{bug.name}` \|.*\| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    return int(row[1]) if row is not None else 0


@pytest.mark.simulation
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    """The bug is found within 200 seeds, and the seed passes without it. The page names the seed
    that found it last. If the simulator has changed since, the other seeds are played."""
    outcome = hunt(bug, first_seed=seed_on_the_page(bug))
    assert outcome is not None, f"{SEEDS_MAX} seeds, without a violation: {bug.what}"
    assert outcome.invariant in bug.checks, failure(outcome)
    # `test_run.py` plays the lower seeds.
    assert outcome.seed < FIXED_SEEDS or simulate(outcome.seed).invariant is None


def test_a_scene_finds_the_bug_that_hardly_a_seed_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last member has to leave in the batch of its grant, while the client waits for both."""
    hosting.a_grant_to_a_member_that_has_left_is_not_confirmed.plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_grants.test_a_grant_waits_for_the_anchor_though_its_member_has_left_again()


def test_every_numbered_invariant_has_a_bug_that_only_it_finds() -> None:
    """Each of the ten checks is therefore necessary."""
    numbered = {check for check in Invariant if check[0].isdigit()}
    assert len(numbered) == 10
    assert numbered <= {bug.checks[0] for bug in BUGS if len(bug.checks) == 1}


def test_every_check_has_a_bug_that_it_may_find_first() -> None:
    """Only the end of a run has none."""
    assert {check for bug in BUGS for check in bug.checks} == {*Invariant} - {Invariant.ENDS}


def test_the_page_lists_every_bug_and_check() -> None:
    """The command prints the seeds, which change with the simulator."""
    page = PAGE.read_text()
    assert [bug.name for bug in BUGS if f"| `{bug.name}` | {bug.what} |" not in page] == []
    assert [str(check) for check in Invariant if f"| {check} |" not in page] == []
