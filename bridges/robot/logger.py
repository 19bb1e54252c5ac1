"""The logger: writes each line of the queue ``log`` to a file.

    python logger.py FILE

It takes a line off the queue when the line is in the file. A logger that is killed in between leaves the
line to its successor, which marks it: the file can have a line twice, and none is missing.
"""

from __future__ import annotations

import sys
import time

import outlive
from messages import log

queue = log()
with open(sys.argv[1], "ab", buffering=0) as file:
    while True:
        try:
            with queue.peek() as line:  # committed when the block ends
                file.write(line.data + (b" (again)\n" if line.redelivered else b"\n"))
        except outlive.Taken:  # the logger before this one has not quite ended
            time.sleep(0.01)
