"""Hostile bytes cause no error in the gateway, keep no memory, and disturb no other group.

`python -m tests.fuzz` plays more of them, and replays the connections that a failure names.
"""

from functools import partial

import pytest

from gateway.cluster.errors import UpstreamError
from gateway.data_path.treatments import TREATMENTS
from tests.fuzz import neighbours
from tests.fuzz.attacks import FRAMES_MAX, Attack, attack_of, corpus
from tests.fuzz.campaign import Campaign, play

SEED = 17
Listening = partial(Campaign, seed=SEED)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "campaign",
    [
        pytest.param(Listening(frames=24_000), id="plaintext"),
        pytest.param(Listening(frames=18_000, authenticates=True), id="SASL"),
        pytest.param(Listening(frames=8_000, authenticates=True, tls=True), id="SASL and TLS"),
    ],
)
async def test_hostile_bytes_cost_only_their_sender(campaign: Campaign) -> None:
    """No error or traceback, no file left open, no memory kept, no wrong answer to a healthy mixed
    group."""
    outcome = await play(campaign)
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.frames >= campaign.frames
    assert outcome.rounds > 0


@pytest.mark.timeout(120)
async def test_a_disturbed_group_ends_the_campaign_with_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was played until then is still reported."""

    async def disturbed(*_args: object, **_more: object) -> None:
        raise UpstreamError("no answer")

    monkeypatch.setattr(neighbours, "_play_round", disturbed)
    outcome = await play(Listening(frames=1_000_000))
    (problem,) = outcome.problems
    assert problem.startswith("round 0 of the neighbours: UpstreamError('no answer'), while the")
    assert outcome.cpu_s > 0


def test_every_version_of_every_api_is_played() -> None:
    """At least one request each."""
    versions = {
        (key, version)
        for key, treated in TREATMENTS.items()
        for version in range(treated.min_version, treated.max_version + 1)
    }
    found = {(key, version) for some in corpus().values() for key, version, _body in some}
    assert found == versions


def test_an_attack_can_be_played_again() -> None:
    """Its bytes depend on nothing but the seed and its number."""

    def attacks(seed: int) -> list[Attack]:
        return [attack_of(seed, number, authenticates=True) for number in range(20)]

    assert attacks(SEED) == attacks(SEED)
    assert attacks(SEED) != attacks(SEED + 1)
    assert all(len(attack.frames) <= FRAMES_MAX for attack in attacks(SEED))
