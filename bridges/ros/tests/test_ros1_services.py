"""Services of ROS 1, in and out of a domain, while servers and bridge are killed."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("rospy", reason="python3-rospy is not there")

import outlive
from outlive import ros1

from conftest import World, wait_for

SERVER = """
from std_srvs.srv import *
rospy.init_node("server")
def answer(request):
    say("asked", request.data)
    time.sleep({sleep})
    return SetBoolResponse(not request.data, "was %s" % request.data)
service = rospy.Service("/arm/enable", SetBool, answer)
say("serving")
rospy.spin()
"""

#: A request of std_srvs/SetBool, and its reply.
REQUEST = ros1.Type("std_srvs/SetBoolRequest", "bool data")
REPLY = ros1.Type("std_srvs/SetBoolResponse", "bool success\nstring message")


def client_of(world: World, name: str) -> outlive.Client:
    def opened() -> outlive.Client | None:
        try:
            return outlive.Client.open(name, domain=world.domain)
        except outlive.NotFound:
            return None

    return wait_for(opened)


def test_a_ros_server_is_called_from_the_domain(graph: World) -> None:
    bridge = graph.bridge("--service-in", "/arm/*=arm.{1}")
    graph.node(SERVER.format(sleep=0)).until("serving")
    bridge.until("service in /arm/enable -> arm.enable: /server serves std_srvs/SetBool")
    with client_of(graph, "arm.enable") as client:
        assert outlive.Domain(graph.domain).payload("arm.enable") is not None
        for data in (True, False):
            answer = REPLY.read(client.call(bytes(REQUEST.written({"data": data})), 10))
            assert (answer.success, answer.message) == (int(not data), f"was {data}")
        with pytest.raises(ValueError, match="of 1 bytes, not of 4"):
            client.call(b"four", 10)


def test_a_ros_server_that_dies_in_a_call_is_told_at_once(graph: World) -> None:
    bridge = graph.bridge("--service-in", "/arm/*")
    server = graph.node(SERVER.format(sleep=60))
    bridge.until("/server serves std_srvs/SetBool")
    with client_of(graph, "arm.enable") as client:
        call = client.begin(bytes(REQUEST.written({"data": True})), 20)
        server.until("asked")
        server.kill()
        begun = time.monotonic()
        with pytest.raises(outlive.ServiceError, match="died, or closed the connection, before it answered"):
            call.result(20)
        print(f"told {time.monotonic() - begun:.3f} s after the kill")
        bridge.until("/server died")

        def has_none() -> bool:
            try:
                client.call(bytes(REQUEST.written({"data": True})), 5)
            except outlive.NoServer:
                return True
            except outlive.OutliveError:
                return False
            return False

        wait_for(has_none)
        mark = len(bridge.lines)
        graph.node(SERVER.format(sleep=0))
        bridge.until("/server serves", after=mark)
        assert REPLY.read(client.call(bytes(REQUEST.written({"data": True})), 10)).message == "was True"


def test_a_ros_server_that_does_not_answer_is_given_up(graph: World) -> None:
    config = f"{graph.folder}/rules.toml"
    with open(config, "w") as file:
        file.write('[[service]]\nros = "/arm/*"\ndirection = "in"\ntimeout = 0.5\n')
    bridge = graph.bridge("--config", config)
    graph.node(SERVER.format(sleep=60)).until("serving")
    bridge.until("/server serves")
    with client_of(graph, "arm.enable") as client:
        with pytest.raises(outlive.ServiceError, match="did not answer within 0.5 s"):
            client.call(bytes(REQUEST.written({"data": True})), 20)


LOCAL = """
from outlive import ros1
request = ros1.Type("std_srvs/SetBoolRequest", "bool data")
reply = ros1.Type("std_srvs/SetBoolResponse", "bool success\\nstring message")
server = outlive.Server("gripper", folder, request=request.payload, reply=reply.payload)
print("serving", flush=True)
for one in server:
    print("asked", flush=True)
    time.sleep({sleep})
    one.reply(bytes(reply.written({{"success": True, "message": "by process %d" % os.getpid()}})))
"""


def test_rosservice_calls_a_local_server_and_is_told_of_its_death(graph: World) -> None:
    bridge = graph.bridge("--service-out", "/gripper:std_srvs/SetBool")
    server = graph.program(LOCAL.format(sleep=0))
    bridge.until("service out gripper -> /gripper: std_srvs/SetBool")
    call = graph.tool("rosservice", "call", "/gripper", "true")
    call.until(f"by process {server.process.pid}")
    assert graph.tool("rosservice", "type", "/gripper").until("std_srvs/SetBool")
    server.kill()
    slow = graph.program(LOCAL.format(sleep=60))
    slow.until("serving")
    call = graph.tool("rosservice", "call", "/gripper", "true")
    slow.until("asked")
    slow.kill()
    call.until("the server of gripper died; it had begun the call")
    call = graph.tool("rosservice", "call", "/gripper", "true")
    call.until("gripper")
    call.process.wait(20)
    assert call.process.returncode != 0


def test_a_service_both_ways_does_not_call_itself(graph: World) -> None:
    """Two bridges of one domain do not offer each other's services back to it."""
    bridge = graph.bridge("--service", "/gripper:std_srvs/SetBool")
    server = graph.program(LOCAL.format(sleep=0))
    bridge.until("service out gripper -> /gripper")
    other = graph.bridge("--service", "/gripper:std_srvs/SetBool", "--name", "second")
    other.until("refused: service out gripper: /outlive_bridge serves /gripper")
    server.kill()
    call = graph.tool("rosservice", "call", "/gripper", "true")
    call.process.wait(20)
    assert call.process.returncode != 0
    assert not any("service in" in line for line in bridge.lines + other.lines)
