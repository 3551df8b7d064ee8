"""What requests create is cheap to create, and can be shared and hashed like any value."""

import dataclasses

from coordinator.interface import events, records, replies, volatile_records
from coordinator.interface.value import value
from tests.support.operations import counted_steps


@value()
class Point:
    """An example."""

    x: int
    y: int = 0


def test_values_are_equal_and_hash_by_their_fields() -> None:
    """Values are keys of tables, and tests compare them."""
    assert Point(x=1) == Point(x=1, y=0) != Point(x=2)
    assert len({Point(x=1), Point(x=1), Point(x=2)}) == 2
    assert not hasattr(Point(x=1), "__dict__")


def test_a_field_costs_one_assignment() -> None:
    """Python's frozen dataclasses call a function for each field."""
    frozen = dataclasses.make_dataclass("Frozen", ["x", "y"], frozen=True)
    with counted_steps() as steps:
        Point(x=1, y=2)
    with counted_steps() as frozen_steps:
        frozen(1, 2)
    assert steps.count < frozen_steps.count


def test_all_that_crosses_the_border_is_a_value() -> None:
    """A dataclass that is not hashable may be changed."""
    for module in (events, records, replies, volatile_records):
        for kind in vars(module).values():
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                assert kind.__hash__ is not None, kind
