"""The admin API, fuzzed from its own description by schemathesis."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from gateway.admin.openapi import description
from tests.support.admin import HOST, admin_stage
from tests.support.installs import install_once, run

PACKAGE = "schemathesis==4.32.5"
EXAMPLES = 15
"""The examples of each operation."""
LIMIT_S = 240.0
CHECKS = (
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
)
"""What is described is what is answered. A server error is a failure because no operation
describes 500; the 503 that some describe says that the gateway cannot answer now."""
LEFT_OUT = ("/api/events", "/api/openapi.json")
"""Streams of events have no end, and what the description says of itself is that it is there."""


def _install(folder: Path) -> None:
    """Install it with its dependencies, apart from those that the gateway has."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--prefer-binary")
    run([*pip, f"--target={folder}", PACKAGE])


@pytest.mark.timeout(600)  # the first run installs the tool
async def test_every_answer_is_as_described(tmp_path: Path) -> None:
    """Whatever is asked, in whatever order: right, nearly right, and wrong."""
    tool = install_once("schemathesis", PACKAGE.encode(), _install)
    async with admin_stage(limit_s=LIMIT_S) as stage:
        await stage.groups.lone_classic_member()
        await stage.groups.native("n", group="other")
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run"),
            f"http://{HOST}:{stage.port}/api/openapi.json",
            *("--checks", ",".join(CHECKS), "--max-examples", str(EXAMPLES)),
            *(word for path in LEFT_OUT for word in ("--exclude-path", path)),
            *("--mode", "all", "--no-color"),
            *("--generation-deterministic", "--request-timeout", "20"),
        ]
        done = await trio.run_process(
            command,
            cwd=tmp_path,
            env={"PYTHONPATH": str(tool), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            check=False,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
        )
        output = done.stdout.decode()
        assert done.returncode == 0, output[-8_000:]
        (tested,) = re.findall(r"Tested: (\d+)\n", output)
        assert int(tested) == len(description()["paths"]) - len(LEFT_OUT)
        assert (await stage.ask("/livez")).status == 200
