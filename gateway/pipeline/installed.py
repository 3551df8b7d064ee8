"""Checks whether the dependencies of `groupferry[pipeline]` are installed, without importing
them."""

from importlib.util import find_spec

from gateway.pipeline.errors import PipelineError

NEEDED = ("pyspark", "pyarrow")


def require() -> None:
    """Raises PipelineError if a dependency is missing."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        raise PipelineError(
            f"this needs {' and '.join(absent)}, from the extra pipeline: in a checkout,"
            " pip install -c constraints.txt '.[pipeline]'"
        )
