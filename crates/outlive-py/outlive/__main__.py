"""``python -m outlive`` runs the program ``outlive``, with the same arguments.

The wheels contain the program, and pip puts it beside its other programs. An installation from the
sources has none of its own: then it is looked for in ``$PATH``, where Debian's package ``outlive``
puts it.
"""

import os
import shutil
import sys
import sysconfig


def _program() -> str | None:
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    for folder in folders:
        path = os.path.join(folder, "outlive")
        if os.access(path, os.X_OK):
            return path
    return shutil.which("outlive")


def main() -> None:
    """Become the program; exit with 127 if it is nowhere, as a shell does."""
    program = _program()
    if program is None:
        print("python -m outlive: there is no program 'outlive' here; 'cargo install outlive-cli' gets it", file=sys.stderr)
        raise SystemExit(127)
    os.execv(program, ["outlive", *sys.argv[1:]])


if __name__ == "__main__":
    main()
