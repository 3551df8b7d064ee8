"""compose.yaml and the Dockerfile, checked without Docker. `.ci/run` validates compose.yaml against
its schema."""

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import trio

ROOT = Path(__file__).parent.parent
COMPOSE = (ROOT / "compose.yaml").read_text()
DOCKERFILE = (ROOT / "gateway" / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
POM = ROOT / "tests" / "support" / "kafka" / "pom.xml"


def instructions(name: str) -> list[str]:
    """The arguments of each instruction of this name."""
    return re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.MULTILINE)


def test_its_kafka_is_the_old_release_of_the_tests() -> None:
    """It is pinned, and lacks the native protocol."""
    versions = {each.text for each in ET.parse(POM).findall(".//{*}kafka.version")}
    (used,) = set(re.findall(r"apache/kafka:(\S+)", COMPOSE))
    assert used in versions
    assert used.startswith("3.9.")


def test_the_image_is_pinned_and_does_not_run_as_root() -> None:
    """Both stages name a patch release, and the process gets the signal that drains."""
    (base,) = {each.split()[0] for each in instructions("FROM")}
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)
    assert instructions("USER") == ["groupferry"]
    assert instructions("STOPSIGNAL") == ["SIGTERM"]


def test_the_build_context_has_all_files_of_the_image() -> None:
    """.dockerignore excludes everything else."""
    context = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    own = [each for each in instructions("COPY") if not each.startswith("--from")]
    copied = {source for each in own for source in each.split()[:-1]}
    assert copied == context
    assert all((ROOT / each).exists() for each in copied)


@pytest.mark.parametrize("serves", [True, False])
async def test_the_health_check_tests_the_listener(serves: bool) -> None:
    """It uses the port of GROUPFERRY_LISTEN, and only its exit status."""
    (check,) = instructions("HEALTHCHECK")
    command = json.loads(check.partition("CMD ")[2])
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        if not serves:
            await listener.aclose()
        done = await trio.run_process(
            [sys.executable, *command[1:]],
            env={"GROUPFERRY_LISTEN": f"0.0.0.0:{port}"},
            stderr=subprocess.DEVNULL,
            check=False,
        )
    assert (done.returncode == 0) is serves
