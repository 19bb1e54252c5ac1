"""The package's library has the probes that bpftrace and gdb watch (doc/how-to/probes.md)."""

from pathlib import Path

import outlive._outlive as library
import pytest


@pytest.mark.parametrize("probe", ["lock_wait", "owner_died", "queue_send", "topic_publish"])
def test_the_library_has_its_probes(probe):
    assert f"outlive\0{probe}\x008@".encode() in Path(library.__file__).read_bytes()
