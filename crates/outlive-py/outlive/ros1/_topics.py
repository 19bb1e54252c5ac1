"""Topics of the bridge.

| state | what is there | ends |
| --- | --- | --- |
| coming in | a subscription of ROS; for each ROS node that publishes a connection, its thread, and a publisher in the domain that stands in for the node | the connection ends: the node left or died |
| going out | a subscriber in the domain with its thread, and a publication of ROS | the domain's last publisher left or died |

If the bridge dies, the kernel closes its connections, and its publishers in the domain are told as
dead; a successor subscribes and publishes anew. A bridge that is stopped holds up neither side: ROS
nodes drop messages at their own queues, and publishers of the domain do not wait for it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import rospy

from .. import _outlive
from .._ros import BadMessage
from ..errors import Lively, NotLively, OutliveError, PublisherDied, Timeout, TooMany
from . import MD5, TYPE, Type, _node
from ._rules import Rule

if TYPE_CHECKING:
    from .bridge import Bridge

#: How many messages wait for a slow connection of ROS.
_QUEUE = 64

#: How long a reliable subscriber may hold up what comes in.
_MAX_BLOCKING = 1.0

#: How long a publisher of the domain may be silent: the bridge does not tell of it.
_LEASE = 86400.0

#: A wait's length, after which a thread sees that it is to end.
_SLICE = 0.2


class Incoming:
    """A topic of ROS that comes into the domain."""

    def __init__(self, bridge: Bridge, ros: str, name: str, rule: Rule) -> None:
        self.bridge, self.ros, self.name, self.rule = bridge, ros, name, rule
        self._lock = threading.Lock()
        self._topic: _outlive.Topic | None = None
        self._type: Type | None = None
        #: The nodes whose messages are taken, and those that the topic passes over.
        self.nodes: set[str] = set()
        self.passed: set[str] = set()
        _node.receivers[ros] = self._receive
        self._subscriber = rospy.Subscriber(ros, rospy.AnyMsg)

    def close(self) -> None:
        self._subscriber.unregister()

    def _receive(self, connection: _node.Connection) -> None:
        """Takes a connection's messages until it ends: in the connection's own thread."""
        node, header = connection.node, connection.header
        if node == rospy.get_name() or header.get(_node.ORIGIN) == self.bridge.origin:
            # What this domain has sent comes not back into it.
            self.passed.add(node)
            return
        try:
            publisher = self._stand_in(header)
        except (OutliveError, ValueError) as error:
            self.passed.add(node)
            self.bridge.refuse(f"in {self.ros}: {node}: {error}")
            return
        self.nodes.add(node)
        self.bridge.say(f"in {self.ros} -> {self.name}: {node} publishes {header['type']}")
        refused = 0
        try:
            with publisher:
                while True:
                    refused += not self._take(connection, publisher)
        except _node.Ended:
            pass
        finally:
            self.nodes.discard(node)
            if not self.bridge.is_ending:
                how = self.bridge.how_ended(self.ros, node)
                lost = f"; {refused} of its messages were refused" if refused else ""
                self.bridge.say(f"in {self.ros} -> {self.name}: {node} {how}{lost}")

    def _stand_in(self, header: dict[str, str]) -> _outlive.Publisher:
        with self._lock:
            if self._type is None or self._topic is None:
                found = Type(header["type"], header.get("message_definition", ""))
                if found.md5sum != header["md5sum"]:
                    raise BadMessage(f"the definition of {found.name} has another checksum than the node says")
                options = {key: self.rule.options[key] for key in ("depth", "max_bytes") if key in self.rule.options}
                try:
                    self._topic = found.topic(self.name, self.bridge.domain, as_is=True, **options)
                except OutliveError:
                    # A program has made it, without attributes, for the same messages.
                    self._topic = _outlive.Topic(self.name, self.bridge.domain, payload=found.payload, as_is=True)
                self._type = found
            elif header["md5sum"] != self._type.md5sum:
                raise BadMessage(f"it publishes {header['type']}, and the topic has {self._type.name}")
            most = self.rule.options.get("max_blocking", _MAX_BLOCKING)
            return self._topic.publisher(max_blocking=most)

    def _take(self, connection: _node.Connection, publisher: _outlive.Publisher) -> bool:
        """Publishes the connection's next message; says whether it was one."""
        size = connection.length()
        try:
            if size > self.bridge.max_message:
                raise BadMessage(f"a message of {size} bytes is larger than --max-message")
            loan = publisher.loan((size,), "uint8")
        except (OutliveError, ValueError) as error:
            self.bridge.refuse(f"in {self.ros}: {connection.node}: {error}")
            connection.skip(size)
            return False
        # If the connection ends within the message, the block raises, and nothing is published.
        with loan as memory:
            connection.read_into(memory.data)
            try:
                assert self._type is not None
                self._type.check(memory)
                wrong = None
            except BadMessage as error:
                wrong = error
            if wrong is not None:
                loan.discard()
        if wrong is not None:
            self.bridge.refuse(f"in {self.ros}: {connection.node}: {wrong}")
        return wrong is None


def type_for(bridge: Bridge, name: str, rule: Rule) -> Type | None:
    """Returns the type of a topic that may go out; ``None`` if nothing names one."""
    attributes = bridge.domain.attributes(name)
    of = attributes.get(TYPE, rule.type)
    if of is None:
        return None
    if rule.type is not None and rule.type != of:
        raise BadMessage(f"the topic's messages are {of}, and the rule says {rule.type}")
    try:
        found = Type.of_topic(name, bridge.domain)
    except LookupError:
        found = Type.installed(of)
    if attributes.get(MD5, found.md5sum) != found.md5sum:
        raise BadMessage(f"{of} has another definition on this machine than the topic's messages have")
    return found


class Outgoing(threading.Thread):
    """A topic of the domain that goes out to ROS, as long as it has publishers."""

    def __init__(self, bridge: Bridge, ros: str, name: str, rule: Rule, of: Type) -> None:
        super().__init__(name=f"out {name}", daemon=True)
        self.bridge, self.ros, self.outlive = bridge, ros, name
        self.type = of
        self._topic = _outlive.Topic(name, bridge.domain, payload=of.payload, as_is=True)
        # With a lease it is told of a publisher's death, which it could not tell from a leave.
        self._subscriber = self._topic.subscriber(liveliness=_LEASE)
        self._ending = threading.Event()
        self._refused = self._lost = self._died = 0
        self.registered = rospy.Publisher(
            ros,
            _node.class_of(of.name, of.md5sum, of.definition),
            queue_size=rule.options.get("queue", _QUEUE),
            latch=rule.options.get("latch", False),
            headers={_node.ORIGIN: bridge.origin},
        )
        bridge.say(f"out {name} -> {ros}: {of.name}")
        self.start()

    def has_publishers(self, bridges: set[int]) -> bool:
        """Whether processes publish here that are no bridges."""
        return not bridges.issuperset(self._topic.publishers())

    def end(self) -> None:
        """Lets the thread send what is there, and unregister."""
        self._ending.set()

    def run(self) -> None:
        while True:
            try:
                self._send(self._subscriber.recv(timeout=_SLICE))
            except Timeout:
                if self._ending.is_set() or self.bridge.is_ending:
                    break
            except TooMany:
                time.sleep(0.01)
            except PublisherDied as error:
                self._died = error.pid
            except (NotLively, Lively):
                pass
            except OutliveError as error:
                self.bridge.refuse(f"out {self.outlive}: {error}")
                break
            self._tell_losses()
        until = time.monotonic() + 1.0
        while _node.waiting(self.registered) and time.monotonic() < until:
            time.sleep(0.01)
        self.registered.unregister()
        self._subscriber.close()
        if self._ending.is_set():
            why = f"its publisher, process {self._died}, died" if self._died else "its publisher left"
            lost = f"; {self._refused} of its messages were refused" if self._refused else ""
            self.bridge.say(f"out {self.outlive} -> {self.ros}: {why}; unregistered{lost}")

    def _send(self, sample: _outlive.Sample) -> None:
        token = sample.publisher
        if token is not None and self.bridge.is_bridge(token):
            # It has come from ROS.
            return
        body = memoryview(sample).cast("B")
        try:
            self.type.check(body)
        except BadMessage as error:
            self._refused += 1
            self.bridge.refuse(f"out {self.outlive}: {error}")
            return
        self.registered.impl.publish(_node.Frame(body))

    def _tell_losses(self) -> None:
        lost = self._subscriber.lost + self.registered.impl.dropped
        if lost > self._lost:
            self._lost = lost
            self.bridge.losses[self.outlive] = lost


def publishers_of(bridge: Bridge, name: str, bridges: set[int]) -> set[int]:
    """Returns the processes that publish to a topic and are no bridges."""
    try:
        with _outlive.Topic.open(name, domain=bridge.domain) as topic:
            return set(topic.publishers()) - bridges
    except OutliveError:
        return set()
