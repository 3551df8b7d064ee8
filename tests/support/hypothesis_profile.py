"""The number of examples in property tests: few in the fast lane, many in `poe all`."""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
_FACTOR = {"quick": 0.1, "default": 1.0, "deep": 2.0}[PROFILE]
_EXAMPLES_MIN = 3


def examples(count: int = 100) -> int:
    """`count` by default; fewer under the profile `quick`, more under `deep`."""
    return max(_EXAMPLES_MIN, round(count * _FACTOR))


def thinned_out(every: Sequence[T], kept_max: int = 2) -> Sequence[T]:
    """All items; under the profile `quick`, `kept_max` of them from the first to the last."""
    if PROFILE != "quick" or len(every) <= kept_max:
        return every
    return [every[round(n * (len(every) - 1) / (kept_max - 1))] for n in range(kept_max)]
