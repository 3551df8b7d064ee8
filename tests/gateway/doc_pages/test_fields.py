"""The table of a model's fields for the documentation."""

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model

from gateway.doc_pages.fields import field_table


class Kind(Enum):
    """How a member takes part."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Place(BaseModel):
    """Two fields."""

    row: int
    name: str


class Documented(BaseModel):
    """Some fields."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    event: str
    epoch: int
    """Two lines of
    meaning."""
    silent: bool


def type_of(annotation: Any) -> str:
    """The table's text for a field of this type."""
    model = create_model("Model", field=(annotation, ...))
    _, _, line = field_table(model.model_json_schema())
    return line.split(" | ")[1]


def test_each_field_is_one_line() -> None:
    """The line has its name, its type, and its docstring without line breaks, which would end the
    table."""
    assert list(field_table(Documented.model_json_schema(), without="event")) == [
        "| field | type | meaning |",
        "|---|---|---|",
        "| `epoch` | integer | Two lines of meaning. |",
        "| `silent` | boolean |  |",
    ]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (str, "string"),
        (Annotated[int, Field(ge=1)], "integer"),
        (int | None, "integer or null"),
        (Literal["a", "b"], "`a`, `b`"),
        (Literal["a"], "`a`"),
        (Kind, "`classic`, `consumer`"),
        (tuple[int, ...], "array of integer"),
        (Mapping[str, tuple[int, ...]], "object of array of integer"),
        (Place, "object (`row`: integer, `name`: string)"),
        (Any, "anything"),
    ],
)
def test_types_are_described_in_words(annotation: Any, words: str) -> None:
    """The types are those of JSON, and references are resolved."""
    assert type_of(annotation) == words
