"""Translates the rows of tables into Spark's schemas."""

import types
import typing
from collections.abc import Mapping
from typing import Any

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

from gateway.pipeline.tables.row import BaseRow, columns

_PLAIN: Mapping[type, DataType] = types.MappingProxyType(
    {str: StringType(), bool: BooleanType(), int: LongType(), float: DoubleType()}
)


def struct_of(row: type[BaseRow]) -> StructType:
    """The columns in their order, all nullable."""
    hints = typing.get_type_hints(row)
    return StructType([StructField(name, type_of(hints[name])) for name in columns(row)])


def type_of(annotation: Any) -> DataType:
    """The Spark type of a column. Raises TypeError if there is none."""
    choices = typing.get_args(annotation)
    if type(None) in choices and len(choices) == 2:
        annotation = next(each for each in choices if each is not type(None))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal and all(isinstance(each, str) for each in arguments):
        return StringType()
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return ArrayType(type_of(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return MapType(type_of(arguments[0]), type_of(arguments[1]))
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    raise TypeError(f"no column of a table can be a {annotation}")
