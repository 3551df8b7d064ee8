"""The file that makes a state folder that of a fleet."""

from pathlib import Path

import pytest

from gateway.fleet.fleet_state import (
    FILE_NAME,
    IN_CLUSTER,
    SHARDS_FOLDER,
    SLOTS_FOLDER,
    control_folder_of,
    control_folders,
    end_fleet,
    open_state,
    read_state,
    write_state,
)
from gateway.fleet.member import NO_SLOT, SHARDS, FleetMember
from gateway.state_folder import StateFolderError


def test_a_new_folder_gets_a_log_of_its_own(tmp_path: Path) -> None:
    """The id and the shards stay; the number of processes may change."""
    first = open_state(tmp_path, 2)
    assert (first.shards, first.slots, first.runs) == (SHARDS, 2, 0)
    write_state(tmp_path, first.with_run())
    later = open_state(tmp_path, 3)
    assert later == first.model_copy(update={"slots": 3, "runs": 1})
    assert open_state(tmp_path / "another", 2).log_id != first.log_id


def test_more_processes_than_shards_are_refused(tmp_path: Path) -> None:
    """A process without a shard would have nothing to do."""
    with pytest.raises(StateFolderError, match="at most as many"):
        open_state(tmp_path, SHARDS + 1)


def test_a_lost_or_damaged_file_is_refused(tmp_path: Path) -> None:
    """A new id would make strangers of the fleet's own anchors."""
    write_state(tmp_path, open_state(tmp_path, 2))
    (tmp_path / FILE_NAME).write_text("{}")
    with pytest.raises(StateFolderError, match="not readable"):
        open_state(tmp_path, 2)
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / SHARDS_FOLDER / "000").mkdir()
    with pytest.raises(StateFolderError, match="is missing"):
        open_state(tmp_path, 2)


def test_the_state_of_a_fleet_in_the_cluster_is_apart(tmp_path: Path) -> None:
    """The folder may have shards of its own, of another log. Commands find the processes of the
    fleet that runs. A lost file costs nothing."""
    write_state(tmp_path, own := open_state(tmp_path, 2))
    end_fleet(tmp_path)
    write_state(tmp_path, open_state(tmp_path, 3, IN_CLUSTER), IN_CLUSTER)
    assert len(control_folders(tmp_path)) == 3
    (tmp_path / SLOTS_FOLDER / "0").mkdir()
    (tmp_path / IN_CLUSTER).unlink()
    assert open_state(tmp_path, 3, IN_CLUSTER).runs == 0
    assert open_state(tmp_path, 2).log_id == own.log_id
    end_fleet(tmp_path)
    assert control_folders(tmp_path) == [tmp_path]


def test_a_folder_without_a_fleet_has_no_state(tmp_path: Path) -> None:
    """A folder that does not exist has no state either."""
    assert read_state(tmp_path) is None
    assert read_state(tmp_path / "none") is None


def test_a_single_gateway_may_have_all_shards(tmp_path: Path) -> None:
    """Its socket is in the state folder, as ever."""
    write_state(tmp_path, open_state(tmp_path, 0))
    assert control_folders(tmp_path) == [tmp_path]
    assert control_folder_of(tmp_path, "g") == tmp_path


def test_a_single_gateway_is_reached_where_a_fleet_was(tmp_path: Path) -> None:
    """The single gateway may keep its state elsewhere, for example in the cluster. The shards
    stay."""
    end_fleet(tmp_path)
    assert read_state(tmp_path) is None
    state = open_state(tmp_path, 2)
    write_state(tmp_path, state)
    end_fleet(tmp_path)
    assert control_folders(tmp_path) == [tmp_path]
    assert open_state(tmp_path, 2) == state


def test_each_process_has_a_folder_for_its_socket(tmp_path: Path) -> None:
    """A single gateway uses the state folder itself."""
    assert control_folders(tmp_path) == [tmp_path]
    assert control_folder_of(tmp_path, "g") == tmp_path
    write_state(tmp_path, open_state(tmp_path, 3))
    folders = [tmp_path / SLOTS_FOLDER / str(slot) for slot in range(3)]
    assert control_folders(tmp_path) == folders
    member = FleetMember(slot=0, slots=3, shards=SHARDS)
    for group_id in ("a", "b", "c", "d"):
        assert control_folder_of(tmp_path, group_id) == folders[member.slot_of(group_id)]


def test_any_process_says_which_machine_has_a_group(tmp_path: Path) -> None:
    """The file of a machine knows only its own."""
    state = open_state(tmp_path, 2, IN_CLUSTER)
    write_state(tmp_path, state.with_owners([NO_SLOT] * SHARDS), IN_CLUSTER)
    assert control_folder_of(tmp_path, "g") == tmp_path / SLOTS_FOLDER / "0"
