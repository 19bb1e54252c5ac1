"""Reads one message of the topic `numbers`; exits with 0 if it is the one that the test publishes."""

import asyncio
import json
import struct
import sys

import websockets


async def main() -> None:
    uri = f"ws://127.0.0.1:{sys.argv[1]}"
    async with websockets.connect(uri, subprotocols=["foxglove.sdk.v1"]) as socket:
        assert json.loads(await socket.recv())["op"] == "serverInfo"
        while True:
            message = await socket.recv()
            if isinstance(message, bytes):
                kind, subscription, time = struct.unpack_from("<BIQ", message)
                assert (kind, subscription) == (1, 7) and time > 0
                assert json.loads(message[13:]) == {"value": [1, -2, 3]}
                return
            for channel in json.loads(message).get("channels", []):
                if channel["topic"] == "numbers":
                    wanted = {"op": "subscribe", "subscriptions": [{"id": 7, "channelId": channel["id"]}]}
                    await socket.send(json.dumps(wanted))


asyncio.run(asyncio.wait_for(main(), 50))
