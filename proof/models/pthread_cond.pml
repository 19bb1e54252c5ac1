/* pthread_cond.pml - the shim's condition variable: a counter, and one system call that raises it
 * and wakes all.
 *
 * NW waiters that each take RW items, and NN signallers that each bring RN; one robust mutex over
 * the items, one word here: free or a dead owner's -> mine, for any thread, sleepers on it too
 * (libc and the kernel see to that).
 *   count       the counter; counts to MOD and begins again
 *   slp, dn     how often a thread went to sleep; and up to which of these all have been woken.
 *               Both wrap, too
 *   q[i]        waiter i is in the kernel's queue of count
 *
 * wait     1. s = count   2. slp+1   3. unlock
 *          4. count still s -> sleep (the kernel looks and queues in one step)   5. lock
 * signal   1. f = slp   2. f is dn -> no waiter sleeps: done   3. count+1 and wake all, in one step
 *          4. dn = f
 * A signaller signals with the mutex in hand or after it has given it back.
 *
 * Checked when everything has come to rest: no living waiter sleeps while an item is there, unless
 * the thread that brought it died before its signal (`unsig`): the recheck is for those items, and
 * it is left out here.
 * Switches: -DD=deaths -DNW= -DRW= -DNN= -DRN=
 *   RECHECK     a wait may return for nothing while an item is there: then no sleep beside an item
 *               is excused
 *   STOP        one thread is stopped at any step, takes no further step and is not dead. It leaves
 *               the kernel's queue or, frozen, stays there; a wake takes all, so it swallows none.
 *               It may be killed later (D counts that). At rest a running thread may wait only for
 *               the mutex that the stopped one holds, or sleep while it holds it; or, without
 *               RECHECK, beside an item that a thread brought which was stopped before its signal:
 *               that signal is not begun, and the next one wakes all
 * Mutations, each must be caught:
 *   WAKEONE     a signal wakes one: it may be killed with it
 *   LATE        s is read after the mutex has been given back
 *   SLPFIRST    slp+1 before s is read
 *   DNFIRST     dn = f before the wake
 *   NOLOOK      the kernel queues without a look at count
 *   TWOSTEP     (STOP) count+1 and the wake are two steps, and the signal is taken for made after
 *               the first
 *   WRAP        the counter has two values: 2^32 signals between 1 and 3 (the known limit; passes
 *               with RECHECK)
 */
#ifndef D
#define D 1
#endif
#ifndef NW
#define NW 2
#endif
#ifndef RW
#define RW 1
#endif
#ifndef NN
#define NN 1
#endif
#ifndef RN
#define RN 2
#endif
#ifdef WRAP
#define MOD 2
#else
#define MOD 16
#endif
#define N (NW+NN)
#define NOBODY 255

byte lo = NOBODY; bool dead[N], killed[N];
byte count, slp, dn; bool q[NW];
byte items, unsig; bool mine[N];        /* ghosts, but for items */
byte budget;

#define FREE (lo==NOBODY || dead[lo])
#ifdef STOP
bool stopped[N]; byte bs;
#define ENDS (killed[me] || stopped[me])
#define RUNS(i) (!killed[i] && !stopped[i])
#define HELDUP (lo!=NOBODY && !dead[lo] && stopped[lo])
#else
#define ENDS killed[me]
#endif

inline wake() {
	count=(count+1)%MOD;
#ifdef WAKEONE
	if :: q[0] -> q[0]=0
#if NW > 1
	:: q[1] -> q[1]=0
#endif
	:: else fi
#else
	q[0]=0;
#if NW > 1
	q[1]=0;
#endif
	/* all look now, also for what others brought and did not signal */
	unsig=0
#endif
}

inline signal() {
	f=slp;
	if
	:: atomic { f==dn -> mine[me]=0 }
	:: else ->
#ifdef DNFIRST
		dn=f;
#endif
#ifdef TWOSTEP
		atomic { count=(count+1)%MOD; mine[me]=0 };
		atomic { q[0]=0;
#if NW > 1
			q[1]=0;
#endif
			unsig=0 };
#else
		atomic { wake(); mine[me]=0 };
#endif
#ifndef DNFIRST
		dn=f
#endif
	fi;
	f=0
}

proctype W(byte me) {
	byte s, r;
	{
		do
		:: r<RW ->
#ifdef STOP
end_l:
#endif
			atomic { FREE -> lo=me };
			do
			:: items==0 ->
#if !defined(LATE) && !defined(SLPFIRST)
				s=count;
#endif
				slp=(slp+1)%16;
#ifdef SLPFIRST
				s=count;
#endif
				lo=NOBODY;
#ifdef LATE
				s=count;
#endif
#ifdef NOLOOK
				q[me]=1;
#else
				atomic { if :: count==s -> q[me]=1 :: else fi };
#endif
end_w:				if
				:: !q[me]
#ifdef RECHECK
				:: atomic { items>0 -> q[me]=0 }
#endif
				fi;
				s=0;
#ifdef STOP
end_m:
#endif
				atomic { FREE -> lo=me }
			:: else -> break
			od;
			atomic { items--; if :: unsig>items -> unsig=items :: else fi };
			lo=NOBODY;
			r++
		:: else -> break
		od;
		r=0;
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { if :: q[me]=0 :: skip fi; s=0; r=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic { dead[me]=1; q[me]=0; s=0; r=0 }
	}
}

proctype S(byte me) {
	byte r, f; bool inside;
	{
		do
		:: r<RN ->
#ifdef STOP
end_l:
#endif
			atomic { FREE -> lo=me };
			atomic { items++; mine[me]=1; if :: inside=1 :: inside=0 fi };
			if :: inside -> signal() :: else fi;
			lo=NOBODY;
			if :: !inside -> signal() :: else fi;
			inside=0;
			r++
		:: else -> break
		od;
		r=0;
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { if :: mine[me] -> unsig++; mine[me]=0 :: else fi; r=0; f=0; inside=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic { dead[me]=1; if :: mine[me] -> unsig++; mine[me]=0 :: else fi; r=0; f=0; inside=0 }
	}
}

#ifdef RECHECK
#define LOST (items>0)
#else
#define LOST (items>unsig)
#endif
#ifdef STOP
#define WELL(i) !(q[i] && RUNS(i) && LOST && !HELDUP)
#else
#define WELL(i) !(q[i] && !dead[i] && LOST)
#endif

active proctype killer() {
	byte i;
	atomic {
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
#ifdef STOP
		fi;
		if :: bs=1 :: bs=0
#endif
		fi;
		do :: i<NW -> run W(i); i++ :: else -> break od;
		do :: i<N -> run S(i); i++ :: else -> break od;
		i=0
	};
	do
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
#if N > 2
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
#endif
#if N > 3
	:: atomic { budget>0 && !killed[3] -> killed[3]=1; budget-- }
#endif
#ifdef STOP
	:: atomic { bs>0 && RUNS(0) -> stopped[0]=1; bs-- }
	:: atomic { bs>0 && RUNS(1) -> stopped[1]=1; bs-- }
#if N > 2
	:: atomic { bs>0 && RUNS(2) -> stopped[2]=1; bs-- }
#endif
#if N > 3
	:: atomic { bs>0 && RUNS(3) -> stopped[3]=1; bs-- }
#endif
	:: budget==0 && bs==0 -> break
#else
	:: budget==0 -> break
#endif
	od;
	timeout;
	assert(WELL(0));
#if NW > 1
	assert(WELL(1));
#endif
	/* no thread waits for the mutex in vain */
#ifdef STOP
	assert(FREE || HELDUP)
#else
	assert(FREE)
#endif
}
