"""The three ways to open each thing that has a name: its constructor, ``open``, ``create_new``."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest

import outlive
from outlive import (
    AlreadyExists,
    BadOption,
    Barrier,
    Client,
    Condition,
    CountingSemaphore,
    DeviceTopic,
    Domain,
    Event,
    JobQueue,
    Latch,
    Listener,
    Lock,
    NotFound,
    Notifier,
    Pool,
    Queue,
    RLock,
    RwLock,
    Semaphore,
    Server,
    State,
    Topic,
    WrongKind,
)

#: A class, what it is made with, and options that contradict that; of some nothing is compared.
KINDS: list[tuple[Any, dict[str, Any], dict[str, Any] | None]] = [
    (Lock, {"value": 2}, None),
    (RLock, {}, None),
    (RwLock, {"value": 2}, None),
    (Condition, {}, None),
    (Semaphore, {"value": 2}, {"value": 3}),
    (CountingSemaphore, {"value": 2}, {"value": 3}),
    (CountingSemaphore, {"value": 2}, {"value": 2, "max_permits": 3}),
    (Event, {"automatic": True}, {"automatic": False}),
    (Latch, {"arrivals": 2}, {"arrivals": 3}),
    (Barrier, {"parties": 2}, {"parties": 3}),
    (Barrier, {"parties": 2, "count_out": True}, {"parties": 2, "count_out": False}),
    (Queue, {"max_bytes": 1 << 20}, {"max_bytes": 2 << 20}),
    (Queue, {"need_receiver": True}, {"need_receiver": False}),
    (Queue, {"on_receiver_death": "keep"}, {"on_receiver_death": "fail"}),
    (Topic, {"depth": 4}, {"depth": 8}),
    (Topic, {"max_bytes": 1 << 20}, {"max_bytes": 2 << 20}),
    (Topic, {"stamps": False}, {"stamps": True}),
    (JobQueue, {"max_jobs": 64}, {"max_jobs": 128}),
    (Notifier, {"on_died": 63}, {"on_died": 62}),
    (Listener, {"on_left": 63}, {"on_left": 62}),
    (State, {"capacity": 64, "initial": b"idle"}, {"capacity": 65}),
    (Pool, {"max_bytes": 1 << 20}, {"max_bytes": 2 << 20}),
    (Client, {"max_bytes": 1 << 20}, {"max_bytes": 2 << 20}),
    (Server, {"max_bytes": 1 << 20}, {"max_bytes": 2 << 20}),
]
#: What a maker must say.
NEEDED = {"arrivals", "parties"}


def place(kind: Any, folder: str) -> dict[str, Any]:
    """A condition variable is in the domain of its lock."""
    return {"lock": Lock("its lock", folder)} if kind is Condition else {"domain": folder}


def test_no_kind_is_missing_here():
    there = {kind for kind in vars(outlive).values() if hasattr(kind, "create_new")}
    # tests/test_gpu.py has device topics, `test_domains` domains.
    assert there == {kind for kind, *_ in KINDS} | {DeviceTopic, Domain}


@pytest.mark.parametrize("kind, options, _other", KINDS)
def test_what_is_missing_is_not_made_by_open(folder, kind, options, _other):
    where = place(kind, folder)
    for _ in range(2):
        with pytest.raises(NotFound) as missing:
            kind.open("thing", **where)
        assert isinstance(missing.value, FileNotFoundError)
    assert not os.path.exists(folder + "/thing")
    kind("thing", **options, **where)
    kind.open("thing", **where)


@pytest.mark.parametrize("kind, options, _other", KINDS)
def test_what_is_there_is_not_made_anew(folder, kind, options, _other):
    where = place(kind, folder)
    kind.create_new("thing", **options, **where)
    made = os.stat(folder + "/thing").st_ino
    for _ in range(2):
        with pytest.raises(AlreadyExists) as there:
            kind.create_new("thing", **options, **where)
        assert isinstance(there.value, FileExistsError)
    assert os.stat(folder + "/thing").st_ino == made
    # A name that another kind has is in use as well.
    (Event if kind is not Event else Lock)("other", folder)
    with pytest.raises(AlreadyExists):
        kind.create_new("other", **options, **where)
    with pytest.raises(WrongKind):
        kind.open("other", **where)


@pytest.mark.parametrize("kind, options, other", KINDS)
def test_options_are_compared_if_they_are_given(folder, kind, options, other):
    where = place(kind, folder)
    kind("thing", **options, **where)
    kind("thing", **options, **where)
    if other is not None:
        with pytest.raises(BadOption):
            kind("thing", **other, **where)
        with pytest.raises(AlreadyExists):
            kind.create_new("thing", **other, **where)
    # Options that are not given take what is there.
    kind("thing", **{name: value for name, value in options.items() if name in NEEDED}, **where)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: Semaphore("thing", 1 << 17, folder),
        lambda folder: Latch("thing", 1 << 31, folder),
        lambda folder: Barrier("thing", 0, folder),
        lambda folder: Queue("thing", folder, max_bytes=1),
        lambda folder: Topic("thing", folder, depth=0),
        lambda folder: Topic("thing", folder, max_bytes=1),
        lambda folder: Pool("thing", folder, max_bytes=1),
        lambda folder: Server("thing", folder, max_bytes=1),
    ],
)
def test_impossible_options_make_nothing(folder, make):
    with pytest.raises(BadOption):
        make(folder)
    assert not os.path.exists(folder + "/thing")


def test_domains(folder):
    with pytest.raises(NotFound):
        Domain.open(folder + "/new")
    with pytest.raises(NotFound):
        Lock.open("lock", domain=folder + "/new")
    assert not os.path.exists(folder + "/new")
    made = Domain.create_new(folder + "/new")
    assert Domain.open(folder + "/new") == made
    with pytest.raises(AlreadyExists):
        Domain.create_new(folder + "/new")
    open(folder + "/file", "w").close()
    with pytest.raises(AlreadyExists):
        Domain.create_new(folder + "/file")


def test_what_is_unpickled_is_not_made(folder):
    pickled = pickle.dumps(Queue("thing", folder))
    assert pickle.loads(pickled).qsize() == 0
    os.unlink(folder + "/thing")
    with pytest.raises(NotFound):
        pickle.loads(pickled)


def test_a_semaphore_without_a_number_beside_a_maker(folder):
    begin = threading.Barrier(2)
    refused = []

    def make(value: int | None, who: str) -> None:
        for turn in range(200):
            begin.wait(60)
            try:
                Semaphore(f"slots-{turn}", value, folder)
            except BadOption:
                refused.append((turn, who))

    other = threading.Thread(target=make, args=(3, "three"))
    other.start()
    make(None, "whichever")
    other.join()
    # The one that asks for three is refused where the other one was first; that one never is.
    assert {who for _, who in refused} <= {"three"}


def test_a_group_has_a_number_or_a_name(folder):
    for group in (os.getegid(), str(os.getegid())):
        path = f"{folder}/of-{type(group).__name__}"
        domain = Domain.create_new(path, group=group)
        assert os.stat(path).st_mode & 0o7777 == 0o770
        assert Domain.open(path, group=group) == domain == Domain(path, group=group)
    with pytest.raises(BadOption, match="/etc/group"):
        Domain(f"{folder}/none", group="no such group")


def test_the_configuration_file_names_the_default_domain(folder: str) -> None:
    place = folder + "/.configured"
    config = pathlib.Path(folder, ".outlive.toml")
    config.write_text(f"root = true\ndomain = '{place}'\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OUTLIVE_")}
    environment["OUTLIVE_CONFIG"] = str(config)

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", "import outlive\n" + code], capture_output=True, text=True, timeout=300, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("print(outlive.Domain().path)") == place + "\n"
    config.write_text("domian = 'x'\n")
    code = "try: outlive.Domain()\nexcept outlive.BadOption as error: print(error)"
    assert run(code) == f"{config}:1:1: 'domian' is no key here; is 'domain' meant?\n"
