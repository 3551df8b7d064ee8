"""Maps the rows of a DataFrame in Spark's Python processes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

Map: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Maps the rows of one partition, in their order."""


def map_in_arrow(rows: DataFrame, how: Map, schema: StructType) -> DataFrame:
    """`DataFrame.mapInArrow`, which demands pandas but does not use it."""
    mapped = UserDefinedFunction(
        how, schema, name="groupferry", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column: Any = mapped(*(rows[name] for name in rows.columns))
    java: Any = rows._jdf
    return DataFrame(java.mapInArrow(column._jc, False, None), rows.sparkSession)
