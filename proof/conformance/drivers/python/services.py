"""`client.` and `server.`"""

from __future__ import annotations

from typing import Any, Callable

import outlive
from line import Verbs, family, folder, keep, last, message, named, patience, seconds, show, thing


def heard(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except outlive.ServiceError as error:
        last["failure"] = str(error)
        raise


def call(name: str, word: str, span: str) -> str:
    client = thing(f"{name} client")
    return show(heard(lambda: client.call(message(word), timeout=seconds(span))))


def begin(name: str, word: str, span: str) -> None:
    last["call"] = thing(f"{name} client").begin(message(word), timeout=seconds(span))


def loan(name: str, word: str, span: str) -> None:
    data = message(word)
    lent = thing(f"{name} client").loan(len(data), timeout=seconds(span))
    with lent as view:
        view[:] = data
    last["call"] = lent.begin(timeout=seconds(span))


def request_stream(name: str, word: str, span: str) -> None:
    last["call"] = thing(f"{name} client").stream(message(word), timeout=seconds(span))


def let_go() -> None:
    last["call"].cancel()


def next_part(span: str) -> str:
    source = last.get("stream") or last["request"]
    part = source.next_part(timeout=seconds(span))
    return "end" if part is None else show(part)


def next_reply(span: str) -> str:
    reply = heard(lambda: last["call"].next(timeout=seconds(span)))
    return "end" if reply is None else show(reply)


def next_request(name: str, word: str) -> str:
    last["request"] = thing(f"{name} server").next(timeout=patience(word))
    return show(last["request"].data)


def stream() -> None:
    last["stream"] = last["request"].stream()


def watch(name: str, lease: str) -> None:
    last["watch"] = thing(f"{name} server").watch_clients(int(lease) / 1000)


def watch_outside(name: str, lease: str) -> None:
    last["watch"] = outlive.ClientWatch.open(name, domain=folder, lease=int(lease) / 1000)


def event(span: str) -> str:
    told = last["watch"].next(timeout=seconds(span))
    if told is None:
        raise outlive.errors.Timeout("nothing to tell")
    return f"{told[0]} {told[1]}"


def wait_cancelled(span: str) -> None:
    if not last["request"].wait_cancelled(seconds(span)):
        raise outlive.errors.Timeout("a client waits")


def reply_loan(word: str) -> None:
    data = message(word)
    with last["request"].loan(len(data)) as view:
        view[:] = data


def fail_loan(size: str, why: str) -> None:
    class Why(Exception):
        pass

    Why.__name__ = why
    try:
        with last["request"].loan(int(size)):
            raise Why
    except Why:
        pass


def drop() -> None:
    del last["request"]


def server_open(name: str, *options: str) -> None:
    within = named(options, within="within").get("within", 0)
    server = outlive.Server(name, folder, timeout=within / 1000, **named(options, servers="max_servers"))
    keep(f"{name} server", server)


VERBS: Verbs = {
    **family(
        "client",
        open=lambda name, *options: keep(
            f"{name} client", outlive.Client(name, folder, wait_for_server="wait" in options)
        ),
        failure=lambda: last["failure"],
        alive=lambda name: thing(f"{name} client").assert_liveliness(),
        call=call,
        prefault=lambda name, messages, size: thing(f"{name} client").prefault(int(messages), int(size)),
        begin=begin,
        loan=loan,
        stream=request_stream,
        send=lambda word, span: last["call"].send(message(word), timeout=seconds(span)),
        finish=lambda: last["call"].finish(),
        let_go=let_go,
        next=next_reply,
    ),
    **family(
        "server",
        open=server_open,
        next=next_request,
        watch=watch,
        event=event,
        watch_outside=watch_outside,
        prefault=lambda name, messages, size: thing(f"{name} server").prefault(int(messages), int(size)),
        client=lambda: last["request"].client_pid,
        cancelled=lambda: "yes" if last["request"].cancelled else "no",
        wait_cancelled=wait_cancelled,
        reply=lambda word: last["request"].reply(message(word)),
        next_part=next_part,
        reply_loan=reply_loan,
        fail_loan=fail_loan,
        stream=stream,
        send=lambda word, span: last["stream"].send(message(word), timeout=seconds(span)),
        finish=lambda: last["stream"].finish(),
        fail=lambda why: last["request"].fail(why),
        fail_stream=lambda why: last["stream"].fail(why),
        drop=drop,
    ),
}
