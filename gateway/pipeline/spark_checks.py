"""Translates the constraints of a pydantic model into Spark conditions: required values, also
inside lists and objects, bounds, and enumerations. `spark_types` translates its types."""

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import reduce
from typing import Any, TypeAlias

from annotated_types import Ge, Le
from pydantic import BaseModel
from pyspark.sql import Column
from pyspark.sql import functions as F

from gateway.pipeline.spark_types import is_nullable, without_none

STRING_BYTES_MAX = 32_767
"""The longest string in Kafka's protocol, which is where events get their names from."""

FieldOf: TypeAlias = Callable[[str], Column]
"""The column of a field, by the field's name."""


def all_given(model: type[BaseModel], field_of: FieldOf) -> Column:
    """Whether all required fields that are not nullable have a value."""
    return _all(
        field_of(name).isNotNull()
        for name, field in model.model_fields.items()
        if field.is_required() and not is_nullable(field.annotation)
    )


def all_sound(model: type[BaseModel], field_of: FieldOf) -> Column:
    """Whether all fields with a value satisfy their constraints."""
    return _all(
        field_of(name).isNull() | demand
        for name, field in model.model_fields.items()
        for demand in _demands(field_of(name), field.annotation, field.metadata)
    )


def _demands(value: Column, annotation: Any, bounds: Iterable[Any] = ()) -> Iterator[Column]:
    """The constraints on a value that is not null."""
    kind = without_none(annotation)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    for bound in bounds:
        if isinstance(bound, Ge):
            yield value >= F.lit(bound.ge)
        elif isinstance(bound, Le):
            yield value <= F.lit(bound.le)
    if kind is str:
        yield F.octet_length(value) <= STRING_BYTES_MAX
    elif origin is typing.Literal:
        yield value.isin(*arguments)
    elif origin is tuple:
        yield F.forall(value, lambda each: _is_whole(each, arguments[0]))
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield F.forall(F.map_keys(value), lambda each: _is_whole(each, arguments[0]))
        yield F.forall(F.map_values(value), lambda each: _is_whole(each, arguments[1]))
    elif isinstance(kind, type) and issubclass(kind, Enum):
        yield value.isin(*(each.value for each in kind))


def _is_whole(value: Column, annotation: Any) -> Column:
    """Whether an item of a list or an object is valid. Nothing inside may be null."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        inside = _all(_is_whole(value.getField(name), field.annotation) for name, field in fields)
    else:
        inside = _all(_demands(value, annotation))
    return value.isNotNull() & inside


def _all(conditions: Iterable[Column]) -> Column:
    return reduce(Column.__and__, conditions, F.lit(True))
