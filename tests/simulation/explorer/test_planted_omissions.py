"""The explorer finds what an adoption must not leave out."""

from pathlib import Path

import pytest

from tests.simulation.explorer import script
from tests.simulation.explorer.planted_omissions import OMISSIONS, Omission, hunt
from tests.simulation.explorer.promises import BrokenPromiseError

PAGE = Path(__file__).parents[3] / "gateway" / "docs" / "adoption.md"


@pytest.mark.simulation
@pytest.mark.timeout(600)
@pytest.mark.parametrize("omission", OMISSIONS, ids=lambda omission: omission.name)
def test_a_planted_omission_is_found(omission: Omission) -> None:
    finding = hunt(omission).finding
    assert finding is not None
    assert omission.breaks in finding.reason
    # Without the omission, the same moves keep the promise, as far as they are possible.
    try:
        for _ in script.play(omission.shape, finding.moves):
            pass
    except script.WrongMoveError:
        pass
    except BrokenPromiseError as broken:
        pytest.fail(str(broken))


def test_the_page_lists_every_planted_omission() -> None:
    page = PAGE.read_text()
    assert [
        omission.name
        for omission in OMISSIONS
        if f"| `{omission.name}` | {omission.what} |" not in page
    ] == []
