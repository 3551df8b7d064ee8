"""The simulated broker answers as the real ones do whose profiles it has.

All selected scripts of a release run before the first test checks its outcome, because they mostly
wait. `python -m tests.simulation.broker_trial` plays them by hand, also at Kafka 2.8.
"""

from collections.abc import Mapping

import pytest
import trio

from tests.simulation.broker_cases.all_cases import CASES
from tests.simulation.broker_profiles import KAFKA_3_9, KAFKA_4_3, BrokerProfile
from tests.simulation.trial_stage import running_trial_stage
from tests.support.kafka_broker import FETCH_TIMEOUT_S

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

PROFILES = (KAFKA_3_9, KAFKA_4_3)
PLAYED = [
    pytest.param(profile, name, id=f"{profile.release}-{name}")
    for profile in PROFILES
    for name, case in CASES.items()
    if profile.release in case.releases
]


@pytest.fixture(scope="module")
def failures(request: pytest.FixtureRequest) -> Mapping[tuple[str, str], str]:
    """The transcripts of the selected scripts whose answers differ, by release and name."""
    chosen: set[tuple[object, object]] = {
        (item.callspec.params["profile"], item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    }
    failures = {}
    for profile in PROFILES:
        cases = [case for case in CASES.values() if (profile, case.name) in chosen]
        if cases:
            with running_trial_stage(profile) as stage:
                for name, failure in trio.run(stage.play, cases).items():
                    failures[profile.release, name] = failure
    return failures


@pytest.mark.parametrize(("profile", "name"), PLAYED)
def test_a_profile_is_the_broker(
    profile: BrokerProfile, name: str, failures: Mapping[tuple[str, str], str]
) -> None:
    failure = failures.get((profile.release, name))
    if failure is not None:
        pytest.fail(failure, pytrace=False)
