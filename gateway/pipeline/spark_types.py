"""Translates a pydantic model into a Spark schema, for events and for the rows of tables."""

import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

_PLAIN: Mapping[type, DataType] = types.MappingProxyType(
    {str: StringType(), bool: BooleanType(), int: LongType(), float: DoubleType()}
)


def struct_of(model: type[BaseModel]) -> StructType:
    """The fields in their order, all nullable: Spark does not check what it reads, so readers check
    required fields themselves (`is_required`)."""
    return StructType(
        [StructField(name, type_of(field.annotation)) for name, field in model.model_fields.items()]
    )


def is_nullable(annotation: Any) -> bool:
    """Whether the annotation allows None."""
    return type(None) in typing.get_args(annotation)


def without_none(annotation: Any) -> Any:
    """`T` for `T | None`; any other annotation unchanged."""
    given = [each for each in typing.get_args(annotation) if each is not type(None)]
    return given[0] if is_nullable(annotation) and len(given) == 1 else annotation


def type_of(annotation: Any) -> DataType:
    """The Spark type of a field. Raises TypeError if there is none."""
    annotation = without_none(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal and all(isinstance(each, str) for each in arguments):
        return StringType()
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return ArrayType(type_of(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return MapType(type_of(arguments[0]), type_of(arguments[1]))
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            return struct_of(annotation)
        for plain in (str, bool, int, float):
            if issubclass(annotation, plain):
                return _PLAIN[plain]
        if issubclass(annotation, Enum) and all(isinstance(each.value, str) for each in annotation):
            return StringType()
    raise TypeError(f"no column of a table can be a {annotation}")
