"""compose.yaml and gateway/Dockerfile, as far as that can be told without Docker. That compose.yaml
keeps to its schema is checked by `.ci/run`."""

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
DOCKERFILE = (ROOT / "gateway" / "Dockerfile").read_text().replace("\\\n", " ")
POM = ROOT / "tests" / "support" / "kafka" / "pom.xml"


def instructions(name: str) -> list[str]:
    """What follows each instruction of this name."""
    return re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.MULTILINE)


def test_its_kafka_is_the_old_one_of_the_tests() -> None:
    """One release, pinned: the one that does not know the new protocol."""
    versions = {each.text for each in ET.parse(POM).findall(".//{*}kafka.version")}
    (used,) = set(re.findall(r"apache/kafka:(\S+)", COMPOSE))
    assert used in versions
    assert used.startswith("3.9.")


def test_the_image_is_pinned_and_does_not_run_as_root() -> None:
    """Down to the patch release, in both stages; the process gets the signal that drains."""
    (base,) = {each.split()[0] for each in instructions("FROM")}
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)
    assert instructions("USER") == ["groupferry"]
    assert instructions("STOPSIGNAL") == ["SIGTERM"]


def test_what_the_image_copies_is_in_the_build_s_context() -> None:
    """.dockerignore keeps everything else out."""
    context = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    own = [each for each in instructions("COPY") if not each.startswith("--from")]
    copied = {source for each in own for source in each.split()[:-1]}
    assert copied == context
    assert all((ROOT / each).exists() for each in copied)


@pytest.mark.parametrize("serves", [True, False])
async def test_the_health_check_tells_whether_the_gateway_listens(serves: bool) -> None:
    """At the port of GROUPFERRY_LISTEN, by its exit status alone."""
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
