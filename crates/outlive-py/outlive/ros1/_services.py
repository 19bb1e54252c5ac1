"""Services of the bridge.

| state | what is there | ends |
| --- | --- | --- |
| coming in | a server in the domain that stands in for the ROS server; a connection of its own for each call | the ROS server left or died: the server is closed, and clients are told that there is none |
| going out | a client in the domain, and a service of ROS | the service's name is gone from the domain |

A call whose server dies is answered with an error at once, in both directions; so is one whose
deadline passes. If the bridge dies, clients in the domain are told `ServerDied`, and callers in ROS
that the connection ended: neither is told whether the server had begun.
"""

from __future__ import annotations

import io
import select
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import rosgraph.network
import rospy

from .. import _outlive
from .._ros import BadMessage
from ..errors import CallTimeout, NoServer, OutliveError, ServerDied, ServiceError, Timeout
from . import MD5, TYPE, Type, _node
from ._rules import Rule

if TYPE_CHECKING:
    from .bridge import Bridge

#: The deadline of a call, unless its rule has another one.
_TIMEOUT = 10.0
#: A wait's length, after which a thread sees that its call was cancelled, or that it is to end.
_SLICE = 0.2
#: Calls of one service at a time; others wait.
_AT_A_TIME = 16


class ServiceType:
    """A service's type: its requests and its replies, or only its name and checksum where ROS's
    package is not installed. Then requests and replies are bytes that are not checked."""

    def __init__(self, name: str, md5sum: str | None) -> None:
        import roslib.message

        found = roslib.message.get_service_class(name)
        self.name = name
        self.request: Type | None = None
        self.reply: Type | None = None
        if found is not None and md5sum in (None, found._md5sum):
            self.md5sum: str = found._md5sum
            self.request = Type(f"{name}Request", found._request_class._full_text)
            self.reply = Type(f"{name}Response", found._response_class._full_text)
        elif md5sum is not None:
            self.md5sum = md5sum
        else:
            raise LookupError(f"ROS has no service type {name!r} on this machine")

    @property
    def payloads(self) -> dict[str, Any]:
        """What ``request=`` and ``reply=`` take."""
        if self.request is None or self.reply is None:
            return {"request": f"bytes {self.name}Request", "reply": f"bytes {self.name}Response"}
        return {"request": self.request.payload, "reply": self.reply.payload}

    @property
    def attributes(self) -> dict[str, str]:
        return {TYPE: self.name, MD5: self.md5sum}

    def as_ros_has_it(self) -> Any:
        """Returns what rospy wants to know of a service."""
        parts = {}
        for part, of in (("_request_class", self.request), ("_response_class", self.reply)):
            name = f"{self.name}{'Request' if part == '_request_class' else 'Response'}"
            parts[part] = _node.class_of(name, of.md5sum if of else "*", of.definition if of else "")
        return type(self.name.replace("/", "_"), (), {"_type": self.name, "_md5sum": self.md5sum, **parts})


class NoAnswer(Exception):
    """A ROS server has not answered, and why."""


def _connected(bridge: Bridge, ros: str, timeout: float, probe: bool) -> tuple[socket.socket, dict[str, str]]:
    """Connects to a ROS server; returns the connection and what the server says of itself."""
    try:
        # Calls are made by many threads, and the master is asked by one.
        if probe:
            bridge.where[ros] = rospy.core.parse_rosrpc_uri(bridge.master.call("lookupService", ros))
        address, port = bridge.where[ros]
    except (LookupError, KeyError, _node.MasterGone):
        raise NoAnswer(f"there is no ROS server of {ros}") from None
    connection = None
    try:
        connection = socket.create_connection((address, port), timeout)
        header = {"service": ros, "md5sum": "*", "callerid": rospy.get_name(), _node.ORIGIN: bridge.origin}
        rosgraph.network.write_ros_handshake_header(connection, header | ({"probe": "1"} if probe else {}))
        answer = rosgraph.network.read_ros_handshake_header(connection, io.BytesIO(), 4096)
    except (OSError, rosgraph.network.ROSHandshakeException) as error:
        if connection is not None:
            connection.close()
        raise NoAnswer(f"the ROS server of {ros} cannot be reached: {error}") from None
    if "error" in answer:
        connection.close()
        raise NoAnswer(str(answer["error"]))
    return connection, answer


def asked(bridge: Bridge, ros: str) -> dict[str, str]:
    """Asks a ROS server for its type; raises :class:`NoAnswer` if there is none."""
    connection, answer = _connected(bridge, ros, 1.0, True)
    connection.close()
    return answer


class ServiceIn(threading.Thread):
    """A service of ROS that comes into the domain."""

    def __init__(self, bridge: Bridge, ros: str, name: str, rule: Rule, node: str, of: ServiceType) -> None:
        super().__init__(name=f"service in {ros}", daemon=True)
        self.bridge, self.ros, self.outlive, self.node, self.type = bridge, ros, name, node, of
        self.timeout = float(rule.options.get("timeout", _TIMEOUT))
        domain = bridge.domain.with_attributes(of.attributes)
        self._server = _outlive.Server(name, domain, **of.payloads)
        self._ending = threading.Event()
        self._calls = ThreadPoolExecutor(_AT_A_TIME, f"call {ros}")
        bridge.say(f"service in {ros} -> {name}: {node} serves {of.name}")
        self.start()

    def end(self, why: str) -> None:
        """Closes the server that stands in. Calls in flight see the end of their own connections."""
        self._ending.set()
        self.bridge.say(f"service in {self.ros} -> {self.outlive}: {self.node} {why}")

    def run(self) -> None:
        with self._server:
            while not self._ending.is_set() and not self.bridge.is_ending:
                try:
                    self._calls.submit(self._answer, self._server.next(timeout=_SLICE))
                except Timeout:
                    pass
                except OutliveError as error:
                    self.bridge.refuse(f"service in {self.ros}: {error}")
                    break
            self._calls.shutdown(wait=True)

    def _answer(self, request: _outlive.Request) -> None:
        try:
            self._forward(request, time.monotonic() + self.timeout)
        except NoAnswer as error:
            # A client that has died or cancelled needs none.
            try:
                request.fail(str(error))
            except OutliveError:
                pass
        except OutliveError:
            pass

    def _forward(self, request: _outlive.Request, until: float) -> None:
        data = memoryview(request).cast("B")
        if self.type.request is not None:
            try:
                self.type.request.check(data)
            except BadMessage as error:
                raise NoAnswer(f"the request is none of {self.type.name}: {error}") from None
        connection, header = _connected(self.bridge, self.ros, self.timeout, False)
        with connection:
            if header.get("md5sum") != self.type.md5sum:
                raise NoAnswer(f"the ROS server of {self.ros} has another type by now")
            died = f"the ROS server of {self.ros} died, or closed the connection, before it answered"
            try:
                connection.sendall(struct.pack("<I", len(data)))
                connection.sendall(data)
            except OSError:
                raise NoAnswer(died) from None
            connection.setblocking(False)

            def read_into(memory: memoryview) -> None:
                at = 0
                while at < len(memory):
                    left = until - time.monotonic()
                    if left <= 0:
                        raise NoAnswer(f"the ROS server of {self.ros} did not answer within {self.timeout} s")
                    if request.cancelled:
                        raise NoAnswer("the call was cancelled")
                    waiting = select.poll()
                    waiting.register(connection, select.POLLIN)
                    if not waiting.poll(min(left, _SLICE) * 1000):
                        continue
                    try:
                        got = connection.recv_into(memory[at:])
                    except BlockingIOError:
                        continue
                    except OSError:
                        got = 0
                    if not got:
                        raise NoAnswer(died)
                    at += got

            head = bytearray(5)
            read_into(memoryview(head))
            size = int.from_bytes(head[1:], "little")
            if size > self.bridge.max_message:
                raise NoAnswer(f"the reply's {size} bytes are more than --max-message")
            body = bytearray(size)
            read_into(memoryview(body))
        if not head[0]:
            raise NoAnswer(body.decode(errors="replace"))
        if self.type.reply is not None:
            try:
                self.type.reply.check(body)
            except BadMessage as error:
                raise NoAnswer(f"the reply is none of {self.type.name}: {error}") from None
        request.reply(body)


def service_type(bridge: Bridge, name: str, rule: Rule) -> ServiceType | None:
    """Returns the type of a service that may go out; ``None`` if nothing names one."""
    attributes = bridge.domain.attributes(name)
    of = attributes.get(TYPE, rule.type)
    return None if of is None else ServiceType(of, attributes.get(MD5))


class ServiceOut:
    """A service of the domain that goes out to ROS."""

    def __init__(self, bridge: Bridge, ros: str, name: str, rule: Rule, of: ServiceType) -> None:
        self.bridge, self.ros, self.outlive, self.type = bridge, ros, name, of
        self.timeout = float(rule.options.get("timeout", _TIMEOUT))
        self._client = _outlive.Client(name, bridge.domain, **of.payloads)
        self._shape = of.as_ros_has_it()
        self._service = rospy.Service(ros, self._shape, self._call)
        protocol = self._service.protocol
        fields = protocol.get_header_fields
        protocol.get_header_fields = lambda: fields() | {_node.ORIGIN: bridge.origin}
        bridge.say(f"service out {name} -> {ros}: {of.name}")

    def end(self, why: str) -> None:
        self._service.shutdown(why)
        self._client.close()
        self.bridge.say(f"service out {self.outlive} -> {self.ros}: {why}; unregistered")

    def _call(self, request: Any) -> Any:
        """Answers a caller in ROS: in the thread of its connection."""
        try:
            if self.type.request is not None:
                self.type.request.check(request._buff)
            # Not `call`, which would keep the other callers out of the client.
            reply = self._client.begin(request._buff, self.timeout).result(self.timeout)
            if self.type.reply is not None:
                self.type.reply.check(reply)
        except NoServer:
            raise rospy.ServiceException(f"{self.outlive} has no server") from None
        except ServerDied as error:
            begun = "had begun the call" if error.begun else "had not begun the call"
            raise rospy.ServiceException(f"the server of {self.outlive} died; it {begun}") from None
        except (CallTimeout, Timeout):
            raise rospy.ServiceException(f"{self.outlive} did not answer within {self.timeout} s") from None
        except ServiceError as error:
            raise rospy.ServiceException(str(error)) from None
        except (OutliveError, BadMessage) as error:
            raise rospy.ServiceException(f"{self.outlive}: {error}") from None
        return self._shape._response_class(reply)

