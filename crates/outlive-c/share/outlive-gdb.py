"""What gdb can tell of Outlive's objects in a process or in a core file: (gdb) help outlive

    (gdb) source /usr/local/share/outlive/outlive-gdb.py
    (gdb) outlive locks

It reads memory and nothing else: it calls no function of the program, and needs none of Outlive's
debug information. Where a core file lacks a page of a shared file, it reads the file in the domain's
folder, if that is still the same one, and says so.

The numbers below are those of doc/memory-layout.md, for the one version that they name.
"""

import os
import re
import struct

import gdb

LAYOUT = 23
BODY = 12288
KINDS = {
    1: "registry", 2: "mutex", 3: "record", 4: "queue", 5: "rwlock", 6: "condvar", 7: "event",
    8: "once", 9: "latch", 10: "semaphore", 11: "barrier", 12: "pi mutex", 13: "ceiling mutex",
    14: "pool", 15: "topic", 17: "state", 18: "service", 19: "job queue", 20: "reentrant mutex",
    21: "notifier", 31: "lock order",
}
# Kinds that are locks, and where behind the lock's beginning its owner's id lies.
LOCKS = {2: 0, 5: 0, 12: 12, 13: 0, 20: 0}
HEADER = {"version": 8, "architecture": 12, "kind": 16, "by_kind": 192}
SLOTS, SLOT_BYTES = 16384, 128
SLOT = {"generation": 48, "tid": 52, "keeper": 60, "binding": 64, "pid": 72, "kind": 76,
        "program": 96, "waiting_since": 116, "waiting_at": 120}
RW_LOCK = {"lines": 8, "depth": 12, "readers": 64, "words": 64 * 16}
QUEUE = {"most": 12324, "receiver": 12352, "inside": 12356, "received": 12552, "abandoned": 12560,
         "regions": 12928, "region_bytes": 128, "head": 64, "count": 32}
TOPIC = {"depth": 12288, "publishers": 12316, "subscribers": 12320, "samples": 12324,
         "rings_used": 12352, "rings": 16384, "ring_bytes": 128, "session": 24, "published": 64}
# Of a topic's control file. In a subscriber's slot lie its hazard pointers, its cursors, its name.
CONTROL = {"slots_used": 12288, "spaces": 16512, "space_bytes": 64, "pointers": 32,
           "lagged": 12, "taken": 16, "lost": 24,
           "has_name": 8, "name_bytes": 64}
POOL = {"spans": 12304, "failed": 12544, "classes": 58, "table": 32768, "table_head": 1024,
        "entry": 32}
WAITERS, OWNER_DIED, ID = 1 << 31, 1 << 30, (1 << 30) - 1
SWEPT = 0x44494544
PAGE = 4096
STATES = {1: "joining", 2: "subscribed", 3: "reliable", 4: "leaving", 5: "being cleared",
          6: "reliable, lagging"}  # bits 32 to 34 of a claim


class Missing(Exception):
    """Neither the process or core file nor a file has those bytes."""


class File:
    """A file of a domain that the process has mapped."""

    def __init__(self, path):
        self.path, self.parts, self.from_disk, self.is_lost = path, [], False, None

    def read(self, offset, size):
        if self.is_lost is None:
            # gdb's own core files have zeros in place of a mapping that is longer than its file.
            header = self.header_in_memory()
            self.is_lost = header is not None and not any(header)
        for start, end, at in [] if self.is_lost else self.parts:
            if at <= offset and offset + size <= at + end - start:
                try:
                    memory = gdb.selected_inferior().read_memory(start + offset - at, size)
                    return bytes(memory)
                except gdb.MemoryError:
                    break
        return self.read_disk(offset, size)

    def read_disk(self, offset, size):
        """What the file has there, if it is still the one that was mapped."""
        try:
            with open(self.path, "rb") as file:
                header = file.read(PAGE)
                known = self.header_in_memory()
                # The flags change when the name is removed.
                if known and any(known) and known[:52] + known[56:] != header[:52] + header[56:]:
                    raise Missing(f"{self.path} is another file by now")
                file.seek(offset)
                found = file.read(size)
        except OSError as error:
            raise Missing(f"not in the core file, and {error}") from None
        if len(found) != size:
            raise Missing(f"{self.path} ends before {offset + size}")
        self.from_disk = True
        return found

    def header_in_memory(self):
        for start, _, at in self.parts:
            if at == 0:
                try:
                    return bytes(gdb.selected_inferior().read_memory(start, PAGE))
                except gdb.MemoryError:
                    return None
        return None

    def u32(self, offset):
        return struct.unpack("<I", self.read(offset, 4))[0]

    def u64(self, offset):
        return struct.unpack("<Q", self.read(offset, 8))[0]

    @property
    def kind(self):
        return self.u32(HEADER["kind"])

    def check(self):
        """Returns whether it is a file of Outlive's, and refuses one of another version."""
        try:
            if self.read(0, 8) != b"OUTLIVE\0":
                return False
            version, architecture = self.u32(HEADER["version"]), self.u32(HEADER["architecture"])
        except Missing:
            return False
        if (version, architecture) != (LAYOUT, 8 << 8):
            raise gdb.GdbError(
                f"{self.path} has memory layout {version} (architecture {architecture:#x}); this "
                f"outlive-gdb.py knows layout {LAYOUT} (0x800). Take the one of the program's version.")
        return True


def mappings():
    """The mapped files: path, start, end, offset in the file."""
    try:
        text = gdb.execute("info proc mappings", to_string=True)
    except gdb.error as error:
        raise gdb.GdbError(f"There is no process and no core file: {error}") from None
    row = re.compile(r"\s*0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+(?:[-rwxps]{4}\s+)?(/.*)")
    for line in text.splitlines():
        found = row.match(line)
        if found:
            start, end, offset = (int(number, 16) for number in found.groups()[:3])
            yield found.group(4).strip(), start, end, offset


class Domain:
    """The files of one domain that the process has mapped."""

    def __init__(self, folder, files):
        self.folder, self.files = folder, files
        self.tokens = files.get(".tokens")

    def slot(self, index):
        at = SLOTS + index * SLOT_BYTES
        return Slot(index, self.tokens.read(at, SLOT_BYTES))

    def slots(self):
        if not self.tokens.check():
            return
        index = 0
        while index < 65536:
            try:
                slot = self.slot(index)
            except Missing:
                return
            if slot.generation & 1:
                yield slot
            index += 1

    def owner(self, word):
        """Says whom a word names."""
        if word & ~WAITERS == SWEPT:
            return "a dead owner, whose name was taken out"
        if word & ID == 0:
            return None
        if not word >> 29 & 1:
            return f"damaged: {word:#x}"
        if not self.tokens.check():
            return f"token {word & ID:#x}; whose it is only the file .tokens tells, which is missing"
        try:
            slot = self.slot(word & 0xFFFF)
        except Missing:
            return f"damaged: {word:#x} names a token that does not exist"
        if not slot.is_of(word):
            return f"a dead owner (token {word & ID:#x}, given out again since)"
        return slot.describe()

    def waiters(self, file, begin, end):
        """The threads of any process that sleep in that part of a file, as far as is known."""
        found = []
        for slot in self.slots():
            where = place_of(slot.pid, slot.waiting_at) if slot.waiting_at else None
            if where and where[0] == identity(file.path) and begin <= where[1] < end and slot.is_alive():
                found.append(slot.describe())
        return found


class Slot:
    """A token."""

    def __init__(self, index, data):
        self.index, self.data = index, data
        u32 = lambda name: struct.unpack_from("<I", data, SLOT[name])[0]
        self.generation, self.tid, self.keeper = u32("generation"), u32("tid"), u32("keeper")
        self.pid, self.is_process = u32("pid"), u32("kind") & 0xFF == 2
        binding, waiting = (struct.unpack_from("<Q", data, SLOT[n])[0] for n in ("binding", "waiting_at"))
        word = binding & 0xFF
        self.word = struct.unpack_from("<I", data, word)[0] if word <= 44 else 0
        self.waiting_at = waiting & (1 << 48) - 1
        program = data[SLOT["program"]:SLOT["program"] + 16]
        self.program = program.split(b"\0")[0].decode("utf-8", "replace")

    def is_of(self, word):
        return self.generation & 1 and self.generation >> 1 & 0x1FFF == word >> 16 & 0x1FFF

    def is_alive(self):
        first = self.word & ~WAITERS
        return (first == self.tid != 0) or (self.keeper & ~WAITERS != 0 and not self.keeper & OWNER_DIED)

    @property
    def id(self):
        return 1 << 29 | (self.generation >> 1 & 0x1FFF) << 16 | self.index

    def describe(self):
        what = f"process {self.pid}" if self.is_process else f"thread {self.tid} of process {self.pid}"
        return f"{what} ({self.program}){'' if self.is_alive() else ', DEAD'}"


PLACES = {}


def place_of(pid, address):
    """Returns the file, and the offset in it, of an address in a process: in the one that gdb has, or
    in another one that lives."""
    if pid not in PLACES:
        if pid == gdb.selected_inferior().pid:
            PLACES[pid] = list(mappings())
        else:
            PLACES[pid] = []
            try:
                with open(f"/proc/{pid}/maps") as maps:
                    for line in maps:
                        fields = line.split(maxsplit=5)
                        if len(fields) == 6 and fields[5].startswith("/"):
                            start, end = (int(n, 16) for n in fields[0].split("-"))
                            PLACES[pid].append((fields[5].strip(), start, end, int(fields[2], 16)))
            except OSError:
                pass
    for path, start, end, offset in PLACES[pid]:
        if start <= address < end:
            return identity(path), offset + address - start
    return None


def identity(path):
    """What is the same of a file in all processes: its inode's number, if that can be had, else its
    path. The process that made a file has it by a name of the kernel's, which has the number."""
    path = path.removesuffix(" (deleted)")
    name = os.path.basename(path)
    if re.fullmatch(r"#\d+", name):
        return int(name[1:])
    try:
        return os.stat(path).st_ino
    except OSError:
        return path


def name_of(path):
    """The name that the file has in the domain's folder, for one that has the kernel's."""
    folder, name = os.path.split(path)
    if re.fullmatch(r"#\d+", name):
        try:
            return next((entry.path for entry in os.scandir(folder) if entry.inode() == int(name[1:])), path)
        except OSError:
            pass
    return path


def domains():
    """The domains in which the process has files mapped."""
    PLACES.clear()
    files = {}
    for path, start, end, offset in mappings():
        path = name_of(path.removesuffix(" (deleted)"))
        files.setdefault(path, File(path)).parts.append((start, end, offset))
    folders = {}
    for path in files:
        if os.path.basename(path) == ".tokens":
            folders[os.path.dirname(path)] = {}
    for path, file in files.items():
        folder = os.path.dirname(path)
        if folder in folders and (file.check() or path.endswith("/.tokens")):
            folders[folder][os.path.basename(path)] = file
    if not any(file.check() for found in folders.values() for file in found.values()):
        raise gdb.GdbError("This process has no domain of Outlive's open; or, in a core file, its shared "
                           "memory was not written (coredump_filter needs bit 3) and the domain is gone.")
    return [Domain(folder, found) for folder, found in sorted(folders.items())]


def locks(domain, name, file):
    kind = file.kind
    if kind != 3:
        lock(domain, file, name, kind, BODY)
        return
    for n in range(min(file.u64(HEADER["by_kind"]), 46)):
        word = file.u32(HEADER["by_kind"] + 8 + n * 4)
        inner, offset = word >> 27, (word & (1 << 27) - 1) * 4
        if inner in LOCKS:
            lock(domain, file, f"{name} +{offset}", inner, BODY + offset)


def lock(domain, file, name, kind, at):
    word = file.u32(at + LOCKS[kind])
    marks = 1 << 30 if kind == 5 else 0
    owner = domain.owner(word & ~marks)
    end = at + (RW_LOCK["readers"] + RW_LOCK["words"] * 4 if kind == 5 else 64)
    state = {0: "", 1: ", the next locker is told of a death", 2: ", not recoverable",
             3: ", not recoverable"}.get(file.u32(at + (8 if kind == 12 else 4)), ", damaged state")
    print(f"{name}: {KINDS[kind]}, {'held by ' + owner if owner else 'free'}{state}")
    if kind == 5:
        for reader in range(RW_LOCK["words"]):
            who = domain.owner(file.u32(at + RW_LOCK["readers"] + reader * 4) & ~WAITERS)
            if who:
                print(f"    read by {who}")
    for waiter in domain.waiters(file, at, end):
        print(f"    waits: {waiter}")


def queues(domain, name, file):
    waiting = 0
    for region in range(QUEUE["count"]):
        at = QUEUE["regions"] + region * QUEUE["region_bytes"]
        tail, head = file.u64(at) & (1 << 63) - 1, file.u64(at + QUEUE["head"])
        waiting += max(tail - head, 0)
    word = file.u32(QUEUE["receiver"])
    receiver = "died" if word & ~WAITERS == 1 else domain.owner(word)
    most = file.u32(QUEUE["most"])
    print(f"{name}: {waiting} messages{f' of {most}' if most else ''}, "
          f"receiver: {receiver or 'none'}; received {file.u64(QUEUE['received'])}, "
          f"abandoned {file.u64(QUEUE['abandoned'])}")
    for waiter in domain.waiters(file, BODY, QUEUE["regions"]):
        print(f"    waits: {waiter}")


def topics(domain, name, file):
    if name.startswith(".control-"):
        return
    publishers = min(file.u32(TOPIC["publishers"]), 1 << 16)
    print(f"{name}: depth {file.u32(TOPIC['depth'])}")
    published = []
    for ring in range(min(file.u32(TOPIC["rings_used"]), publishers)):
        at = TOPIC["rings"] + ring * TOPIC["ring_bytes"]
        published.append(file.u64(at + TOPIC["published"]))
        owner = domain.owner(file.u32(at) & ~(WAITERS | 1 << 30))
        session = file.u64(at + TOPIC["session"]) >> 32
        print(f"    publisher {ring}: {owner or 'none'}; session {session}, "
              f"published {published[-1]}")
    control = domain.files.get(f".control-{file.u64(HEADER['by_kind']):020}")
    if control is None:
        print("    its subscribers: not mapped in this process")
        return
    try:
        subscribers(domain, file, control, publishers, published)
    except Missing as error:
        print(f"    its subscribers: {error}")


def subscribers(domain, file, control, publishers, published):
    up = lambda number, to: (number + to - 1) // to * to
    cursors = up(CONTROL["pointers"] + 4 * file.u32(TOPIC["samples"]), 8)
    kept = cursors + 8 * publishers
    size = up(kept + CONTROL["name_bytes"] + 16, PAGE)
    first = up(CONTROL["spaces"] + CONTROL["space_bytes"] * publishers, PAGE)
    for index in range(min(control.u32(CONTROL["slots_used"]), file.u32(TOPIC["subscribers"]))):
        at = first + index * size
        claim = control.u64(at)
        if claim == 0:
            continue
        lag = sum(max(sent - control.u64(at + cursors + 8 * ring), 0)
                  for ring, sent in enumerate(published))
        state = STATES.get(claim >> 32 & 7, f"damaged: {claim >> 32}")
        name = place = ""
        if claim >> 32 & CONTROL["has_name"]:
            text = control.read(at + kept, CONTROL["name_bytes"]).split(b"\0")[0]
            name = f" '{text.decode('utf-8', 'replace')}'"
            patience = control.u64(at + kept + CONTROL["name_bytes"])
            place = f"; its place is kept, patience {patience / 1e9:g} s"
            ownerless = control.u64(at + kept + CONTROL["name_bytes"] + 8)
            since = ownerless & (1 << 48) - 1
            if since and ownerless >> 48 == claim >> 36 & 0xFFFF:
                place += f", which began {since / 1e6:.1f} s after the machine did"
        owner = domain.owner(claim & 0xFFFFFFFF) or "no process"
        print(f"    subscriber {index}{name}: {owner}; {state}, "
              f"{lag} behind, lost {control.u64(at + CONTROL['lost'])}{place}")


def pools(domain, name, file):
    spans, used = file.u32(POOL["spans"]), {}
    for span in range(min(spans, 1 << 15)):
        try:
            word = file.u64(POOL["table"] + POOL["table_head"] + span * POOL["entry"])
        except Missing:
            break
        used[word >> 62] = used.get(word >> 62, 0) + 1
    failed = sum(file.u64(POOL["failed"] + 8 * n) for n in range(POOL["classes"]))
    print(f"{name}: {spans} spans of 2 MiB: {used.get(1, 0)} of classes, {used.get(3, 0)} of long "
          f"objects, {used.get(2, 0)} being taken; {failed} failed allocations")


def tokens(domain, _name, _file):
    for slot in domain.slots():
        where = place_of(slot.pid, slot.waiting_at) if slot.waiting_at and slot.is_alive() else None
        name = next((n for n, f in domain.files.items() if where and identity(f.path) == where[0]), None)
        waits = f", waits in {name or where[0]} +{where[1]}" if where else ""
        print(f"{slot.id:#010x}: {slot.describe()}{waits}")


class Outlive(gdb.Command):
    """Show the objects of Outlive's that this process has open."""

    def __init__(self):
        super().__init__("outlive", gdb.COMMAND_DATA, prefix=True)


class Show(gdb.Command):
    """One of the commands."""

    def __init__(self, verb, show, kinds, doc):
        self.__doc__, self.show, self.kinds = doc, show, kinds
        super().__init__(f"outlive {verb}", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        for domain in domains():
            print(f"{domain.folder}:")
            for name, file in sorted(domain.files.items()):
                # One that is damaged, or whose pages are missing, keeps no other from being shown.
                try:
                    if file.kind in self.kinds:
                        self.show(domain, name, file)
                except Missing as error:
                    print(f"{name}: {error}")
            if any(file.from_disk for file in domain.files.values()):
                print("(Some of it is as the files have it now, since the core file does not have it.)")


Outlive()
Show("tokens", tokens, {1}, "Show the threads and processes that the domain knows, and where each waits.")
Show("locks", locks, {3, *LOCKS}, "Show the locks that this process has open, their holders and waiters.")
Show("queues", queues, {4}, "Show the queues that this process has open.")
Show("topics", topics, {15}, "Show the topics that this process has open, their publishers and subscribers.")
Show("pools", pools, {14}, "Show the pools that this process has open.")
