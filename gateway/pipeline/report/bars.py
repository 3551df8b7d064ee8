"""The two plots without a time axis: the cost of each step, and the readiness of client
versions."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from gateway.pipeline.report.markup import Markup
from gateway.pipeline.report.model import ClientVersion, StepCost
from gateway.pipeline.report.picture import LEFT, RIGHT, WIDTH, box, name, picture, words
from gateway.pipeline.report.wording import counted, number, partition_seconds

_ROW_HEIGHT = 24
_BOX_HEIGHT = 16
_TOP = 4
_CHAR_WIDTH = 8

READINESS: Mapping[str, tuple[str, Callable[[ClientVersion], int]]] = MappingProxyType(
    {
        "consumer": ("on the consumer protocol already", lambda client: client.on_consumer),
        "ready": ("can switch now", lambda client: client.ready),
        "blocked": ("could switch, but the group cannot convert", lambda client: client.blocked),
        "unknown": ("unknown version", lambda client: client.unknown),
        "too-old": ("version too old", lambda client: client.too_old),
    }
)
"""The states of a version's members, by the CSS class of their colour."""


def step_bars(costs: Sequence[StepCost]) -> Markup:
    """Unowned time by step number."""
    most = max((cost.unowned_partition_s for cost in costs), default=0.0) or 1.0
    rows = []
    for n, cost in enumerate(costs):
        y = _TOP + _ROW_HEIGHT * n
        end = LEFT + (RIGHT - LEFT - 130) * cost.unowned_partition_s / most
        title = (
            f"step {cost.number} of {counted(cost.steps, 'migration')}:"
            f" {partition_seconds(cost.unowned_partition_s)},"
            f" in the worst {number(cost.unowned_partition_s_most)}"
        )
        rows += [
            name(f"step {cost.number}", y + 12),
            box(LEFT, end, y, _BOX_HEIGHT, class_="unowned", title=title),
            words(
                f"{number(cost.unowned_partition_s)} p·s in {counted(cost.steps, 'migration')}",
                end + 6,
                y + 12,
                class_="figure",
            ),
        ]
    return picture(_TOP + _ROW_HEIGHT * len(costs), *rows, says="Time without owner by step")


def readiness_bars(clients: Sequence[ClientVersion]) -> Markup:
    """The members of each client version, by readiness."""
    most = max((_members(client) for client in clients), default=0) or 1
    rows = []
    for n, client in enumerate(clients):
        y, x = _TOP + _ROW_HEIGHT * n, float(LEFT)
        label = client_name(client)
        rows.append(name(label, y + 12))
        for class_, (meaning, of) in READINESS.items():
            count = of(client)
            if not count:
                continue
            end = x + (RIGHT - LEFT) * count / most
            title = f"{label}: {counted(count, 'member')}, {meaning}"
            rows.append(box(x, end, y, _BOX_HEIGHT, class_=class_, title=title))
            if end - x > _CHAR_WIDTH * (len(number(count)) + 1):
                middle = (x + end) / 2
                rows.append(
                    words(
                        number(count),
                        middle,
                        y + 12,
                        class_=f"on-{class_}",
                        text_anchor="middle",
                    )
                )
            x = end
        in_all = counted(_members(client), "member")
        rows.append(words(in_all, WIDTH, y + 12, class_="figure", text_anchor="end"))
    return picture(
        _TOP + _ROW_HEIGHT * len(clients), *rows, says="Members by client version and readiness"
    )


def client_name(client: ClientVersion) -> str:
    """The version as the client introduced itself."""
    if client.software_name is None:
        return "(unnamed client)"
    return f"{client.software_name} {client.software_version or ''}".strip()


def _members(client: ClientVersion) -> int:
    return sum(of(client) for _, of in READINESS.values())
