"""The board as text: on a terminal as wide as it is, otherwise as plain lines."""

import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gateway.board.views import (
    ClientMember,
    EventLine,
    FleetLine,
    GroupLine,
    GroupPage,
    GroupReadiness,
    MemberLine,
    Partitions,
    ProcessLine,
    ProcessState,
)
from gateway.board.words import compact, partitions_in
from gateway.events.catalog import BadLine, read_line
from gateway.readable import escape, format_timestamp, show_value

_MEASURES = Console()
"""A console that only measures the widths of characters."""
PLAIN_WIDTH = 10_000
"""The width of plain output: no line is cut."""
ALIGNED_WIDTH_MAX = 60
"""A longer cell of a plain line moves only the rest of its own line: one client's long name must
not lengthen the lines of all groups."""
USUAL_FROM_WIDTH = 110
"""Narrower terminals show fewer columns in the list of groups, unless some are asked for."""
CLIENT_WIDTH, BAND_WIDTH_MIN = 20, 10
RECENT_MS = 15_000
"""The age from which on lists show the age of a lag."""
MOMENTS_MAX = 500
"""Moments remembered of each member's band."""
FRAME_LINES, EVENTS_MIN = 5, 3
"""Lines of a screen around heading, members and events, and the events shown at least."""

_POLICIES = {"allow": "", "hold": "on hold", "pause": "paused"}
_MODES_WITH_MEMBERS = frozenset({"hosted", "adopting", "releasing"})
"""The modes in which this process knows everything that the members own."""
_BANDS = {"classic": ("─", "yellow"), "consumer": ("━", "green")}
"""How a member at rest looks, by protocol."""
_BUSY = {
    "ToldToRejoin": ("!", "bold red"),
    "Joining": ("~", "magenta"),
    "Syncing": ("~", "magenta"),
    "GivingUp": ("<", "cyan"),
    "Waiting": (">", "cyan"),
}
_BARS = "▁▂▃▄▅▆▇█"
SPARKS_MAX = 16
"""Bars of a sparkline."""
_SILENT = ("?", "bold red")
_LEGEND = "─ classic  ━ new  ! told to rejoin  ~ joining  < giving up  > waiting  ? silent"
LINES_PER_TEXT_MAX, LINES_PER_CELL_MAX = 2, 3
"""Lines of a screen that one line of the heading or the story may take, and those of a cell of a
list: what it decides comes last in many, and must not be cut."""


def now_ms() -> int:
    """The time of the clock, in milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000


def console() -> Console:
    """Standard output: in colour on a terminal, plain otherwise."""
    made = Console(highlight=False, markup=False, emoji=False)
    if made.is_terminal:
        return made
    return Console(highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH)


# -- groups --------------------------------------------------------------------------------------


class _Column(NamedTuple):
    """A column of the list of groups."""

    heading: str
    cell: Callable[[GroupLine], str]
    key: Callable[[GroupLine], Any]
    """What sorts by it. Figures sort downwards, and those that are not known come last."""
    is_cut: bool = False
    is_wrapped: bool = False
    """Whether it continues on further lines: what it decides may come last."""


def _downwards(figure: float | None) -> float:
    return 1.0 if figure is None else -float(figure)


USUAL_COLUMNS = ("group", "mode", "type", "state", "new", "unowned", "lag", "waits")
NARROW_COLUMNS = ("group", "mode", "state", "new", "lag", "waits")
"""The columns that are worth most on a narrow terminal."""


def groups_table(
    groups: Sequence[GroupLine],
    *,
    columns: Sequence[str] = (),
    sorted_by: str = "group",
    width: int = PLAIN_WIDTH,
    height: int | None = None,
) -> RenderableType:
    """The list of groups. `columns`, `sorted_by`: names in COLUMNS. Sorted by their ids, those that
    wait come first if there is no room for all."""
    groups = sorted(groups, key=COLUMNS[sorted_by].key)
    names = columns or (USUAL_COLUMNS if width >= USUAL_FROM_WIDTH else NARROW_COLUMNS)
    if height is None:
        return _list_groups(groups, names)
    if len(groups) < height and _height_of(table := _list_groups(groups, names), width) <= height:
        return table
    if sorted_by == "group":
        groups = sorted(groups, key=_rests)
    shown = groups[: max(1, height - 2)]
    while (excess := _height_of(_list_groups(shown, names), width) - (height - 1)) > 0:
        if len(shown) == 1:
            break
        shown = shown[: max(1, len(shown) - max(1, excess // LINES_PER_CELL_MAX))]
    return Group(_list_groups(shown, names), Text(f"and {len(groups) - len(shown)} more"))


def _list_groups(groups: Iterable[GroupLine], names: Iterable[str]) -> "PlainTable":
    columns = [COLUMNS[name] for name in names]
    cut = [column.heading for column in columns if column.is_cut or column.is_wrapped]
    table = PlainTable(*(column.heading for column in columns), cut=cut)
    for group in groups:
        cells: list[_Cell] = []
        for column in columns:
            cell = column.cell(group)
            if column.is_wrapped:
                cells.append(_Wrapped(cell))
            else:
                cells.append(_cut(cell) if column.is_cut else cell)
        table.add_row(*cells, style="bold red" if group.owned_twice else None)
    return table


def _height_of(shown: RenderableType, width: int) -> int:
    """How many lines it takes on a screen of this width."""
    options = _MEASURES.options.update(width=width)
    return len(_MEASURES.render_lines(shown, options, pad=False))


def gateways_table(states: Sequence[ProcessState]) -> RenderableType:
    """The processes of a gateway."""
    table = PlainTable(*_GATEWAY_COLUMNS, cut=("SHARDS", "STATE"))
    for state in states:
        gateway = state.gateway
        if gateway is None:
            unknown = ["?"] * (len(_GATEWAY_COLUMNS) - 2)
            table.add_row(str(state.slot), _cut(state.trouble), *unknown, style="bold red")
            continue
        process, readiness = gateway.process, gateway.readiness
        moved = "never"
        if process is not None and process.moved_at_ms is not None:
            ago = format_age(gateway.now_ms - process.moved_at_ms)
            moved = f"{ago} ago, took {process.move_took_ms} ms"
        table.add_row(
            str(state.slot),
            _cut("serves" if readiness.is_ready else "; ".join(readiness.reasons)),
            "?" if process is None else str(process.pid),
            format_age(gateway.now_ms - gateway.started_ms),
            _cut("all" if process is None else _shards(process)),
            str(gateway.hosted),
            str(gateway.connections),
            moved,
        )
    return table


def fleet_table(fleet: Sequence[FleetLine], now_ms: int) -> RenderableType:
    """The gateways of a fleet, on all machines, as one of them knows them now."""
    headings = ("GATEWAY", "ADDRESS", "STATE", "SEEN FOR", "SLOT", "SHARDS")
    table = PlainTable(*headings, cut=("GATEWAY", "ADDRESS"))
    for one in fleet:
        shards = f"{len(one.shards)} ({compact(one.shards)})" if one.shards else "none"
        state = f"{one.state}, here" if one.is_here else one.state
        seen = "?" if one.seen_ms is None else format_age(now_ms - one.seen_ms)
        table.add_row(_cut(one.name), _cut(one.address), state, seen, str(one.slot), shards)
    return table


_GATEWAY_COLUMNS = (
    *("PROCESS", "STATE", "PID", "AGE", "SHARDS", "GROUPS", "CONNECTIONS", "LAST MOVE OF A SHARD"),
)


def _shards(process: ProcessLine) -> str:
    """How many shards, and which. Those of other processes are counted apart."""
    others = len(process.shards) - process.own_shards
    count = f"{len(process.shards)}" + (f", {others} of others" if others else "")
    return f"{count} ({compact(process.shards)})" if process.shards else "none"


def format_age(age_ms: int | None) -> str:
    """An age, rounded up because it is often an upper limit, in the largest unit that it has at
    least two of."""
    if age_ms is None:
        return "?"
    seconds = -(-max(0, age_ms) // 1000)
    for length_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length_s:
            return f"{-(-seconds // length_s)} {unit}"
    return f"{seconds} s"


def _waits_for(group: GroupLine) -> str:
    if group.policy is None:
        return group.stands
    policy, blocker = _POLICIES[group.policy], group.blocker or ""
    if policy and blocker.startswith(policy):
        return blocker
    return "; ".join(filter(None, (policy, blocker))) or "-"


def _rests(group: GroupLine) -> bool:
    return not group.owned_twice and (group.blocker is None or group.mode == "forwarded")


COLUMNS: Mapping[str, _Column] = {
    "group": _Column("GROUP", lambda g: g.group_id, lambda g: g.group_id, is_cut=True),
    "mode": _Column("MODE", lambda g: g.mode, lambda g: g.mode),
    "type": _Column("TYPE", lambda g: g.type or "?", lambda g: g.type or "?"),
    "state": _Column("STATE", lambda g: g.state or "?", lambda g: g.state or "?"),
    "new": _Column(
        "NEW/ALL",
        lambda g: f"{_format_figure(g.native_members)}/{_format_figure(g.members)}",
        lambda g: _downwards(g.native_members),
    ),
    "members": _Column(
        "MEMBERS", lambda g: _format_figure(g.members), lambda g: _downwards(g.members)
    ),
    "unowned": _Column(
        "UNOWNED",
        lambda g: f"{_format_figure(g.unowned_partition_s, '.1f')} p·s",
        lambda g: _downwards(g.unowned_partition_s),
    ),
    "lag": _Column("LAG", lambda g: _format_lag(g.lag, g.lag_at_ms), lambda g: _downwards(g.lag)),
    "behind": _Column(
        "BEHIND", lambda g: format_age(g.behind_ms), lambda g: _downwards(g.behind_ms)
    ),
    "waits": _Column(
        "WAITS FOR", _waits_for, lambda g: (_rests(g), g.blocker or ""), is_wrapped=True
    ),
}
"""What the list of groups can show, and be sorted by."""


def one_line(group: GroupLine) -> str:
    """How a group stands, in one line for a log."""
    about = [group.group_id, group.mode, group.type or "?", group.state or "?"]
    words = [group.stands, group.blocker or "waits for nothing"]
    return f"{shown_all(about)}  {escape('; '.join(words))}"


def shown_all(words: Iterable[str]) -> str:
    """Words that keep apart, whatever is in them."""
    return "  ".join(map(show_value, words))


def group_text(page: GroupPage, *, has_partitions: bool = False) -> RenderableType:
    """One group with its members. `has_partitions`: and its partitions, with their lag."""
    names = ("CLIENT", "PROTOCOL", "PHASE", "SOFTWARE", "HOST", "OWNS", "PENDING", "LAG")
    members = PlainTable(*names, cut=("CLIENT", "SOFTWARE", "HOST", "OWNS"))
    for member in page.member_list:
        members.add_row(
            _cut(member.client_id or member.member_id),
            member.protocol,
            _phase(member),
            _cut(member.software or "?"),
            _cut(member.client_host.removeprefix("/")),
            _cut("?" if member.owned is None else _partitions(member.owned) or "-"),
            escape(_pending(member)),
            _format_figure(member.lag, ","),
        )
    parts: list[RenderableType] = [*_heading(page), Text(), members]
    if page.members_left_out:
        parts.append(Text(f"and {page.members_left_out} more members"))
    if has_partitions:
        parts += [Text(), _partitions_table(page)]
    return Group(*parts)


def _partitions_table(page: GroupPage) -> RenderableType:
    has_all_members = page.mode in _MODES_WITH_MEMBERS and not page.members_left_out
    nobody = "nobody" if has_all_members else "?"
    names = ("TOPIC", "PARTITION", "OWNER", "COMMITTED", "END", "LAG", "BEHIND")
    table = PlainTable(*names, cut=("TOPIC", "OWNER"))
    for line in page.partitions:
        table.add_row(
            _cut(line.topic),
            str(line.partition),
            _cut(line.owner or nobody),
            str(line.committed),
            _format_figure(line.end),
            _format_figure(line.lag, ","),
            format_age(line.behind_ms),
        )
    return table


def client_table(members: Iterable[ClientMember], left_out: int) -> RenderableType:
    """One client over all its groups."""
    names = ("GROUP", "MODE", "STATE", "PROTOCOL", "PHASE", "HOST", "OWNS", "LAG", "WAITS FOR")
    table = PlainTable(*names, cut=("GROUP", "HOST", "OWNS", "WAITS FOR"))
    for line in members:
        member = line.member
        table.add_row(
            _cut(line.group_id),
            line.mode,
            line.state or "?",
            member.protocol,
            _phase(member),
            _cut(member.client_host.removeprefix("/")),
            _cut("?" if member.owned is None else _partitions(member.owned) or "-"),
            _format_lag(member.lag, line.lag_at_ms),
            _Wrapped(line.blocker or "-"),
        )
    return Group(table, Text(f"and {left_out} more")) if left_out else table


def readiness_text(readiness: GroupReadiness) -> RenderableType:
    """Whether a group is ready for the new protocol, line by line."""
    lines = [Text.assemble((escape(readiness.group_id), "bold"), f"  {readiness.mode}")]
    converts = "yes" if readiness.can_convert else "no"
    back = " back" if readiness.direction == "consumer->classic" else ""
    lines.append(Text(f"  can convert{back}: {converts}"))
    lines += [Text(f"    {escape(obstacle)}") for obstacle in readiness.conversion_obstacles]
    if readiness.can_be_adopted is not None:
        lines.append(Text(f"  can be adopted now: {'yes' if readiness.can_be_adopted else 'no'}"))
        lines += [Text(f"    {escape(obstacle)}") for obstacle in readiness.adoption_obstacles]
    if readiness.to_change:
        lines.append(Text("  to change before the switch:"))
        lines += [Text(f"    {escape(change)}") for change in readiness.to_change]
    lines += [
        Text(f"  warning: {escape(warning)}", style="yellow") for warning in readiness.warnings
    ]
    for client in readiness.clients:
        speaks = {True: "yes", False: "no", None: "unknown"}[client.speaks_consumer]
        name = " ".join(filter(None, (client.software_name, client.software_version)))
        lines.append(
            Text(
                f"  {client.members} x {escape(name or 'unknown client')} ({client.protocol});"
                f" new protocol: {speaks}"
            )
        )
        lines += [Text(f"    {escape(defect)}", style="red") for defect in client.defects]
    if readiness.left_out:
        lines.append(Text(f"  and {readiness.left_out} more lines"))
    return Group(*lines)


def _heading(page: GroupPage) -> list[Text]:
    epoch = f"epoch {_format_figure(page.group_epoch)}"
    about = [page.mode, page.type or "?", page.state or "?", epoch]
    if page.assignment_epoch != page.group_epoch:
        about.append(f"target of epoch {page.assignment_epoch}")
    if page.assignor:
        about.append(escape(page.assignor))
    if page.mode != "forwarded":
        about.append(f"anchor {page.anchor}")
    stands = f"{escape(page.stands)}; {escape(page.blocker or 'waits for nothing')}"
    lines = [
        Text.assemble((escape(page.group_id), "bold"), "  ", ", ".join(about)),
        Text(stands, style="" if page.blocker is None else "yellow"),
        _figures(page),
    ]
    if page.lag is not None:
        before = "" if page.lag_before is None else f", {page.lag_before:,} before the roll"
        limit = "" if page.behind_ms is None else "at most "
        behind = f", {limit}{format_age(page.behind_ms)} behind" if page.lag else ""
        lag = f"lag {page.lag:,} ({_ago(page.lag_at_ms)}){behind}{before}"
        lines.append(Text(f"{lag}  {sparkline(page.lag_history)}"))
    lines += [Text(escape(step)) for step in (page.next_step, page.last_step) if step is not None]
    if page.last_refusal is not None:
        lines.append(Text(f"last refusal: {escape(page.last_refusal)}", style="red"))
    return lines


def sparkline(numbers: Sequence[int]) -> str:
    """The last numbers as bars, from nothing to the highest."""
    shown = numbers[-SPARKS_MAX:]
    highest = max(shown, default=0) or 1
    return "".join(_BARS[value * (len(_BARS) - 1) // highest] for value in shown)


def _figures(page: GroupLine) -> Text:
    if page.owned_twice is None:
        return Text("unowned, disturbed, owned twice: not measured while the cluster serves it")
    so_far = _format_figure(page.unowned_partition_s, ".1f")
    return Text.assemble(
        f"unowned {page.unowned_partitions} now, {so_far} p·s so far; ",
        f"disturbed {page.disturbed}; converted {page.conversions}; ",
        (f"owned twice {page.owned_twice}", "bold red" if page.owned_twice else ""),
    )


def _format_lag(records: int | None, at_ms: int | None) -> str:
    """A lag, with its age if that is more than that between two measurements."""
    if records is None:
        return "?"
    is_recent = at_ms is not None and now_ms() - at_ms <= RECENT_MS
    return f"{records:,}" if is_recent else f"{records:,}, {_ago(at_ms)}"


def _ago(at_ms: int | None) -> str:
    """How long ago that was. The gateway runs on this machine, so its clock is ours."""
    return f"{format_age(None if at_ms is None else now_ms() - at_ms)} ago"


def _format_figure(figure: float | None, layout: str = "") -> str:
    return "?" if figure is None else format(figure, layout)


def _partitions(partitions: Partitions) -> str:
    return " ".join(
        f"{topic}:{compact(numbers)}" for topic, numbers in partitions.items() if numbers
    )


def _phase(member: MemberLine) -> str:
    """What a member is about. Of one that is not heard, that is what matters."""
    if member.silent_ms is not None:
        return f"silent {member.silent_ms // 1000} s"
    return member.phase or "?"


def _pending(member: MemberLine) -> str:
    gives, gets = partitions_in(member.to_give_up), partitions_in(member.to_get)
    return " ".join(filter(None, (f"-{gives}" if gives else "", f"+{gets}" if gets else ""))) or "-"


class _Wrapped:
    """A cell that continues on a second and a third line before it is cut."""

    def __init__(self, text: str) -> None:
        self._text = Text(escape(text))

    def __str__(self) -> str:
        return self._text.plain

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw the lines."""
        yield from _wrap(self._text, options.max_width, LINES_PER_CELL_MAX)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """How wide it may be."""
        return Measurement.get(console, options, self._text)


_Cell: TypeAlias = str | Text | _Wrapped


class PlainTable:
    """Rows under headings. On a terminal the columns share its width; plain lines are never cut."""

    def __init__(self, *headings: str, cut: Collection[str] = ()) -> None:
        """`cut`: the columns that get less room if there is not enough for all. Their cells are
        `_cut`: no line is broken."""
        self._headings = headings
        self._cut = cut
        self._rows: list[tuple[Sequence[_Cell], str | None]] = []

    def add_row(self, *cells: _Cell, style: str | None = None) -> None:
        """Add a cell for each heading."""
        self._rows.append((cells, style))

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw the rows."""
        if options.max_width >= PLAIN_WIDTH:
            yield from self._plain_lines()
            return
        table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
        for heading in self._headings:
            table.add_column(heading, no_wrap=heading not in self._cut, overflow="ellipsis")
        for cells, style in self._rows:
            table.add_row(*cells, style=style)
        yield table

    def _plain_lines(self) -> Iterator[Text]:
        rows = [self._headings, *([str(cell) for cell in cells] for cells, _style in self._rows)]
        widths = [
            min(ALIGNED_WIDTH_MAX, max(map(cell_len, column))) for column in zip(*rows, strict=True)
        ]
        for row in rows:
            cells = (
                cell + " " * (width - cell_len(cell))
                for cell, width in zip(row, widths, strict=True)
            )
            yield Text("  ".join(cells).rstrip(), no_wrap=True, overflow="ignore")


def _cut(text: str) -> Text:
    """A text that ends with an ellipsis where there is no more room."""
    return Text(escape(text), no_wrap=True, overflow="ellipsis")


# -- events --------------------------------------------------------------------------------------


def event_lines(events: Iterable[EventLine], *, has_details: bool = False) -> list[Text]:
    """Events as text, the oldest first: as sentences, or each with all of its fields."""
    lines = (
        _with_fields(event.line) if has_details else _with_time(event.line, event.sentence)
        for event in events
        if has_details or event.sentence
    )
    return [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]


def _with_time(line: str, sentence: str) -> str:
    with suppress(BadLine):
        return f"{format_timestamp(read_line(line).at_ms)[11:19]}  {escape(sentence)}"
    return escape(sentence)


def _with_fields(line: str) -> str:
    with suppress(BadLine):
        envelope = read_line(line)
        fields = " ".join(
            f"{name}={show_value(value)}" for name, value in envelope.fields.fields.items()
        )
        return f"{format_timestamp(envelope.at_ms)[11:19]}  {envelope.event}  {fields}"
    return escape(line)


# -- a live group --------------------------------------------------------------------------------


class Bands:
    """What each member was about at each refresh: its protocol at rest, or what it was busy
    with."""

    def __init__(self) -> None:
        self._bands: dict[str, deque[tuple[str, str]]] = {}
        self._looks = 0

    def add(self, page: GroupPage) -> None:
        """Record the next refresh."""
        self._looks += 1
        here = {member.member_id: member for member in page.member_list}
        for member_id in self._bands.keys() - here.keys():
            del self._bands[member_id]
        for member_id, member in here.items():
            band = self._bands.setdefault(member_id, deque(maxlen=MOMENTS_MAX))
            look = _BUSY.get(member.phase) or _BANDS[member.protocol]
            band.append(look if member.silent_ms is None else _SILENT)

    def text(self, member_id: str, width: int) -> Text:
        """The latest states of a member, the last one on the right."""
        band = list(self._bands.get(member_id, ()))[-width:]
        return Text.assemble(" " * (width - len(band)), *band)


def screen(
    page: GroupPage,
    bands: Bands,
    events: Sequence[EventLine],
    *,
    width: int,
    height: int,
    has_details: bool = False,
) -> RenderableType:
    """One group as a full screen. Members that move, or are not heard, come first if there is no
    room for all.
    `has_details`: whether events are shown with all of their fields."""
    top = _fit(_heading(page), width)
    room = max(1, height - len(top) - FRAME_LINES - EVENTS_MIN)
    members = page.member_list
    if len(members) > room:
        members = tuple(sorted(members, key=_is_at_rest)[: room - 1])
    left_out = len(page.member_list) + page.members_left_out - len(members)
    table = Table(box=None, pad_edge=False, header_style="bold")
    band_width = max(BAND_WIDTH_MIN, width - CLIENT_WIDTH - 34)
    for heading, width_max in (
        ("CLIENT", CLIENT_WIDTH),
        ("PHASE", 12),
        ("OWNS", 5),
        ("PENDING", 9),
    ):
        table.add_column(heading, no_wrap=True, overflow="ellipsis", width=width_max)
    table.add_column("TIME", no_wrap=True, width=band_width)
    for member in members:
        table.add_row(
            escape(member.client_id or member.member_id),
            Text(_phase(member), style="" if member.silent_ms is None else "bold red"),
            "?" if member.owned is None else str(partitions_in(member.owned)),
            _pending(member),
            bands.text(member.member_id, band_width),
        )
    story_height = EVENTS_MIN + max(0, room - len(page.member_list))
    story = event_lines(events, has_details=has_details)
    parts: list[RenderableType] = [
        *top,
        _progress(page, width),
        Text(),
        table,
        *([Text(f"and {left_out} more")] if left_out else []),
        Text(_LEGEND, style="dim", no_wrap=True, overflow="ellipsis"),
        Text("d: back to the story" if has_details else "d: details of each event", style="dim"),
        *_fit_latest(story, width, story_height),
    ]
    return Group(*parts)


def _is_at_rest(member: MemberLine) -> bool:
    return member.phase == "Stable" and member.silent_ms is None


def _fit(texts: Iterable[Text], width: int) -> list[Text]:
    """Texts as lines of this width. What needs more than LINES_PER_TEXT_MAX is cut."""
    return [line for text in texts for line in _wrap(text, width)]


def _fit_latest(texts: Sequence[Text], width: int, height: int) -> list[Text]:
    """The last of these texts as lines, none without its beginning."""
    lines: list[Text] = []
    for text in reversed(texts):
        wrapped = _wrap(text, width)
        if len(lines) + len(wrapped) > height:
            break
        lines = wrapped + lines
    return lines


def _wrap(text: Text, width: int, lines_max: int = LINES_PER_TEXT_MAX) -> list[Text]:
    lines = [*text.wrap(_MEASURES, width, no_wrap=False)]
    if len(lines) > lines_max:
        for line in lines:
            line.rstrip()
        last = Text(" ").join(lines[lines_max - 1 :])
        last.truncate(width, overflow="ellipsis")
        lines[lines_max - 1 :] = [last]
    return lines


def _progress(page: GroupLine, width: int) -> Text:
    share = (page.native_members or 0) / page.members if page.members else 0.0
    native, members = _format_figure(page.native_members), _format_figure(page.members)
    label = f" {native}/{members} with the new protocol"
    room = max(10, min(40, width - len(label)))
    done = round(share * room)
    return Text.assemble(("━" * done, "green"), ("─" * (room - done), "yellow"), label)


def stale_lines(age_s: float, reason: str, width: int) -> Sequence[Text]:
    """Says that the rest of the screen is old, and why if that is known."""
    about = f"  {escape(reason)}" if reason else ""
    return _wrap(Text(f"no answer for {age_s:.0f} s{about}", style="bold red"), width)


def as_json(view: Mapping[str, object]) -> str:
    """A view as one line of JSON that cannot disturb a terminal."""
    return escape(json.dumps(view, ensure_ascii=False))
