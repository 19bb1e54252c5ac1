#!/bin/sh
# A pod of three containers that share a volume of 64 MiB, without a container runtime. Each has a pid,
# a mount, an IPC and a UTS namespace of its own, a user of its own, and no capabilities; all have the
# group 2000. Exit code 77: not permitted here.
#
#     unshare --mount sh pod.sh FOLDER OUTLIVE
set -eu
volume=$1
outlive=$2

# emptyDir: { medium: Memory, sizeLimit: 64Mi }
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$volume" || exit 77

# container USER ARGUMENT...: runs outlive in a container
container() {
    user=$1
    shift
    exec unshare --mount --pid --fork --kill-child --mount-proc --ipc --uts \
        setpriv --reuid "$user" --regid 2000 --clear-groups --no-new-privs \
        --bounding-set=-all --inh-caps=-all \
        env OUTLIVE_DOMAIN="$volume/robot" OUTLIVE_GROUP=2000 "$outlive" "$@"
}
(container 1000 exit-codes > /dev/null) || exit 77

# The init container: the domain takes at most 48 of the 64 MiB.
(container 1000 domain create --max-bytes 48M)

# The first container takes a lock, and is killed.
container 1001 lock run door -- sleep 1000 &
first=$!
until (container 1002 lock info door --json) 2> /dev/null | grep -q '"alive":true'; do sleep 0.1; done
kill -KILL $(cat "/proc/$first/task/$first/children")
wait "$first" || true
(container 1002 lock run door -- echo "the second container has the lock") 2>&1

# It fills the domain, and is told that there is no more room; what is there can be read.
code=0
yes 'a line of some length, so that few of them fill it' |
    (container 1002 queue send lines --max-bytes 1G --timeout 0.1) 2>&1 || code=$?
echo "exit code $code"
(container 1003 queue recv lines --count 1)
df --block-size=1M --output=avail "$volume"
