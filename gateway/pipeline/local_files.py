"""Finds the files that inputs on this machine name, and reads their lines as Spark does."""

import codecs
import glob
import os
from collections.abc import Sequence
from pathlib import Path


def files(inputs: Sequence[str]) -> list[str]:
    """The current files. Like Spark, this ignores names that begin with `.` or `_`."""
    found: set[str] = set()
    for each in inputs:
        for path in map(os.path.abspath, glob.glob(each) or [each]):  # noqa: PTH207  (absolute)
            if Path(path).is_file():
                found.add(path)
            for folder, below, names in os.walk(path):
                below[:] = filter(_is_shown, below)
                found.update(f"{folder}/{name}" for name in names if _is_shown(name))
    return sorted(found)


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
