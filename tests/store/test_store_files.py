"""Files of a store that are missing, damaged or cannot be used: the error names the file, and nothing is changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rstreams.errors import StoreError
from rstreams.store import Store, check
from tests.store.stores import opened

LOG = "store.db-wal"
DATA = ("lock", "mark", "store.db", LOG)


def remove(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20])


def replace(file: Path) -> None:
    """Have a folder in its place, which cannot be read or written."""
    file.unlink()
    file.mkdir()


def store(folder: Path, state: str) -> Path:
    """Return a store that was closed, or one whose node was killed: its log is not empty."""
    with opened(folder / "closed") as used:
        used.append([b"first"])
    with opened(folder / "closed") as used:
        used.append([b"second"])
        shutil.copytree(folder / "closed", folder / "killed")
    return folder / state


def contents(path: Path) -> dict[str, bytes | None]:
    """Return what is in the files that have data."""
    names = [name for name in DATA if (path / name).exists()]
    found = {name: (path / name).read_bytes() if (path / name).is_file() else None for name in names}
    return {name: data for name, data in found.items() if name != LOG or data}  # SQLite makes an empty one


DAMAGES: dict[str, list[Callable[[Path], None]]] = {
    "lock": [replace],
    "mark": [cut, replace],
    "store.db": [remove, empty, cut, replace],
    LOG: [remove, empty, cut, replace],
}
CASES = [
    (state, name, damage)
    for state in ("killed", "closed")
    for name, damages in DAMAGES.items()
    for damage in damages
    if (state, name) != ("closed", LOG)  # there is none
]


@pytest.mark.parametrize(("state", "name", "damage"), CASES)
def test_the_error_names_the_file_and_nothing_is_changed(
    tmp_path: Path, state: str, name: str, damage: Callable[[Path], None]
) -> None:
    path = store(tmp_path, state)
    damage(path / name)
    before = contents(path)
    with pytest.raises(StoreError) as refused:
        Store(path)
    assert f"{name}'" in str(refused.value)
    assert contents(path) == before
    try:
        found = " ".join(map(str, check(path)))
    except StoreError as error:
        found = str(error)
    assert f"{name}'" in found
    assert contents(path) == before


@pytest.mark.parametrize("state", ["killed", "closed"])
def test_a_store_without_its_lock_file_opens_with_all_its_messages(tmp_path: Path, state: str) -> None:
    path = store(tmp_path, state)
    (path / "lock").unlink()
    assert check(path) == []
    (path / "lock").unlink()
    with opened(path) as used:
        assert [body for _, body in used.all()] == [b"first", b"second"]


@pytest.mark.parametrize(
    "other", [{"notes.txt": b"mine"}, {"store.db": b"SQLite format 3\0" + bytes(500)}, {"mark": b""}]
)
def test_a_directory_with_neither_a_lock_nor_the_tables_of_a_store_is_refused(
    tmp_path: Path, other: dict[str, bytes]
) -> None:
    for name, data in other.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(StoreError, match="neither a file 'lock' nor"):
        Store(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == other


def test_a_store_in_use_is_not_opened_a_second_time_when_its_lock_file_was_removed(tmp_path: Path) -> None:
    with opened(tmp_path / "s"):
        for _ in range(2):
            (tmp_path / "s" / "lock").unlink()
            with pytest.raises(StoreError, match="is in use by the process"):
                Store(tmp_path / "s")
