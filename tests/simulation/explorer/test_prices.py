"""What moves cost, and what they excuse."""

from tests.simulation.explorer.__main__ import BUDGETS as ON_THE_COMMAND_LINE
from tests.simulation.explorer.prices import BUDGETS, is_fault, price
from tests.simulation.explorer.worlds import WORLDS


def test_the_command_line_knows_every_budget() -> None:
    assert set(ON_THE_COMMAND_LINE) == set(BUDGETS)
    assert all(set(shape.budgets) <= set(BUDGETS) for shape in WORLDS.values())


def test_faults_have_a_price() -> None:
    free = ("send a", "answer Write", "hear Look", "wait", "tick", "store a", "return a")
    assert {price(move) for move in free} == {""}
    assert {price("fail-after Write"), price("lose-stray a")} == {"fail", "lose"}


def test_a_late_request_is_a_fault_and_a_command_is_none() -> None:
    faults = ("delay leader", "late anchor", "fail Write", "hang-up a", "restart sent")
    assert all(map(is_fault, faults))
    assert not any(map(is_fault, ("adopt", "release", "commit a", "send a", "wait")))
