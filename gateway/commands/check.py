"""`groupferry check`: prints what a cluster offers the gateway, one line for each trial."""

import json
import sys
from dataclasses import asdict

import trio
from rich import box
from rich.table import Table
from rich.text import Text

from gateway.board.terminal import console
from gateway.check.cluster_check import check_cluster
from gateway.check.finding import Finding, Result
from gateway.cluster.errors import LOOK_AT_UPSTREAM, UpstreamError
from gateway.error_groups import first_of
from gateway.readable import escape
from gateway.security import security_of
from gateway.settings import Settings

_STYLES = {
    Result.WORKS: "green",
    Result.LIMITED: "yellow",
    Result.FAILS: "bold red",
    Result.UNKNOWN: "dim",
}


def run(settings: Settings, *, as_json: bool) -> int:
    """Check the cluster and print the findings. Returns the exit status: 1 if a trial failed.

    Raises SettingsError if a file that a setting names cannot be used.
    """
    findings: list[Finding] = []
    security = security_of(settings)
    reason = ""
    try:
        trio.run(check_cluster, settings, security, findings.append)
    except* UpstreamError as errors:
        reason = str(first_of(errors))
    if as_json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings]) + "\n")
    elif findings:
        console().print(_table(findings))
    if reason:
        sys.stderr.write(f"groupferry: {escape(reason)}; {LOOK_AT_UPSTREAM}\n")
    failed = any(finding.result is Result.FAILS for finding in findings)
    if not as_json and not reason:
        sys.stdout.write(f"{_summary(findings)}\n")
    return 1 if failed or reason else 0


def _table(findings: list[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "result", "seen", "what that costs", "what to do"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(
            finding.subject,
            Text(finding.result, style=_STYLES[finding.result]),
            *(Text(escape(text)) for text in (finding.detail, finding.effect, finding.remedy)),
        )
    return table


def _summary(findings: list[Finding]) -> str:
    results = [finding.result for finding in findings]
    if Result.FAILS in results:
        return "groups cannot be hosted on this cluster with these settings"
    if Result.LIMITED in results or Result.UNKNOWN in results:
        return "groups can be hosted on this cluster, with the limits above"
    return "groups can be hosted on this cluster"
