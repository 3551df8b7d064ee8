"""The explorer finds what a release must not leave out."""

from pathlib import Path

import pytest

from tests.simulation.explorer.planted_omissions import Omission, hunt
from tests.simulation.explorer.release_omissions import OMISSIONS

PAGE = Path(__file__).parents[3] / "gateway" / "docs" / "release.md"


@pytest.mark.simulation
@pytest.mark.timeout(600)
@pytest.mark.parametrize("omission", OMISSIONS, ids=lambda omission: omission.name)
def test_a_planted_omission_is_found(omission: Omission) -> None:
    finding = hunt(omission).finding
    assert finding is not None
    assert omission.breaks in finding.reason


def test_the_page_lists_every_planted_omission() -> None:
    page = PAGE.read_text()
    assert [
        omission.name
        for omission in OMISSIONS
        if f"| `{omission.name}` | {omission.what} |" not in page
    ] == []
