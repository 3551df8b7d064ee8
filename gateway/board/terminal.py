"""The board as text: on a terminal as wide as it is, otherwise as plain lines."""

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gateway.board.reading import compact, partitions_in
from gateway.board.views import (
    EventLine,
    GroupLine,
    GroupPage,
    GroupReadiness,
    MemberLine,
    Partitions,
)
from gateway.events.catalog import BadLine, read_line
from gateway.readable import escaped, moment, shown

PLAIN_WIDTH = 10_000
"""So that no plain line is cut."""
ALIGNED_WIDTH_MAX = 60
"""A longer cell of a plain line moves only the rest of its own line: one client's long name must
not lengthen the lines of all groups."""
TYPES_FROM_WIDTH = 100
"""Narrower terminals show no types in the list of groups: the other columns are worth more."""
CLIENT_WIDTH, BAND_WIDTH_MIN = 20, 10
MOMENTS_MAX = 500
"""Moments remembered of each member's band."""
FRAME_LINES, EVENTS_MIN = 5, 3
"""Lines of a screen around heading, members and events, and the events shown at least."""

_POLICIES = {"allow": "", "hold": "on hold", "pause": "paused"}
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
SPARKS_MAX = 30
"""Bars of a sparkline."""
_LEGEND = "─ classic  ━ new protocol  ! told to rejoin  ~ joining  < giving up  > waiting"


def console() -> Console:
    """Standard output: in colour on a terminal, plain otherwise."""
    made = Console(highlight=False, markup=False, emoji=False)
    if made.is_terminal:
        return made
    return Console(highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH)


# -- groups --------------------------------------------------------------------------------------


def groups_table(
    groups: Sequence[GroupLine], *, width: int = PLAIN_WIDTH, height: int | None = None
) -> RenderableType:
    """The list of groups. Those that wait come first if there is no room for all."""
    left_out = 0
    if height is not None and len(groups) >= height:
        waiting_first = sorted(groups, key=_rests)  # otherwise in the order of their ids
        groups = waiting_first[: max(1, height - 2)]
        left_out = len(waiting_first) - len(groups)
    has_types = width >= TYPES_FROM_WIDTH
    types = ("TYPE",) if has_types else ()
    names = ("GROUP", "MODE", *types, "STATE", "NEW/ALL", "UNOWNED", "WAITS FOR")
    table = _Table(*names, cut=("GROUP", "WAITS FOR"))
    for group in groups:
        table.add_row(
            _cut(group.group_id),
            group.mode,
            *((group.type or "?",) if has_types else ()),
            group.state or "?",
            f"{_format_figure(group.native_members)}/{_format_figure(group.members)}",
            f"{_format_figure(group.unowned_partition_s, '.1f')} p·s",
            _cut(_waits_for(group)),
            style="bold red" if group.owned_twice else None,
        )
    return Group(table, Text(f"and {left_out} more")) if left_out else table


def _waits_for(group: GroupLine) -> str:
    policy, blocker = _POLICIES[group.policy], group.blocker or ""
    if policy and blocker.startswith(policy):
        return blocker
    return "; ".join(filter(None, (policy, blocker))) or "-"


def _rests(group: GroupLine) -> bool:
    return not group.owned_twice and (group.blocker is None or group.mode == "forwarded")


def one_line(group: GroupLine) -> str:
    """How a group stands, in one line for a log."""
    about = [group.group_id, group.mode, group.type or "?", group.state or "?"]
    words = [group.stands, group.blocker or "waits for nothing"]
    return f"{shown_all(about)}  {escaped('; '.join(words))}"


def shown_all(words: Iterable[str]) -> str:
    """Words that keep apart, whatever is in them."""
    return "  ".join(map(shown, words))


def group_text(page: GroupPage) -> RenderableType:
    """One group with its members."""
    names = ("CLIENT", "PROTOCOL", "PHASE", "SOFTWARE", "HOST", "OWNS", "PENDING")
    members = _Table(*names, cut=("CLIENT", "SOFTWARE", "HOST", "OWNS"))
    for member in page.member_list:
        members.add_row(
            _cut(member.client_id or member.member_id),
            member.protocol,
            member.phase or "-",
            _cut(member.software or "-"),
            _cut(member.client_host.removeprefix("/")),
            _cut("?" if member.owned is None else _partitions(member.owned) or "-"),
            escaped(_pending(member)),
        )
    parts: list[RenderableType] = [*_heading(page), Text(), members]
    if page.members_left_out:
        parts.append(Text(f"and {page.members_left_out} more members"))
    return Group(*parts)


def readiness_text(readiness: GroupReadiness) -> RenderableType:
    """Whether a group is ready for the new protocol, line by line."""
    lines = [Text.assemble((escaped(readiness.group_id), "bold"), f"  {readiness.mode}")]
    converts = "yes" if readiness.can_convert else "no"
    back = " back" if readiness.direction == "consumer->classic" else ""
    lines.append(Text(f"  can convert{back}: {converts}"))
    lines += [Text(f"    {escaped(obstacle)}") for obstacle in readiness.conversion_obstacles]
    if readiness.can_be_adopted is not None:
        lines.append(Text(f"  can be adopted now: {'yes' if readiness.can_be_adopted else 'no'}"))
        lines += [Text(f"    {escaped(obstacle)}") for obstacle in readiness.adoption_obstacles]
    if readiness.to_change:
        lines.append(Text("  to change before the switch:"))
        lines += [Text(f"    {escaped(change)}") for change in readiness.to_change]
    lines += [
        Text(f"  warning: {escaped(warning)}", style="yellow") for warning in readiness.warnings
    ]
    for client in readiness.clients:
        speaks = {True: "yes", False: "no", None: "unknown"}[client.speaks_consumer]
        name = " ".join(filter(None, (client.software_name, client.software_version)))
        lines.append(
            Text(
                f"  {client.members} x {escaped(name or 'unknown client')} ({client.protocol});"
                f" new protocol: {speaks}"
            )
        )
        lines += [Text(f"    {escaped(defect)}", style="red") for defect in client.defects]
    if readiness.left_out:
        lines.append(Text(f"  and {readiness.left_out} more lines"))
    return Group(*lines)


def _heading(page: GroupPage) -> list[Text]:
    epoch = f"epoch {_format_figure(page.group_epoch)}"
    about = [page.mode, page.type or "?", page.state or "?", epoch]
    if page.assignment_epoch != page.group_epoch:
        about.append(f"target of epoch {page.assignment_epoch}")
    if page.assignor:
        about.append(escaped(page.assignor))
    if page.mode != "forwarded":
        about.append(f"anchor {page.anchor}")
    stands = f"{escaped(page.stands)}; {escaped(page.blocker or 'waits for nothing')}"
    lines = [
        Text.assemble((escaped(page.group_id), "bold"), "  ", ", ".join(about)),
        Text(stands, style="" if page.blocker is None else "yellow"),
        _figures(page),
    ]
    if page.lag is not None:
        before = "" if page.lag_before is None else f", {page.lag_before:,} before the roll"
        lines.append(Text(f"lag {page.lag:,} records{before}  {sparkline(page.lag_history)}"))
    lines += [Text(escaped(step)) for step in (page.next_step, page.last_step) if step is not None]
    if page.last_refusal is not None:
        lines.append(Text(f"last refusal: {escaped(page.last_refusal)}", style="red"))
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


def _format_figure(figure: float | None, layout: str = "") -> str:
    return "?" if figure is None else format(figure, layout)


def _partitions(partitions: Partitions) -> str:
    return " ".join(
        f"{topic}:{compact(numbers)}" for topic, numbers in partitions.items() if numbers
    )


def _pending(member: MemberLine) -> str:
    gives, gets = partitions_in(member.to_give_up), partitions_in(member.to_get)
    return " ".join(filter(None, (f"-{gives}" if gives else "", f"+{gets}" if gets else ""))) or "-"


class _Table:
    """Rows under headings. On a terminal the columns share its width; plain lines are never cut."""

    def __init__(self, *headings: str, cut: Collection[str]) -> None:
        """`cut`: the columns that get less room if there is not enough for all. Their cells are
        `_cut`: no line is broken."""
        self._headings = headings
        self._cut = cut
        self._rows: list[tuple[Sequence[str | Text], str | None]] = []

    def add_row(self, *cells: str | Text, style: str | None = None) -> None:
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
    return Text(escaped(text), no_wrap=True, overflow="ellipsis")


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
        return f"{moment(read_line(line).at_ms)[11:19]}  {escaped(sentence)}"
    return escaped(sentence)


def _with_fields(line: str) -> str:
    with suppress(BadLine):
        envelope = read_line(line)
        fields = " ".join(
            f"{name}={shown(value)}" for name, value in envelope.fields.fields.items()
        )
        return f"{moment(envelope.at_ms)[11:19]}  {envelope.event}  {fields}"
    return escaped(line)


# -- a live group --------------------------------------------------------------------------------


class Bands:
    """What each member was about at each look: its protocol at rest, or what it was busy with."""

    def __init__(self) -> None:
        self._bands: dict[str, deque[tuple[str, str]]] = {}
        self._looks = 0

    def add(self, page: GroupPage) -> None:
        """Take the next look."""
        self._looks += 1
        here = {member.member_id: member for member in page.member_list}
        for member_id in self._bands.keys() - here.keys():
            del self._bands[member_id]
        for member_id, member in here.items():
            band = self._bands.setdefault(member_id, deque(maxlen=MOMENTS_MAX))
            band.append(_BUSY.get(member.phase) or _BANDS[member.protocol])

    def text(self, member_id: str, width: int) -> Text:
        """The latest looks at a member, the last one on the right."""
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
    """One group as a full screen. Members that matter come first if there is no room for all.
    `has_details`: whether events are shown with all of their fields."""
    top = _one_line_each(_heading(page))
    room = max(1, height - len(top) - FRAME_LINES - EVENTS_MIN)
    members = page.member_list
    if len(members) > room:
        busy = [member for member in members if member.phase != "Stable"]
        members = tuple(
            (busy + [member for member in members if member.phase == "Stable"])[: room - 1]
        )
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
            escaped(member.client_id or member.member_id),
            member.phase or "-",
            "?" if member.owned is None else str(partitions_in(member.owned)),
            _pending(member),
            bands.text(member.member_id, band_width),
        )
    shown_events = EVENTS_MIN + max(0, room - len(page.member_list))
    parts: list[RenderableType] = [
        *top,
        _progress(page, width),
        Text(),
        table,
        *([Text(f"and {left_out} more")] if left_out else []),
        Text(_LEGEND, style="dim", no_wrap=True, overflow="ellipsis"),
        Text("d: back to the story" if has_details else "d: details of each event", style="dim"),
        *event_lines(events, has_details=has_details)[-shown_events:],
    ]
    return Group(*parts)


def _one_line_each(lines: Iterable[Text]) -> list[Text]:
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return list(lines)


def _progress(page: GroupLine, width: int) -> Text:
    share = (page.native_members or 0) / page.members if page.members else 0.0
    native, members = _format_figure(page.native_members), _format_figure(page.members)
    label = f" {native}/{members} with the new protocol"
    room = max(10, min(40, width - len(label)))
    done = round(share * room)
    return Text.assemble(("━" * done, "green"), ("─" * (room - done), "yellow"), label)


def stale_line(age_s: float, reason: str) -> Text:
    """Says that the rest of the screen is old, and why if that is known."""
    about = f"  {escaped(reason)}" if reason else ""
    return Text(f"no answer for {age_s:.0f} s{about}", style="bold red", no_wrap=True)


def as_json(view: Mapping[str, object]) -> str:
    """A view as one line of JSON that cannot disturb a terminal."""
    return escaped(json.dumps(view, ensure_ascii=False))
