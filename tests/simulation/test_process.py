"""A process carries out the effects of the shipped machine."""

from coordinator.interface.events import TimePassed
from gateway.hosting.states import AnchorPhase
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.process import TICK_MS, DecidedStep
from tests.support.simulation import Stage


def test_a_member_joins_once_the_cluster_has_admitted_the_anchor() -> None:
    """The machine is the shipped one."""
    stage = Stage()
    stage.silence_the_coordinator()
    client = stage.native("n1")
    stage.wait(3_000)
    assert not client.claims
    stage.end_the_silence()
    stage.wait()
    assert len(client.claims) == 4
    assert stage.driver.process.group.anchor.phase is AnchorPhase.STABLE


def test_nothing_of_a_killed_process_goes_on_but_what_it_has_sent() -> None:
    """A write under way reaches the log, and its answer nobody."""
    stage = Stage()
    stage.native("n1")
    process = stage.driver.process
    while not process.asks:
        stage.wait(1)
    process.kill()
    stage.wait()
    assert stage.cluster.group.anchors
    assert process.confirmed == 0
    assert not stage.driver.log.batches


def test_a_failed_write_is_refused_and_changes_nothing() -> None:
    """The client retries."""
    stage = Stage()
    stage.driver.log.failure_rate = 1.0
    client = stage.native("n1")
    stage.wait(2_000)
    told = [what for _at, who, what in stage.world.transcript if who == "n1 hears"]
    refusals = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert {getattr(each, "error", None) for each in told} <= refusals
    assert stage.driver.process.group.engine.core.state.group is None
    stage.driver.log.failure_rate = 0.0
    stage.wait()
    assert client.is_settled


def test_a_doubtful_write_reloads_the_group() -> None:
    """It has taken effect or not, and the client retries."""
    found = set()
    for seed in range(8):
        stage = Stage(seed)
        stage.driver.log.doubt_rate = 1.0
        stage.native("n1")
        stage.wait(400)
        found.add(stage.driver.engine.state.group is not None)
        assert stage.world.counts["batches in doubt"]
    assert found == {False, True}


def test_a_pause_is_noticed() -> None:
    """By the clock, which the process reads again and again."""
    stage = Stage()
    stage.native("n1")
    stage.wait()
    process = stage.driver.process
    grace = process.group.engine.grace
    assert not grace.over_ms
    stage.driver.pause(5_000)
    stage.wait(5_000 + 2 * TICK_MS)
    assert grace.over_ms > process.awake_since_ms


def test_a_step_keeps_the_topics_that_it_was_decided_on() -> None:
    """Others may be known when it takes effect. A step that never does leaves nothing behind, which
    would make a seed depend on the steps before it."""
    stage = Stage()
    stage.native("n1")
    stage.wait()
    engine, topics = stage.driver.process.group.engine.core, stage.cluster.topics
    step = engine.fork().handle(TimePassed(), now_ms=stage.driver.process.now_ms, topics=topics)
    assert isinstance(step, DecidedStep)
    assert step.topics is topics
