"""Every script gets the same answers from a real Apache Kafka broker and from the gateway.

All selected scripts are played at once, before the first test looks at its outcome: most of their
time is waiting. `python -m tests.differential.play` plays them by hand, and shows what was said.
"""

from collections.abc import Mapping

import pytest
import trio

from tests.support.differential.deviations import SHOWN_BY
from tests.support.differential.script import SCRIPTS, load_scripts
from tests.support.differential.stage import Outcome, running_stage
from tests.support.kafka_broker import FETCH_TIMEOUT_S

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

load_scripts()


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Mapping[str, Outcome]:
    """How each selected script ended."""
    selected = {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    }
    chosen = [script for name, script in SCRIPTS.items() if name in selected]
    with running_stage(script.profile for script in chosen) as stage:
        return trio.run(stage.play, chosen)


@pytest.mark.parametrize("name", SCRIPTS)
def test_kafka_and_the_gateway_answer_alike(name: str, outcomes: Mapping[str, Outcome]) -> None:
    """Alike, but for the deviations that are declared, and these are seen."""
    outcome = outcomes[name]
    if outcome.failure is not None:
        pytest.fail(outcome.failure, pytrace=False)
    declared = {deviation for deviation, names in SHOWN_BY.items() if name in names}
    assert outcome.deviations == declared, outcome.story
