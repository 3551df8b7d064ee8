"""What a JVM writes to stderr."""

import tempfile

import pytest

from gateway.pipeline.spark.session import lines_of_jvm, start_problem


@pytest.mark.parametrize(
    ("stderr_bytes", "reason"),
    [
        (
            b"WARNING: modules\nException in thread main: why\n\tat X\n",
            "Exception in thread main: why",
        ),
        (b"Error: no such file\nmore\n", "Error: no such file"),
        (b"\nbash: java: not found\n", "bash: java: not found"),
        (b"", "its JVM said nothing"),
    ],
)
def test_the_reason_is_the_first_error_line(stderr_bytes: bytes, reason: str) -> None:
    """Without one it is the first line."""
    with tempfile.TemporaryFile(buffering=0) as stderr:
        stderr.write(stderr_bytes)
        assert start_problem(lines_of_jvm(stderr)) == reason


def test_lines_after_the_start_control_no_terminal() -> None:
    with tempfile.TemporaryFile(buffering=0) as stderr:
        begin = stderr.write(b"WARNING: modules\n")
        stderr.write(b"spark: \x1b[2J\n")
        assert lines_of_jvm(stderr, begin) == ["spark: \\u001b[2J"]
        stderr.write(b"more\n")
        assert lines_of_jvm(stderr, begin)[1:] == ["more"]
