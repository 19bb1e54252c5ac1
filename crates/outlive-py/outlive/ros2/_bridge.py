"""Topics and services between a domain and a node of ``rclpy``, as a program names them.

| state | what is there | ends |
| --- | --- | --- |
| a topic comes in | a subscription of ROS 2; while it has publishers, one publisher in the domain stands in for them | ROS 2 tells that the last one is gone, or not alive within its lease |
| a topic goes out | a subscriber in the domain with its thread; while the topic has publishers, a publication of ROS 2 | the domain's last publisher left or died |
| a service comes in | a server in the domain with its thread, a client of ROS 2 | while ROS 2 has no server, calls fail at once |
| a service goes out | a service of ROS 2, a client in the domain | the bridge is closed |

If the bridge dies, its publishers in the domain are told as dead, and ROS 2 learns of it when its
lease ends. doc/protocols/ros.md has the rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import rclpy
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message, serialize_message

from .. import _outlive
from .._ros import BadMessage
from ..errors import Lively, NotLively, OutliveError, PublisherDied, ServerDied, Timeout, TooMany
from . import TYPE, Type
from ._qos import for_publisher, for_subscriber, for_topic

#: The name by which bridges know each other in a domain.
NODE = "outlive-ros2-bridge"

#: A wait's length, after which a thread sees that it is to end.
_SLICE = 0.2
#: How long a publisher of the domain may be silent: the bridge does not tell of it.
_LEASE = 86400.0
#: How long a reliable subscriber may hold up what comes in.
_MAX_BLOCKING = 1.0


def _said(line: str) -> None:
    print(line, flush=True)


def outlive_name(ros: str) -> str:
    """Returns the name in Outlive of a name in ROS: '/a/b' is 'a.b'."""
    return ros.lstrip("/").replace("/", ".")


class Bridge:
    """Carries topics and services between a domain and ROS 2. It spins its own node.

    >>> with Bridge("bridge", folder) as bridge:                            # doctest: +SKIP
    ...     bridge.topic_in("/camera/image", Image, 8)
    ...     bridge.topic_out("/cmd_vel", Twist, QoSProfile(depth=4))
    ...     bridge.service_in("/arm/enable", SetBool, timeout=2.0)
    ...     bridge.wait()

    A topic goes one way: what comes in by a topic of ROS 2 does not go out to it. ``name`` is the
    name in Outlive; without it '/a/b' is 'a.b'. ``say`` is called with a line for what is opened,
    ends, or is refused.
    """

    def __init__(self, node: str, domain: Any = None, *, say: Callable[[str], None] = _said) -> None:
        self.domain = domain if isinstance(domain, _outlive.Domain) else _outlive.Domain(domain)
        self.say = say
        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=rclpy.SignalHandlerOptions.NO)
        self.node = rclpy.create_node(node, context=self._context, start_parameter_services=False)
        self._as_node = self.domain.node(NODE, attributes={"ros2.node": self.node.get_fully_qualified_name()})
        self._group = ReentrantCallbackGroup()
        self._executor = MultiThreadedExecutor(8, context=self._context)
        self._executor.add_node(self.node)
        self._ending = threading.Event()
        self._incoming: dict[str, _Incoming] = {}
        self._threads: list[threading.Thread] = []
        self._names: set[str] = set()
        self._told: set[str] = set()
        self._spinner = threading.Thread(target=self._spin, name="outlive.ros2", daemon=True)
        self._spinner.start()

    def _spin(self) -> None:
        try:
            while not self._ending.is_set():
                self._executor.spin_once(timeout_sec=_SLICE)
        except ExternalShutdownException:
            pass

    def refuse(self, line: str) -> None:
        """Says once what is not carried, and why."""
        if line not in self._told and len(self._told) < 10_000:
            self._told.add(line)
            self.say(f"refused: {line}")

    def bridges(self) -> set[int]:
        """Returns the processes that are bridges to ROS 2."""
        return {node.pid for node in self.domain.nodes() if node.name == NODE}

    def _take(self, kind: str, ros: str) -> None:
        if f"{kind} {ros}" in self._names:
            raise ValueError(f"the {kind} {ros} is carried already; it goes one way")
        self._names.add(f"{kind} {ros}")

    def topic_in(self, ros: str, message_class: Any, qos: Any, name: str | None = None, **options: Any) -> None:
        """Brings a topic of ROS 2 into the domain; ``options`` are the topic's, beside those of the QoS."""
        self._take("topic", ros)
        qos = QoSProfile(depth=qos) if isinstance(qos, int) else qos
        self._incoming[ros] = _Incoming(self, ros, name or outlive_name(ros), Type(message_class), qos, options)

    def topic_out(self, ros: str, message_class: Any, qos: Any, name: str | None = None, **options: Any) -> None:
        """Brings a topic of the domain out to ROS 2; the topic is made if it is not there."""
        self._take("topic", ros)
        qos = QoSProfile(depth=qos) if isinstance(qos, int) else qos
        self._start(_Outgoing(self, ros, name or outlive_name(ros), Type(message_class), qos, options))

    def service_in(self, ros: str, service_class: Any, name: str | None = None, *, timeout: float = 10.0) -> None:
        """Brings a service of ROS 2 into the domain: processes of the domain call it."""
        self._take("service", ros)
        self._start(_ServiceIn(self, ros, name or outlive_name(ros), service_class, timeout))

    def service_out(self, ros: str, service_class: Any, name: str | None = None, *, timeout: float = 10.0) -> None:
        """Brings a service of the domain out to ROS 2: nodes of ROS 2 call it.

        ROS 2 knows no failed call: if the server dies or does not answer, the reply is one whose
        fields are zero, its ``success`` False, and its ``message`` says why, if it has such fields.
        """
        self._take("service", ros)
        name = name or outlive_name(ros)
        request, reply = Type(service_class.Request), Type(service_class.Response)
        client = _outlive.Client(
            name,
            self.domain.with_attributes({TYPE: _service_name(service_class)}),
            request=request.payload,
            reply=reply.payload,
        )

        def answer(asked: Any, empty: Any) -> Any:
            try:
                data = request.from_wire(serialize_message(asked))
                answered = client.begin(data, timeout).result(timeout)
                reply.check(answered)
                return reply.message(answered)
            except ServerDied as error:
                why = f"the server of {name} died; it {'had' if error.begun else 'had not'} begun the call"
            except (OutliveError, BadMessage) as error:
                why = f"{name}: {error}"
            self.say(f"service out {name} -> {ros}: {why}")
            if hasattr(empty, "message") and isinstance(empty.message, str):
                empty.message = why
            return empty

        self.node.create_service(service_class, ros, answer, callback_group=self._group)

    def _start(self, thread: threading.Thread) -> None:
        self._threads.append(thread)
        thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the bridge is closed, or the time is over."""
        return self._ending.wait(timeout)

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    def close(self) -> None:
        """Ends what it carries; ROS 2 is told at once."""
        if self._ending.is_set():
            return
        self._ending.set()
        for thread in (*self._threads, self._spinner):
            thread.join(5.0)
        for topic in self._incoming.values():
            topic.close()
        self._executor.shutdown(timeout_sec=1.0)
        self.node.destroy_node()
        self._context.try_shutdown()
        self._as_node.close()

    def __enter__(self) -> Bridge:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.close()


def _service_name(service_class: Any) -> str:
    module = service_class.__module__.split(".")
    return f"{module[0]}/{module[1]}/{service_class.__name__}"


class _Incoming:
    """A topic of ROS 2 that comes into the domain."""

    def __init__(self, bridge: Bridge, ros: str, name: str, of: Type, qos: Any, options: dict[str, Any]) -> None:
        self.bridge, self.ros, self.name, self.type = bridge, ros, name, of
        self._topic = of.topic(name, bridge.domain, **(for_topic(qos) | options))
        self._options = {"max_blocking": _MAX_BLOCKING} | for_publisher(qos)
        self._lock = threading.Lock()
        self._publisher: _outlive.Publisher | None = None
        self._matched = self._alive = 0
        self._subscription = bridge.node.create_subscription(
            of.message_class,
            ros,
            self._receive,
            qos,
            raw=True,
            event_callbacks=SubscriptionEventCallbacks(
                matched=lambda event: self._count(matched=event.current_count),
                liveliness=lambda event: self._count(alive=event.alive_count),
                use_default_callbacks=False,
            ),
        )

    def _count(self, matched: int | None = None, alive: int | None = None) -> None:
        """ROS 2 tells how many publishers there are, and how many of these kept their lease."""
        with self._lock:
            self._matched = self._matched if matched is None else matched
            self._alive = self._alive if alive is None else alive
            there = self._matched > 0 and (self._alive > 0 or alive is None)
            if there and self._publisher is None:
                self._open()
            elif not there and self._publisher is not None:
                self._publisher.close()
                self._publisher = None
                self.bridge.say(f"in {self.ros} -> {self.name}: its last publisher is gone")

    def _open(self) -> _outlive.Publisher:
        if self._publisher is None:
            self._publisher = self._topic.publisher(**self._options)
            self.bridge.say(f"in {self.ros} -> {self.name}: {self.type.name}")
        return self._publisher

    def _receive(self, data: bytes) -> None:
        try:
            body = self.type.from_wire(data)
            self.type.check(body)
            with self._lock:
                # A message may be there before the news that its publisher is.
                publisher = self._open()
                publisher.publish(body)
        except (OutliveError, BadMessage) as error:
            self.bridge.refuse(f"in {self.ros}: {error}")

    def close(self) -> None:
        with self._lock:
            if self._publisher is not None:
                self._publisher.close()
                self._publisher = None


class _Outgoing(threading.Thread):
    """A topic of the domain that goes out to ROS 2 while it has publishers."""

    def __init__(self, bridge: Bridge, ros: str, name: str, of: Type, qos: Any, options: dict[str, Any]) -> None:
        super().__init__(name=f"out {name}", daemon=True)
        self.bridge, self.ros, self.outlive, self.type, self._qos = bridge, ros, name, of, qos
        self._topic = of.topic(name, bridge.domain, **(for_topic(qos) | options))
        wanted = for_subscriber(qos)
        # With a lease it is told of a publisher's death, which it could not tell from a leave.
        wanted.setdefault("liveliness", _LEASE)
        # A deadline's own telling is ROS 2's.
        wanted.pop("period", None)
        self._subscriber = self._topic.subscriber(**wanted)
        self._publisher: Any = None
        self._died = 0

    def run(self) -> None:
        while not self.bridge.is_ending:
            try:
                self._send(self._subscriber.recv(timeout=_SLICE))
            except Timeout:
                self._look()
            except TooMany:
                time.sleep(0.01)
            except PublisherDied as error:
                self._died = error.pid
            except (NotLively, Lively):
                pass
            except OutliveError as error:
                self.bridge.refuse(f"out {self.outlive}: {error}")
        self._subscriber.close()

    def _look(self) -> None:
        """Takes its publication out of ROS 2 when the domain has no publishers any more."""
        there = not self.bridge.bridges().issuperset(self._topic.publishers())
        if there:
            self._open()
        elif self._publisher is not None:
            self.bridge.node.destroy_publisher(self._publisher)
            self._publisher = None
            why = f"its publisher, process {self._died}, died" if self._died else "its publisher left"
            self.bridge.say(f"out {self.outlive} -> {self.ros}: {why}")
            self._died = 0

    def _open(self) -> Any:
        if self._publisher is None:
            self._publisher = self.bridge.node.create_publisher(
                self.type.message_class,
                self.ros,
                self._qos,
                event_callbacks=PublisherEventCallbacks(use_default_callbacks=False),
            )
            self.bridge.say(f"out {self.outlive} -> {self.ros}: {self.type.name}")
        return self._publisher

    def _send(self, sample: _outlive.Sample) -> None:
        with sample:
            token = sample.publisher
            node = None if token is None else self.bridge.domain.node_of(token)
            if node is not None and node.name == NODE:
                # It has come from ROS 2.
                return
            try:
                self.type.check(sample)
            except BadMessage as error:
                self.bridge.refuse(f"out {self.outlive}: {error}")
                return
            self._open().publish(self.type.to_wire(sample))


class _ServiceIn(threading.Thread):
    """A service of ROS 2 that comes into the domain."""

    def __init__(self, bridge: Bridge, ros: str, name: str, service_class: Any, timeout: float) -> None:
        super().__init__(name=f"service in {ros}", daemon=True)
        self.bridge, self.ros, self.timeout = bridge, ros, timeout
        self._class = service_class
        self._request, self._reply = Type(service_class.Request), Type(service_class.Response)
        self._client = bridge.node.create_client(service_class, ros, callback_group=bridge._group)
        self._server = _outlive.Server(
            name,
            bridge.domain.with_attributes({TYPE: _service_name(service_class)}),
            request=self._request.payload,
            reply=self._reply.payload,
        )

    def run(self) -> None:
        with self._server, ThreadPoolExecutor(16, f"call {self.ros}") as calls:
            while not self.bridge.is_ending:
                try:
                    calls.submit(self._answer, self._server.next(timeout=_SLICE))
                except Timeout:
                    pass
                except OutliveError as error:
                    self.bridge.refuse(f"service in {self.ros}: {error}")
                    break

    def _answer(self, request: _outlive.Request) -> None:
        try:
            why = self._forward(request)
            if why is not None:
                request.fail(why)
        except OutliveError:
            # The client has died, or cancelled.
            pass

    def _forward(self, request: _outlive.Request) -> str | None:
        try:
            self._request.check(request)
        except BadMessage as error:
            return f"the request is none of {self._request.name}: {error}"
        # A server that is being discovered is there a moment later.
        if not self._client.wait_for_service(timeout_sec=min(1.0, self.timeout)):
            return f"ROS 2 has no server of {self.ros}"
        asked = deserialize_message(self._request.to_wire(request), self._class.Request)
        future, done = self._client.call_async(asked), threading.Event()
        future.add_done_callback(lambda _: done.set())
        until = time.monotonic() + self.timeout
        while not done.wait(_SLICE):
            if request.cancelled or self.bridge.is_ending:
                why: str | None = "the call was cancelled"
            elif not self._client.service_is_ready():
                why = f"the server of {self.ros} died, or left, before it answered"
            elif time.monotonic() >= until:
                why = f"the server of {self.ros} did not answer within {self.timeout} s"
            else:
                continue
            self._client.remove_pending_request(future)
            return why
        request.reply(self._reply.from_wire(serialize_message(future.result())))
        return None


__all__ = ["NODE", "Bridge", "outlive_name"]
