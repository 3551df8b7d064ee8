"""The file that says that the state of a folder is in shards: the id of the log, and its runs.

Its owner is the parent of the processes, or the only one, which has locked the folder.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.fleet.member import SHARDS, FleetMember
from gateway.state_folder import StateFolderError, write_file

SHARDS_FOLDER = "shards"
SLOTS_FOLDER = "slots"
FILE_NAME = f"{SHARDS_FOLDER}/fleet.json"
"""Next to the shards, so that a folder with both can appear in one step."""


class FleetState(BaseModel):
    """The contents of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    log_id: str = Field(pattern="^[0-9a-f]{32}$")
    shards: int = Field(ge=1)
    slots: int = Field(ge=0)
    """The processes of the fleet that runs, or has run last; 0 for a single gateway, which has all
    shards."""
    runs: int = Field(ge=0)
    """Processes that have been started."""

    def with_run(self) -> Self:
        """The state once another process is started."""
        return self.model_copy(update={"runs": self.runs + 1})


def open_state(folder: Path, slots: int) -> FleetState:
    """The state of a fleet of so many processes, new or as it was left. Lock the folder first.

    Raises StateFolderError.
    """
    state = read_state(folder)
    if state is None:
        if any((folder / SHARDS_FOLDER).glob("[0-9]*")):
            raise StateFolderError(
                f"{folder / FILE_NAME} is missing: restore it from a copy of the state folder"
            )
        state = FleetState(log_id=uuid4().hex, shards=SHARDS, slots=slots, runs=0)
    if slots > state.shards:
        raise StateFolderError(
            f"the state in {folder} has {state.shards} shards: give at most as many --processes"
        )
    return state.model_copy(update={"slots": slots})


def read_state(folder: Path) -> FleetState | None:
    """The state of the folder's fleet; None if there was none. Raises StateFolderError."""
    path = folder / FILE_NAME
    try:
        return FleetState.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateFolderError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError:
        raise StateFolderError(
            f"{path} is not readable by this groupferry: restore it from a copy"
        ) from None


def end_fleet(folder: Path) -> None:
    """Note that a single gateway has the folder now, whatever state it keeps. Lock the folder
    first. Raises StateFolderError."""
    state = read_state(folder)
    if state is not None and state.slots:
        write_state(folder, state.model_copy(update={"slots": 0}))


def shard_folder(folder: Path, shard: int) -> Path:
    """The folder of a shard in a state folder."""
    return folder / SHARDS_FOLDER / f"{shard:03}"


def write_state(folder: Path, state: FleetState) -> None:
    """Write the file. Raises StateFolderError."""
    (folder / SHARDS_FOLDER).mkdir(mode=0o700, exist_ok=True)
    write_file(folder / FILE_NAME, state.model_dump_json(indent=2) + "\n")


def control_folders(folder: Path) -> Sequence[Path]:
    """The folders with the control sockets of the gateway of a state folder, and with its events:
    one for each process. Raises StateFolderError."""
    state = read_state(folder)
    if state is None or state.slots == 0:
        return [folder]
    return [folder / SLOTS_FOLDER / str(slot) for slot in range(state.slots)]


def control_folder_of(folder: Path, group_id: str) -> Path:
    """The folder of the process that has the group. Raises StateFolderError."""
    folders, state = control_folders(folder), read_state(folder)
    if state is None or state.slots == 0:
        return folder
    return folders[FleetMember(slot=0, slots=state.slots, shards=state.shards).slot_of(group_id)]
