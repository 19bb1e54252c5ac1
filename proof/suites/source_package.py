"""The source packages of this Debian, for suites whose tests are in no package that is installed."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys


def not_here(why: str) -> None:
    print(f"not here: {why}")
    sys.exit(0)


def get(package: str, folder: str, members: list[str], work: pathlib.Path, offline: bool) -> pathlib.Path:
    """Returns the folder in `work` with these members of the source package. `folder` is the name of
    the archive's own folder, with `*` for a version; the first member must be there."""

    def found() -> pathlib.Path | None:
        there = sorted(work.glob(f"{folder}/{members[0]}"))
        if not there:
            return None
        return next(parent for parent in there[-1].parents if parent.parent == work)

    if there := found():
        return there
    if offline:
        not_here(f"the source package {package} is not there, and may not be fetched")
    if not shutil.which("apt-get"):
        not_here(f"there is no apt-get, which gets the source package {package}")
    # The repositories that this machine has, with their sources: in lists of our own, so that the
    # machine's stay as they are.
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    known = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    sources = set()
    for line in known:
        uri, release, component = line.split(" ")
        sources.add(f"deb-src {uri} {release} {component}\n")
    (work / "lists/partial").mkdir(parents=True, exist_ok=True)
    (work / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    (work / "sources.list").write_text("".join(sorted(sources)))
    options = [
        f"Dir::Etc::sourcelist={work}/sources.list",
        "Dir::Etc::sourceparts=-",
        f"Dir::State::lists={work}/lists",
        f"Dir::Cache={work}/cache",
    ]
    apt = ["apt-get", "-qq"] + [word for option in options for word in ("-o", option)]
    quiet = {"cwd": work, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
    # A repository without sources is an error of the first, and no reason to give up.
    subprocess.run(apt + ["update"], timeout=300, **quiet)
    subprocess.run(apt + ["source", "--download-only", package], timeout=300, **quiet)
    archives = [archive for archive in sorted(work.glob(f"{package}_*.orig.tar.*")) if archive.suffix != ".asc"]
    if not archives:
        not_here(f"the source package {package} could not be had")
    wanted = [f"{folder}/{member}" for member in members]
    subprocess.run(["tar", "xf", archives[-1], "--wildcards", *wanted], **quiet)
    there = found()
    if there is None:
        not_here(f"the source package {package} has no tests where they were looked for")
    return there
