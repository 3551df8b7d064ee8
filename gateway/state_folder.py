"""The state folder of a gateway, and the lock that makes one process its owner."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_NAME = "lock"
CLUSTER_FILE_NAME = "cluster_id"

_ROOT = 0
"""Root owns the volumes of containers, and has all rights anyway."""
_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO

LOOK_AT_FILE = "look at its permissions and at the disk"
"""What to do about a file that cannot be read or written."""


class StateFolderError(Exception):
    """The folder cannot be used. The message says why, in one line."""


class StateFolderInUse(StateFolderError):
    """Another process has locked the folder."""


_umasks: list[int] = []
"""The umask before each lock that is held, the process's own first: locks may end in any order."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create the folder if it is missing, and lock it during the block against other processes.
    Only its owner can access the folder and the files that the process writes meanwhile.

    The lock ends with the process, however it ends. Raises StateFolderError.
    """
    _umasks.append(os.umask(0o077))
    try:
        descriptor = _open_lock(folder)
        try:
            _lock(folder, descriptor)
            yield
        finally:
            os.close(descriptor)
    finally:
        original = _umasks[0]
        _umasks.pop()
        if not _umasks:
            os.umask(original)


def bind_to_cluster(folder: Path, cluster_id: str | None) -> None:
    """Check that the folder is this cluster's, before anything in it is used. A folder that has met
    no cluster with an id yet becomes this one's. Lock the folder first.

    Raises StateFolderError for the folder of another cluster, and for a folder that has met one
    with an id if this one has none (None).
    """
    path, stored = folder / CLUSTER_FILE_NAME, cluster_of(folder)
    if stored is None:
        if cluster_id is not None:
            write_file(path, f"{cluster_id}\n")
    elif stored != cluster_id:
        this = "a cluster without an id" if cluster_id is None else f"cluster {cluster_id}"
        raise StateFolderError(
            f"the state folder {folder} belongs to cluster {stored}, and this is {this}: correct"
            f" --upstream, or give another --state-dir; if the cluster has a new id, remove {path}"
        )


def cluster_of(folder: Path) -> str | None:
    """The id of the cluster whose groups the folder has; None if it has met none with an id.
    Raises StateFolderError."""
    path = folder / CLUSTER_FILE_NAME
    try:
        return path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateFolderError(f"cannot read {path}: {error.strerror}; {LOOK_AT_FILE}") from None


def write_file(path: Path, text: str) -> None:
    """Write a new file and rename it, so that a crash leaves no half of it. File and name are on
    disk when this returns. Raises StateFolderError."""
    new_path = path.with_name(f"{path.name}.new")
    try:
        with new_path.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new_path.replace(path)
        sync_names(path.parent)
    except OSError as error:
        raise StateFolderError(f"cannot write {path}: {error.strerror}; {LOOK_AT_FILE}") from None


def sync_names(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_lock(folder: Path) -> int:
    """Open the lock file, in a folder where no other user can create files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _make_private(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(folder / LOCK_NAME, flags, 0o600)
    except OSError as error:
        raise StateFolderError(
            f"cannot use the state folder {folder}: {error.strerror}; give another --state-dir"
        ) from None


def _make_private(folder: Path) -> None:
    """Raises StateFolderError for another user's folder, or one that contains symbolic links."""
    status = folder.stat()
    if status.st_uid not in {os.geteuid(), _ROOT}:
        raise StateFolderError(
            f"the state folder {folder} belongs to another user (uid {status.st_uid}), who could"
            " change its contents; give another --state-dir"
        )
    if status.st_uid == os.geteuid() and status.st_mode & _OTHER_USERS:
        folder.chmod(stat.S_IMODE(status.st_mode) & ~_OTHER_USERS)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink() and not entry.is_dir():
                raise StateFolderError(
                    f"{entry.path} is a symbolic link, and its target would be overwritten:"
                    " remove it, or give another --state-dir"
                )


def _lock(folder: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        raise StateFolderInUse(
            f"the state folder {folder} is in use by another groupferry (process {holder}):"
            " stop it, or give another --state-dir"
        ) from None
    except OSError as error:
        raise StateFolderError(
            f"cannot lock the state folder {folder}: {error.strerror}; give another --state-dir"
        ) from None
