"""Slow tests of several cases play a third or a quarter of them a day in CI, and where the whole
suite is run, and the others on the next days.

`poe all` and `poe releases` play all cases. So does a run outside CI that names the files to test.
To play those of another day, set the variable.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

TURN_VARIABLE = "TEST_TURN"
"""The environment variable with the number of the turn, an integer. It has not the prefix of the
gateway's, which refuses those that it does not know."""

_TURNS = {
    re.compile(r"tests/((e2e|fuzz|matrix)/|simulation/explorer/test_worlds\.)"): 3,
    re.compile(r"tests/simulation/(explorer/)?test_(planted_|canonical\.)"): 4,
}
"""The slow tests, and in how many turns their cases are played. The latter ones test the simulator
and the explorer, not the product."""
_TEST = re.compile(r".*/test_worlds\.py::\w+|[^\[]+")
"""The test that a case is one of, in its id. The worlds of a class are cases of one test."""


def record_turn() -> None:
    """Record today's turn for this process and its children. At midnight these would collect
    different cases."""
    os.environ.setdefault(TURN_VARIABLE, f"{datetime.now(UTC).date().toordinal()}")


def left_to_another_turn(test_ids: Iterable[str]) -> set[str]:
    """The cases of slow tests that another turn plays. Each test has some in every turn."""
    cases: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for test_id in sorted(test_ids):
        turns = next((turns for slow, turns in _TURNS.items() if slow.match(test_id)), 1)
        if turns > 1 and (test := _TEST.match(test_id)):
            cases[test[0], turns].append(test_id)
    turn = int(os.environ[TURN_VARIABLE])
    return {
        one
        for (_test, turns), ids in cases.items()
        for number, one in enumerate(ids)
        if number % min(turns, len(ids)) != turn % min(turns, len(ids))
    }
