"""The columns that all tables share. Rows are models, so that documentation and schema have one
source."""

from pydantic import BaseModel, ConfigDict


class Row(BaseModel):
    """One row. Times are milliseconds since 1970 (UTC), null if unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    cluster_id: str
    """The cluster's own id, empty if no gateway has named it."""
    group_id: str
