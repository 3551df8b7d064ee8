"""Dictionaries with tuples as keys survive JSON."""

from pydantic import TypeAdapter

from gateway.pipeline.fold.history import Pairs


def test_keys_may_be_nested_tuples() -> None:
    kept: TypeAdapter[dict[tuple[str, tuple[int, ...]], int]] = TypeAdapter(
        Pairs[tuple[str, tuple[int, ...]], int]
    )
    told = {("t", (1, 2)): 3, ("t", ()): 4}
    assert kept.validate_json(kept.dump_json(told)) == told
