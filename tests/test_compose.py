"""compose.yaml, the Dockerfile, the Kubernetes manifests and the systemd unit, without Docker,
Kubernetes and systemd.

`.ci/run` validates compose.yaml and the manifests against their schemas.
"""

import configparser
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import trio

from gateway.commands.arguments import WRONG_CALL, parser
from gateway.ownership_driver import LEAVE_S, LINGER_S
from gateway.settings import Settings
from gateway.settings_sources import load
from tests.support.admin import HOST, admin_stage

ROOT = Path(__file__).parent.parent
COMPOSE = (ROOT / "compose.yaml").read_text()
DOCKERFILE = (ROOT / "gateway" / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
SERVICE = (ROOT / "gateway" / "deploy" / "groupferry.service").read_text()
KUBERNETES = (ROOT / "gateway" / "deploy" / "kubernetes.yaml").read_text()
POM = ROOT / "tests" / "support" / "kafka" / "pom.xml"


def instructions(name: str) -> list[str]:
    """The arguments of each instruction of this name."""
    return re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.MULTILINE)


def test_its_kafka_is_the_old_release_of_the_tests() -> None:
    """The release is pinned, and lacks the native protocol."""
    versions = {version.text for version in ET.parse(POM).findall(".//{*}kafka.version")}
    (used,) = set(re.findall(r"apache/kafka:(\S+)", COMPOSE))
    assert used in versions
    assert used.startswith("3.9.")


def test_the_image_is_pinned_and_does_not_run_as_root() -> None:
    """Both stages name a patch release, and the process gets the signal that drains."""
    (base,) = {instruction.split()[0] for instruction in instructions("FROM")}
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)
    assert instructions("USER") == ["groupferry"]
    assert instructions("STOPSIGNAL") == ["SIGTERM"]


def test_the_build_context_has_all_files_of_the_image() -> None:
    """.dockerignore excludes everything else."""
    context = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    own = [
        instruction for instruction in instructions("COPY") if not instruction.startswith("--from")
    ]
    copied = {source for instruction in own for source in instruction.split()[:-1]}
    assert copied == context
    assert all((ROOT / path).exists() for path in copied)


@pytest.mark.parametrize("drains", [False, True])
async def test_the_health_check_asks_whether_clients_can_be_served(drains: bool) -> None:
    """The health check asks /readyz at GROUPFERRY_ADMIN_LISTEN."""
    (check,) = instructions("HEALTHCHECK")
    command = json.loads(check.partition("CMD ")[2])
    async with admin_stage() as stage:
        if drains:
            stage.stop.set()
        done = await trio.run_process(
            [sys.executable, *command[1:]],
            env={"GROUPFERRY_ADMIN_LISTEN": f"{HOST}:{stage.port}"},
            stderr=subprocess.DEVNULL,
            check=False,
        )
    assert (done.returncode == 0) is not drains


def test_the_service_runs_an_existing_command() -> None:
    """Its reload, stop and readiness are those of the gateway."""
    unit = configparser.RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(SERVICE)
    service = unit["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/bin/groupferry")
    assert parser().parse_args(arguments).command == "serve"
    assert service["ExecReload"] == "kill -HUP $MAINPID"
    assert "/readyz" in service["ExecStartPost"]
    assert int(service["TimeoutStopSec"]) * 1000 > Settings.model_fields["drain_timeout_ms"].default
    assert int(service["RestartPreventExitStatus"]) == WRONG_CALL
    names = {name.removeprefix("GROUPFERRY_").lower() for name in environment(SERVICE)}
    assert names <= Settings.model_fields.keys()


def environment(unit: str) -> list[str]:
    """The names of its environment variables."""
    return re.findall(r"^Environment=(\w+)=", unit, re.MULTILINE)


@pytest.mark.parametrize("text", [COMPOSE, KUBERNETES], ids=["compose", "kubernetes"])
def test_the_gateways_of_a_fleet_have_valid_settings(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has as long to stop as it takes to leave the fleet and to drain."""
    for name, value in re.findall(r'(GROUPFERRY_\w+)(?:, value)?: "?([^"}\s]+)', text):
        monkeypatch.setenv(name, value.replace("$(POD_NAME)", "groupferry-0"))
    settings = load({})
    assert (settings.fleet, settings.state) == (True, "kafka")
    graces_s = re.findall(r"(?:terminationGracePeriodSeconds|stop_grace_period): (\d+)", text)
    drain_s = settings.drain_timeout_ms / 1000
    assert max(map(int, graces_s)) > LEAVE_S + LINGER_S + drain_s
