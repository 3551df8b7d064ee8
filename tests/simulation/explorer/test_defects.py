"""Defects that were found, and repaired."""

import pytest

from gateway.hosting.states import AdoptionStage, ReleaseStage
from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.defects import DEFECTS, Defect, Lead, hunt
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.worlds import WORLDS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_breaks_no_promise(defect: Defect) -> None:
    finding = hunt(defect)
    if finding is not None:
        assert defect.breaks in finding.reason, finding
        raise BrokenPromiseError(finding.reason)


def test_a_lead_keeps_its_moves() -> None:
    lead = Lead(begin(WORLDS["adopt"]))
    lead.play("adopt")
    lead.to(AdoptionStage.LOCKING)
    assert lead.moves[0] == "adopt"
    assert lead.world.port.stage is AdoptionStage.LOCKING
    with pytest.raises(ValueError, match="never comes"):
        lead.to(ReleaseStage.RECALLING)
