"""The camera: twenty pictures a second, on the topic ``picture``.

    python camera.py [FOLDER]         the files camera_*.jpg of that folder; without it, a bar that moves
"""

from __future__ import annotations

import itertools
import struct
import sys
import time
import zlib
from pathlib import Path

from messages import PICTURE, header, note, source, topic


def drawn(shift: int, width: int = 320, height: int = 180) -> bytes:
    """Returns a PNG of a bright bar on a dark ground."""
    row = bytes(200 if 0 <= x - shift < 24 else 40 for x in range(width))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + row) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


files = sorted(Path(sys.argv[1]).glob("camera_*.jpg")) if len(sys.argv) > 1 else []
pictures = [file.read_bytes() for file in files] or [drawn(shift) for shift in range(0, 296, 8)]
kind = "jpeg" if files else "png"

publisher = topic("picture").publisher()
for number in itertools.count():
    picture = pictures[number % len(pictures)]
    PICTURE.publish(publisher, {"header": header(number), "format": kind, "data": picture})
    note("published", "picture", source(), number)
    time.sleep(0.05)
