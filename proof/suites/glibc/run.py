"""Runs glibc's own tests of mutexes, condition variables and reader-writer locks, unmodified, under
the pthread shim.

    python3 run.py --shim LIBRARY --work FOLDER [--without FILE] [--only TEXT] [--offline]

The tests are those of the C library's source package of this Debian; `apt-get source` gets it, into
FOLDER. Each is compiled outside glibc's tree, with shared.h in front, and runs in a domain of its
own. Says for each, on a line: ``passed NAME``, ``failed NAME: why``, or ``skipped NAME: why`` where
it asks for glibc's internal headers.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import source_package  # noqa: E402: from the folder of all suites
WANTED = re.compile(r"tst-(mutex|cond|rwlock|robust|cleanup)[a-z0-9-]*\.c")
# Variants for static programs, for 32 bits, and of attributes, which are libc's.
UNWANTED = re.compile(r"static|time64|attr|aux")
MEMBERS = ["nptl/tst-*", "sysdeps/pthread/tst-*", "support/*", "test-skeleton.c", "include/intprops.h", "include/array_length.h"]
LONGEST = 60


def compile_command(source: pathlib.Path, work: pathlib.Path) -> list[str]:
    # Some of it includes glibc's config.h, of which it needs nothing.
    (work / "include").mkdir(exist_ok=True)
    (work / "include/config.h").touch()
    for header in ["intprops.h", "array_length.h"]:
        shutil.copy(source / "include" / header, work / "include" / header)
    folders = [work / "include", source, source / "support", source / "nptl", source / "sysdeps/pthread"]
    return ["cc", "-O1", "-w", "-std=gnu11", "-DTIMEOUTFACTOR=1", "-pthread", *(f"-I{folder}" for folder in folders)]


def build_support(source: pathlib.Path, work: pathlib.Path, pool: ThreadPoolExecutor) -> pathlib.Path:
    """Compiles what of glibc's test support can be compiled outside its tree."""
    library = work / "libsupport.a"
    if library.exists():
        return library
    objects = work / "support"
    objects.mkdir(exist_ok=True)
    compiler = compile_command(source, work)

    def one(file: pathlib.Path) -> pathlib.Path | None:
        to = objects / f"{file.stem}.o"
        command = [*compiler, "-include", HERE / "support.h", "-c", file, "-o", to]
        done = subprocess.run(command, capture_output=True, check=False)
        return to if done.returncode == 0 else None

    # Programs, and tests of the support itself.
    text = {file: file.read_text(errors="replace") for file in sorted((source / "support").glob("*.c"))}
    programs = re.compile(r"^(int )?main \(|^# *include <support/test-driver.c>|do_test", re.MULTILINE)
    files = [file for file in text if not programs.search(text[file]) and file.name != "support_paths.c"]
    made = [made for made in pool.map(one, [*files, HERE / "support_paths.c"]) if made]
    subprocess.run(["ar", "rcs", library, *made], check=True)
    return library


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--shim", required=True, type=pathlib.Path)
    arguments.add_argument("--work", required=True, type=pathlib.Path)
    arguments.add_argument("--without", type=pathlib.Path)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--offline", action="store_true")
    asked = arguments.parse_args()
    if not shutil.which("cc"):
        source_package.not_here("there is no cc")
    work = asked.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    without = set(asked.without.read_text().split()) if asked.without else set()
    source = source_package.get("glibc", "glibc-*", MEMBERS, work, asked.offline)
    # The tests sleep more than they compute.
    pool = ThreadPoolExecutor(max_workers=4)
    library = build_support(source, work, pool)
    compiler = compile_command(source, work)
    (work / "tests").mkdir(exist_ok=True)
    found = {file.stem: file for folder in ["sysdeps/pthread", "nptl"] for file in (source / folder).glob("tst-*.c")}
    names = [name for name, file in found.items() if WANTED.fullmatch(file.name) and not UNWANTED.search(name)]

    def one(name: str) -> str:
        program = work / "tests" / name
        command = [*compiler, "-include", HERE / "shared.h", found[name], "-o", program, library, "-lrt", "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = next((line for line in done.stderr.splitlines() if "error" in line or "undefined" in line), "")
            return f"skipped {name}: does not compile outside glibc's tree ({why.rsplit(': ', 2)[-2:]})"
        domain = f"/dev/shm/outlive-suite-{os.getpid()}-{name}"
        environment = dict(os.environ, LD_PRELOAD=str(asked.shim), OUTLIVE_DOMAIN=domain, OUTLIVE_PTHREAD_LOG=os.devnull)
        try:
            # glibc's driver kills the test after 20 s; it leads a group of its own.
            done = subprocess.run([program], env=environment, capture_output=True, text=True, errors="replace", timeout=LONGEST, check=False)
            code, said = done.returncode, (done.stdout + done.stderr).strip()
        except subprocess.TimeoutExpired:
            code, said = -1, f"it takes longer than {LONGEST} s"
        shutil.rmtree(domain, ignore_errors=True)
        last = said.splitlines()[-1] if said else ""
        if code == 77:
            return f"skipped {name}: {last}"
        return f"passed {name}" if code == 0 else f"failed {name}: ends with {code}: {last}"

    wanted = sorted(name for name in names if name not in without and asked.only in name)
    for line in pool.map(one, wanted):
        print(line, flush=True)


if __name__ == "__main__":
    main()
