"""Who answers for groups without members here."""

from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.batches import NAMES_PER_STEP
from gateway.cluster.errors import UpstreamError
from gateway.groups import group_drivers as module
from gateway.hosting.forwarded import Client
from gateway.hosting.inputs import SeenForeign
from gateway.hosting.pending_ids import PendingIds
from gateway.hosting.states import Mode
from gateway.quotas.quota_key import QuotaKey
from kafka_codecs.join_group import JoinGroupResponse
from tests.gateway.hosting.test_pending_ids import JOIN, REQUIRED, join
from tests.support.hosted_groups import GROUP, hosted_groups


async def test_a_group_with_hosted_members_stays_hosted(autojump_clock: MockClock) -> None:
    """The cluster is not even asked."""
    async with hosted_groups() as groups:
        await groups.native("n")
        groups.driver().feed(SeenForeign("somebody said so"))
        groups.cluster.coordinator_questions.clear()
        assert (await groups.table.router.find_decisions((GROUP,)))[GROUP].mode is Mode.HOSTED
        assert groups.table.drivers.is_live(GROUP)
        assert groups.cluster.coordinator_questions == []
        await groups.native("n", -1)
        assert not groups.table.drivers.is_live(GROUP)
        assert (await groups.table.router.find_decisions((GROUP,)))[GROUP].mode is Mode.FORWARDED


async def test_what_is_known_of_groups_is_kept_from_inventors_of_names(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster is not asked again about the group of another user."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 4)
    alice, mallory = QuotaKey("alice", is_principal=True), QuotaKey("mallory", is_principal=True)
    async with hosted_groups() as groups:
        await groups.table.router.find_decisions(["a"], alice)
        await groups.table.router.find_decisions([f"g{number}" for number in range(9)], mallory)
        groups.cluster.coordinator_questions.clear()
        await groups.table.router.find_decisions(["a"], alice)
        assert groups.cluster.coordinator_questions == []
        await groups.table.router.find_decisions(["g0"], mallory)
        assert groups.cluster.coordinator_questions == ["g0"]


async def test_an_id_counts_as_used_though_nothing_of_the_group_is_in_memory(
    autojump_clock: MockClock,
) -> None:
    """A member that joins again on its connection would get its former id, for ever."""
    client = Client(client_id="a", client_host="/10.0.0.1", connection=1)
    async with hosted_groups() as groups:
        routing = groups.table.drivers.remember_routing(GROUP, None)
        routing.pending_ids = PendingIds()
        now_ms, record = groups.table._clock.now_ms(), groups.table.router.record_relayed
        record(GROUP, client, JOIN, REQUIRED)
        assert routing.answer_repeated(join(), now_ms) is not None
        record(GROUP, client, replace(JOIN, member_id="c-1"), JoinGroupResponse(member_id="c-1"))
        assert routing.answer_repeated(join(), now_ms) is None
        assert groups.table.drivers.in_memory(GROUP) is None


async def test_others_run_while_many_names_are_looked_up(autojump_clock: MockClock) -> None:
    """Hundreds of such requests may come together, and a heartbeat waits for a step of each."""
    names = [f"g{number}" for number in range(10 * NAMES_PER_STEP)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with hosted_groups() as groups, trio.open_nursery() as nursery:
        nursery.start_soon(count)
        for _ in range(2):  # by a look, and from memory
            turns = 0
            await groups.table.router.find_decisions(names)
            assert turns >= 9
        nursery.cancel_scope.cancel()


async def test_a_group_that_has_not_been_read_does_not_belong_to_the_cluster(
    autojump_clock: MockClock,
) -> None:
    """Its members may be in the log, although a setting now leaves the group to the cluster."""
    async with hosted_groups() as before:
        await before.native("n")
        log = before.log
    async with hosted_groups(log=log) as groups:
        groups.table._rules.forward_patterns = (GROUP,)
        groups.cluster.failure = UpstreamError("not now")
        await groups.nursery.start(groups.table.resume)
        await wait_all_tasks_blocked()
        assert not groups.table.drivers.is_live(GROUP)
        assert not groups.table.drivers.is_adopted(GROUP)
        assert not groups.table.drivers.belongs_to_cluster(GROUP)
