"""Each of the 99 scenarios of `gateway/docs/protocol/scenarios.md` has its test, and each test its
number: `test_NN_...` here, or one of the tests below that name their scenario."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
SCENARIOS = range(1, 100)

ELSEWHERE = {
    35: ("gateway/groups/test_cluster_group_reader.py", "test_a_look_finds_groups_of_other_kinds"),
    66: ("gateway/data_path/test_offer.py", "test_features_are_the_clusters_and_group_version"),
    71: ("matrix/test_rolls.py", "test_a_client_rolls_up_and_down"),
}
"""Scenarios that no test of the engine can cover: other kinds of groups, feature levels, real
clients."""


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_scenario_is_missing() -> None:
    """Each has its test here or elsewhere, but not in both places."""
    numbers = {
        int(match[1])
        for path in Path(__file__).parent.glob("test_*.py")
        for test in functions_of(path)
        if (match := re.match(r"test_(\d+)_", test.name))
    }
    assert numbers | ELSEWHERE.keys() == set(SCENARIOS)
    assert numbers.isdisjoint(ELSEWHERE)


@pytest.mark.parametrize("number", ELSEWHERE)
def test_scenarios_elsewhere_name_their_number(number: int) -> None:
    """The docstrings name it."""
    path, name = ELSEWHERE[number]
    (test,) = (test for test in functions_of(TESTS / path) if test.name == name)
    assert re.search(rf"\bscenario\s+{number}\b", ast.get_docstring(test) or "", re.IGNORECASE)
