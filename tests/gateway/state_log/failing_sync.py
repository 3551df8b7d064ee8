"""Makes fsync fail: the kernel refuses the call, and SQLite sees the error."""

import ctypes
import errno
import platform
import struct
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SYNCS = {"x86_64": (74, 75), "aarch64": (82, 83)}
"""The system call numbers of fsync and fdatasync."""
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000 | errno.EIO


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def without_sync(work: Callable[..., T], *arguments: object) -> T:
    """Run `work` in a new thread in which every sync fails with EIO, and return its result."""
    results, errors = list[T](), list[Exception]()

    def run() -> None:
        _refuse_syncs()
        try:
            results.append(work(*arguments))
        except Exception as error:  # noqa: BLE001, RUF100  # raised where it was asked for
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for error in errors:
        raise error
    return results[0]


def _refuse_syncs() -> None:
    fsync, fdatasync = _SYNCS[platform.machine()]
    instructions = (
        (_LOAD, 0, 0, 0),  # load the system call number
        (_JUMP_IF_EQUAL, 2, 0, fsync),
        (_JUMP_IF_EQUAL, 1, 0, fdatasync),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL),
    )
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(instructions), code)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "the kernel has no seccomp filters")
