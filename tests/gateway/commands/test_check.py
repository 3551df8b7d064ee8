"""What `groupferry check` prints, and its exit status."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.check.finding import Finding, Result, works
from gateway.cluster.errors import LOOK_AT_UPSTREAM, UpstreamError
from gateway.commands import check, dispatch

LIMITED = Finding(
    subject="limits",
    result=Result.LIMITED,
    detail="group.max.size is 1",
    effect="released groups are refused",
    remedy="at least 100",
)
FAILED = Finding(subject="anchor", result=Result.FAILS, detail="an outsider was let in")


def play(monkeypatch: pytest.MonkeyPatch, findings: Sequence[Finding], reason: str = "") -> None:
    """Have the check find this."""

    async def check_cluster(
        _settings: object, _security: object, report: Callable[[Finding], Any]
    ) -> None:
        for finding in findings:
            report(finding)
        if reason:
            raise UpstreamError(reason)

    monkeypatch.setattr(check, "check_cluster", check_cluster)


@pytest.mark.parametrize(
    ("findings", "status", "summary"),
    [
        ([works("apis", "all")], 0, "groups can be hosted on this cluster"),
        (
            [works("apis", "all"), LIMITED],
            0,
            "groups can be hosted on this cluster, with the limits above",
        ),
        ([LIMITED, FAILED], 1, "groups cannot be hosted on this cluster with these settings"),
    ],
)
def test_the_last_line_and_the_exit_status_say_whether_groups_can_be_hosted(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    findings: Sequence[Finding],
    status: int,
    summary: str,
) -> None:
    play(monkeypatch, findings)
    assert dispatch.run(["check", "--upstream", "kafka-1:9092"]) == status
    assert capsys.readouterr().out.splitlines()[-1] == summary


def test_each_trial_is_one_line_where_the_output_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A long trial is one line, too."""
    play(monkeypatch, [works("apis", "word " * 90), LIMITED])
    assert dispatch.run(["check", "--upstream", "kafka-1:9092"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip(" ─")]
    assert [line.split()[0] for line in lines] == ["result", "apis", "limits", "groups"]


def test_a_cluster_that_is_lost_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, [works("apis", "all")], "kafka-1:9092 did not answer in 10 s")
    assert dispatch.run(["check", "--upstream", "kafka-1:9092"]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"groupferry: kafka-1:9092 did not answer in 10 s; {LOOK_AT_UPSTREAM}\n"
    assert "can be hosted" not in captured.out


def test_a_program_gets_each_finding_with_its_fields(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, [LIMITED])
    assert dispatch.run(["check", "--upstream", "kafka-1:9092", "--json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding == {
        "subject": "limits",
        "result": "limited",
        "detail": "group.max.size is 1",
        "effect": "released groups are refused",
        "remedy": "at least 100",
    }
