"""The file that makes a state folder that of a fleet: the id of its log, its shards, its runs.

Its owner is the parent, which has locked the folder.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.fleet.member import SHARDS, FleetMember
from gateway.state_folder import StateFolderError, write_file

FILE_NAME = "fleet.json"
SHARDS_FOLDER = "shards"
SLOTS_FOLDER = "slots"
SINGLE_STATE = "state.sqlite"
"""The state of a gateway without a fleet."""


class FleetState(BaseModel):
    """The contents of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    log_id: str = Field(pattern="^[0-9a-f]{32}$")
    shards: int = Field(ge=1)
    slots: int = Field(ge=1)
    """The processes of the fleet that runs, or has run last."""
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
        if (folder / SHARDS_FOLDER).exists():
            raise StateFolderError(
                f"{folder / FILE_NAME} is missing, and {SHARDS_FOLDER} is there: restore it from a"
                " copy"
            )
        if (folder / SINGLE_STATE).exists():
            raise StateFolderError(
                f"the state folder {folder} has the groups of a gateway without --processes: leave"
                " that out, or give another --state-dir"
            )
        state = FleetState(log_id=uuid4().hex, shards=SHARDS, slots=slots, runs=0)
    if slots > state.shards:
        raise StateFolderError(
            f"the state in {folder} has {state.shards} shards: give at most as many --processes"
        )
    return state.model_copy(update={"slots": slots})


def refuse_fleet(folder: Path) -> None:
    """Raises StateFolderError for the folder of a fleet, which one process alone cannot use."""
    if (state := read_state(folder)) is not None:
        raise StateFolderError(
            f"the state folder {folder} is that of a fleet: give --processes {state.slots}, or"
            " another number, or another --state-dir"
        )


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


def shard_folder(folder: Path, shard: int) -> Path:
    """The folder of a shard in a state folder."""
    return folder / SHARDS_FOLDER / f"{shard:03}"


def write_state(folder: Path, state: FleetState) -> None:
    """Write the file. Raises StateFolderError."""
    write_file(folder / FILE_NAME, state.model_dump_json(indent=2) + "\n")


def control_folders(folder: Path) -> Sequence[Path]:
    """The folders with the control sockets of the gateway of a state folder, and with its events:
    one for each process. Raises StateFolderError."""
    state = read_state(folder)
    if state is None:
        return [folder]
    return [folder / SLOTS_FOLDER / str(slot) for slot in range(state.slots)]


def control_folder_of(folder: Path, group_id: str) -> Path:
    """The folder of the process that has the group. Raises StateFolderError."""
    folders, state = control_folders(folder), read_state(folder)
    if state is None:
        return folder
    return folders[FleetMember(slot=0, slots=state.slots, shards=state.shards).slot_of(group_id)]
