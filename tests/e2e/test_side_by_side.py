"""Parallel test workers do not interfere with each other."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import releases
from tests.support.ports import free_port, ports_of
from tests.support.side_by_side import is_waiting, next_scope, scope
from tests.support.turns import TURN_VARIABLE, left_to_another_turn

LEAVES_A_CYCLE = """
import weakref

class Client: pass

clients = weakref.WeakSet()

def test_it():
    client = Client()
    client.callback = lambda: client
    clients.add(client)
"""
SEES_NO_CYCLE = """
from test_first import clients

def test_it():
    assert not clients
"""


def test_the_tests_of_a_cluster_stay_together() -> None:
    """Tests with the same release stay together, from any file, whatever their other parameters.
    The many tests on two brokers also have the same folder."""
    assert (
        scope("tests/e2e/test_a.py::test_one[kafka-3.9]")
        == scope("tests/e2e/deep/test_b.py::test_two[classic-kafka-3.9-x]")
        == "tests/e2e on kafka-3.9"
    )
    for shared in ("spark", "three-brokers-4.3"):
        assert scope(f"tests/gateway/x/test_a.py::test_one[{shared}]") == shared
        assert scope(f"tests/e2e/test_b.py::test_two[x-{shared}]") == shared
    others = {
        "tests/e2e/test_a.py::test_one[kafka-4.3]",
        "tests/e2e/test_a.py::test_one[three-brokers-3.9]",
        "tests/gateway/test_a.py::test_one[kafka-3.9]",
    }
    assert "tests/e2e on kafka-3.9" not in map(scope, others)


def test_the_slowest_files_have_clusters_of_their_own() -> None:
    """Together with the rest of their folder they would outlast all other workers."""
    slowest = ("test_release", "test_release_killed", "test_remove", "test_whole_story")
    scopes = {scope(f"tests/e2e/{name}.py::test_one[kafka-4.3-0]") for name in slowest}
    assert scopes == {"groups that leave on kafka-4.3"}


def test_each_slow_test_is_left_to_one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for each case of it, and for no other test. If all releases are played, none is
    left out."""
    cases = [f"tests/e2e/test_a.py::test_{number}" for number in range(20)]
    slow = {case: {f"{case}[kafka-{release}]" for release in ("3.9", "4.4")} for case in cases}
    quick = {"tests/gateway/test_a.py::test_one[3.9]", "tests/gateway/test_a.py::test_one[4.4]"}
    every = quick.union(*slow.values())
    monkeypatch.setattr(releases, "CHOSEN", ("3.9", "4.4"))
    left = every - releases.left_to_another_release(every)
    assert quick <= left
    assert all(len(left & twins) == 1 for twins in slow.values())
    assert {name[-4:-1] for name in left - quick} == {"3.9", "4.4"}, "both are played"
    monkeypatch.setattr(releases, "CHOSEN", releases.RELEASES)
    assert releases.left_to_another_release(every) == set()


def test_each_case_of_a_slow_test_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three turns play all cases, and four those that test the simulator. Each turn plays some of
    every test. A test of one case is played in each."""
    cases = {f"tests/e2e/test_a.py::test_one[{number}]" for number in range(6)}
    worlds = {f"tests/simulation/explorer/test_worlds.py::TestA::test_{name}" for name in "abcdef"}
    others = {"tests/e2e/test_a.py::TestB::test_one", "tests/e2e/test_a.py::TestB::test_two"}
    others |= {"tests/e2e/test_a.py::test_two[x]", "tests/e2e/test_a.py::test_three"}
    quick = {f"tests/gateway/test_a.py::test_one[{number}]" for number in range(2)}
    bugs = {f"tests/simulation/test_planted_bugs.py::test_one[{number}]" for number in range(8)}
    every = cases | worlds | others | quick | bugs
    played = []
    for turn in ("7", "8", "9", "10"):
        monkeypatch.setenv(TURN_VARIABLE, turn)
        played.append(every - left_to_another_turn(every))
        assert others | quick <= played[-1]
        assert len(cases & played[-1]) == len(worlds & played[-1]) == len(bugs & played[-1]) == 2
    assert set.union(*played[:3]) >= every - bugs
    assert set.union(*played) == every


def test_workers_wait_and_compute_in_turn() -> None:
    """Scopes of both kinds alternate as long as there are any."""
    waiting = ["tests/e2e on kafka-3.9", "three-brokers-4.4", "tests/gateway/test_a_with_kafka.py"]
    computing = ["tests/simulation/test_worlds.py::TestStart", "tests/codecs/test_kafka.py"]
    assert next_scope([*computing, *waiting], waits=True) == waiting[0]
    assert next_scope([*waiting, *computing], waits=False) == computing[0]
    assert next_scope(waiting, waits=False) == waiting[0]
    assert [is_waiting(process) for process in (*waiting, *computing)] == [True] * 3 + [False] * 2


def test_other_tests_stay_with_their_file_or_class() -> None:
    """This includes tests that name a release of another program."""
    for name in ("test_one", "test_one[3.9]", "test_one[kafka-python-to-librdkafka]", "test_a[::]"):
        assert scope(f"tests/e2e/test_a.py::{name}") == "tests/e2e/test_a.py"
    assert scope("tests/e2e/test_a.py::TestB::test_one[::1]") == "tests/e2e/test_a.py::TestB"


def test_the_tests_on_simulated_runs_stay_together() -> None:
    """Each worker that plays the runs takes half a minute for it."""
    folder = "tests/gateway/pipeline/fold"
    assert scope(f"{folder}/test_a.py::test_one") == scope(f"{folder}/test_b.py::test_two")


def test_no_two_workers_hand_out_the_same_port() -> None:
    """This holds for the number of workers of an ordinary machine."""
    workers = [set(ports_of(f"gw{number}")) for number in range(16)]
    assert not any(one & other for one, other in itertools.combinations(workers, 2))
    assert min(map(len, workers)) > 100


def test_another_run_hands_out_no_port_whose_owner_is_down() -> None:
    """Clients return to that port, and would reach a foreign server."""
    port = free_port()
    rounds = len(ports_of(os.environ.get("PYTEST_XDIST_WORKER", "")))
    other = f"from tests.support.ports import *; print(*(free_port() for _ in range({rounds})))"
    given = subprocess.run([sys.executable, "-c", other], capture_output=True, check=True).stdout
    assert port not in map(int, given.split())


def test_what_the_tests_of_a_file_leave_ends_with_them(tmp_path: Path) -> None:
    """A client in a reference cycle would print and open files during the tests of other files."""
    (tmp_path / "test_first.py").write_text(LEAVES_A_CYCLE)
    (tmp_path / "test_second.py").write_text(SEES_NO_CYCLE)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        check=True,
        timeout=120,
    )
