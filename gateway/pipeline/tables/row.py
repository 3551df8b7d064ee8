"""What the rows of all tables have in common. Their columns are the fields of a model, so that the
documentation and the schema come from one place.
"""

from pydantic import BaseModel, ConfigDict


class Row(BaseModel):
    """One row. Times are milliseconds since 1970 (UTC), and null where nothing was seen of them."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    cluster_id: str
    """The cluster's own id, empty if no gateway has told it."""
    group_id: str
