"""The output of a suite becomes outcomes by the names of its tests, and those that differ are
counted."""

import pytest

from tests.e2e.library_suites import SUITES, outcomes, print_comparison

GO = """
=== RUN   TestConn
    --- PASS: TestConn/close_immediately (0.01s)
--- PASS: TestConn (0.01s)
--- SKIP: TestNettest (0.00s)
--- FAIL: TestReader (9.20s)
"""
PYTEST = """
test/integration/test_admin_integration.py::test_a[gzip two] PASSED      [  1%]
test/integration/test_admin_integration.py::test_b SKIPPED (No KAFKA)    [  2%]
"""
LIBRDKAFKA = """
\x1b[36m[0012_produce_consume / 1.0s] ================= Running test 0012_produce_consume =====
\x1b[36m[0012_produce_consume / 1.9s] ================= Test 0012_produce_consume PASSED ===========
\x1b[36m[0053_stats           / 0.0s] ================= Test 0053_stats SKIPPED =================
\x1b[31m### Test "0081_admin (do_test_x:318: main queue, timeout 1)" failed at test.c:1:x() at Mon:
\x1b[31m### Test "0029_assign_offset" failed at test.c:2524:test_produce_msgs_nowait() at Mon: ###
"""


def test_the_outcomes_of_a_suite_have_the_names_of_its_tests() -> None:
    assert outcomes(SUITES["kafka-go"], GO) == {
        "TestConn": "PASS",
        "TestConn/close_immediately": "PASS",
        "TestNettest": "SKIP",
        "TestReader": "FAIL",
    }
    path = "test/integration/test_admin_integration.py"
    assert outcomes(SUITES["kafka-python"], PYTEST) == {
        f"{path}::test_a[gzip two]": "PASSED",
        f"{path}::test_b": "SKIPPED",
    }
    scenario = "kafkajs_scenarios.cjs::seeks"
    assert outcomes(SUITES["kafkajs"], f"{scenario} FAILED\n") == {scenario: "FAILED"}
    assert outcomes(SUITES["librdkafka-classic"], LIBRDKAFKA) == {
        "0012_produce_consume": "PASSED",
        "0053_stats": "SKIPPED",
        "0081_admin": "FAILED",
        "0029_assign_offset": "FAILED",
    }


def test_a_test_that_did_not_run_behind_the_gateway_differs() -> None:
    direct, behind = {"TestA": "PASS", "TestB": "PASS"}, {"TestA": "PASS"}
    assert print_comparison("sarama", "4.4", {"at the brokers": direct, "defaults": behind}) == 1
    assert print_comparison("sarama", "4.4", {"at the brokers": direct, "defaults": direct}) == 0


def test_a_suite_without_outcomes_is_no_success() -> None:
    with pytest.raises(AssertionError, match="no test ran"):
        print_comparison("sarama", "4.4", {"at the brokers": {}, "defaults": {}})


def test_a_difference_with_a_reason_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    test, reason = next(iter(SUITES["kafka-python"].explained.items()))
    results = {"at the brokers": {test: "PASSED"}, "defaults": {test: "FAILED"}}
    assert print_comparison("kafka-python", "4.4", results) == 0
    assert f"{test}: PASSED, FAILED ({reason})" in capsys.readouterr().out
