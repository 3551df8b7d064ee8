"""The command line: output and exit status."""

import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import trio

import gateway
from coordinator.interface.records import TargetAssignmentMember
from gateway.state_log.sqlite import open_sqlite_log

PROGRAM = "import sys; from gateway.cli import main; sys.exit(main())"


def groupferry(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_package_runs_as_a_file(tmp_path: Path) -> None:
    """spark-submit takes nothing else. In the folder of the file a module has the package's
    name."""
    done = subprocess.run(
        [sys.executable, Path(gateway.__file__).with_name("__main__.py"), "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_that_of_the_package() -> None:
    """One line on stdout."""
    done = groupferry("--version")
    assert (done.returncode, done.stdout) == (0, f"groupferry {version('groupferry')}\n")


def test_help_describes_all_ways_to_set_a_setting() -> None:
    """These are flags with defaults, variables, and the file."""
    done = groupferry("serve", "--help")
    assert done.returncode == 0
    for wanted in (
        "--upstream",
        "127.0.0.1:19092",
        "group.consumer.heartbeat.interval.ms (at least 1 ms; default 5000)",
        "GROUPFERRY_LISTEN",
        "--config",
    ):
        assert wanted in " ".join(done.stdout.split())


def test_an_invalid_setting_is_one_line_on_stderr() -> None:
    """The line has neither usage nor traceback."""
    done = groupferry("serve", "--upstream", "kafka", "--max-groups", "none")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "groupferry: --upstream: kafka is not HOST:PORT, with a port from 1 to 65535",
        "groupferry: --max-groups: 'none' should be a valid integer, "
        "unable to parse string as an integer",
    ]


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """`groupferry ... | head -1` succeeds, whenever the pipe closes."""

    async def fill() -> None:
        members = (f"m{number}" for number in range(2_000))
        async with open_sqlite_log(tmp_path) as log:
            await log.append(
                "g",
                [
                    TargetAssignmentMember(member_id=member_id, partitions=frozenset())
                    for member_id in members
                ],
            )

    trio.run(fill)
    for arguments in (["state", "--state-dir", str(tmp_path)], ["events", "--help"]):
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("delay_s", [0.05, 0.2, 0.6])
def test_ctrl_c_sets_the_exit_status_at_any_point(delay_s: float) -> None:
    """Ctrl-C while loading, starting or running causes no traceback."""
    # A shell's background job, such as these tests, ignores SIGINT and passes that on.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    entry = "import sys; from gateway.cli import main; print(flush=True); sys.exit(main())"
    with subprocess.Popen(
        [
            *(sys.executable, "-c", f"{heeds}; {entry}"),
            *("demo", "--log-level=error"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay_s)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors


# Trio defers a signal within its own code to the next checkpoint.
INTERRUPTED = """
import signal, trio
from gateway import cli

@trio.lowlevel.enable_ki_protection
def interrupt():
    signal.raise_signal(signal.SIGINT)

def run_interrupted(main, *arguments):
    async def interrupted():
        interrupt()
        return await main(*arguments)
    return run(interrupted)

run, trio.run = trio.run, run_interrupted
signal.signal(signal.SIGINT, signal.default_int_handler)
raise SystemExit(cli.main({arguments}))
"""


@pytest.mark.parametrize("command", [("demo",), ("serve", "--upstream", "127.0.0.1:1")])
def test_ctrl_c_before_the_command_handles_it(command: tuple[str, ...], tmp_path: Path) -> None:
    """The checkpoint may be within nested nurseries, which raise a group of errors."""
    program = INTERRUPTED.format(arguments=(*command, "--state-dir", str(tmp_path / "state")))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "")
