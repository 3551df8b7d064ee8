"""A report through a server of Spark Connect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.pipeline.installed import java_environment
from gateway.pipeline.tables import FOLDED_TABLES
from tests.gateway.pipeline.planted_faults import SOUND
from tests.gateway.pipeline.stories import play_story
from tests.support.followed_tables import rows
from tests.support.ports import free_port, is_open
from tests.support.requirements import missing
from tests.support.spark import SETTINGS
from tests.support.stored_tables import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pandas", "grpc", "grpc_status", "google.rpc", "zstandard")
START_S_MAX = 120
REPORT_S_MAX = 300


def need_connect() -> None:
    """Skip the test, or fail it in CI, without the packages that only Spark Connect needs."""
    with suppress(ModuleNotFoundError):
        if all(map(find_spec, NEEDED)):
            return
    missing("no pyspark[connect], which the extra connect has")


@contextmanager
def running_server() -> Iterator[str]:
    """The URL of a server on this machine."""
    import pyspark

    port = free_port()
    settings = {
        **SETTINGS,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    script = Path(pyspark.__path__[0], "sbin", "start-connect-server.sh")
    conf = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    server = subprocess.Popen(
        ["/bin/bash", str(script), "--wait", "--master", "local[2]", *conf],
        env={**os.environ, **java_environment(), "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        until_s = time.monotonic() + START_S_MAX
        while not is_open(port):
            assert server.poll() is None
            assert time.monotonic() < until_s
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_a_report_through_a_server_equals_one_here(spark: SparkSession, tmp_path: Path) -> None:
    """The report uses the server's file system, and names relative to this process."""
    need_connect()
    from gateway.pipeline.folder import Folder
    from gateway.pipeline.spark.folding import make_on_spark  # needs PySpark
    from gateway.pipeline.spark.inputs import read_lines

    lines = [*play_story(SOUND).lines, "garbage"]
    (tmp_path / "events").write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "gateway", "report", "events", "--output", "out"]
    with running_server() as url:
        for _again in range(2):
            made = subprocess.run(
                [*command, "--master", url],
                check=False,
                capture_output=True,
                text=True,
                timeout=REPORT_S_MAX,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            assert made.returncode == 0, made.stderr
    events, here = read_lines(spark, [f"{tmp_path}/events"]), f"{tmp_path}/here"
    make_on_spark(spark, events, Folder(here), top=1)
    for name in FOLDED_TABLES:
        assert rows(table(spark, tmp_path / "out", name)) == rows(table(spark, here, name)), name
    assert (tmp_path / "out" / "report.html").exists()
