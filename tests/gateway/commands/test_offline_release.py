"""Groups go back to the cluster without a running gateway.

`tests/e2e/test_release_offline.py` has groups that do.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from coordinator.interface.records import (
    ClassicGroupMetadata,
    ClassicGroupValue,
    DurableRecord,
    ReleaseRecord,
    ReleaseState,
    ServedBySetting,
)
from gateway.commands import dispatch
from gateway.groups.group_orders import NO_ANCHORS
from gateway.state_folder import bind_to_cluster, lock_folder
from gateway.state_log.sqlite import open_sqlite_log
from kafka_codecs.apis import ApiKey
from tests.support.durable_records import RECORDS
from tests.support.fake_broker import running_fake_broker
from tests.support.group_records import classic_group, given_classic_group_member
from tests.support.mock_cluster import running_mock_cluster
from tests.support.offset_broker import OffsetBroker

NOWHERE = "127.0.0.1:1"
EMPTY = ClassicGroupValue(protocol_type=None, generation=0, protocol=None, leader=None)
LIVE = classic_group(given_classic_group_member("a", {"foo": (0,)}), generation=3)


class Told(NamedTuple):
    status: int
    results: str
    errors: str


async def keep(folder: Path, groups: Mapping[str, Iterable[DurableRecord]]) -> None:
    """The state of a gateway that was killed."""
    async with open_sqlite_log(folder) as log:
        for group_id, records in groups.items():
            await log.append(group_id, list(records))


async def release(
    capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, upstream: str = NOWHERE
) -> Told:
    """Run the command as a user does, with its settings from flags."""
    flags = ["--offline", f"--state-dir={folder}", f"--upstream={upstream}"]
    run = partial(dispatch.run, ["release", *arguments, *flags])
    status = await trio.to_thread.run_sync(run)
    printed = capsys.readouterr()
    return Told(status, printed.out, printed.err)


async def test_a_running_gateway_keeps_its_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await keep(tmp_path, {"orders": LIVE})
    with lock_folder(tmp_path):
        printed = await release(capsys, tmp_path, "orders")
    reason = f"a gateway runs with {tmp_path}: leave out --offline"
    assert printed == (1, "", f"groupferry: nothing is released: {reason}\n")


async def test_a_folder_without_a_log_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mistyped"
    printed = await release(capsys, folder, "orders")
    reason = f"there is no state log in {folder}; see --state-dir"
    assert printed == (1, "", f"groupferry: nothing is released: {reason}\n")
    assert not folder.exists()


async def test_a_cluster_that_cannot_be_reached_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await keep(tmp_path, {"orders": LIVE})
    printed = await release(capsys, tmp_path, "--all")
    assert printed.status == 1
    (line,) = printed.errors.splitlines()
    assert line.startswith(f"groupferry: nothing is released: cannot connect to {NOWHERE}")


@pytest.mark.parametrize("state", ["kafka", "memory"])
async def test_the_log_must_be_in_the_state_folder(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    state: str,
) -> None:
    """A log in the cluster would be taken from a gateway that runs somewhere else."""
    monkeypatch.setenv("GROUPFERRY_STATE", state)
    printed = await release(capsys, tmp_path, "--all")
    reason = "it needs the state log of a folder: start a gateway, and release there"
    assert printed == (1, "", f"groupferry: nothing is released: {reason}\n")


@pytest.mark.timeout(60)
async def test_each_group_that_cannot_be_released_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing changes in such a group."""
    groups: dict[str, list[DurableRecord]] = {
        "adopting": [RECORDS["group_adoption"]],
        "empty": [ClassicGroupMetadata(value=EMPTY)],
        "empty by a setting": [ClassicGroupMetadata(value=EMPTY), ServedBySetting(is_so=True)],
        "live": list(LIVE),
        "released": [ReleaseRecord(value=ReleaseState())],
    }
    await keep(tmp_path, groups)
    async with running_mock_cluster() as cluster:
        of_all = await release(capsys, tmp_path, "--all", upstream=cluster.bootstrap_servers)
        of_one = [
            await release(capsys, tmp_path, group_id, upstream=cluster.bootstrap_servers)
            for group_id in ("released", "unknown")
        ]
    assert (of_all.status, of_all.results) == (1, "")
    assert sorted(of_all.errors.splitlines()) == [
        "groupferry: adopting is not released: its adoption is under way: start the gateway, which"
        " ends it",
        f"groupferry: empty is not released: {NO_ANCHORS}",
        f"groupferry: live is not released: {NO_ANCHORS}",
    ]
    assert [topic.errors for topic in of_one] == [
        "groupferry: released is not released: it has been released already: nothing to do\n",
        "groupferry: unknown is not released: the state log does not have it: see groupferry"
        " state\n",
    ]
    async with open_sqlite_log(tmp_path) as log:
        assert {
            group_id: list(await log.read(group_id)) for group_id in await log.group_ids()
        } == groups


async def test_settings_are_only_for_a_release_without_a_gateway(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["release", "orders", f"--upstream={NOWHERE}", f"--state-dir={tmp_path}"]
    assert dispatch.run(command) == 2
    assert capsys.readouterr().err == "groupferry: --config and --upstream go with --offline\n"


async def test_the_groups_of_another_cluster_are_not_released(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is asked of it but who it is."""
    await keep(tmp_path, {"orders": LIVE})
    bind_to_cluster(tmp_path, "here")
    async with running_fake_broker(OffsetBroker(cluster_id="there")) as broker:
        host, port = broker.address
        printed = await release(capsys, tmp_path, "--all", upstream=f"{host}:{port}")
    assert (printed.status, printed.results) == (1, "")
    (line,) = printed.errors.splitlines()
    assert line.startswith(
        f"groupferry: nothing is released: the state folder {tmp_path} belongs to cluster here"
    )
    assert {header.api_key for header in broker.seen} <= {ApiKey.API_VERSIONS, ApiKey.METADATA}
