"""Opens unpickled objects again, where keywords are needed."""

from __future__ import annotations

from ._outlive import Barrier, Client, Domain, Event, Queue, Topic


def event(name: str, domain: Domain, automatic: bool) -> Event:
    return Event(name, domain, automatic=automatic)


def topic(name: str, domain: Domain) -> Topic:
    return Topic(name, domain, exists=True)


def queue(name: str, domain: Domain, end_when_senders_gone: bool) -> Queue:
    return Queue(name, domain, end_when_senders_gone=end_when_senders_gone)


def client(name: str, domain: Domain, wait_for_server: bool) -> Client:
    return Client(name, domain, wait_for_server=wait_for_server)


def barrier(name: str, parties: int, domain: Domain, count_out: bool | None) -> Barrier:
    return Barrier(name, parties, domain, count_out=count_out)
