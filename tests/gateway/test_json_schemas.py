"""The JSON schema of a dataclass has the meaning of each field."""

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from gateway.json_schemas import DOCUMENTED


@dataclass(config=DOCUMENTED)
class Base:
    partition: int
    """Counts from 0."""
    offset: int
    """-1 if nothing was committed."""


@dataclass(config=DOCUMENTED)
class Derived(Base):
    partition: int
    """The number of the partition."""
    topic: str


def test_an_inherited_field_keeps_its_meaning() -> None:
    """A class that describes the field again has the last word."""
    meanings = {
        name: field.get("description")
        for name, field in TypeAdapter(Derived).json_schema()["properties"].items()
    }
    assert meanings == {
        "partition": "The number of the partition.",
        "offset": "-1 if nothing was committed.",
        "topic": None,
    }
