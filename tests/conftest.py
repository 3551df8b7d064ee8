"""Fixtures and scheduling for all tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import structlog
import trio
from trio._core._run import GLOBAL_RUN_CONTEXT
from xdist.remote import Producer

from tests.support.garbage import OBJECTS_PER_COLLECTION
from tests.support.hypothesis_profile import examples
from tests.support.kafka_broker import KafkaCluster, running_kafka
from tests.support.promises import PromiseBroken, PromiseWatch, raise_broken
from tests.support.releases import (
    CHOSEN,
    IS_DAILY,
    NEWEST,
    RELEASES,
    TEST_IDS,
    left_to_another_release,
)
from tests.support.requirements import restore_reason
from tests.support.side_by_side import (
    ByShareOrFile,
    import_share,
    is_whole_suite,
    scope,
    slow_ones_first,
)
from tests.support.spark import SPARK_PATHS, need_spark, running_spark
from tests.support.turns import left_to_another_turn, record_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.secure_kafka import SecureKafka

# A slow machine must not fail a test. Time is measured in tests/bench/ only.
hypothesis.settings.register_profile("groupferry", deadline=None, max_examples=examples())
hypothesis.settings.load_profile("groupferry")

SPARK_TIMEOUT_S = 600
KAFKA_TIMEOUT_S = 400
"""The first test of a run that needs a release has its brokers started and its clients compiled,
while three other workers do the same."""
RERUNS = 3
"""How often a failed test with real brokers is repeated. Brokers, clients and gateway have their
own timers and share the cores with other tests; a defect fails every time. Pytest's summary shows
each failure. A broken promise is not repeated."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of single tests."""
    parser.addoption(
        "--rewrite-stories",
        action="store_true",
        help="Write what the pipeline says into the transcripts of tests/gateway/pipeline/fold",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add the plugin that all runs need, and note which cases this one plays."""
    record_turn()
    config.pluginmanager.register(PromiseWatch())


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Pause garbage collection, and exempt from it what was loaded and collected: it is much, and
    stays. Collect less often afterwards: tests create many objects, and little garbage."""
    gc.disable()
    import_share(session.config)
    done = yield
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    gc.enable()
    return done


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Mark tests that need the extra `pipeline`, or the fixture `spark`, before `-m` selects,
    and allow them the time in which a JVM starts on a busy machine, as tests with real brokers.
    Allow the latter a repetition. Leave slow tests to one release each, and some cases to another
    day. Once pytest has sorted the tests, put slow ones first."""
    selections = [left_to_another_release]
    if IS_DAILY or (is_whole_suite(config) and CHOSEN != RELEASES):
        selections.append(left_to_another_turn)
    for select in selections:
        left_out = select(item.nodeid for item in items)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]
    for item in items:
        needs_extra = not SPARK_PATHS.isdisjoint((item.path, item.path.parent))
        if needs_extra or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
        if item.get_closest_marker("kafka"):
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(KAFKA_TIMEOUT_S))
            item.add_marker(pytest.mark.flaky(reruns=RERUNS, rerun_except=PromiseBroken.__name__))
    done = yield
    if hasattr(config, "workerinput"):
        slow_ones_first(items)
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs Spark on a machine without it."""
    if item.get_closest_marker("spark"):
        need_spark()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Tell of a promise broken within nurseries by its own type: the test would be repeated. Tell
    the reason of a skip within nurseries."""
    try:
        return (yield)
    except pytest.skip.Exception as skipped:
        restore_reason(skipped)
        raise
    except BaseExceptionGroup as group:
        raise_broken(group)
        raise


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Forget the Trio run of a test that ran out of time: all later tests of the worker would fail,
    because one is under way."""
    if call.excinfo is not None and trio.lowlevel.in_trio_run():
        vars(GLOBAL_RUN_CONTEXT).clear()
        signal.set_wakeup_fd(-1)  # the next run would restore this one's


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End a shared cluster with the last test of its scope, because idle brokers take CPU time from
    the other tests. End the clients that the scope's tests have left, too: their threads print and
    open files."""
    if nextitem is not None and scope(item.nodeid) == scope(nextitem.nodeid):
        return
    gc.collect()
    assert isinstance(item, pytest.Function)
    for name in TEST_IDS:
        for fixture in item._fixtureinfo.name2fixturedefs.get(name, ()):
            fixture.finish(item._request)  # type: ignore[arg-type]  # any request will do


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByShareOrFile:
    """Choose the scheduler."""
    return ByShareOrFile(config, log)


@pytest.fixture(autouse=True)
def _no_bug_is_logged() -> Iterator[None]:
    """Fail a test in which the gateway logged a traceback, which only bugs have. A test that means
    to cause one captures the log."""
    bugs: list[structlog.typing.EventDict] = []

    def record(_logger: object, _level: str, line: structlog.typing.EventDict) -> Any:
        if line.get("exc_info"):
            bugs.append(line)
        return line

    processors = structlog.get_config()["processors"]
    processors.insert(0, record)
    yield
    processors.remove(record)
    assert not bugs


@pytest.fixture(autouse=True)
def _log_configuration_restored() -> Iterator[None]:
    """Commands configure the log of the whole process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session", params=["spark"])
def spark() -> Iterator[SparkSession]:
    """The only Spark session of this process."""
    with running_spark() as session:
        yield session


@pytest.fixture(scope="session", params=CHOSEN, ids=TEST_IDS["kafka"].format)
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Two brokers, for tests that do not stop them."""
    with running_kafka(request.param) as cluster:
        yield cluster


@pytest.fixture(scope="session", params=[NEWEST], ids=TEST_IDS["secure_kafka"].format)
def secure_kafka() -> Iterator[SecureKafka]:
    """One broker with TLS, SASL and ACLs, for tests that do not stop it."""
    from tests.support.secure_kafka import running_secure_kafka

    with running_secure_kafka() as cluster:
        yield cluster


@pytest.fixture(scope="session", params=CHOSEN, ids=TEST_IDS["_three_brokers"].format)
def _three_brokers(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    with running_kafka(request.param, brokers=3) as cluster:
        yield cluster


@pytest.fixture
async def three_brokers(_three_brokers: KafkaCluster) -> KafkaCluster:
    """Three brokers that tests may stop or kill. All of them run when a test starts."""
    await _three_brokers.start()
    return _three_brokers


@pytest.fixture(params=CHOSEN)
def one_broker(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A cluster of one broker for a single test, which may change it."""
    with running_kafka(request.param, brokers=1) as cluster:
        yield cluster
