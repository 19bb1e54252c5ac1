"""``outlive ros1 bridge``: topics and services between a domain and ROS 1, by an allow list.

One thread looks at the master and at the domain twice a second, and opens and closes what the rules
name. Each connection and each topic that goes out has a thread of its own. ``_topics`` and
``_services`` have the tables of states; doc/protocols/ros.md says who repairs what after a death.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from .. import _outlive
from ..errors import BadName as _BadName
from ..errors import NotFound, OutliveError, Taken
from . import _rules
from ._rules import Rule, Rules

#: How often the bridge looks at the master and the domain.
_PERIOD = 0.5
#: After so many looks a publisher without a connection is tried again.
_TRY_AGAIN = 10
#: The name by which bridges know each other in a domain.
NODE = "outlive-ros1-bridge"

#: The program's exit codes, as `outlive help exit-codes` has them.
_USAGE, _NOT_FOUND, _BUSY, _SYSTEM, _BAD_INPUT = 2, 6, 12, 15, 16

_EPILOG = """\
A rule is PATTERN[=NAME][:TYPE]. PATTERN is of ROS's names: '*' is one part of a name, '**' one or
several. NAME is the name in Outlive, with {1} for what the first star matched; without NAME,
'/a/b' is 'a.b'. TYPE is the type of ROS of what goes out, where the topic or service does not say.

  outlive ros1 bridge --in '/camera/*=camera.{1}' --out '/cmd_vel=drive.cmd:geometry_msgs/Twist'
"""


class Bridge:
    """Carries what the rules name between a domain and the graph of a master."""

    def __init__(self, domain: _outlive.Domain, node: str, topics: Rules, services: Rules, max_message: int) -> None:
        self.domain, self.node_name = domain, node
        self.topics, self.services, self.max_message = topics, services, max_message
        self.stop = threading.Event()
        self._told: set[str] = set()
        self._saying = threading.Lock()
        self._bridges: dict[int, bool] = {}
        #: Where ROS servers listen.
        self.where: dict[str, tuple[str, int]] = {}
        #: Messages that came too fast, by topic.
        self.losses: dict[str, int] = {}
        place = os.stat(domain.path)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        #: Tells this domain from others on all machines.
        self.origin = f"{boot}-{place.st_dev:x}-{place.st_ino:x}"

    @property
    def is_ending(self) -> bool:
        return self.stop.is_set()

    def say(self, line: str) -> None:
        with self._saying:
            print(line, flush=True)

    def refuse(self, line: str) -> None:
        """Says once what is not carried, and why."""
        with self._saying:
            if line not in self._told and len(self._told) < 10_000:
                self._told.add(line)
                print(f"refused: {line}", flush=True)

    def is_bridge(self, token: int) -> bool:
        """Whether a process is a bridge to ROS 1: what it publishes has come from there."""
        known = self._bridges.get(token)
        if known is None:
            if len(self._bridges) > 10_000:
                self._bridges.clear()
            node = self.domain.node_of(token)
            known = self._bridges[token] = node is not None and node.name == NODE
        return known

    def how_ended(self, topic: str, node: str) -> str:
        """Says how a node's connection came to its end: a node that died is still registered."""
        from . import _node

        master = _node.Master(self.master.uri)
        try:
            if node not in master.look().publishers.get(topic, []):
                return "left"
            return "left" if _node.answers(master.call("lookupNode", node)) else "died"
        except (_node.MasterGone, LookupError):
            return "left or died; the master cannot be reached"

    def run(self) -> int:
        """Carries until it is told to end; returns the exit code."""
        from . import _node

        lock = _outlive.Lock(f"ros1.bridge.{self.node_name}", self.domain)
        if not lock.acquire(timeout=0.0):
            self.say(f"stands by: process {lock.holder_pid} is the bridge of this name")
            while not lock.acquire(timeout=_PERIOD):
                if self.is_ending:
                    return 0
        if lock.owner_died:
            # The graph has the dead bridge's registrations until this one's name replaces them.
            lock.mark_consistent()
            self.say("the bridge before this one died")
        import rosgraph
        import rospy

        self.master = _node.Master(rosgraph.get_master_uri())
        rospy.names._set_caller_id(f"/{self.node_name}")
        told = False
        while True:
            try:
                self._run = self.master.look().run
                break
            except _node.MasterGone as error:
                if not told:
                    self.say(f"waits for the master: {error}")
                    told = True
                if self.stop.wait(_PERIOD):
                    return 0
        _node.start(self.node_name)
        with self.domain.node(NODE, attributes={"ros1.node": rospy.get_name(), "ros1.master": self.master.uri}):
            self.say(f"bridge {rospy.get_name()} of {self.domain.path} at {self.master.uri}")
            return self._carry()

    def _carry(self) -> int:
        import rospy

        from . import _node, _services, _topics

        self._in: dict[str, _topics.Incoming] = {}
        self._out: dict[str, _topics.Outgoing] = {}
        self._service_in: dict[str, _services.ServiceIn] = {}
        self._service_out: dict[str, _services.ServiceOut] = {}
        is_there, looks = True, 0
        while not self.stop.wait(_PERIOD if looks else 0):
            if rospy.is_shutdown():
                self.say(f"another node named {rospy.get_name()} has taken this one's place")
                return _BUSY
            looks += 1
            try:
                graph = self.master.look()
                is_new = not graph.is_of(self._run)
                self._run = graph.run
                if not is_there or is_new:
                    is_there = True
                    if is_new:
                        topics, services = self.master.register_again()
                        self.say(f"master started anew: {topics} topics and {services} services registered again")
                        graph = self.master.look()
                    else:
                        self.say("master is back")
                self._look_at_topics(graph, looks)
                self._look_at_services(graph)
                self._look_at_domain(graph)
            except _node.MasterGone as error:
                # Connections go on without it; what is new waits.
                if is_there:
                    is_there = False
                    self.say(f"master is gone: {error}")
            except LookupError as error:
                self.refuse(str(error))
            for name, lost in list(self.losses.items()):
                del self.losses[name]
                self.say(f"out {name}: {lost} messages were too fast and are lost")
        for end in (*self._service_in.values(), *self._out.values()):
            end.join(2.0)
        return 0

    def _look_at_topics(self, graph: Any, looks: int) -> None:
        from . import _topics

        own = f"/{self.node_name}"
        for ros, nodes in graph.publishers.items():
            others = [node for node in nodes if node != own]
            if ros not in self._in and others:
                try:
                    found = self.topics.coming_in(ros)
                except ValueError as error:
                    self.refuse(f"in {ros}: {error}")
                    continue
                if found is not None:
                    self._in[ros] = _topics.Incoming(self, ros, *found)
            elif ros in self._in and looks % _TRY_AGAIN == 0:
                if set(others) - self._in[ros].nodes - self._in[ros].passed:
                    self.master.connect_again(ros)
        for ros, topic in list(self._in.items()):
            if not topic.nodes and not [node for node in graph.publishers.get(ros, []) if node != own]:
                topic.close()
                del self._in[ros]

    def _look_at_services(self, graph: Any) -> None:
        from . import _node, _services

        own = f"/{self.node_name}"
        for ros, nodes in graph.services.items():
            if own in nodes or ros in self._service_in:
                continue
            try:
                found = self.services.coming_in(ros)
                if found is None:
                    continue
                header = _services.asked(self, ros)
                if header.get(_node.ORIGIN) == self.origin:
                    continue
                of = _services.ServiceType(header["type"], header["md5sum"])
                self._service_in[ros] = _services.ServiceIn(self, ros, *found, nodes[0], of)
            except _services.NoAnswer:
                # The master knows servers that are dead.
                continue
            except (OutliveError, ValueError, LookupError) as error:
                self.refuse(f"service in {ros}: {error}")
        for ros, service in list(self._service_in.items()):
            try:
                if service.node not in graph.services.get(ros, []):
                    service.end("left")
                elif _services.asked(self, ros).get("md5sum") == service.type.md5sum:
                    continue
                else:
                    service.end("has another type now")
            except _services.NoAnswer:
                service.end("died")
            service.join(1.0)
            del self._service_in[ros]

    def _look_at_domain(self, graph: Any) -> None:
        from . import _services, _topics

        names = self.domain.names()
        bridges = {node.pid for node in self.domain.nodes() if node.name == NODE}
        for name, kind in names.items():
            try:
                if kind == "topic" and name not in self._out:
                    found = self.topics.going_out(name)
                    if found is None or not _topics.publishers_of(self, name, bridges):
                        continue
                    of = _topics.type_for(self, name, found[1])
                    if of is None:
                        self.refuse(f"out {name}: nothing names its type of ROS; a rule may: '{found[0]}={name}:TYPE'")
                        continue
                    self._out[name] = _topics.Outgoing(self, found[0], name, found[1], of)
                elif kind == "service" and name not in self._service_out:
                    if any(one.outlive == name for one in self._service_in.values()):
                        continue
                    found = self.services.going_out(name)
                    if found is None:
                        continue
                    if graph.services.get(found[0]):
                        self.refuse(f"service out {name}: {graph.services[found[0]][0]} serves {found[0]}")
                        continue
                    kind_of = _services.service_type(self, name, found[1])
                    if kind_of is None:
                        self.refuse(f"service out {name}: nothing names its type of ROS; a rule may")
                        continue
                    self._service_out[name] = _services.ServiceOut(self, found[0], name, found[1], kind_of)
            except NotFound:
                continue
            except (OutliveError, ValueError, LookupError) as error:
                self.refuse(f"out {name}: {error}")
        for name, topic in list(self._out.items()):
            if not topic.is_alive():
                del self._out[name]
            elif not topic.has_publishers(bridges):
                topic.end()
        for name, service in list(self._service_out.items()):
            if name not in names:
                service.end("the service is gone from the domain")
                del self._service_out[name]


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="outlive ros1 bridge",
        description="Carries topics and services between a domain and ROS 1. Nothing passes that no rule names.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option, what in (
        ("--topic", "topics, both ways"),
        ("--in", "topics that come in from ROS"),
        ("--out", "topics that go out to ROS"),
        ("--service", "services, both ways"),
        ("--service-in", "services that ROS nodes serve"),
        ("--service-out", "services that processes of the domain serve"),
    ):
        parser.add_argument(option, metavar="RULE", action="append", default=[], help=what)
    parser.add_argument("--config", metavar="FILE", help="rules from a TOML file: [[topic]], [[service]]")
    parser.add_argument("-d", "--domain", metavar="NAME|PATH", help="the domain; default: $OUTLIVE_DOMAIN, or 'default'")
    parser.add_argument("--name", default="outlive_bridge", help="the node's name in ROS (default: %(default)s)")
    parser.add_argument(
        "--max-message", type=int, metavar="BYTES", default=256 << 20, help="larger ones are refused (default: 256 MiB)"
    )
    return parser


def _rules_of(options: argparse.Namespace) -> tuple[Rules, Rules]:
    given = vars(options)
    topics: list[Rule] = []
    services: list[Rule] = []
    for key, rules, direction in (
        ("topic", topics, "both"),
        ("in", topics, "in"),
        ("out", topics, "out"),
        ("service", services, "both"),
        ("service_in", services, "in"),
        ("service_out", services, "out"),
    ):
        rules += [_rules.given(text, direction) for text in given[key]]
    if options.config:
        of_topics, of_services = _rules.read(options.config)
        topics += of_topics
        services += of_services
    if not topics and not services:
        raise _rules.BadRule("no rule names what may pass: --in, --out, --topic, --service or --config does")
    return Rules(topics), Rules(services)


def main(arguments: list[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    parser = _arguments()
    options = parser.parse_args(arguments)
    try:
        topics, services = _rules_of(options)
    except (_rules.BadRule, OSError) as error:
        parser.print_usage(sys.stderr)
        print(f"error: {error}", file=sys.stderr)
        return _BAD_INPUT if options.config else _USAGE
    try:
        import rospy  # noqa: F401
    except ImportError as error:
        print(
            f"error: {error}. The bridge needs ROS 1's rospy and numpy, of the system's own Python: on Debian"
            " 'apt-get install python3-rospy python3-numpy', and run it by /usr/bin/python3 -m outlive.ros1.bridge",
            file=sys.stderr,
        )
        return _NOT_FOUND
    try:
        bridge = Bridge(_outlive.Domain(options.domain), options.name, topics, services, options.max_message)
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda *_: bridge.stop.set())
        code = bridge.run()
    except Taken as error:
        print(f"error: {error}", file=sys.stderr)
        return _BUSY
    except (_BadName, OutliveError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _SYSTEM
    return code


def program() -> None:
    """The console script ``outlive-ros1-bridge``."""
    code = main()
    rospy = sys.modules.get("rospy")
    if rospy is not None and rospy.core.is_initialized():
        # Unregisters; rospy's own threads would keep the process.
        rospy.signal_shutdown("the bridge ends")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    program()
