"""The explorer finds bugs that the simulator's seeds miss, and what a move must not leave out."""

from itertools import chain
from pathlib import Path

import pytest

from tests.simulation.explorer import planted_bugs, planted_omissions, release_omissions, script
from tests.simulation.explorer.bug import Bug, hunt
from tests.simulation.explorer.promises import BrokenPromiseError

DOCS = Path(__file__).parents[3] / "gateway" / "docs"
PAGES = {
    Path(__file__).with_name("README.md"): planted_bugs.BUGS,
    DOCS / "adoption.md": planted_omissions.OMISSIONS,
    DOCS / "release.md": release_omissions.OMISSIONS,
}


@pytest.mark.simulation
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bug", [*chain(*PAGES.values())], ids=lambda bug: bug.name)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_lists_every_planted_bug(page: Path) -> None:
    text = page.read_text()
    assert [bug.name for bug in PAGES[page] if f"| `{bug.name}` | {bug.what} |" not in text] == []
