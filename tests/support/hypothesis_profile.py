"""The number of examples in property tests: few while developing, many in CI."""

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


def thinned_out(every: Sequence[T]) -> Sequence[T]:
    """All items; only the first and last under the profile `quick`."""
    return [every[0], every[-1]] if PROFILE == "quick" and len(every) > 1 else every
