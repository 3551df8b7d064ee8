"""Slow tests of several cases play half of them a day in CI, and the others on the next day.

`poe releases` plays all cases, and so does whoever runs some of the tests without CI. To play those
of another day, set the variable.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from tests.support import releases

TURN_VARIABLE = "TEST_TURN"
"""The environment variable with the number of the turn, an integer. It has not the prefix of the
gateway's, which refuses those that it does not know."""

_SLOW = re.compile(
    r"tests/((e2e|fuzz|matrix)/|simulation/(explorer/)?test_(planted_|canonical\.|worlds\.))"
)
_TEST = re.compile(r".*/test_worlds\.py::\w+|[^\[]+")
"""The test that a case is one of, in its id. The worlds of a class are cases of one test."""


def note_turn() -> None:
    """Note today's turn for this process and its children. At midnight these would collect
    different cases."""
    os.environ.setdefault(TURN_VARIABLE, f"{datetime.now(UTC).date().toordinal()}")


def left_to_another_turn(test_ids: Iterable[str]) -> set[str]:
    """The cases of slow tests that another turn plays. Each test has some in every turn."""
    if not releases.IS_DAILY:
        return set()
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for test_id in filter(_SLOW.match, sorted(test_ids)):
        if test := _TEST.match(test_id):
            cases[test[0]].append(test_id)
    turn = int(os.environ[TURN_VARIABLE])
    return {one for ids in cases.values() if len(ids) > 1 for one in ids[turn % 2 :: 2]}
