"""The explorer finds bugs that the simulator's seeds miss."""

from pathlib import Path

import pytest

from tests.simulation.explorer import script
from tests.simulation.explorer.planted_bugs import BUGS, Bug, hunt
from tests.simulation.explorer.promises import BrokenPromiseError

PAGE = Path(__file__).with_name("README.md")


@pytest.mark.simulation
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    finding = hunt(bug).finding
    assert finding is not None
    assert bug.breaks in finding.reason
    # Without the bug, the same moves keep the promise, as far as they are possible.
    try:
        for _ in script.play(bug.shape, finding.moves):
            pass
    except script.WrongMoveError:
        pass
    except BrokenPromiseError as broken:
        pytest.fail(str(broken))


def test_the_page_lists_every_planted_bug() -> None:
    page = PAGE.read_text()
    assert [bug.name for bug in BUGS if f"| `{bug.name}` | {bug.what} |" not in page] == []
