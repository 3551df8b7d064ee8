"""Every script gets the same answers from a real Apache Kafka broker and from the gateway.

All selected scripts run in parallel before the first test checks its outcome, because they mostly
wait. `python -m tests.differential.play` plays them by hand, and shows their requests and answers.
"""

from collections.abc import Mapping

import pytest
import trio

from tests.differential.random_script import random_scripts
from tests.support.differential.deviations import REPEATING, Deviation
from tests.support.differential.script import SCRIPTS, load_scripts
from tests.support.differential.stage import Outcome, running_stage
from tests.support.kafka_broker import FETCH_TIMEOUT_S
from tests.support.releases import NATIVE_RELEASES

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

SEEDS = range(40)

load_scripts()
WRITTEN = dict(SCRIPTS)
MADE_UP = {script.name: script for script in random_scripts(SEEDS)}


@pytest.fixture(scope="module", params=NATIVE_RELEASES)
def outcomes(request: pytest.FixtureRequest) -> Mapping[str, Outcome]:
    """The outcome of each selected script."""
    selected = {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    }
    scripts = WRITTEN | MADE_UP
    chosen = [script for name, script in scripts.items() if name in selected]
    with running_stage(request.param, (script.profile for script in chosen)) as stage:
        return trio.run(stage.play, chosen)


@pytest.mark.parametrize("name", WRITTEN)
def test_kafka_and_the_gateway_answer_alike(name: str, outcomes: Mapping[str, Outcome]) -> None:
    """Only the deviations that a script announces are allowed, and each must occur."""
    outcome = outcomes[name]
    if outcome.failure is not None:
        pytest.fail(outcome.failure, pytrace=False)
    is_repeated = Deviation.REPEATED in outcome.deviations
    assert is_repeated is (name in REPEATING), outcome.transcript


@pytest.mark.parametrize("name", MADE_UP)
def test_random_requests_are_answered_alike(name: str, outcomes: Mapping[str, Outcome]) -> None:
    """A script ends at the first deviation. `tests.differential.play --seeds 1 --first-seed N`
    replays one."""
    if (failure := outcomes[name].failure) is not None:
        pytest.fail(failure, pytrace=False)
