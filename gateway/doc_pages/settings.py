"""Writes the documentation of the settings, and a config file that has them all.

    python -m gateway.doc_pages.settings

writes both. A test fails while they differ from the settings.
"""

from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from pydantic.fields import FieldInfo

from gateway.reloading import RELOADED
from gateway.setting_values import range_of, sections, type_of
from gateway.settings import Settings, file_key
from gateway.settings_sources import default_text

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
MARK = "<!-- From here on generated: python -m gateway.doc_pages.settings -->\n"
CONFIG_FILE = Path(__file__).parent.parent / "deploy" / "groupferry.toml"
_WIDTH = 100


def page() -> str:
    """The page as it should be: its own text, followed by the table."""
    words, mark, _table = PAGE.read_text().partition(MARK)
    return words + mark + "\n".join(_rows()) + "\n"


def config_file() -> str:
    """A config file with every setting and its default, as comments except for the upstream."""
    return "\n".join(_entries()) + "\n"


def _rows() -> Iterator[str]:
    for title, names in sections():
        yield ""
        yield f"## {title}"
        yield ""
        yield "| in the file | value | default | SIGHUP | meaning |"
        yield "|---|---|---|---|---|"
        for name in names:
            field = Settings.model_fields[name]
            default = default_text(field)
            shown = "required" if field.is_required() else default and f"`{default}`"
            reloaded = "yes" if name in RELOADED else ""
            value = ", ".join(filter(None, (type_of(name), range_of(name)))).replace("|", " or ")
            yield f"| `{file_key(name)}` | {value} | {shown} | {reloaded} | {_meaning(field)} |"


def _entries() -> Iterator[str]:
    yield "# The settings of `groupferry serve --config FILE`, with their defaults."
    for title, name, field in _in_file():
        yield ""
        if title:
            yield f"# ---- {title} ----"
            yield ""
        yield from (f"# {line}" for line in wrap(_meaning(field), _WIDTH - 2))
        if field.is_required():
            yield f'{file_key(name)} = ["kafka-1:9092", "kafka-2:9092"]'
        else:
            yield f"#{file_key(name)} = {_toml(field.default)}".rstrip()


def _in_file() -> Iterator[tuple[str, str, FieldInfo]]:
    """Each setting, with the title of the section that begins with it."""
    for title, names in sections():
        for name in names:
            yield title if name == names[0] else "", name, Settings.model_fields[name]


def _meaning(field: FieldInfo) -> str:
    return field.description or "as in Kafka's brokers"


def _toml(default: object) -> str:
    match default:
        case None:
            return ""
        case bool():
            return str(default).lower()
        case int():
            return f"{default:_}"
        case tuple() if not hasattr(default, "_fields"):
            return "[" + ", ".join(f'"{item}"' for item in default) + "]"
        case _:
            return f'"{default}"'


if __name__ == "__main__":
    PAGE.write_text(page())
    CONFIG_FILE.write_text(config_file())
