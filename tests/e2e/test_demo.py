"""`groupferry demo` as users run it, and its events."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gateway.doc_pages import events
from tests.support.event_lines import check_gaps, read_events
from tests.support.serve_process import PROGRAM

OF_A_ROLL = {
    *("gateway_started", "gateway_ended", "client_seen"),
    *("group_created", "group_converted", "group_state_changed"),
    *("member_joined", "member_left", "member_state_changed"),
    *("partitions_assigned", "grant_ended", "partitions_stated"),
    *("offsets_fetched", "offsets_committed"),
}
"""No new target is needed where each consumer comes back immediately."""


def demo(folder: Path) -> "subprocess.CompletedProcess[str]":
    """A short run that keeps its events."""
    return subprocess.run(
        [
            *(sys.executable, "-c", PROGRAM, "demo", "--log-level=error"),
            *("--state-dir", f"{folder}", "--consumers=2", "--partitions=4"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a successful demo."""
    made = tmp_path_factory.mktemp("demos") / "a demo"
    done = demo(made)
    assert done.returncode == 0, done.stderr
    wanted = f"groupferry report '{made}/events' --output '{made}/report'"
    assert done.stdout.splitlines()[-1] == wanted
    return made


def test_every_line_matches_the_json_schema(folder: Path) -> None:
    """The lines are real, and of every kind that a roll should cause."""
    validator = Draft202012Validator(json.loads(events.SCHEMA.read_text()))
    (file,) = (folder / "events").iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        validator.validate(line)
    assert {line["event"] for line in lines} >= OF_A_ROLL


def test_a_line_that_violates_the_schema_is_found(folder: Path) -> None:
    """A schema that accepts a wrong event would be useless."""
    validator = Draft202012Validator(json.loads(events.SCHEMA.read_text()))
    (file,) = (folder / "events").iterdir()
    line = json.loads(file.read_text().splitlines()[0])
    assert not validator.is_valid({**line, "fields": {**line["fields"], "more": 1}})
    assert not validator.is_valid({**line, "event": "group_vanished"})
    assert not validator.is_valid({**line, "schema_version": 99})


def test_no_sequence_has_a_gap(folder: Path) -> None:
    """Each begins and ends with the gateway."""
    events = read_events(folder / "events")
    check_gaps(events)
    assert (events[0].event, events[-1].event) == ("gateway_started", "gateway_ended")
    assert all(
        event.fields.fields["member_id"] for event in events if event.event.startswith("off")
    )


def test_a_folder_holds_one_demo(folder: Path) -> None:
    """Another demo has another cluster, whose offsets restart at 0."""
    refused = demo(folder)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"groupferry: --state-dir: {folder} is not empty; give a new folder\n"
    )
    file = folder / "lock"
    assert demo(file).stderr == f"groupferry: --state-dir: {file}: Not a directory\n"
