"""Handling of a JVM's stderr."""

import subprocess

import pytest

from gateway.pipeline.spark.session import JvmStderr


def say(stderr: JvmStderr, text: str) -> None:
    """Write like a JVM."""
    subprocess.run(["printf", "%s", text], stdout=stderr.writer, timeout=20, check=True)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "WARNING: modules\nException in thread main: why\n\tat X\n",
            "Exception in thread main: why",
        ),
        ("Error: no such file\nmore\n", "Error: no such file"),
        ("\nbash: java: not found\n", "bash: java: not found"),
        ("", "its JVM said nothing"),
    ],
)
def test_the_reason_is_the_first_error_line(said: str, reason: str) -> None:
    """Without one it is the first line."""
    stderr = JvmStderr()
    say(stderr, said)
    assert stderr.reason() == reason


def test_output_after_the_start_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    """Earlier output is not."""
    stderr = JvmStderr()
    say(stderr, "WARNING: modules\n")
    with subprocess.Popen(
        ["sh", "-c", "read go; echo an error"],
        stdin=subprocess.PIPE,
        stdout=stderr.writer,
        text=True,
    ) as jvm:
        stderr.pass_on()
        jvm.communicate("go\n", timeout=20)
    stderr.join()
    lines = capfd.readouterr().err.splitlines()
    # A Kafka client of an earlier test may write its own lines meanwhile.
    assert [line for line in lines if "rdkafka#" not in line] == ["an error"]
