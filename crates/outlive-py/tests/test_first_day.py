"""What each class has for a user who sees it for the first time: help, signatures, ``repr``, ``close`` and ``with``."""

from __future__ import annotations

import contextlib
import inspect
import pathlib
import pickle
import pydoc
import re
import threading
import time

import numpy as np
import pytest

import outlive
from outlive import (
    Barrier, Client, Condition, Domain, Event, JobQueue, Latch, Lock, NotFound, OutliveError, Pool, Queue, RwLock, Semaphore, Server, ServerDied,
    SharedObject, State, Taken, Topic, WaitSet,
)

CLASSES = [thing for thing in vars(outlive).values() if inspect.isclass(thing)]
OURS = [thing for thing in CLASSES if not issubclass(thing, OutliveError)]
#: Such a thing cannot be made without a GPU.
OF_GPUS = {"DeviceTopic", "DeviceSubscriber", "DeviceSample", "GpuLoan", "GpuArray"}


def test_help_is_short_and_names_every_class():
    text = pydoc.render_doc(outlive, renderer=pydoc.plaintext)
    assert len(text.splitlines()) < 600
    for thing in OURS:
        assert thing.__name__ in text or thing.__name__ in {"Call", "Job", "Loan", "Peeked", "RwHold", "GpuLoan", "DeviceSubscriber", "DeviceSample"}


def test_the_version_is_the_workspaces():
    manifest = pathlib.Path(__file__).parents[3] / "Cargo.toml"
    assert outlive.__version__ == re.search(r'^version = "(.*)"', manifest.read_text(), re.M)[1]


def public(thing):
    return {name: found for name, found in vars(thing).items() if not name.startswith("_")}


@pytest.mark.parametrize("thing", OURS, ids=lambda thing: thing.__name__)
def test_signatures_are_real(thing):
    calls = [found for found in public(thing).values() if callable(found)]
    if getattr(thing, "open", None):
        calls += [thing, thing.open, thing.create_new] if hasattr(thing, "create_new") else [thing, thing.open]
    if "__exit__" in vars(thing):
        calls.append(thing.__exit__)
    for call in calls:
        for parameter in inspect.signature(call).parameters.values():
            assert parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD), (call, parameter)
            assert parameter.default is not ..., (call, parameter)
            assert not parameter.name.startswith("_"), (call, parameter)


@pytest.mark.parametrize("thing", OURS, ids=lambda thing: thing.__name__)
def test_everything_is_documented(thing):
    assert len(thing.__doc__) > 40
    for name, found in public(thing).items():
        assert (found.__doc__ or "").strip(), f"{thing.__name__}.{name}"


#: Classes that need no more than a name, a domain and these options.
LATER = {name: options for name, options in {"RLock": (), "CountingSemaphore": (2,)}.items() if hasattr(outlive, name)}


def everything(folder):
    """One of each class, by name."""
    topic = Topic("topic", folder)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    publisher.publish(np.eye(2), key=7)
    server, client = Server("service", folder), Client("service", folder)
    call = client.begin(b"x")
    request = server.next(timeout=60)
    second, third, fourth = client.begin(b"y"), client.begin(b"z"), client.begin(b"a")
    pool = Pool("pool", folder)
    queue = Queue("queue", folder)
    queue.send(b"x")
    jobs = JobQueue("jobs", folder)
    jobs.put(b"bad")
    jobs.take(timeout=60).set_aside()
    jobs.put(b"x")
    lock, rw_lock = Lock("lock", folder), RwLock("rw_lock", folder)
    domain = Domain(folder)
    stream = server.next(timeout=60).stream()
    album = Server("album", folder)
    parts = Client("album", folder).stream(b"")
    parts.send(b"part")
    server.next(timeout=60).reply(b"z")
    things = {
        "Barrier": Barrier("barrier", 2, folder), "Block": pool.alloc(3), "Call": call, "Client": client,
        "Condition": Condition("condition", lock), "Domain": domain, "Event": Event("event", folder), "Latch": Latch("latch", 1, folder),
        "Job": jobs.take(timeout=60), "JobQueue": jobs, "Loan": publisher.loan(3), "Lock": lock, "Peeked": queue.peek(timeout=60), "Peer": domain.peer(domain.token()), "Pool": pool,
        "Publisher": publisher, "Queue": queue, "Reply": third.reply(timeout=60), "ReplyLoan": server.next(timeout=60).loan(3),
        "Request": request, "RequestLoan": client.loan(3), "RwHold": rw_lock.read(), "RwLock": rw_lock,
        "Sample": subscriber.recv(timeout=60), "Semaphore": Semaphore("semaphore", 2, folder), "Server": server,
        "SetAside": jobs.set_aside()[0], "SharedObject": pool.alloc(3).share(), "State": State("state", 8, folder), "Stream": stream, "StreamLoan": stream.loan(3), "PartLoan": client.stream(b"").loan(3), "Part": album.next(timeout=60).next_part(copy=False),
        "Subscriber": subscriber, "Topic": topic, "WaitSet": WaitSet(folder), "Node": domain.node("node"), "DomainWatch": domain.watch(), "StandBy": queue.stand_by(), "ClientWatch": server.watch_clients(1.0),
        "Notifier": outlive.Notifier("notices", folder), "Listener": outlive.Listener("notices", folder),
    }
    for name, options in LATER.items():
        things[name] = getattr(outlive, name)(name.lower(), *options, folder)
    things["_second"] = [second, third, fourth]
    return things


def test_repr_says_class_name_domain_and_state(folder):
    things = everything(folder)
    second = things.pop("_second")
    # What a node's info says is a copy.
    assert set(things) | OF_GPUS | {"NodeInfo", "Config"} >= {thing.__name__ for thing in OURS}
    for name, thing in things.items():
        text = repr(thing)
        assert text.startswith(f"<{name} ") and folder in text, text
        assert hasattr(thing, "name") is False or f"'{thing.name}'" in text, text
    assert repr(things["Sample"]) == f"<Sample 'topic' in '{folder}': message 0, <f8 [2, 2]>"
    assert repr(things["Publisher"]) == f"<Publisher 'topic' in '{folder}': 1 subscriber>"
    assert repr(things["State"]) == f"<State 'state' in '{folder}': version 1>"
    assert repr(things["WaitSet"]) == f"<WaitSet in '{folder}': 0 sources>"
    assert repr(things["Domain"]) == f"<Domain '{folder}'>"
    for call in second:
        call.cancel()


#: How each is used once it may be closed.
USES = {
    "Barrier": lambda it: it.participants(),
    "Block": lambda it: it.numpy(),
    "Client": lambda it: it.begin(b"x"),
    "Condition": lambda it: it.acquire(),
    "Domain": lambda it: it.names(),
    "Event": lambda it: it.set(),
    "JobQueue": lambda it: it.try_take(),
    "Latch": lambda it: it.arrive(),
    "Listener": lambda it: it.wait(timeout=0),
    "Node": lambda it: it.info(),
    "Notifier": lambda it: it.notify(1),
    "Lock": lambda it: it.acquire(),
    "Pool": lambda it: it.alloc(3),
    "Publisher": lambda it: it.publish(b"x"),
    "Queue": lambda it: it.send(b"x"),
    "RwLock": lambda it: it.read(),
    "Part": lambda it: bytes(it),
    "Reply": lambda it: bytes(it),
    "Sample": lambda it: bytes(it),
    "Semaphore": lambda it: it.acquire(),
    "Server": lambda it: it.try_next(),
    "SharedObject": lambda it: memoryview(it),
    "State": lambda it: it.get(),
    "Subscriber": lambda it: it.try_recv(),
    "Topic": lambda it: it.publisher(),
    "WaitSet": lambda it: it.wait(timeout=0),
}


USES.update({name: lambda it: it.acquire() for name in LATER})


@pytest.mark.parametrize("name", sorted(USES))
def test_what_is_closed_says_so(folder, name):
    things = everything(folder)
    thing, use = things[name], USES[name]
    thing.close()
    thing.close()
    for _ in range(2):
        with pytest.raises(ValueError, match="closed"):
            use(thing)
    with pytest.raises(ValueError, match="closed"), thing:
        pass
    assert "closed" in repr(thing), repr(thing)


@pytest.mark.parametrize("name", sorted(set(USES) - set(LATER) - {"Lock", "Semaphore", "Condition", "Block", "Sample", "SharedObject"}))
def test_with_closes(folder, name):
    things = everything(folder)
    thing, use = things[name], USES[name]
    if name == "Publisher":
        things.pop("Loan")
    with pytest.raises(KeyError), thing as itself:
        assert itself is thing
        use(thing)
        raise KeyError
    with pytest.raises(ValueError, match="closed"):
        use(thing)


@pytest.mark.parametrize("name", sorted({thing.__name__ for thing in OURS} - OF_GPUS))
def test_every_handle_can_be_closed_or_ends_by_with(folder, name):
    thing = getattr(outlive, name)
    # These have nothing to close: a name for a process, copies, and what a watch has told.
    assert name in USES or hasattr(thing, "__exit__") or name in {"Peer", "SetAside", "NodeInfo", "DomainWatch", "ClientWatch", "Config", "StandBy"}


def test_closing_gives_back_what_it_had(folder):
    topic = Topic("topic", folder)
    with topic.publisher() as publisher, topic.subscriber() as subscriber:
        publisher.publish(b"x")
        assert (len(topic.publishers()), len(topic.subscribers())) == (1, 1)
        sample = subscriber.recv(timeout=60)
    assert (topic.publishers(), topic.subscribers()) == ([], [])
    assert bytes(sample) == b"x"
    with State("mode", 8, folder) as mode:
        mode.set(b"a")
        with pytest.raises(Taken):
            State("mode", 8, folder).set(b"b")
    State("mode", 8, folder).set(b"b")
    with Server("service", folder), pytest.raises(Taken):
        Server("service", folder)
    Server("service", folder).close()
    Server("service", folder).close()


def test_a_closed_server_is_no_death(folder):
    server, client = Server("service", folder), Client("service", folder)
    call = client.begin(b"x")
    request = server.next(timeout=60)
    server.close()
    request.reply(b"late")
    assert call.result(timeout=60) == b"late"


def test_a_closed_client_leaves_its_calls(folder):
    server, client = Server("service", folder), Client("service", folder)
    call = client.begin(b"x")
    client.close()
    server.next(timeout=60).reply(b"y")
    assert call.result(timeout=60) == b"y"


def test_views_outlive_the_sample_that_is_closed(folder):
    topic = Topic("topic", folder, depth=2)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    publisher.publish(np.arange(5000))
    with subscriber.recv(timeout=60) as sample:
        array, view, tensor = sample.numpy(), memoryview(sample), np.from_dlpack(sample)
    for _ in range(20):
        publisher.publish(np.zeros(5000, int))
    for seen in (array, np.asarray(view), tensor):
        assert np.array_equal(seen, np.arange(5000))
    assert sample.key == 0 and sample.shape == (5000,) and sample.sequence == 0


def test_closing_samples_makes_room(folder):
    topic = Topic("topic", folder, depth=512)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    for _ in range(300):
        publisher.publish(bytes(1000))
    held = [subscriber.recv(timeout=60) for _ in range(256)]
    with pytest.raises(outlive.TooMany):
        subscriber.try_recv()
    held[7].close()
    assert subscriber.try_recv() is not None


def test_views_outlive_the_shared_object_that_is_closed(folder):
    pool = Pool("pool", folder)
    block = pool.alloc(4, "u1")
    block.numpy()[:] = [1, 2, 3, 4]
    with block.share() as shared:
        array, offset = shared.numpy(), shared.offset
    assert array.tolist() == [1, 2, 3, 4]
    pool.join(offset).close()
    del array
    with pytest.raises(outlive.Gone):
        pool.join(offset)


def test_a_block_is_freed_by_with_unless_it_is_seen(folder):
    pool = Pool("pool", folder)
    with pool.alloc(100) as block:
        pass
    assert pool.usage()["used"] == 0
    with pytest.raises(BufferError), pool.alloc(100) as block:
        view = memoryview(block)
    view.release()
    block.close()
    with pool.alloc(100) as block:
        block.offer()


@pytest.mark.parametrize("kind", ["Subscriber", "Server", "WaitSet", "Queue"])
def test_closing_ends_a_wait(folder, kind):
    things = everything(folder)
    thing = things[kind]
    if kind == "Queue":
        thing.recv()
    if kind == "Server":
        thing.next().fail("of PartLoan")
    wait = {"Subscriber": lambda: thing.recv(), "Server": lambda: thing.next(), "WaitSet": lambda: thing.wait(), "Queue": lambda: thing.recv()}[kind]
    told = []

    def waits():
        try:
            wait()
        except ValueError as error:
            told.append(str(error))

    thread = threading.Thread(target=waits)
    thread.start()
    time.sleep(0.1)
    thing.close()
    thread.join(60)
    assert not thread.is_alive() and told and "closed" in told[0]


def test_a_publisher_that_is_closed_in_a_loans_block(folder):
    topic = Topic("topic", folder)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    with pytest.raises(ValueError, match="closed"), publisher.loan((100, 100), "f4") as image:
        image[:] = 1
        publisher.close()
    assert subscriber.try_recv() is None
    image[0, 0]


def test_names_remove_and_sweep(folder, start):
    domain = Domain(folder)
    assert domain.names() == {}
    Lock("total", domain)
    Topic("camera", domain).publisher()
    State("mode", 8, domain)
    with open(folder + "/scribble", "wb") as file:
        file.write(b"x" * 5000)
    assert domain.names() == {"camera": "topic", "mode": "state", "scribble": None, "total": "mutex"}
    domain.remove("mode")
    with pytest.raises(NotFound):
        domain.remove("mode")
    domain.remove("mode", missing_ok=True)
    assert set(domain.names()) == {"camera", "scribble", "total"}
    program = start("""
        lock = Lock("total", folder)
        lock.acquire()
        say("held")
        time.sleep(60)
    """)
    program.line()
    program.kill()
    found = domain.sweep(dry_run=True)
    assert found["claims"] >= 1 and found["failed"] == 0
    assert domain.sweep()["claims"] >= 1
    with Lock("total", domain) as held:
        assert held.owner_died
        held.mark_consistent()
    assert domain.sweep()["claims"] == 0


def test_a_closed_domain_leaves_what_was_opened(folder):
    with Domain(folder) as domain:
        lock = Lock("total", domain)
    with pytest.raises(ValueError, match="closed"):
        Lock("total", domain)
    with lock:
        pass
    assert lock.domain == Domain(folder)
    assert pickle.loads(pickle.dumps(domain)) == domain


def test_contextlib_closes(folder):
    with contextlib.closing(Lock("total", folder)) as lock, lock:
        pass
    with pytest.raises(ValueError):
        lock.acquire()


def test_a_client_of_a_server_that_is_closed(folder):
    with Server("service", folder), Client("service", folder) as client:
        call = client.begin(b"x")
    with pytest.raises((ServerDied, outlive.NoServer, outlive.Timeout, outlive.Cancelled)):
        call.result(timeout=0.1)


def test_shared_objects_are_of_their_class(folder):
    assert isinstance(Pool("pool", folder).alloc(1).share(), SharedObject)
