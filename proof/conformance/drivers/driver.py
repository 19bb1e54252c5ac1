"""Python's driver: does what each line of its input says, by the package alone, and answers with a line.

doc/conformance.md has the commands; the drivers of the other languages do the same, each with its own means.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable

import outlive

Answer = str | None


class Refused(Exception):
    """What a call returned instead of what was asked for."""

    def __init__(self, returned: object) -> None:
        super().__init__("")
        self.name = repr(returned)


class Wrong(Exception):
    """A message that is not what was sent."""


PERIOD = bytes(range(251))
folder: str
things: dict[str, Any] = {}
# Of floods: how many messages went out and came in.
counts: dict[str, int] = {}
# What is there once: a sample, a request, a loan.
last: dict[str, Any] = {}


def pattern(size: int, seed: int) -> bytes:
    seed %= 251
    return ((PERIOD[seed:] + PERIOD[:seed]) * (size // 251 + 1))[:size]


def message(word: str) -> bytes:
    if "*" in word:
        size, seed = word.split("*")
        return pattern(int(size), int(seed))
    return word.encode()


def show(data: Any) -> str:
    data = bytes(data)
    if 1 <= len(data) <= 16 and all(0x21 <= byte <= 0x7E for byte in data):
        return data.decode()
    seed = data[0] if data else 0
    return f"{len(data)}*{seed if data == pattern(len(data), seed) else 'broken'}"


def seconds(word: str) -> float:
    return int(word) / 1000


def said(answer: object) -> str:
    return f"ok {answer}"


def truly(returned: Any) -> Any:
    """What it returned, unless that says no."""
    if returned is None or returned is False or returned == 0 or returned == []:
        raise Refused(returned)
    return returned


def thing(name: str) -> Any:
    return things[name]


def named(options: tuple[str, ...], **kinds: str) -> dict[str, int]:
    """Options `key=7` as keyword arguments, under the names that they have in Python."""
    given = dict(option.split("=") for option in options if "=" in option)
    return {kinds[key]: int(value) for key, value in given.items() if key in kinds}


# --- locks


def lock_open(name: str, value: str) -> None:
    things[name] = outlive.Lock(name, folder, value=int(value))


def got(lock: Any) -> str:
    return f"{'owner-died' if lock.owner_died else 'ok'} {lock.value}"


def lock_lock(name: str, patience: str) -> str:
    lock = thing(name)
    truly(lock.acquire(blocking=False) if patience == "try" else lock.acquire(timeout=seconds(patience)))
    return got(lock)


def lock_set(name: str, value: str) -> None:
    thing(name).value = int(value)


def lock_consistent(name: str) -> None:
    thing(name).mark_consistent()


def lock_mark_not_recoverable(name: str) -> None:
    thing(name).mark_not_recoverable()


def lock_unlock(name: str) -> None:
    thing(name).release()


def lock_reset(name: str, value: str, span: str) -> None:
    thing(name).reset(int(value), timeout=seconds(span))


def lock_holder(name: str) -> str:
    return said(thing(name).holder_pid or "nobody")


def lock_within(name: str) -> None:
    with thing(name) as held:
        tell(got(held))
        serve(f"lock.leave {name}")


def lock_churn(name: str, span: str) -> None:
    lock, end = thing(name), time.monotonic() + seconds(span)
    while time.monotonic() < end:
        with lock:
            lock.value += 1


def lock_awaits(name: str, value: str, span: str) -> None:
    lock, end = thing(name), time.monotonic() + seconds(span)
    while True:
        truly(lock.acquire(timeout=max(0, end - time.monotonic())))
        try:
            if lock.value >= int(value):
                return
        finally:
            lock.release()


def reentrant_open(name: str, value: str) -> None:
    things[name] = outlive.RLock(name, folder, value=int(value))


reentrant_lock, reentrant_set, reentrant_consistent = lock_lock, lock_set, lock_consistent
reentrant_unlock, reentrant_holder, reentrant_reset = lock_unlock, lock_holder, lock_reset
reentrant_mark_not_recoverable = lock_mark_not_recoverable


def reentrant_await(name: str, condition: str, value: str, span: str) -> str:
    return cond_await(condition, name, value, span)


def rw_open(name: str, value: str) -> None:
    things[name] = outlive.RwLock(name, folder, value=int(value))


def rw_hold(name: str, hold: Any) -> str:
    last[name] = hold.__enter__()
    return got(hold)


def rw_read(name: str, patience: str) -> str:
    return rw_hold(name, thing(name).read(0 if patience == "try" else seconds(patience)))


def rw_write(name: str, patience: str) -> str:
    return rw_hold(name, thing(name).write(0 if patience == "try" else seconds(patience)))


def rw_upgradable(name: str, patience: str) -> str:
    return rw_hold(name, thing(name).upgradable_read(0 if patience == "try" else seconds(patience)))


def rw_upgrade(name: str, patience: str) -> None:
    last[name].upgrade(seconds(patience))


def rw_downgrade(name: str) -> None:
    last[name].downgrade()


def rw_downgrade_to_upgradable(name: str) -> None:
    last[name].downgrade(upgradable=True)


def rw_set(name: str, value: str) -> None:
    last[name].value = int(value)


def rw_consistent(name: str) -> None:
    last[name].mark_consistent()


def rw_mark_not_recoverable(name: str) -> None:
    held = last.pop(name)
    held.mark_not_recoverable()
    held.__exit__(None, None, None)


def rw_unlock(name: str) -> None:
    last.pop(name).__exit__(None, None, None)


def rw_reset(name: str, value: str, span: str) -> None:
    thing(name).reset(int(value), timeout=seconds(span))


def sem_open(name: str, permits: str) -> None:
    things[name] = outlive.Semaphore(name, int(permits), folder)


def sem_acquire(name: str, patience: str) -> None:
    semaphore = thing(name)
    truly(semaphore.acquire(blocking=False) if patience == "try" else semaphore.acquire(timeout=seconds(patience)))


def sem_release(name: str) -> None:
    thing(name).release()


def sem_acquire_many(name: str, n: str, patience: str) -> None:
    semaphore, how = thing(name), {"blocking": False} if patience == "try" else {"timeout": seconds(patience)}
    truly(semaphore.acquire(n=int(n), **how))


def sem_release_many(name: str, n: str) -> None:
    thing(name).release(int(n))


def sem_available(name: str) -> str:
    return said(thing(name).available_permits)


def event_open(name: str, reset: str) -> None:
    things[name] = outlive.Event(name, folder, automatic=reset == "automatic")


def event_set(name: str, bits: str) -> None:
    thing(name).set(int(bits))


def event_clear(name: str, bits: str) -> None:
    thing(name).clear(int(bits))


def event_bits(name: str) -> str:
    return said(thing(name).bits)


def event_any(name: str, bits: str, patience: str) -> str:
    return said(truly(thing(name).wait_bits(int(bits), timeout=0 if patience == "try" else seconds(patience))))


def event_all(name: str, bits: str, patience: str) -> str:
    timeout = 0 if patience == "try" else seconds(patience)
    return said(truly(thing(name).wait_bits(int(bits), all=True, timeout=timeout)))


def cond_open(name: str, lock: str) -> None:
    things[name] = outlive.Condition(name, thing(lock))


def cond_await(name: str, lock_name: str, value: str, span: str) -> str:
    lock = thing(lock_name)
    truly(thing(name).wait_for(lambda: lock.owner_died or lock.value == int(value), timeout=seconds(span)))
    return got(lock)


def cond_notify(name: str) -> None:
    thing(name).notify()


def cond_notify_all(name: str) -> None:
    thing(name).notify_all()


def barrier_open(name: str, parties: str, when: str) -> None:
    things[name] = outlive.Barrier(name, int(parties), folder, count_out=when == "count_out")


def barrier_wait(name: str, span: str) -> str:
    return said(thing(name).wait(timeout=seconds(span), abort=False))


def barrier_abort_wait(name: str) -> str:
    # The arrival counts, so this goes on with it, and its time runs out at once.
    return said(thing(name).wait(timeout=0))


def barrier_abort(name: str) -> None:
    thing(name).abort()


def barrier_reset(name: str, span: str) -> None:
    thing(name).reset(timeout=seconds(span))


def barrier_state(name: str) -> str:
    barrier = thing(name)
    return said(f"{barrier.n_waiting} of {barrier.parties}" + (" broken" if barrier.broken else ""))


def barrier_repair(name: str, span: str) -> None:
    thing(name).repair(timeout=seconds(span))


def latch_open(name: str, arrivals: str) -> None:
    things[name] = outlive.Latch(name, int(arrivals), folder)


def latch_arrive(name: str, arrivals: str) -> str:
    return said(thing(name).arrive(int(arrivals)))


def latch_wait(name: str, patience: str) -> None:
    truly(thing(name).wait(timeout=0 if patience == "try" else seconds(patience)))


# --- pools


def pool_open(name: str, *options: str) -> None:
    things[name] = outlive.Pool(name, folder, **named(options, max="max_bytes"))


def pool_alloc(name: str, into: str, word: str) -> None:
    data = message(word)
    block = thing(name).alloc(len(data))
    with memoryview(block) as bytes_of_it:
        bytes_of_it[:] = data
    things[into] = block


def pool_show(name: str) -> str:
    with memoryview(thing(name)) as data:
        return said(show(data))


def pool_offer(name: str) -> str:
    return said(things.pop(name).offer())


def pool_offer_to(name: str, token: str) -> str:
    return said(things.pop(name).offer(peer(token)))


def pool_claim(name: str, into: str, offset: str) -> str:
    things[into] = thing(name).claim(int(offset))
    return pool_show(into)


def pool_share(name: str) -> str:
    things[name] = thing(name).share()
    return said(things[name].offset)


def pool_join(name: str, into: str, offset: str) -> str:
    things[into] = thing(name).join(int(offset))
    return pool_show(into)


def pool_free(name: str) -> None:
    held = things.pop(name)
    if isinstance(held, outlive.Block):
        held.free()


def pool_gc(name: str) -> None:
    thing(name).gc()


def pool_count(name: str, what: str) -> str:
    return said(thing(name).usage()[what])


# --- job queues


def jobs_open(name: str, *options: str) -> None:
    things[name] = outlive.JobQueue(name, folder, **named(options, max="max_jobs", attempts="max_attempts"))


def jobs_put(name: str, word: str, patience: str) -> str:
    data = message(word)
    return said(thing(name).try_put(data) if patience == "try" else thing(name).put(data, timeout=seconds(patience)))


def jobs_take(name: str, patience: str) -> str:
    jobs = thing(name)
    job = truly(jobs.try_take() if patience == "try" else jobs.take(timeout=seconds(patience)))
    last[f"job of {name}"] = job
    return said(f"{show(job.data)} {job.attempts}")


def jobs_done(name: str) -> None:
    last.pop(f"job of {name}").done()


def jobs_release(name: str) -> None:
    last.pop(f"job of {name}").release()


def jobs_aside(name: str) -> None:
    last.pop(f"job of {name}").set_aside()


def jobs_join(name: str, span: str) -> None:
    thing(name).join(timeout=seconds(span))


def jobs_retry(name: str, id: str) -> str:
    return said(thing(name).retry(int(id)))


def jobs_count(name: str, what: str) -> str:
    return said(thing(name).counts()[what])


# --- queues


def queue_open(name: str, *options: str) -> None:
    if "existing" in options:
        things[name] = outlive.Queue.open(name, domain=folder)
        return
    things[name] = outlive.Queue(
        name,
        folder,
        need_receiver=True if "refuse" in options else None,
        on_receiver_death="keep" if "keep" in options else None,
        end_when_senders_gone="ending" in options,
        **named(options, max="max_bytes", messages="maxsize"),
    )


def queue_join(name: str, span: str) -> None:
    thing(name).join(timeout=seconds(span))


def queue_send(name: str, word: str, patience: str) -> None:
    if patience == "try":
        thing(name).try_send(message(word))
    else:
        thing(name).send(message(word), timeout=seconds(patience))


def queue_batch(name: str, *words: str) -> None:
    *messages, span = words
    thing(name).send_many([message(word) for word in messages], timeout=seconds(span))


def queue_recv(name: str, patience: str) -> str:
    if patience == "try":
        received = thing(name).try_recv()
        if received is None:
            raise Refused(None)
    else:
        received = thing(name).recv(timeout=seconds(patience))
    return said(show(received))


def queue_peek(name: str, patience: str) -> str:
    peeked = thing(name).peek(timeout=0 if patience == "try" else seconds(patience))
    return said(f"{show(peeked.data)} {'again' if peeked.redelivered else 'fresh'}")


def queue_commit(name: str) -> None:
    thing(name).peek(timeout=0).commit()


def queue_count(name: str, what: str) -> str:
    return said(thing(name).counters()[what])


def next_pattern(name: str, size: str) -> bytes:
    counts[name] = counts.get(name, 0) + 1
    return pattern(int(size), counts[name])


def queue_fill(name: str, size: str) -> str:
    while True:
        try:
            thing(name).try_send(next_pattern(name, size))
        except outlive.Full:
            counts[name] -= 1
            return said(counts[name])


def queue_flood(name: str, size: str, span: str) -> None:
    end = time.monotonic() + seconds(span)
    while time.monotonic() < end:
        thing(name).send(next_pattern(name, size), timeout=seconds(span))


def drain(name: str, end: float) -> None:
    data = thing(name).recv(timeout=max(0, end - time.monotonic()))
    count = counts[f"{name} in"] = counts.get(f"{name} in", 0) + 1
    if data != pattern(len(data), count):
        raise Wrong(f"message {count} is {show(data)}")


def queue_drain(name: str, count: str, span: str) -> None:
    end = time.monotonic() + seconds(span)
    for _ in range(int(count)):
        drain(name, end)


def queue_drain_all(name: str, span: str) -> str:
    end = time.monotonic() + seconds(span)
    while True:
        try:
            drain(name, end)
        except outlive.SendersGone:
            return said(counts.get(f"{name} in", 0))


def queue_close(name: str) -> None:
    # An object that was closed stays closed; the queue is there.
    queue = thing(name)
    queue.close()
    things[name] = outlive.Queue(name, folder)


# --- topics


def topic_open(name: str, *options: str) -> None:
    things[name] = outlive.Topic(
        name, folder, reliable=True if "reliable" in options else None, **named(options, depth="depth", max="max_bytes")
    )


def topic_find(name: str) -> None:
    outlive.Topic.open(name, domain=folder)


def topic_publisher(name: str, *options: str) -> None:
    limit = [seconds(option[9:]) for option in options if option.startswith("blocking=")]
    things[f"{name} publisher"] = thing(name).publisher(max_blocking=limit[0] if limit else None)


def topic_subscriber(name: str, *options: str) -> None:
    period = [seconds(option[7:]) for option in options if option.startswith("period=")]
    things[f"{name} subscriber"] = thing(name).subscriber(
        reliable="reliable" in options,
        keys=[int(option[4:]) for option in options if option.startswith("key=")],
        period=period[0] if period else None,
        **named(options, history="history", keep="keep_last"),
    )


def topic_unsubscribe(name: str) -> None:
    del things[f"{name} subscriber"]


def publisher(name: str) -> Any:
    return thing(f"{name} publisher")


def subscriber(name: str) -> Any:
    return thing(f"{name} subscriber")


def topic_publish(name: str, word: str, span: str, *options: str) -> str:
    header = named(options, key="key", frame="frame", stamp="stamp")
    return said(publisher(name).publish(message(word), timeout=seconds(span), **header))


def publish_pattern(name: str, size: str) -> None:
    number = counts.get(name, 0)
    publisher(name).publish(pattern(int(size), number))
    counts[name] = number + 1


def topic_publish_many(name: str, count: str, size: str) -> None:
    for _ in range(int(count)):
        publish_pattern(name, size)


def topic_flood(name: str, size: str, span: str) -> None:
    end = time.monotonic() + seconds(span)
    while time.monotonic() < end:
        publish_pattern(name, size)


def topic_loan(name: str, word: str) -> None:
    data = message(word)
    loan = publisher(name).loan(len(data))
    with memoryview(loan) as into:
        into[:] = data
    last["loan"] = loan


def topic_publish_loan(name: str) -> str:
    return said(last.pop("loan").publish())


def topic_publish_msgpack(name: str, who: str, age: str) -> str:
    return said(publisher(name).publish_msgpack({"name": who, "age": int(age)}))


def topic_recv_msgpack(name: str, span: str) -> str:
    person = subscriber(name).recv(timeout=seconds(span)).msgpack()
    return said(f"{person['name']} {person['age']}")


def topic_recv_hex(name: str, span: str) -> str:
    return said(bytes(subscriber(name).recv(timeout=seconds(span))).hex())


def taken(sample: Any) -> str:
    if sample is None:
        raise Refused(None)
    last["sample"] = sample
    return said(show(sample))


def topic_recv(name: str, patience: str) -> str:
    if patience == "try":
        return taken(subscriber(name).try_recv())
    return taken(subscriber(name).recv(timeout=seconds(patience)))


def topic_latest(name: str) -> str:
    return taken(subscriber(name).latest())


def check(sample: Any) -> None:
    if bytes(sample) != pattern(len(sample), sample.sequence):
        raise Wrong(f"message {sample.sequence} is {show(sample)}")


def topic_drain(name: str, count: str, span: str) -> None:
    end = time.monotonic() + seconds(span)
    for _ in range(int(count)):
        check(subscriber(name).recv(timeout=max(0, end - time.monotonic())))


def topic_drain_all(name: str) -> str:
    count = 0
    while (sample := subscriber(name).try_recv()) is not None:
        check(sample)
        count += 1
    return said(count)


def topic_consume(name: str, span: str) -> None:
    end = time.monotonic() + seconds(span)
    while time.monotonic() < end:
        subscriber(name).recv(timeout=seconds(span))


def topic_lost(name: str) -> str:
    return said(subscriber(name).lost)


def topic_lag(name: str) -> str:
    return said(subscriber(name).lag)


def topic_publishers(name: str) -> str:
    return said(subscriber(name).publisher_count)


def topic_subscribers(name: str) -> str:
    return said(publisher(name).subscriber_count)


def sample_show() -> str:
    return said(show(last["sample"]))


def sample_sequence() -> str:
    return said(last["sample"].sequence)


def sample_order() -> str:
    return said(last["sample"].order)


def sample_key() -> str:
    return said(last["sample"].key)


def sample_frame() -> str:
    return said(last["sample"].frame)


def sample_stamp() -> str:
    return said(last["sample"].stamp)


def sample_publisher() -> str:
    return said(last["sample"].publisher or 0)


def sample_drop() -> None:
    del last["sample"]


# --- states


def number(data: bytes) -> int:
    return int.from_bytes(data, sys.byteorder)


def state_open(name: str, value: str) -> None:
    initial = int(value).to_bytes(8, sys.byteorder)
    things[name] = outlive.State(name, 8, folder, initial=initial, fixed=True)


def state_find(name: str) -> None:
    outlive.State.open(name, domain=folder)


def state_get(name: str) -> str:
    state = thing(name)
    return said(f"{number(state.get())} {state.version}")


def state_set(name: str, value: str) -> str:
    return said(thing(name).set(int(value).to_bytes(8, sys.byteorder)))


def state_wait(name: str, version: str, span: str) -> str:
    return said(truly(thing(name).wait_changed(int(version), timeout=seconds(span))))


def state_close(name: str) -> None:
    # An object that was closed stays closed; the state is there.
    thing(name).close()
    things[name] = outlive.State.open(name, domain=folder)


def bytes_open(name: str, most: str, word: str) -> None:
    things[name] = outlive.State(name, int(most), folder, initial=message(word))


def bytes_get(name: str) -> str:
    state = thing(name)
    return said(f"{show(state.get())} {state.version}")


def bytes_set(name: str, word: str) -> str:
    return said(thing(name).set(message(word)))


def bytes_flood(name: str, size: str, span: str) -> None:
    end, count = time.monotonic() + seconds(span), 0
    while time.monotonic() < end:
        count += 1
        thing(name).set(pattern(int(size), count))


def bytes_watch(name: str, count: str, span: str) -> None:
    # The value and its version are two calls: what is between them may be newer.
    state, seen, end = thing(name), 1, time.monotonic() + seconds(span)
    for _ in range(int(count)):
        seen = truly(state.wait_changed(seen, timeout=max(0, end - time.monotonic())))
        value = state.get()
        if not value or value != pattern(len(value), value[0]):
            raise Wrong(f"version {seen} is {show(value)}")


# --- services


def client_open(name: str, *options: str) -> None:
    things[f"{name} client"] = outlive.Client(name, folder, wait_for_server="wait" in options)


def heard(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except outlive.ServiceError as error:
        last["failure"] = str(error)
        raise


def client_failure() -> str:
    return said(last["failure"])


def client_call(name: str, word: str, span: str) -> str:
    client = thing(f"{name} client")
    return said(show(heard(lambda: client.call(message(word), timeout=seconds(span)))))


def client_begin(name: str, word: str, span: str) -> None:
    last["call"] = thing(f"{name} client").begin(message(word), timeout=seconds(span))


def client_next(span: str) -> str:
    reply = heard(lambda: last["call"].next(timeout=seconds(span)))
    return said("end" if reply is None else show(reply))


def server_open(name: str) -> None:
    things[f"{name} server"] = outlive.Server(name, folder)


def server_next(name: str, patience: str) -> str:
    last["request"] = thing(f"{name} server").next(timeout=0 if patience == "try" else seconds(patience))
    return said(show(last["request"].data))


def server_client() -> str:
    return said(last["request"].client_pid)


def server_cancelled() -> str:
    return said("yes" if last["request"].cancelled else "no")


def server_reply(word: str) -> None:
    last["request"].reply(message(word))


def server_stream() -> None:
    last["stream"] = last["request"].stream()


def server_send(word: str, span: str) -> None:
    last["stream"].send(message(word), timeout=seconds(span))


def server_finish() -> None:
    last["stream"].finish()


def server_fail(why: str) -> None:
    last["request"].fail(why)


def server_fail_stream(why: str) -> None:
    last["stream"].fail(why)


def server_drop() -> None:
    del last["request"]


# --- waiting for several


def set_open(name: str) -> None:
    things[name] = outlive.WaitSet(folder)
    last[name] = []


def set_add(name: str, what: str, source: Any, **options: Any) -> None:
    thing(name).add(source, **options)
    last[name].append((source, what))


def set_add_queue(name: str, queue: str) -> None:
    set_add(name, queue, thing(queue))


def set_add_topic(name: str, topic: str) -> None:
    set_add(name, topic, subscriber(topic))


def set_add_event(name: str, event: str, bits: str) -> None:
    set_add(name, event, thing(event), bits=int(bits))


def set_add_peer(name: str, what: str, token: str) -> None:
    set_add(name, what, peer(token))


def set_wait(name: str, patience: str) -> str:
    ready = thing(name).try_wait() if patience == "try" else thing(name).wait(timeout=seconds(patience))
    truly(ready)
    names = [what for source, what in last[name] if any(source is one for one in ready)]
    return said(" ".join(sorted(names)))


# --- the three ways to open each kind

#: Its class, and the option that is compared with what is there.
OPENED: dict[str, tuple[Any, str | None]] = {
    "mutex": (outlive.Lock, None),
    "rwlock": (outlive.RwLock, None),
    "reentrant_mutex": (outlive.RLock, None),
    "condvar": (outlive.Condition, None),
    "event": (outlive.Event, "automatic"),
    "latch": (outlive.Latch, "arrivals"),
    "semaphore": (outlive.Semaphore, "value"),
    "barrier": (outlive.Barrier, "parties"),
    "queue": (outlive.Queue, "max_bytes"),
    "topic": (outlive.Topic, "max_bytes"),
    "state": (outlive.State, "capacity"),
    "service": (outlive.Client, "max_bytes"),
    "pool": (outlive.Pool, "max_bytes"),
}
#: What a maker must say.
NEEDED = {"latch": 1, "barrier": 1}


def open_as(kind: str, how: str, name: str, *number: str) -> str | None:
    if kind not in OPENED:
        return f"error Unsupported open.{kind}"
    of, option = OPENED[kind]
    where = {"lock": outlive.Lock("its-lock", folder)} if of is outlive.Condition else {"domain": folder}
    if how == "open":
        of.open(name, **where)
        return None
    given: Any = int(number[0]) if number else NEEDED.get(kind)
    options = {} if option is None or given is None else {option: given == 2 if kind == "event" else given}
    (of.create_new if how == "create_new" else of)(name, **options, **where)
    return None


# --- the rest


def domain_find(path: str) -> None:
    outlive.Domain.open(path)


def domain_create(name: str) -> None:
    outlive.Domain.create_new(f"{folder}/{name}")


def token() -> str:
    return said(outlive.Domain(folder).token())


def process_token() -> str:
    return said(outlive.Domain(folder).process_token())


def peer(word: str) -> Any:
    return outlive.Domain(folder).peer(int(word))


def peer_alive(word: str) -> str:
    return said("yes" if peer(word).alive else "no")


def peer_wait_dead(word: str, span: str) -> None:
    truly(peer(word).wait_dead(timeout=seconds(span)))


def misuse_name() -> None:
    outlive.Queue(7, folder)  # type: ignore[arg-type]


def misuse_message() -> None:
    outlive.Queue("misused", folder).send(7)  # type: ignore[arg-type]


def misuse_handle() -> None:
    outlive.Condition("misused", None)  # type: ignore[arg-type]


def misuse_number() -> None:
    outlive.Event("misused-event", folder).set(-1)


def misuse_timeout() -> None:
    outlive.Queue("misused", folder).recv(timeout=-1)


def misuse_unlock() -> None:
    outlive.Lock("misused-lock", folder).release()


def exit() -> None:
    os._exit(0)


def crash() -> None:
    os.abort()


def hang() -> None:
    time.sleep(60)


KNOWN = {name: value for name, value in globals().items() if callable(value)}


def kind(error: BaseException) -> str:
    """Its class, and Python's own kind that it is."""
    name = type(error).__name__ + ("-begun" if getattr(error, "begun", False) else "")
    for base in type(error).__mro__[1:]:
        if base.__module__.startswith("outlive") or base in (Exception, BaseException, object):
            continue
        if type(error).__module__ == "builtins":
            break
        module = "" if base.__module__ in ("builtins", "_queue") else f"{base.__module__}."
        module = "queue." if base.__module__ in ("queue", "_queue") else module
        return f"{name}:{module}{base.__name__}"
    return name


# Kinds of things that it has none of.
LACKING_KINDS = {"pi", "ceiling", "once", "record"}
# Single commands: its queues have no type.
LACKING = {"queue.typed"}


def act(line: str) -> str:
    command, *words = line.split(" ")
    thing, _, verb = command.partition(".")
    if thing in LACKING_KINDS or command in LACKING:
        return f"error Unsupported {command}"
    if thing == "open":
        command, words = "open_as", [verb, *words]
    call: Callable[..., Answer] | None = KNOWN.get(command.replace(".", "_"))
    if call is None:
        return f"error Usage no command {command}"
    try:
        answer = call(*words)
        return "ok" if answer is None else answer
    except Refused as refused:
        return f"error {refused.name} "
    except Exception as error:
        # str() puts the number before an OSError's message.
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"error {kind(error)} {said}"


def tell(answer: str) -> None:
    print(answer, flush=True)


def serve(end: str | None) -> None:
    while line := sys.stdin.readline():
        line = line.rstrip("\n")
        if line == end:
            return
        command, *words = line.split(" ")
        if command == "lock.within":
            # A block, which the next lines are in: it answers when it begins, and when it ends.
            try:
                lock_within(*words)
            except Exception as error:
                tell(f"error {kind(error)} {error}")
            else:
                tell("ok")
        else:
            tell(act(line))


if __name__ == "__main__":
    folder = sys.argv[1]
    domain = outlive.Domain(folder)
    tell("ready")
    serve(None)
