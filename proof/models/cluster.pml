/* cluster.pml - a lock of several machines: leases, ends, fences; death between any two steps.
 *
 * Time is a number that grows at any moment, so a process is stopped for as long as you like between
 * any two steps. It does not grow while a watchdog that is not stopped has something to do: that it
 * runs in time is what the protocol relies on.
 *   owner        0, or the program + 1 that has the lock at the server
 *   held         a holder began, and has not unlocked in order
 *   lease[i]     program i's lease is there; until due[i] at least
 *   till[i]      up to then program i holds for certain, as it knows
 *   wend[i]      the same, as its watchdog was told
 *   cmd[i]       program i's command runs
 *
 * program  1. note the time; a lease   2. owner 0, lease there -> owner, held in one step; fence
 *          3. till := noted + TTL - M; passed: lost   4. tell the watchdog, start the command
 *          5. any number of times: note the time; renew; the answer: end passed: lost, for good;
 *          else till := noted + TTL - M; tell the watchdog   6. the command has ended: owner and held
 *          away in one step, if owner is still mine
 * watchdog wend passed: ends the command
 * server   due passed: the lease is away, and owner if it is the lease's
 *
 * Checked: a command that runs is the owner's; a request that the guarded thing takes is of the largest
 * fence so far; a program that has once said that the lock is lost never says that it is held; a locker
 * is told of a death exactly if the last holder did not unlock in order.
 * Switches: -DN=programs -DTTL=n -DT=end of time -DR=renewals -DD=deaths
 *   -DSTOP     program 0's watchdog is stopped: its command may run beside the owner's, and the fence
 *              must keep it from doing harm
 * Mutations, each must be caught:
 *   FROMANSWER  the end counts from the answer
 *   NOMARGIN    M is 0: the server may be as fast as the watchdog
 *   NOWATCH     the program looks itself, and no watchdog does
 *   LATE        an answer behind the end counts
 *   HELDLATE    held is written in a step of its own
 *   SPLIT       unlock takes owner away, then held
 *   NOFENCE     (with STOP) the guarded thing takes every request
 */
#ifndef N
#define N 2
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef T
#define T 4
#endif
#ifndef R
#define R 1
#endif
#ifndef D
#define D 1
#endif
#ifdef NOMARGIN
#define M 0
#else
#define M 1
#endif
byte now, owner, rev, high;
bool held;
bool lease[N], cmd[N], killed[N], lost[N];
byte due[N], till[N], wend[N], fence[N];
byte budget;
bool dirty;			/* ghost: the last holder has not unlocked in order */
bool said[N];			/* ghost: a question was answered by "lost" */

#ifdef STOP
#define RUNS(i) (i != 0)
#else
#define RUNS(i) true
#endif
#ifdef NOWATCH
#define DUE(i) false
#else
#define DUE(i) (RUNS(i) && cmd[i] && now >= wend[i])
#endif
#if N == 2
#define NONE_DUE (!DUE(0) && !DUE(1))
#else
#define NONE_DUE (!DUE(0) && !DUE(1) && !DUE(2))
#endif

/* A program may die wherever this stands. The kernel kills its command. */
#define MAYDIE :: atomic { budget > 0 -> budget--; killed[me]=1; cmd[me]=0; goto out }
#define LOOK if :: now >= till[me] -> lost[me]=1 :: else fi

proctype program(byte me)
{
	byte noted, renewals;
	bool ok, told;
	if
	:: true
	MAYDIE
	fi;
	noted=now;
	if
	:: atomic { true -> lease[me]=1; due[me]=now+TTL }
	MAYDIE
	fi;
	do
	:: atomic { lease[me] && owner==0 -> owner=me+1; rev++; fence[me]=rev; told=held; till[me]=T+1;
#ifndef HELDLATE
		held=1;
#endif
		assert(told==dirty); dirty=1 };
		break
	:: atomic { !lease[me] -> goto out }
	/* What comes behind the end of time is not looked at. */
	:: atomic { now==T -> goto out }
	MAYDIE
	od;
#ifdef HELDLATE
	if
	:: held=1
	MAYDIE
	fi;
#endif
	if
	:: atomic { true -> till[me]=noted+TTL-M; LOOK;
		if :: lost[me] -> goto out :: else fi;
		wend[me]=till[me]; cmd[me]=1 }
	MAYDIE
	fi;
	do
	:: atomic { renewals < R && !lost[me] -> renewals++; noted=now };
		if
		:: atomic { true -> ok=lease[me]; if :: ok -> due[me]=now+TTL :: else fi }
		MAYDIE
		fi;
		if
		:: atomic { true ->
#ifndef LATE
			LOOK;
#endif
			if
			:: !ok -> lost[me]=1
			:: ok && !lost[me] ->
#ifdef FROMANSWER
				till[me]=now+TTL-M
#else
				till[me]=noted+TTL-M
#endif
			:: else
			fi }
		MAYDIE
		fi;
		/* The watchdog is told; not once it is due, for then it has ended the command. */
		atomic { if :: !lost[me] && cmd[me] -> wend[me]=till[me] :: else fi }
	/* A question of the program. */
	:: atomic { !lost[me] -> LOOK; assert(lost[me] || (owner==me+1 && !said[me])) }
	/* It has ended, or the watchdog has ended it. */
	:: atomic { cmd[me]=0; break }
	MAYDIE
	od;
	atomic { LOOK; if :: lost[me] -> goto out :: else fi };
	if
#ifdef SPLIT
	:: atomic { owner==me+1 -> owner=0; dirty=0 };
		atomic { if :: owner==0 -> held=0 :: else fi }
#else
	:: atomic { owner==me+1 -> owner=0; held=0; dirty=0 }
#endif
	:: atomic { owner!=me+1 -> skip }
	MAYDIE
	fi;
out:	atomic { noted=0; renewals=0; ok=0; told=0 }
}

proctype watchdog(byte me)
{
endless: do
	:: atomic { DUE(me) -> cmd[me]=0 }
	od
}

/* The command's requests to what the lock guards. */
proctype command(byte me)
{
endless: do
	/* Another thread of the program asks. */
	:: atomic { fence[me] > 0 && !killed[me] && !said[me] && now >= till[me] -> said[me]=1 }
	:: atomic { cmd[me] ->
		if
#ifndef NOFENCE
		:: fence[me] < high -> assert(!RUNS(me))
		:: fence[me] >= high ->
#else
		:: true ->
#endif
			assert(fence[me] >= high);
			assert(!RUNS(me) || owner==me+1);
			high=fence[me]
		fi }
	od
}

proctype server(byte me)
{
endless: do
	:: atomic { lease[me] && now >= due[me] -> lease[me]=0;
		if :: owner==me+1 -> owner=0 :: else fi }
	od
}

proctype clock()
{
	do
	:: atomic { now < T && NONE_DUE -> now++ }
	:: now == T -> break
	od
}

init
{
	atomic {
		if :: budget=0 :: budget=D fi;
		byte i=0;
		do
		:: i < N -> run program(i); run watchdog(i); run command(i); run server(i); i++
		:: else -> break
		od;
		i=0;
		run clock()
	}
}
