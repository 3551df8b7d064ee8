"""Dictionaries in JSON whose keys are tuples: as lists of pairs."""

from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BeforeValidator, PlainSerializer

K = TypeVar("K")
V = TypeVar("V")


def _pairs(of: dict[Any, Any]) -> list[Any]:
    return list(of.items())


def _dictionary(pairs: Any) -> Any:
    return {_tuple(key): value for key, value in pairs} if isinstance(pairs, list) else pairs


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


Pairs: TypeAlias = Annotated[dict[K, V], PlainSerializer(_pairs), BeforeValidator(_dictionary)]
"""A dictionary with any keys."""
