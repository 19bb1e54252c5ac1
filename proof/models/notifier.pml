/* notifier.pml - a notifier's notices, counts and deaths; death and stop between any two steps.
 *
 * Notifiers 0..N-1 come, notify M times each, and leave or stay; one listener takes.
 *   cnt[i] bits     the listener's counts, and the numbers of which there are notices
 *   own[s] dth[s]   a notifier's slot, one word: its owner + 1 or 0, and the deaths
 *   still           the listener's eventcount in one step: 1 prepared, 2 notified since;
 *                   eventcount.pml has its words
 *   told[s]         the deaths that the listener has been told, its own memory
 *
 * come    1. a slot that is free, or a dead owner's: compare-exchange -> (me, d), or (me, d + 1)
 *         2. notify
 * notify  1. cnt[i] + 1   2. bits gets i   3. notify
 * leave   compare-exchange (me, d) -> (0, d)
 * wait    1. prepare   2. the owners that live   3. by slot: a dead owner's word -> (0, d + 1), by
 *         compare-exchange; d is not told: a notice   4. m = bits, bits = 0   5. for each bit of m:
 *         cnt[i] = 0 and take what was there, 0 is nothing
 *         Nothing: sleep until notified, or until one of the owners is dead; from 1
 * sweep   by slot as 3
 * A process is killed: its token is dead, and it does nothing more. With -DLATE its token is dead
 * first: a thread of it goes on for any number of steps.
 *
 * Checked, when all has come to rest: what was acknowledged has been taken, and no more than was
 * begun; each notifier that came, did not leave, and is dead has been told as dead, once, and none
 * that left; the listener does not sleep beside any of that, or beside a bit with its count. It
 * makes the recheck beside a stopped notifier, one that died between its two steps of coming, and a
 * late thread; else it must not need it.
 * Switches: -DN -DM -DS=slots -DD=deaths -DLATE -DSTOP (one notifier stops at any step for ever)
 *   -DSWEEP (there is a sweep) -DIDS (each notifier has a number of its own; else both have one)
 * Mutations, each must be caught:
 *   BITFIRST    2 before 1
 *   COUNTSFIRST the listener takes the counts before the bits
 *   EARLY       3 before 2
 *   NOWATCH     the sleeper does not watch the notifiers' ends
 *   OWNERSLATE  wait: 2 after the look
 *   QUIET       a notifier that comes notifies no listener
 *   UNFIXED     (LATE) wait: 3 without the exchange: a dead owner counts as d + 1
 *   BLINDLEAVE  (LATE) leave is a store
 *   UNCOUNTED   the next notifier takes a dead one's slot with d
 *   TWICE       the sweep exchanges without comparing
 *   NORECHECK   (STOP) no recheck
 */
#ifndef N
#define N 2
#endif
#ifndef M
#define M 1
#endif
#ifndef S
#define S 2
#endif
#ifndef D
#define D 1
#endif
#ifdef IDS
#define ID (me&1)
#else
#define ID 0
#endif
byte cnt[2], bits;
byte own[S], dth[S], told[S];
byte still, watch;
bool asleep, resting;
bool dead[N], gone[N], stopped[N];
byte begun[2], acked[2], taken[2];      /* ghosts */
bool came[N], left[N], unsaid[N], late; /* ghosts; unsaid: between the two steps of coming */
byte deaths;                            /* ghost: notices of deaths */
byte budget, bs;

#define RUNS(i) (!gone[i] && !stopped[i])
#define NOTIFY if :: still==1 -> still=2 :: else fi
#define DEADOWNER(s) (own[s]!=0 && dead[own[s]-1])
#if N == 1
#define ENDSEEN ((watch&1) && dead[0])
#elif N == 2
#define ENDSEEN (((watch&1) && dead[0]) || ((watch&2) && dead[1]))
#else
#define ENDSEEN (((watch&1) && dead[0]) || ((watch&2) && dead[1]) || ((watch&4) && dead[2]))
#endif

proctype P(byte me) {
	byte s, id, k, d;
	{
	do
	:: atomic { s<S && (own[s]==0 || DEADOWNER(s)) ->
#ifndef UNCOUNTED
		if :: own[s]!=0 -> dth[s]=dth[s]+1 :: else fi;
#endif
		own[s]=me+1; d=dth[s]; came[me]=1; unsaid[me]=1; break }
	:: atomic { s<S && own[s]!=0 && !DEADOWNER(s) -> s++ }
	:: atomic { s==S -> goto end_full }
	od;
#ifndef QUIET
	atomic { NOTIFY; unsaid[me]=0 };
#else
	unsaid[me]=0;
#endif
	do
	:: atomic { k<M -> id=ID; begun[id]++ };
#ifdef BITFIRST
		bits=bits|(1<<id);
		cnt[id]++;
#else
		cnt[id]++;
#ifdef EARLY
		NOTIFY;
#endif
		bits=bits|(1<<id);
#endif
#ifdef EARLY
		atomic { acked[id]++; k++ }
#else
		atomic { NOTIFY; acked[id]++; k++ }
#endif
	:: atomic { k==M -> k=0; break }
	od;
	id=0;
	if
#ifdef BLINDLEAVE
	:: atomic { own[s]==me+1 -> k=1 };
		atomic { own[s]=0; dth[s]=d; left[me]=1; k=0; s=0; d=0; dead[me]=1 }
#else
	:: atomic { own[s]==me+1 -> own[s]=0; left[me]=1; s=0; d=0; dead[me]=1 }
#endif
	:: atomic { own[s]!=me+1 -> s=0; d=0 }
	:: goto end_stays
	fi;
	goto end_full;
end_stays: false;
end_full: false
	} unless { !RUNS(me) }
}

#ifdef TWICE
proctype G() {
	byte s, d; bool is;
	do
	:: atomic { s<S -> is=DEADOWNER(s); d=dth[s] };
		if :: atomic { is -> own[s]=0; dth[s]=dth[s]+1 } :: !is fi; s++
	:: s==S -> break
	od
}
#else
proctype G() {
	byte s;
	do
	:: atomic { s<S -> if :: DEADOWNER(s) -> own[s]=0; dth[s]=dth[s]+1 :: else fi; s++ }
	:: s==S -> break
	od
}
#endif

#define OWNERS \
	watch=0; \
	do \
	:: atomic { s<S -> if :: own[s]!=0 && !dead[own[s]-1] -> watch=watch|(1<<(own[s]-1)) :: else fi; s++ } \
	:: atomic { s==S -> s=0; break } \
	od
#ifdef NOWATCH
#define WATCHED false
#else
#define WATCHED ENDSEEN
#endif
#ifdef UNFIXED
#define NOW(s) (dth[s]+(DEADOWNER(s) -> 1 : 0))
#define FIX(s) skip
#else
#define NOW(s) dth[s]
#define FIX(s) if :: DEADOWNER(s) -> own[s]=0; dth[s]=dth[s]+1 :: else fi
#endif
#define TAKE(i) taken[i]=taken[i]+cnt[i]; got=got|(cnt[i]!=0); cnt[i]=0

#if S == 1
#define UNTOLD (DEADOWNER(0) || dth[0]!=told[0])
#else
#define UNTOLD (DEADOWNER(0) || dth[0]!=told[0] || DEADOWNER(1) || dth[1]!=told[1])
#endif
#define HAS (bits!=0 || UNTOLD)

#ifdef NORECHECK
#define MAYRECHECK false
#elif N == 1
#define MAYRECHECK (stopped[0] || (unsaid[0] && dead[0]) || late)
#elif N == 2
#define MAYRECHECK (stopped[0] || stopped[1] || (unsaid[0] && dead[0]) || (unsaid[1] && dead[1]) || late)
#else
#define MAYRECHECK (stopped[0] || stopped[1] || stopped[2] || (unsaid[0] && dead[0]) || (unsaid[1] && dead[1]) || (unsaid[2] && dead[2]) || late)
#endif
#define RECHECKS (MAYRECHECK && HAS)

proctype L() {
	byte s, m; bool got;
again:	still=1;
#ifndef OWNERSLATE
	OWNERS;
#endif
	do
	:: atomic { s<S -> FIX(s);
		if :: NOW(s)!=told[s] -> assert(NOW(s)>told[s]); deaths=deaths+(NOW(s)-told[s]); got=1; told[s]=NOW(s) :: else fi;
		s++ }
	:: atomic { s==S -> s=0; break }
	od;
#ifdef COUNTSFIRST
	m=bits;
	if :: atomic { m&1 -> TAKE(0) } :: !(m&1) fi;
	if :: atomic { m&2 -> TAKE(1) } :: !(m&2) fi;
	atomic { bits=bits&(3-m); m=0 };
#else
	atomic { m=bits; bits=0 };
	if :: atomic { m&1 -> TAKE(0) } :: !(m&1) fi;
	if :: atomic { m&2 -> TAKE(1); m=0 } :: atomic { !(m&2) -> m=0 } fi;
#endif
	if :: atomic { got -> got=0; still=0; watch=0; goto again } :: !got fi;
#ifdef OWNERSLATE
	OWNERS;
#endif
	if
	:: atomic { still==1 && !WATCHED -> asleep=1 };
end_s:		if
		:: atomic { still==2 || WATCHED -> asleep=0 }
		:: atomic { timeout && !resting && RECHECKS -> asleep=0 }
		fi
	:: still!=1 || WATCHED
	fi;
	atomic { watch=0; goto again }
}

#ifdef LATE
#define KILL(i) :: atomic { budget>0 && !dead[i] -> dead[i]=1; late=1; budget-- }
#define END(i) :: atomic { dead[i] && !gone[i] && !left[i] -> gone[i]=1 }
#else
#define KILL(i) :: atomic { budget>0 && !dead[i] -> dead[i]=1; gone[i]=1; budget-- }
#define END(i)
#endif
#define DIED(i) ((came[i] && dead[i] && !left[i]) -> 1 : 0)
init {
	atomic {
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
		fi;
#ifdef STOP
		bs=1;
#endif
		run P(0);
#if N > 1
		run P(1);
#endif
#if N > 2
		run P(2);
#endif
		run L();
#ifdef SWEEP
		run G();
#endif
		skip
	}
end_k:	do
	KILL(0) END(0)
#if N > 1
	KILL(1) END(1)
#endif
#if N > 2
	KILL(2) END(2)
#endif
#ifdef STOP
	:: atomic { bs==1 && RUNS(0) -> stopped[0]=1; bs=2 }
#if N > 1
	:: atomic { bs==1 && RUNS(1) -> stopped[1]=1; bs=2 }
#endif
	:: budget==0 && bs==2 -> break
#else
	:: budget==0 -> break
#endif
	od;
#ifdef LATE
end_l:	do
	END(0)
#if N > 1
	END(1)
#endif
#if N > 2
	END(2)
#endif
	:: timeout && !RECHECKS -> break
	od;
#else
	timeout && !RECHECKS;
#endif
	atomic {
		resting=1;
		assert(asleep);
		assert(acked[0]<=taken[0] && acked[1]<=taken[1]);
		assert(taken[0]+cnt[0]<=begun[0] && taken[1]+cnt[1]<=begun[1]);
		assert(!UNTOLD);
		assert(!((bits&1) && cnt[0]) && !((bits&2) && cnt[1]));
#if N == 1
		assert(deaths==DIED(0))
#elif N == 2
		assert(deaths==DIED(0)+DIED(1))
#else
		assert(deaths==DIED(0)+DIED(1)+DIED(2))
#endif
	}
}
