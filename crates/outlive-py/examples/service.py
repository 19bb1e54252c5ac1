"""A service, and clients that are told when its server dies: whether their call was begun, or may be made again.

    python examples/service.py [DOMAIN]
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys

import outlive


def serve(domain: outlive.Domain, name: str, dies_at: int) -> None:
    """Squares numbers; killed in the middle of one."""
    for count, request in enumerate(outlive.Server(name, domain), 1):
        number = json.loads(request.data)
        if count == dies_at:
            os.kill(os.getpid(), 9)
        request.reply(json.dumps({"square": number * number}).encode())


def main() -> None:
    # DOMAIN, else what OUTLIVE_DOMAIN names, else the user's default one; no other program's name in it.
    domain = outlive.Domain(sys.argv[1] if len(sys.argv) > 1 else None)
    name = f"example-{os.getpid()}-square"
    try:
        run(domain, name)
    finally:
        # Names stay until a process removes them.
        domain.remove(name, missing_ok=True)


def run(domain: outlive.Domain, name: str) -> None:
    context = multiprocessing.get_context("spawn")
    servers = [context.Process(target=serve, args=(domain, name, dies_at), daemon=True) for dies_at in (10, 0)]
    servers[0].start()
    client = outlive.Client(name, domain, wait_for_server=True)
    repeated = 0
    for number in range(100):
        while True:
            try:
                answer = json.loads(client.call(json.dumps(number).encode(), timeout=30))
                break
            except outlive.ServerDied as died:
                # Squaring twice does no harm, so it may be made again even if it was begun.
                print(f"the server died at {number}, {'having begun' if died.begun else 'before'} the call")
                repeated += 1
                if servers[1].pid is None:
                    servers[1].start()
        assert answer == {"square": number * number}
    print(f"100 answers, {repeated} of them asked for twice")
    servers[1].kill()
    for server in servers:
        server.join()


if __name__ == "__main__":
    main()
