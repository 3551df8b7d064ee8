"""Whether what `groupferry[pipeline]` brings is there. Looks, and imports none of it."""

from importlib.util import find_spec

from gateway.pipeline.errors import PipelineError

NEEDED = ("pyspark", "pyarrow")


def require() -> None:
    """Raises PipelineError."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        raise PipelineError(
            f"this needs {' and '.join(absent)}: pip install 'groupferry[pipeline]'"
        )
