"""Each warning and each error of `groupferry serve`, and each alert, has an entry in the
documentation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import gateway
from gateway.events.catalog import EVENTS

CODE = Path(gateway.__file__).parent
PAGE = CODE / "docs" / "troubleshooting.md"
OTHER_COMMANDS = {"demo", "pipeline"}
LEVELS = {"warning", "error"}
BY_LEVEL = re.compile(
    r"(log|told)\.(warning|error|exception)|.*(complain|client_warnings\.warn)"
    r"|.*\.(_report|_withhold)"
)
"""What a call looks like that always writes such a line."""
BY_ARGUMENT = re.compile(r"Log|.*\._?log")
"""What a call looks like whose arguments have the level."""
ENTRY = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
ALERT = re.compile(r"- alert: (\w+)")


def line_names() -> Iterator[str]:
    """The names of the lines that the code writes itself."""
    for path in CODE.rglob("*.py"):
        if path.relative_to(CODE).parts[0] in OTHER_COMMANDS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                given = (*node.args, *(keyword.value for keyword in node.keywords))
                words = [constant.value for constant in given if isinstance(constant, ast.Constant)]
                texts = [word for word in words if isinstance(word, str)]
                names = [text for text in texts if text not in LEVELS]
                function = ast.unparse(node.func)
                is_severe = LEVELS & {*texts} and BY_ARGUMENT.fullmatch(function)
                if names and (is_severe or BY_LEVEL.fullmatch(function)):
                    yield names[0]


def event_names() -> Iterator[str]:
    """The names of the events of these levels."""
    for event in EVENTS.values():
        if event.level in LEVELS:
            yield event.name


def test_every_alert_warning_and_error_has_an_entry() -> None:
    """The page has no entry without a line, and none twice."""
    entries = ENTRY.findall(PAGE.read_text())
    alerts = ALERT.findall((CODE / "deploy" / "alerts.yaml").read_text())
    assert sorted(entries) == sorted({*line_names(), *event_names(), *alerts})


def test_each_alert_says_what_to_do_next() -> None:
    """Its own text says so, which is all that a person woken by it sees."""
    rules = re.split(r"- alert: ", (CODE / "deploy" / "alerts.yaml").read_text())[1:]
    for rule in rules:
        (advice,) = re.findall(r"description: (.*)", rule)
        assert re.search(r"groupferry [a-z]+ ?|[Rr]aise|[Ll]ook at|/readyz", advice), rule


def test_lines_are_found_however_they_are_written() -> None:
    """By a logger, an effect of the machine, a counter of complaints, or an event."""
    assert {"state_log_failed", "group_load_failed", "anchor_lost", "groups_refused"} <= {
        *line_names()
    }
    assert {"group_taken", "upstream_lost"} <= set(event_names())
