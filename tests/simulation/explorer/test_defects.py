"""Known defects. Whoever repairs one removes its name from `OPEN`."""

import pytest

from gateway.hosting.states import AdoptionStage, ReleaseStage
from tests.simulation.explorer.beginning import begin_moving
from tests.simulation.explorer.defects import DEFECTS, Defect, Lead, hunt
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.worlds import WORLDS

OPEN: frozenset[str] = frozenset()
"""The defects that today's code has."""


def _param(defect: Defect) -> object:
    reason = f"{defect.letter}: {defect.what}"
    is_open = pytest.mark.xfail(strict=True, raises=BrokenPromiseError, reason=reason)
    return pytest.param(defect, id=defect.name, marks=[is_open] if defect.name in OPEN else [])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("defect", [_param(defect) for defect in DEFECTS])
def test_a_defect_breaks_no_promise(defect: Defect) -> None:
    finding = hunt(defect)
    if finding is not None:
        assert defect.breaks in finding.why, finding
        raise BrokenPromiseError(finding.why)


def test_only_listed_defects_are_open() -> None:
    assert {defect.name for defect in DEFECTS} >= OPEN


def test_a_lead_keeps_its_moves() -> None:
    lead = Lead(begin_moving(WORLDS["adopt"]))
    lead.play("adopt")
    lead.to(AdoptionStage.LOCKING)
    assert lead.moves[0] == "adopt"
    assert lead.world.port.stage is AdoptionStage.LOCKING
    with pytest.raises(ValueError, match="never comes"):
        lead.to(ReleaseStage.RECALLING)
