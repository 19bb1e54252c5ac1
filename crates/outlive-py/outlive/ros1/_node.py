"""The bridge's side of ROS: rospy's node, with messages that stay bytes.

rospy makes an object of each message and copies its bytes three times on the way. Here a message's
bytes go from the socket into a loan, and from a sample to the socket. For that, three
methods of rospy's are replaced in the bridge's own process, before it opens a topic: how a
subscriber and a publisher take a new connection, and what a publisher gives its connections. All else (names,
handshakes, queues of connections, the master's calls) is rospy's.
"""

from __future__ import annotations

import socket
import struct
import xmlrpc.client
from collections.abc import Callable
from typing import Any

import rospy
import rospy.impl.registration as registration
import rospy.topics

#: In the headers of the bridge's connections: of which domain it is. A bridge takes nothing back
#: that came from its own domain.
ORIGIN = "outlive_domain"

#: How long a call of the master, or of a node, may take.
_PATIENCE = 2.0

#: From here on a message is not copied together with its length.
_LARGE = 1 << 16


class Ended(Exception):
    """The other side has closed the connection, or its process is gone."""


class Bytes(rospy.AnyMsg):  # type: ignore[misc]
    """A message of a service that stays bytes; its subclasses have a type's name and checksum."""

    def __init__(self, data: bytes | None = None) -> None:
        super().__init__()
        self._buff = data


def class_of(name: str, md5sum: str, definition: str) -> Any:
    """Returns what rospy wants to know of a type."""
    return type(name.replace("/", "_"), (Bytes,), {"_type": name, "_md5sum": md5sum, "_full_text": definition})


class Frame:
    """A message on its way to ROS: the sample's own memory, which it keeps."""

    __slots__ = ("body",)

    def __init__(self, body: memoryview) -> None:
        self.body = body

    def send(self, write: Callable[[Any], Any]) -> None:
        head = struct.pack("<I", len(self.body))
        if len(self.body) < _LARGE:
            write(head + self.body)
        else:
            write(head)
            write(self.body)


#: What takes the connections of a topic that comes in, by the topic's name.
receivers: dict[str, Callable[[Connection], None]] = {}


class Connection:
    """A connection to a ROS node that publishes; messages are read into the caller's memory."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.header: dict[str, str] = transport.header
        self.node: str = transport.callerid_pub
        # What came behind the handshake.
        self._left = memoryview(transport.read_buff.getvalue()[: transport.read_buff.tell()])

    def read_into(self, memory: memoryview) -> None:
        """Fills memory with what comes; raises :class:`Ended` when the connection ends before."""
        at = min(len(self._left), len(memory))
        memory[:at] = self._left[:at]
        self._left = self._left[at:]
        while at < len(memory):
            sock = self.transport.socket
            if sock is None or self.transport.done or rospy.is_shutdown():
                raise Ended
            try:
                got = sock.recv_into(memory[at:])
            except OSError:
                raise Ended from None
            if not got:
                raise Ended
            at += got
            self.transport.stat_bytes += got

    def length(self) -> int:
        """Returns the next message's length."""
        head = bytearray(4)
        self.read_into(memoryview(head))
        self.transport.stat_num_msg += 1
        return int.from_bytes(head, "little")

    def skip(self, size: int) -> None:
        """Passes over so many bytes."""
        chunk = memoryview(bytearray(min(size, _LARGE)))
        while size > 0:
            part = chunk[: min(size, len(chunk))]
            self.read_into(part)
            size -= len(part)


_subscribed = rospy.topics._SubscriberImpl
_published = rospy.topics._PublisherImpl
_add_subscribed, _add_published = _subscribed.add_connection, _published.add_connection


def _add_receiving(self: Any, transport: Any) -> bool:
    """Adds a connection to a publisher, from which the topic's own receiver takes the messages."""
    receive = receivers[self.resolved_name]

    def loop(_callback: Any) -> None:
        try:
            if transport.socket is not None:
                transport.socket.settimeout(None)
                receive(Connection(transport))
        finally:
            if not transport.done:
                transport.close()

    transport.receive_loop = loop
    return bool(_add_subscribed(self, transport))


def _add_sending(self: Any, transport: Any) -> bool:
    """Adds a connection to a subscriber, which is given frames."""
    write = transport.write_data
    transport.write_data = lambda frame: frame.send(write)
    # The length and the bytes of a large message are two writes.
    transport.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bool(_add_published(self, transport))


def _publish(self: Any, frame: Frame, connection_override: Any = None) -> None:
    """Gives a frame to all connections, or to a new one what a latched topic had last."""
    if self.is_latch:
        self.latch = frame
    for connection in self.connections if connection_override is None else [connection_override]:
        # rospy's queue then drops its oldest message.
        self.dropped += len(connection._queue) >= connection._queue_size
        try:
            connection.write_data(frame)
            self.message_data_sent += len(frame.body)
        except Exception:
            connection.close()


def waiting(publisher: Any) -> int:
    """Returns how many messages wait for a publisher's connections."""
    return sum(len(connection._queue) for connection in publisher.impl.connections)


def start(name: str) -> None:
    """Makes this process a node of ROS. Waits for the master; signals stay the caller's."""
    _subscribed.add_connection = _add_receiving
    _published.add_connection = _add_sending
    _published.publish = _publish
    #: Messages that a connection was too slow for.
    _published.dropped = 0
    rospy.init_node(name, argv=["bridge"], disable_signals=True, disable_rostime=True, disable_rosout=True)


class _Transport(xmlrpc.client.Transport):
    def make_connection(self, host: Any) -> Any:
        connection = super().make_connection(host)
        connection.timeout = _PATIENCE
        return connection


class MasterGone(Exception):
    """The master cannot be reached, or does not answer."""


class Graph:
    """What a look at the master has found."""

    def __init__(self, run: tuple[int, str], state: Any, types: Any) -> None:
        publishers, subscribers, services = state
        self.run = run
        self.publishers: dict[str, list[str]] = {topic: nodes for topic, nodes in publishers}
        self.services: dict[str, list[str]] = {service: nodes for service, nodes in services}
        self.types: dict[str, str] = {topic: of for topic, of in types}

    def is_of(self, run: tuple[int, str]) -> bool:
        """Whether it is of the same start of the master."""
        return self.run[0] == run[0] and (not run[1] or not self.run[1] or self.run[1] == run[1])


class Master:
    """The ROS master, asked by one thread."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._proxy = xmlrpc.client.ServerProxy(uri, transport=_Transport())

    def call(self, method: str, *args: Any) -> Any:
        """Calls a method of the master's; returns its value."""
        try:
            code, message, value = getattr(self._proxy, method)(rospy.get_name(), *args)
        except (OSError, xmlrpc.client.Error, ValueError, TypeError) as error:
            self._proxy("close")()
            raise MasterGone(f"{self.uri}: {error}") from None
        if code != 1:
            raise LookupError(message)
        return value

    def look(self) -> Graph:
        """Returns what is registered, and which start of the master it is."""
        try:
            pid = self.call("getPid")
        except LookupError as error:
            raise MasterGone(str(error)) from None
        try:
            run = str(self.call("getParam", "/run_id"))
        except LookupError:
            # roscore sets it a moment after the master answers, and a master alone never.
            run = ""
        try:
            return Graph((pid, run), self.call("getSystemState"), self.call("getTopicTypes"))
        except LookupError as error:
            raise MasterGone(str(error)) from None

    def register_again(self) -> tuple[int, int]:
        """Tells a new master what this node has; returns how many topics and services that is.

        Connections that exist go on: rospy connects only to what it is not connected to.
        """
        uri, manager = rospy.get_node_uri(), _manager()
        topics = registration.get_topic_manager()
        published, subscribed = topics.get_publications(), topics.get_subscriptions()
        services = registration.get_service_manager().get_services()
        for name, of in published:
            self.call("registerPublisher", name, of, uri)
        for name, of in subscribed:
            manager.publisher_update(name, self.call("registerSubscriber", name, of, uri))
        for name, where in services:
            self.call("registerService", name, where, uri)
        own = rospy.get_name() + "/"
        return len(published) + len(subscribed), sum(not name.startswith(own) for name, _ in services)

    def connect_again(self, topic: str) -> None:
        """Lets rospy connect to publishers that it is not connected to."""
        _manager().publisher_update(topic, self.call("registerSubscriber", topic, "*", rospy.get_node_uri()))


def _manager() -> Any:
    (manager,) = registration.get_registration_listeners().listeners
    return manager


def answers(uri: str) -> bool:
    """Whether a node answers at its address."""
    try:
        answer: Any = xmlrpc.client.ServerProxy(uri, transport=_Transport()).getPid(rospy.get_name())
        return bool(answer[0] == 1)
    except (OSError, xmlrpc.client.Error, ValueError, TypeError, LookupError):
        return False
