"""What each setting takes: its type, range and unit, for `serve --help` and the documentation."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from coordinator.interface.config import INT32_MAX
from gateway.settings import Settings

SECTIONS: Mapping[str, str] = {
    "upstream": "The cluster",
    "listen": "Clients",
    "state_dir": "State and events",
    "log_format": "Log",
    "groups_host": "Which groups are hosted, and when they migrate",
    "admin_listen": "Admin API and metrics",
    "group_min_session_timeout_ms": "Groups, as in Kafka's brokers",
    "group_conversion_rest_max_ms": "Groups that are rolled",
    "group_rack_aware": "Assignors and members",
    "max_connections": "Limits",
    "broker_timeout_ms": "Timeouts",
}
"""The titles of the sections, by the first setting of each."""

_UNITS = {"ms": "ms", "percent": "%"}
"""Units by the ends of names."""
_WORDS = {"boolean": "true|false", "integer": "NUMBER", "array": "NAME[,...]", "string": "TEXT"}
_FORMATS = {"path": "PATH", "password": "TEXT"}


def sections() -> Iterator[tuple[str, list[str]]]:
    """The title and the settings of each section, in the order of the settings."""
    names = [name for name in Settings.model_fields if name != "config"]
    starts = [names.index(first) for first in SECTIONS]
    ends = [*starts[1:], len(names)]
    for title, start, end in zip(SECTIONS.values(), starts, ends, strict=True):
        yield title, names[start:end]


def type_of(name: str) -> str:
    """The type of a setting as one writes a value: `HOST:PORT`, `true|false`, `NUMBER`."""
    value = _value(name)
    if "enum" in value:
        return "|".join(value["enum"])
    if "prefixItems" in value:  # a pair of host and port
        return "HOST:PORT"
    if "$ref" in value.get("items", {}):
        return "HOST:PORT[,...]"
    return _FORMATS.get(value.get("format", ""), _WORDS[value["type"]])


def range_of(name: str) -> str:
    """The range of a number with its unit, such as `1 to 100 %`; empty for what is no number."""
    value, unit = _value(name), _UNITS.get(name.rpartition("_")[2], "")
    if value["type"] != "integer":
        return ""
    low, high = value["minimum"], value.get("maximum", INT32_MAX)
    bounds = f"at least {low:,}" if high == INT32_MAX else f"{low:,} to {high:,}"
    return f"{bounds} {unit}".strip()


def _value(name: str) -> Mapping[str, Any]:
    """The JSON schema of a setting's value, if it has one."""
    schema = _schema()
    value: Mapping[str, Any] = schema["properties"][name]
    value = next((part for part in value.get("anyOf", ()) if part.get("type") != "null"), value)
    definition = value.get("$ref", "").rpartition("/")[2]
    if definition:
        value = schema["$defs"][definition]
    return value


@cache
def _schema() -> Mapping[str, Any]:
    return Settings.model_json_schema()
