#!/bin/sh
# Runs in a fresh root of Debian's, as root: installs the packages of /packages, uses them, purges
# them. VERSION is the release. The last line is the count. See xtask/src/dist/fresh_root.rs.

passed=0
failed=0

# Runs a command whose failure is a failed test.
try() {
	name=$1
	shift
	if "$@" >/tmp/said 2>&1; then
		passed=$((passed + 1))
		echo "ok: $name"
	else
		failed=$((failed + 1))
		echo "failed: $name"
		cat /tmp/said
	fi
}

# All files but those that change whatever is installed.
list() {
	find / -xdev \( -path /proc -o -path /dev -o -path /packages -o -path /tmp -o -path /var/lib/dpkg \
		-o -path /var/log -o -path /var/cache -o -path /etc/ld.so.cache \) -prune -o -print | sort
}

list >/tmp/before
try 'installed' dpkg -i /packages/*.deb
try 'nothing is half installed' test -z "$(dpkg --audit)"

# The programs.
try 'outlive --version' test "$(outlive --version)" = "outlive $VERSION"
for program in outlive-record outlive-replay outlive-bag outlive-bench; do
	try "$program --help" "$program" --help
done
try 'a message from one process to another' sh -c '
	echo first | outlive send jobs && test "$(outlive recv -n 1 jobs)" = first'
killed() {
	outlive lock run resource sh -c 'echo >/tmp/held; sleep 1000' &
	holder=$!
	while ! test -e /tmp/held; do sleep 0.1; done
	kill -KILL "$holder"
	outlive lock run --timeout 60s resource true
}
try 'a lock whose holder was killed' killed
pages() {
	outlive --help | sed -n "s/^  \([a-z][a-z0-9-]*\)  .*/\1/p" | while read -r verb; do
		test "$verb" = help || test -f "/usr/share/man/man1/outlive-$verb.1.gz" || { echo "no page of $verb" && exit 1; }
	done
}
try 'each verb has a page' pages
for file in bash-completion/completions/outlive fish/vendor_completions.d/outlive.fish \
	zsh/vendor-completions/_outlive man/man1/outlive.1.gz; do
	try "$file" test -s "/usr/share/$file"
done

# The library, shared and static.
cd /tmp || exit 1
cat >queue.c <<'C'
#include <outlive.h>
#include <stdio.h>
#include <string.h>
int main(void) {
	outlive_domain_t *domain;
	if (outlive_abi_version() < OUTLIVE_ABI_VERSION) return 1;
	if (outlive_domain_open("packages", OUTLIVE_OPEN_OR_CREATE, &domain) != 0) {
		fprintf(stderr, "%s\n", outlive_last_error());
		return 2;
	}
	outlive_domain_close(domain);
	return strcmp(outlive_version(), VERSION) != 0;
}
C
shared() {
	cc -DVERSION="\"$VERSION\"" queue.c $(pkg-config --cflags --libs outlive) -o shared && ./shared
}
static() {
	cc -DVERSION="\"$VERSION\"" queue.c $(pkg-config --cflags outlive) -l:liboutlive.a \
		$(pkg-config --libs --static outlive | sed 's/-loutlive//') -o static && ./static &&
		! ldd ./static | grep -q outlive
}
try 'a program with the shared library' shared
try 'a program with the static library' static
try 'CMake files' sh -c 'test -s /usr/lib/*/cmake/outlive/outlive-config.cmake'

# A process dies with a lock of pthreads: without the shim, the next one to lock it waits for ever.
cat >holder.c <<'C'
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
	pthread_mutex_t *lock = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t shared;
	pthread_mutexattr_init(&shared);
	pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(lock, &shared);
	pid_t child = fork();
	if (child == 0) {
		pthread_mutex_lock(lock);
		raise(SIGKILL);
	}
	waitpid(child, 0, 0);
	alarm(60);
	return pthread_mutex_lock(lock);
}
C
preload() {
	cc holder.c -o holder -pthread &&
		LD_PRELOAD=$(ls /usr/lib/*/outlive/liboutlive_pthread.so) ./holder
}
try 'the shim: a mutex whose holder was killed' preload

# Python.
cat >across.py <<'P'
import os, outlive
queue = outlive.Queue("from-python")
if os.fork() == 0:
    outlive.Queue("from-python").put({"n": 3})
    os._exit(0)
assert queue.get() == {"n": 3}
P
try 'a program in Python' python3 across.py
try 'its version' python3 -c "
import importlib.metadata, os, outlive
assert outlive.__version__ == importlib.metadata.version('outlive') == os.environ['VERSION']"
try 'its types' sh -c 'test -e /usr/lib/python3/dist-packages/outlive/py.typed'
try 'python3 -m outlive' test "$(python3 -m outlive --version)" = "outlive $VERSION"

try 'purged' dpkg -P liboutlive-dev liboutlive0 outlive liboutlive-pthread python3-outlive
list >/tmp/after
try 'nothing is left' diff /tmp/before /tmp/after
echo "$passed passed, $failed failed"
test "$failed" = 0
