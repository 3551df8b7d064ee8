"""Log lines: coloured for people, JSON for machines, always to one stream.

Values bound with structlog's contextvars are in every line, and Trio's child tasks inherit them.
The stream is stderr for every command, so that stdout has results only.
"""

import contextlib
import dataclasses
import logging
import os
import sys
import traceback
from collections.abc import Hashable
from typing import Literal, TextIO, TypeAlias, TypeVar, cast

import structlog
import trio

from gateway.events.catalog import EVENTS
from gateway.events.event import GatewayEvent, Level
from gateway.events.sentences import NAMING, Narrator
from gateway.readable import escape
from gateway.repeated_lines import RepeatedLines

SUM_UP_INTERVAL_S = 2.0
"""How often to look for counts that are due."""

LogFormat: TypeAlias = Literal["console", "json"]

_LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_Processor = TypeVar("_Processor")
_PROCESS_FIELDS: dict[str, object] = {}
"""The fields of every line of this process."""

log = structlog.get_logger()


def write_to_log(
    event: GatewayEvent,
    group_id: str | None = None,
    owner: Hashable | None = None,  # noqa: ARG001
) -> None:
    """Write an event, about a group or about the gateway, with the fields of its JSON line except
    topic ids, which are for programs."""
    about = {} if group_id is None else {"group_id": group_id}
    bound = log.bind(**about)
    if bound.is_enabled_for(_LEVELS[event.level]):  # the fields cost more than the rest
        fields = {name: value for name, value in event.fields.items() if name != "topic_ids"}
        getattr(bound, event.level)(event.name, **fields)
    elif event.name in NAMING and (story := _find_processor(_SentenceRenderer)) is not None:
        story.narrator.learn(event, group_id)


class _LossyStream:
    """Drops lines that cannot be written, because the terminal is gone or the disk is full: an
    error would end the task that logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def configure(
    log_format: LogFormat = "console",
    log_level: Level = "info",
    stream: TextIO | None = None,
    *,
    counts_repeats: bool = False,
) -> None:
    """Send all log lines of this level and above to the stream, stderr by default.
    `counts_repeats`: whether lines that repeat themselves are counted; then `sum_up_repeats` has to
    run."""
    stream = stream or sys.stderr
    repeats = [_repeated_lines() or RepeatedLines()] if counts_repeats else []
    process_fields = [_add_process] if _PROCESS_FIELDS else []
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            *process_fields,
            structlog.processors.add_log_level,
            *repeats,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(log_format, stream),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[log_level]),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _LossyStream(stream))),
        # A cached logger would keep the old configuration, and tests capture logs by changing it.
        cache_logger_on_first_use=False,
    )


def name_process(slot: int) -> None:
    """Have every line say which process of a fleet has written it, from the next `configure` on."""
    _PROCESS_FIELDS["slot"] = slot


def _add_process(
    _logger: object, _method: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return {**_PROCESS_FIELDS, **line}


async def sum_up_repeats() -> None:
    """Write the counts of lines that repeat themselves, until cancelled; then the rest of them."""
    repeated = _repeated_lines()
    if repeated is None:
        return
    try:
        while True:
            await trio.sleep(SUM_UP_INTERVAL_S)
            repeated.sum_up()
    finally:
        repeated.sum_up(ends=True)


def _repeated_lines() -> RepeatedLines | None:
    return _find_processor(RepeatedLines)


def _find_processor(kind: type[_Processor]) -> _Processor | None:
    processors = structlog.get_config()["processors"]
    return next((processor for processor in processors if isinstance(processor, kind)), None)


def _renderers(log_format: LogFormat, stream: TextIO) -> list[structlog.typing.Processor]:
    # Local variables may contain user data or secrets, so tracebacks leave them out.
    if log_format == "json":
        without_locals = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        return [
            structlog.processors.ExceptionRenderer(without_locals),
            structlog.processors.JSONRenderer(),
        ]
    coloured = stream.isatty() and not os.environ.get("NO_COLOR")
    return [
        _SentenceRenderer(),
        _escape,
        structlog.dev.ConsoleRenderer(
            colors=coloured, sort_keys=False, exception_formatter=_write_traceback
        ),
    ]


class _SentenceRenderer:
    """Tells events in sentences. An event that is a detail of another one has a line on level debug
    only: JSON has all of them."""

    def __init__(self) -> None:
        self.narrator = Narrator()

    def __call__(
        self, _logger: object, _method: str, line: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        """The line with a sentence in place of the fields. Raises DropEvent for a detail."""
        event = line["event"]
        if event not in EVENTS:
            return line
        names = {field.name for field in dataclasses.fields(EVENTS[event])}
        fields = {name: value for name, value in line.items() if name in names}
        try:
            sentence = self.narrator.narrate(event, line.get("group_id"), fields)
        except KeyError:  # a line that counts repetitions has no lists
            return line
        if not sentence:
            if line["level"] == "info":
                raise structlog.DropEvent
            return line
        rest = {name: value for name, value in line.items() if name not in fields}
        return {**rest, "event": sentence, "kind": event}


def _escape(
    _logger: object, _method: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape strings. The renderer uses Python's repr for other values, which escapes by itself."""
    return {
        name: escape(value) if isinstance(value, str) else value for name, value in line.items()
    }


def _write_traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    lines = "".join(traceback.format_exception(*exc_info)).splitlines()
    stream.write("\n" + "\n".join(map(escape, lines)))
