"""Where the settings come from: flags, environment variables and a TOML file.

The field `listen` is the flag `--listen`, the environment variable `GROUPFERRY_LISTEN`, and the key
`listen` of the file named by `--config`. The flag overrides the variable, and the variable
overrides the file.
"""

import argparse
import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from gateway.addresses import Address
from gateway.setting_values import range_of, sections, type_of
from gateway.settings import SECRETS, Settings, SettingsError, file_key

ENVIRONMENT_PREFIX = "GROUPFERRY_"
# Kubernetes sets such variables for each Service of a namespace; one may be called groupferry.
_KUBERNETES_VARIABLE = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_[A-Z]+(_[A-Z]+)?)?)$"
)
_SEE_HELP = "see groupferry serve --help"


class _Sourced(Settings, BaseSettings):
    """The settings with their sources."""

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT_PREFIX, env_ignore_empty=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (no secrets in a .env file)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (no secrets yet)
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags override variables, and variables override the file."""
        path = init_settings().get("config") or env_settings().get("config")
        in_file = read_file(Path(path)) if path else {}
        return (init_settings, env_settings, InitSettingsSource(settings_cls, in_file))


def load(flags: Mapping[str, str]) -> Settings:
    """The settings from these flags (text by field name), the environment and the file.

    Raises SettingsError with one line for each invalid setting.
    """
    lines = list(_unknown_variables())
    try:
        settings = _Sourced(**dict[str, Any](flags))
    except ValidationError as wrong:
        # A list may be invalid in an item and therefore as a whole: one line is enough.
        first = {error["loc"][:1]: error for error in reversed(wrong.errors())}
        lines += [_explain(error, flags) for error in reversed(first.values())]
    if lines:
        raise SettingsError(lines)
    return settings


def _unknown_variables() -> Iterator[str]:
    known = [name.upper() for name in Settings.model_fields]
    for variable in sorted(os.environ):
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if name in {variable, *known} or _KUBERNETES_VARIABLE.search(variable):
            continue
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {ENVIRONMENT_PREFIX}{close[0]}?" if close else _SEE_HELP
        yield f"{variable}: no such setting; {hint}"


def read_file(path: Path) -> dict[str, Any]:
    """The file's settings by field name. Raises SettingsError if the file cannot be read.

    TOML reads a dotted key as nested tables; here it becomes one name again.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError([f"config: cannot read {path}: {error.strerror}"]) from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise SettingsError([f"config: {path} is not a TOML file: {error}"]) from None
    return {name.replace(".", "_"): value for name, value in _flat(document)}


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def flag(field_name: str) -> str:
    """A field's flag."""
    return "--" + field_name.replace("_", "-")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add one flag per setting. Flags that are not given stay out of the result."""
    parser.add_argument(
        flag("config"),
        metavar="PATH",
        default=argparse.SUPPRESS,
        help=Settings.model_fields["config"].description,
    )
    for title, names in sections():
        group = parser.add_argument_group(title)
        for name in names:
            if name in SECRETS:
                group.add_argument(flag(name), action=_RefuseSecret, help=argparse.SUPPRESS)
            else:
                group.add_argument(
                    flag(name),
                    dest=name,
                    metavar=type_of(name),
                    default=argparse.SUPPRESS,
                    help=_help(name),
                )


def _help(name: str) -> str:
    """The meaning of a setting, its range and its default."""
    field = Settings.model_fields[name]
    about = field.description or f"Kafka's broker config {file_key(name)}"
    value = default_text(field)
    default = "required" if field.is_required() else value and f"default {value}"
    notes = "; ".join(note for note in (range_of(name), default) if note)
    return (f"{about} ({notes})" if notes else about).replace("%", "%%")


def default_text(field: FieldInfo) -> str:
    """A field's default as one writes it in a flag; empty if there is none."""
    return "" if field.default in (None, ()) else _as_text(field.default)


class _RefuseSecret(argparse.Action):
    """Ends the command without repeating the value."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.error(
            f"{self.option_strings[0]}: the command line is no place for a secret; give"
            f" {ENVIRONMENT_PREFIX}{self.dest.upper()}, or a file"
        )


def _as_text(value: object) -> str:
    if isinstance(value, tuple) and not isinstance(value, Address):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _explain(error: ErrorDetails, flags: Mapping[str, str]) -> str:
    """One line that says which setting is invalid, where it came from, and what would be valid."""
    cause = error.get("ctx", {}).get("error")
    if not error["loc"]:  # from `_fit_together`, whose messages name the setting
        return str(cause)
    name = str(error["loc"][0])
    if error["type"] == "missing":
        variable = ENVIRONMENT_PREFIX + name.upper()
        return f"{name}: not set; give {flag(name)}, {variable}, or {file_key(name)} in a file"
    if error["type"] == "extra_forbidden":
        close = difflib.get_close_matches(name, Settings.model_fields, n=1)
        hint = f"did you mean {file_key(close[0])}?" if close else _SEE_HELP
        return f"{name}: no such setting in the config file; {hint}"
    if error["type"] == "too_short":
        return f"{_where(name, flags)}: give at least one"
    if name in SECRETS:
        return f"{_where(name, flags)}: {error['msg']}"
    reason = str(cause or error["msg"].replace("Input ", f"{error['input']!r} "))
    return f"{_where(name, flags)}: {reason}"


def _where(name: str, flags: Mapping[str, str]) -> str:
    if name in flags:
        return flag(name)
    variable = ENVIRONMENT_PREFIX + name.upper()
    return variable if os.environ.get(variable) else f"{file_key(name)} in the config file"
