"""The tables agree with the simulator; `python -m tests.truth` compares many more seeds."""

import dataclasses

import pytest

from tests.support.folded_lines import fold_texts
from tests.support.simulated_events import simulate_events, simulated_with_excuses
from tests.truth import moves
from tests.truth.checks import owners, problems, rebalances, roll_steps, tables

STEPPING_SEED = 4
"""In this run consumers change their protocol."""
SEEDS = [
    *(*range(14), 404, 609, 60_035, 60_078),
    *(1_572_199, 1_580_477, 1_581_046, 1_581_097, 1_584_355),
]
"""In 2 and 404 a static member is replaced during a rebalance, and the gateway killed, so that no
record has the replacement. In 609 one comes back and begins a rebalance by that. In 1,572,199 an
offset is reset by an admin that has gone before the answer, so no event reports it. In 1,580,477
offsets are fetched between two commits that are told together, while the group has no owner. In
1,581,046 a process that has come back with the id of one that crashed has fetched before the last
commit of that one arrives. In 1,581,097 a gateway is killed between a generation and its
assignments, which a static member hears later. In 1,584,355 a client takes partitions that it has
just stated not to own, and hears later that nothing has changed. In 60,035 a reset of an empty
group is stored after a member has come. In 60,078 another consumer comes while one is replaced by a
consumer that came before it had left."""


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tables_agree_with_the_simulator(seed: int) -> None:
    """Its runs have rebalances, conversions, crashes, lost answers, and recreated topics."""
    assert problems(*simulated_with_excuses(seed)) == []


@pytest.mark.parametrize("seed", [*range(6), 60_045, 300_619])
def test_a_move_to_another_gateway_is_no_fault(seed: int) -> None:
    """Its log and its clock are its own. In 60,045 commits before and after the move would be told
    together. In 300,619 the last commit before the move is stored in the last millisecond, and the
    other clock is so far behind that all lines of that log come first."""
    assert moves.findings(seed, *simulated_with_excuses(seed))[0] == []


def test_a_move_that_is_none_is_a_fault() -> None:
    """Both gateways host the group at a time: the first one ends after the other has begun."""
    lines = moves.move_gateways(simulate_events(0), 200, -15.0)
    both = [line.replace('"cause":"gateway_ended"', '"cause":"taken"') for line in lines]
    assert [row for row in fold_texts(*both).findings if row.kind == "owned_twice"]


def test_a_comparison_can_fail() -> None:
    """Other rebalances and holders than in the tables are told."""
    steps = simulate_events(0)
    folded_tables = tables(steps)
    played = simulate_events(STEPPING_SEED)
    stepping = tables(played)
    if folded_tables.rebalances:
        assert list(rebalances(folded_tables, steps[: len(steps) // 2]))
    assert list(roll_steps(stepping, [dataclasses.replace(step, holdings={}) for step in played]))
    assert list(owners(folded_tables, [dataclasses.replace(step, holdings={}) for step in steps]))
