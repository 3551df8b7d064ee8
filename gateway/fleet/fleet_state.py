"""The file of a fleet: the id of its state log, its runs, and who has which shard.

If the shards are in the folder, the file stands with them, and says that the state is in shards. If
they are in the cluster, it stands with what else the processes have, and may be lost. Its owner is
the parent of the processes, or the only one, which has locked the folder.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.fleet.member import NO_SLOT, SHARDS, FleetMember
from gateway.state_folder import LOOK_AT_FILE, StateFolderError, write_file

SHARDS_FOLDER = "shards"
SLOTS_FOLDER = "slots"
FILE_NAME = f"{SHARDS_FOLDER}/fleet.json"
"""Next to the shards, so that a folder with both can appear in one step."""
IN_CLUSTER = f"{SLOTS_FOLDER}/fleet.json"
"""The file of a fleet whose shards are in the cluster."""


class FleetState(BaseModel):
    """The contents of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    log_id: str = Field(pattern="^[0-9a-f]{32}$")
    shards: int = Field(ge=1)
    slots: int = Field(ge=0)
    """The processes of the fleet that runs, or has run last; 0 for a single gateway, which has all
    shards."""
    runs: int = Field(ge=0)
    """Runs of shards: processes that have been started, and shards that were opened by others."""
    owners: tuple[int, ...] = ()
    """The slot that has each shard; empty while each slot has its own. NO_SLOT: the shard is on
    another machine."""

    def with_run(self) -> Self:
        """The state once another process is started, or opens more shards."""
        return self.model_copy(update={"runs": self.runs + 1})

    def with_owners(self, owners: Sequence[int]) -> Self:
        """The state while these slots have the shards."""
        return self.model_copy(update={"owners": tuple(owners)})


def open_state(folder: Path, slots: int, name: str = FILE_NAME) -> FleetState:
    """The state of a fleet of this many processes, new or as it was left. Lock the folder first.

    Raises StateFolderError.
    """
    state = read_state(folder, name)
    if state is None:
        if name == FILE_NAME and any((folder / SHARDS_FOLDER).glob("[0-9]*")):
            raise StateFolderError(
                f"{folder / name} is missing: restore it from a copy of the state folder"
            )
        state = FleetState(log_id=uuid4().hex, shards=SHARDS, slots=slots, runs=0)
    if slots > state.shards:
        raise StateFolderError(
            f"the state in {folder} has {state.shards} shards: give at most as many --processes"
        )
    return state.model_copy(update={"slots": slots, "owners": ()})


def read_state(folder: Path, name: str = FILE_NAME) -> FleetState | None:
    """The state of the folder's fleet; None if there was none. Raises StateFolderError."""
    path = folder / name
    try:
        return FleetState.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateFolderError(f"cannot read {path}: {error.strerror}; {LOOK_AT_FILE}") from None
    except ValidationError:
        raise StateFolderError(
            f"{path} is not readable by this groupferry: restore it from a copy"
        ) from None


def end_fleet(folder: Path) -> None:
    """Note that a single gateway has the folder now, whatever state it keeps. Lock the folder
    first. Raises StateFolderError."""
    for name in (FILE_NAME, IN_CLUSTER):
        state = read_state(folder, name)
        if state is not None and state.slots:
            write_state(folder, state.model_copy(update={"slots": 0, "owners": ()}), name)


def _running(folder: Path) -> FleetState | None:
    """The state of the fleet that runs, or has run last; None after a single gateway."""
    states = (read_state(folder, name) for name in (FILE_NAME, IN_CLUSTER))
    return next((state for state in states if state is not None and state.slots), None)


def shard_folder(folder: Path, shard: int) -> Path:
    """The folder of a shard in a state folder."""
    return folder / SHARDS_FOLDER / f"{shard:03}"


def write_state(folder: Path, state: FleetState, name: str = FILE_NAME) -> None:
    """Write the file. Raises StateFolderError."""
    (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
    write_file(folder / name, state.model_dump_json(indent=2) + "\n")


def control_folders(folder: Path) -> Sequence[Path]:
    """The folders with the control sockets of the gateway of a state folder, and with its events:
    one for each process. Raises StateFolderError."""
    state = _running(folder)
    if state is None:
        return [folder]
    return [folder / SLOTS_FOLDER / str(slot) for slot in range(state.slots)]


def control_folder_of(folder: Path, group_id: str) -> Path:
    """The folder of the process that has the group; any, if the group is on another machine: each
    knows on which. Raises StateFolderError."""
    folders, state = control_folders(folder), _running(folder)
    if state is None:
        return folder
    member = FleetMember(slot=0, slots=state.slots, shards=state.shards, owners=list(state.owners))
    slot = member.slot_of(group_id)
    return folders[0 if slot == NO_SLOT else slot]
