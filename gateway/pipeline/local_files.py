"""Finds the files that inputs on this machine name, and reads their lines as Spark does."""

import bz2
import codecs
import glob
import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO


def files(inputs: Sequence[str]) -> list[str]:
    """The current files. Like Spark, this ignores names that begin with `.` or `_`."""
    paths: set[str] = set()
    for pattern in inputs:
        for path in map(os.path.abspath, glob.glob(pattern) or [pattern]):  # noqa: PTH207  (absolute)
            if Path(path).is_file():
                paths.add(path)
            for folder, below, names in os.walk(path):
                below[:] = filter(_is_shown, below)
                paths.update(f"{folder}/{name}" for name in names if _is_shown(name))
    return sorted(paths)


def _is_shown(name: str) -> bool:
    return not name.startswith((".", "_"))


def uri_of(path: str) -> str:
    """The file's name as Spark writes it."""
    return Path(path).as_uri().replace("file://", "file:", 1)


def text_of(data: bytes, *, is_first: bool) -> str:
    """A line without its line break. Invalid bytes are replaced, and the first line of a file loses
    a byte order mark."""
    data = data.removeprefix(codecs.BOM_UTF8) if is_first else data
    return data.removesuffix(b"\n").decode("utf-8", "replace")


def open_file(path: str) -> IO[bytes] | gzip.GzipFile | bz2.BZ2File:
    """The unpacked bytes of a file. One of another compression is read as it is, so that its lines
    cannot be read."""
    if path.endswith(".gz"):
        return gzip.open(path)
    return bz2.open(path) if path.endswith(".bz2") else Path(path).open("rb")
