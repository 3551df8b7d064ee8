"""What the process of a plug-in answers."""

from pathlib import Path

import pytest

from gateway.plug_ins.worker import answer_to
from tests.support.plug_ins import FOO, computation, install

HEAD = "from coordinator.interface.topics import Partition\ndef assign(spec):\n    "


def test_the_answer_has_the_partitions_by_member_and_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The assignor is called with the engine's own GroupSpec."""
    source = "from coordinator.assignors import ASSIGNORS\nassign = ASSIGNORS['range']\n"
    install(tmp_path, {"mine": source}, monkeypatch)
    target = answer_to(computation("mine"))["target"]
    assert {id_: sorted(partitions[FOO.hex]) for id_, partitions in target.items()} == {
        "m1": [0, 1],
        "m2": [2],
    }


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (f"{HEAD}raise KeyError('no')", "KeyError: 'no'"),
        ("def assign(spec)", "SyntaxError"),
        ("assign = 3", "TypeError: 'int' object is not callable"),
        ("", "has no attribute 'assign'"),
        (f"{HEAD}return None", "has no attribute 'items'"),
        (f"{HEAD}return {{'m1': 3}}", "'int' object is not iterable"),
        (f"{HEAD}return {{7: []}}", "7 is not a member id"),
        (f"{HEAD}return {{'m1': [('foo', 1)]}}", "('foo', 1) is not a partition"),
        (f"{HEAD}return {{'m1': [Partition(next(iter(spec.racks), None), 0)]}}", "(None, 0)"),
    ],
)
def test_whatever_goes_wrong_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    """The reason is one line, without a traceback."""
    install(tmp_path, {"bad": source}, monkeypatch)
    assert reason in answer_to(computation("bad"))["failure"]
