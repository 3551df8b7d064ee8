"""All cases: importing this module declares them."""

from tests.simulation.broker_cases import (
    anchors,
    coordinator_moves,
    locks,
    native_consumers,
    rounds,
)
from tests.simulation.broker_cases.case import CASES

__all__ = ["CASES", "anchors", "coordinator_moves", "locks", "native_consumers", "rounds"]
