"""Runs Boost.Interprocess's own tests of its mutexes, condition variables, semaphores and sharable
mutexes, unmodified, over Outlive's.

    python3 run.py --installed PREFIX --work FOLDER [--without FILE] [--only TEXT] [--offline]

The tests are those of Boost's source package of this Debian; `apt-get source` gets it, into FOLDER.
The folder `include` has headers of Boost's names with Outlive's objects, and goes before Boost's
own. Each test is a program, and runs in a domain of its own. Says for each, on a line:
``passed NAME``, or ``failed NAME: why``.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import source_package  # noqa: E402: from the folder of all suites

PACKAGE = "boost1.81"
TESTS = [
    "mutex_test",
    "named_mutex_test",
    "recursive_mutex_test",
    "named_recursive_mutex_test",
    "sharable_mutex_test",
    "named_sharable_mutex_test",
    "upgradable_mutex_test",
    "named_upgradable_mutex_test",
    "condition_test",
    "named_condition_test",
    "condition_any_test",
    "named_condition_any_test",
    "semaphore_test",
    "named_semaphore_test",
]
# What the tests include.
LIBRARIES = """assert chrono config container core date_time integer interprocess intrusive move mpl
    numeric/conversion predef preprocessor ratio smart_ptr static_assert system throw_exception
    type_traits utility""".split()
MEMBERS = ["libs/interprocess/test/*"] + [f"libs/{library}/include/*" for library in LIBRARIES]
LONGEST = 240


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--installed", required=True, type=pathlib.Path)
    arguments.add_argument("--work", required=True, type=pathlib.Path)
    arguments.add_argument("--without", type=pathlib.Path)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--offline", action="store_true")
    asked = arguments.parse_args()
    if not shutil.which("g++"):
        source_package.not_here("there is no g++")
    work = asked.work.absolute()
    (work / "tests").mkdir(parents=True, exist_ok=True)
    without = set(asked.without.read_text().split()) if asked.without else set()
    source = source_package.get(PACKAGE, "boost", MEMBERS, work, asked.offline)
    folders = [HERE / "include", asked.installed / "include"]
    folders += [source / "libs" / library / "include" for library in LIBRARIES]
    compiler = ["g++", "-std=c++20", "-O1", "-w", "-pthread", *(f"-I{folder}" for folder in folders)]
    libraries = [f"-L{asked.installed}/lib", f"-Wl,-rpath,{asked.installed}/lib", "-loutlive"]

    def one(name: str) -> str:
        program = work / "tests" / name
        test = source / "libs/interprocess/test" / f"{name}.cpp"
        done = subprocess.run([*compiler, test, "-o", program, *libraries], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = next((line for line in done.stderr.splitlines() if "error" in line or "undefined" in line), "")
            return f"failed {name}: does not compile: {why}"
        domain = f"/dev/shm/outlive-suite-{os.getpid()}-{name}"
        environment = dict(os.environ, OUTLIVE_DOMAIN=domain)
        try:
            done = subprocess.run([program], env=environment, capture_output=True, text=True, errors="replace", timeout=LONGEST, check=False)
            code, said = done.returncode, (done.stdout + done.stderr).strip()
        except subprocess.TimeoutExpired as late:
            code, said = -1, f"{(late.stdout or b'').decode(errors='replace')}\nit takes longer than {LONGEST} s"
        shutil.rmtree(domain, ignore_errors=True)
        return f"passed {name}" if code == 0 else f"failed {name}: ends with {code}: {' / '.join(said.splitlines()[-3:])}"

    # The programs sleep, more than they compute.
    pool = ThreadPoolExecutor(max_workers=4)
    for line in pool.map(one, (name for name in TESTS if name not in without and asked.only in name)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
