"""`topic.` and `sample.`"""

from __future__ import annotations

import time
from typing import Any

import outlive
from line import Refused, Verbs, Wrong, counts, done, end_of, family, folder, keep, last, left, message, named, pattern
from line import seconds, show, thing, things


@outlive.payload
class Point:
    x: "f64"
    y: "f64"


@outlive.payload
class Track:
    corners: "Point[4]"
    kind: "u32"
    grid: "f32[2][3]"


@outlive.payload
class Cloud:
    stamp: "u64"
    points: "tail[Point]"


@outlive.payload
class Scan:
    kind: "u8"
    name: "text[8]"
    is_last: "bool"
    ranges: "list[f32][4]"


@outlive.payload(name="Track")
class Other:
    corners: "Point[4]"
    kind: "i32"
    grid: "f32[2][3]"


def payload(options: tuple[str, ...]) -> Any:
    """What all languages describe."""
    known = {"track": Track, "other": Other, "cloud": Cloud, "scan": Scan}
    return next((of for name, of in known.items() if name in options), None)


def described(kind: str, name: str, what: str) -> None:
    of = payload((what,)) or ("cdr geometry_msgs/msg/Pose" if what == "cdr" else f"{what} Pose")
    if kind == "queue":
        outlive.Queue(name, folder, payload=of)
    elif kind == "state":
        outlive.State(name, domain=folder, payload=of)
    else:
        outlive.Client(name, folder, request=of)


def publish_track(name: str, kind: str) -> int:
    corners = [Point(0, 0)] * 3 + [Point(0, 2 * int(kind))]
    return publisher(name).publish(Track(corners, int(kind), [[0] * 3] * 2))


def recv_track(name: str, span: str) -> str:
    track = subscriber(name).recv(timeout=seconds(span)).numpy()
    return f"{track['kind']} {track['corners']['y'][3]:.0f}"


def publish_cloud(name: str, stamp: str, count: str) -> int:
    return publisher(name).publish(Cloud(int(stamp), [Point(at, -1) for at in range(int(count))]))


def recv_cloud(name: str, span: str) -> str:
    cloud = subscriber(name).recv(timeout=seconds(span)).numpy()
    x = cloud["points"]["x"]
    return f"{cloud['stamp']} {len(x)} {x[-1] if len(x) else -1:.0f}"


def publish_scan(name: str, text: str, count: str) -> int:
    return publisher(name).publish(Scan(7, text, int(count) > 0, list(range(int(count)))))


def recv_scan(name: str, span: str) -> str:
    scan = subscriber(name).recv(timeout=seconds(span)).numpy()
    length = min(int(scan["name"]["length"]), 8)
    text = outlive.text(scan["name"])
    return f"{length} {text if text.isascii() else '-'} {len(outlive.items(scan['ranges']))} {int(scan['is_last'])}"


def config(name: str) -> str:
    found = thing(name).config
    flags = f"{int(found['stamps'])} {int(found['reliable'])} {found['durability']}"
    most = f"{found['max_publishers']} {found['max_subscribers']} {found['max_samples']}"
    return f"{found['depth']} {found['max_bytes']} {flags} {most} {found['mode']}"


def slowest(found: tuple[int, int] | None) -> str:
    return "none" if found is None else f"{found[0]} {found[1]}"


# Of which only the number counts.
crowd_publishers: list[Any] = []
crowd_subscribers: list[Any] = []


def crowd(name: str, publishers: str, subscribers: str) -> None:
    for _ in range(int(publishers)):
        crowd_publishers.append(thing(name).publisher())
    for _ in range(int(subscribers)):
        crowd_subscribers.append(thing(name).subscriber())


def crowd_publish(name: str, size: str) -> None:
    for one in crowd_publishers:
        one.publish(pattern(int(size), 0))


def crowd_recv(name: str) -> int:
    count = 0
    for one in crowd_subscribers:
        while (sample := one.try_recv()) is not None:
            check(sample)
            count += 1
    return count


def age() -> str:
    found = last["sample"].age
    return "unknown" if found is None else "fresh" if found < 60 else "old"


def publisher(name: str) -> Any:
    return thing(f"{name} publisher")


def subscriber(name: str) -> Any:
    return thing(f"{name} subscriber")


def publish_to(name: str, *options: str) -> None:
    limit = [seconds(option[9:]) for option in options if option.startswith("blocking=")]
    period = next((seconds(option[7:]) for option in options if option.startswith("period=")), None)
    lifespan = next((seconds(option[9:]) for option in options if option.startswith("lifespan=")), None)
    things[f"{name} publisher"] = thing(name).publisher(
        max_blocking=limit[0] if limit else None, period=period, lifespan=lifespan
    )


def subscribe(name: str, *options: str) -> None:
    period = [seconds(option[7:]) for option in options if option.startswith("period=")]
    things[f"{name} subscriber"] = thing(name).subscriber(
        reliable="reliable" in options,
        sessions="sessions" in options,
        durability=next((kept for kept in ("volatile", "persistent") if kept in options), None),
        liveliness=next((seconds(option[6:]) for option in options if option.startswith("lease=")), None),
        max_age=next((seconds(option[4:]) for option in options if option.startswith("age=")), None),
        keys=[int(option[4:]) for option in options if option.startswith("key=")],
        period=period[0] if period else None,
        **named(options, history="history", keep="keep_last"),
    )


def unsubscribe(name: str) -> None:
    del things[f"{name} subscriber"]


def publish(name: str, word: str, span: str, *options: str) -> int:
    header = named(options, key="key", frame="frame", stamp="stamp")
    return publisher(name).publish(message(word), timeout=seconds(span), **header)


def publish_pattern(name: str, size: str) -> None:
    number = counts.get(name, 0)
    publisher(name).publish(pattern(int(size), number))
    counts[name] = number + 1


def publish_many(name: str, count: str, size: str) -> None:
    for _ in range(int(count)):
        publish_pattern(name, size)


def flood(name: str, size: str, span: str) -> None:
    end = end_of(span)
    while time.monotonic() < end:
        publish_pattern(name, size)


def loan(name: str, word: str) -> None:
    data = message(word)
    last["loan"] = loan = publisher(name).loan(len(data))
    with memoryview(loan) as into:
        into[:] = data


def recv_msgpack(name: str, span: str) -> str:
    person = subscriber(name).recv(timeout=seconds(span)).msgpack()
    return f"{person['name']} {person['age']}"


def taken(sample: Any) -> str:
    if sample is None:
        raise Refused(None)
    last["sample"] = sample
    return show(sample)


def recv(name: str, patience: str) -> str:
    if patience == "try":
        return taken(subscriber(name).try_recv())
    return taken(subscriber(name).recv(timeout=seconds(patience)))


def check(sample: Any) -> None:
    if bytes(sample) != pattern(len(sample), sample.sequence):
        raise Wrong(f"message {sample.sequence} is {show(sample)}")


def drain(name: str, count: str, span: str) -> None:
    end = end_of(span)
    for _ in range(int(count)):
        check(subscriber(name).recv(timeout=left(end)))


def drain_all(name: str) -> int:
    count = 0
    while (sample := subscriber(name).try_recv()) is not None:
        check(sample)
        count += 1
    return count


def consume(name: str, span: str) -> None:
    end = end_of(span)
    while time.monotonic() < end:
        subscriber(name).recv(timeout=seconds(span))


def drop() -> None:
    del last["sample"]


VERBS: Verbs = {
    **family(
        "topic",
        open=lambda name, *options: keep(
            name,
            outlive.Topic(
                name,
                folder,
                reliable=True if "reliable" in options else None,
                payload=payload(options),
                as_is="as-is" in options,
                stamps=True if "stamps" in options else False if "no-stamps" in options else None,
                durability=next((kept for kept in ("volatile", "persistent") if kept in options), None),
                **named(options, depth="depth", max="max_bytes", publishers="max_publishers", subscribers="max_subscribers", samples="max_samples", mode="mode"),
            ),
        ),
        find=lambda name: done(outlive.Topic.open(name, domain=folder)),
        publisher=publish_to,
        subscriber=subscribe,
        unsubscribe=unsubscribe,
        publish=publish,
        publish_many=publish_many,
        flood=flood,
        loan=loan,
        publish_loan=lambda name: last.pop("loan").publish(),
        publish_msgpack=lambda name, who, age: publisher(name).publish_msgpack({"name": who, "age": int(age)}),
        recv_msgpack=recv_msgpack,
        described=described,
        payload=lambda name: outlive.Domain(folder).payload(name),
        publish_track=publish_track,
        recv_track=recv_track,
        publish_cloud=publish_cloud,
        recv_cloud=recv_cloud,
        publish_scan=publish_scan,
        recv_scan=recv_scan,
        publish_hex=lambda name, digits: publisher(name).publish(bytes.fromhex(digits)),
        config=config,
        slowest=lambda name: slowest(publisher(name).slowest()),
        prefault=lambda name, held, size: publisher(name).prefault(int(held), int(size)),
        crowd=crowd,
        crowd_publish=crowd_publish,
        crowd_recv=crowd_recv,
        recv_hex=lambda name, span: bytes(subscriber(name).recv(timeout=seconds(span))).hex(),
        recv=recv,
        latest=lambda name: taken(subscriber(name).latest()),
        drain=drain,
        drain_all=drain_all,
        consume=consume,
        lapses=lambda name: subscriber(name).lapses,
        missed=lambda name: int(subscriber(name).missed > 0),
        **{"assert": lambda name: publisher(name).assert_liveliness()},
        late=lambda name: int(publisher(name).missed > 0),
        expired=lambda name: subscriber(name).expired,
        lost=lambda name: subscriber(name).lost,
        lag=lambda name: subscriber(name).lag,
        publishers=lambda name: subscriber(name).publisher_count,
        subscribers=lambda name: publisher(name).subscriber_count,
    ),
    **family(
        "sample",
        show=lambda: show(last["sample"]),
        sequence=lambda: last["sample"].sequence,
        order=lambda: last["sample"].order,
        key=lambda: last["sample"].key,
        frame=lambda: last["sample"].frame,
        stamp=lambda: last["sample"].stamp,
        publisher=lambda: last["sample"].publisher or 0,
        session=lambda: last["sample"].session,
        age=age,
        alive=lambda: int(last["sample"].publisher_alive),
        drop=drop,
    ),
}
