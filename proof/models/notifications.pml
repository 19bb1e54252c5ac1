/* notifications.pml - each notification of a condition variable ends one wait, though a wake-up may
 * reach many waiters; what becomes of it when its waiter leaves.
 *
 *   somebody        the eventcount's SOMEBODY
 *   fsame[n]        `epoch` is still what notifier n has read
 *   same[i]         `sequence` is still what waiter i has read
 *   count           how many waiters there are
 *   number unused   the word: how many notifications, and which of them no waiter has used (bit k:
 *                   notification k+1)
 *   q asleep[i]     who is in the kernel's queue of `relay`, in that order; who sleeps
 *   hand[i]         a wake-up is in its hands: its list_op_pending points to `relay`
 *   mutex           who has it: 0, or a waiter's number + 1
 *
 * notify   1. no waiter has prepared, and there is none: done. Else number+1, and its bit
 *          2. no waiter has prepared: done. ONE step: sequence+1, and wake one
 *          3. none was woken: somebody=0, if epoch is as in 2
 * wait     1. with the mutex: count+1; t = number
 *          2. prepare: read `sequence`; use the oldest notification later than t, if any: return
 *          3. unlock. 4. sleep while `sequence` is the same
 *          5. the mutex is held: wake one, and queue for it. Lock
 *          6. use the oldest notification later than t: return. None: if `sequence` has changed and
 *             one is unused, wake one; from 2
 * leave    (-DLEAVE: a waiter, once) its deadline ends the sleep: after 5 wake one; after 6 return in
 *          any case. Or the mutex is refused in 5: wake one, and return without it
 * hand on  (-DHAND: a waiter, once) it has used a notification, has the mutex, and waits for
 *          something else: number+1, and its bit; wake one; unlock. Or the last two in the other order, as a
 *          watchful wait does
 * A waiter that dies with a wake-up in hand, or with the mutex: the kernel wakes one. One that dies
 * with the mutex: the next locker is told, and returns; it notifies all, which is left out here: so
 * after such a death no waiter need return.
 *
 * Checked: no more waits end than there were notifications (a notification that is handed on has
 * ended no wait); at rest, no living waiter that runs sleeps, with the mutex free, while a
 * notification later than its t is unused. A notification that was handed on counts here from the
 * moment at which it was given first: a waiter that began after that, and was about to sleep when it
 * was handed on, may sleep on to its recheck.
 * Given up to make the runs small: of several waiters the one with the lower number begins first, and
 * so with notifiers (they are alike); `sequence` and `epoch` never come round to an old value; one
 * waiter leaves and one hands on, once; with three waiters, a death, a leave or a hand-on come with
 * one notification (with two, the deaths did not end in two minutes and a half).
 * Switches: -DNS=waiters -DNW=notifications, each by a thread of its own -DF=deaths of waiters
 *   -DS  one waiter, or one notifier, stops for ever at any step; asleep, it leaves the kernel's queue
 *        (SIGSTOP), or stays there (the freezer)
 *   -DRECHECK  a sleeper looks at rest (once a second in the code)
 * Mutations: NOPASS (6 wakes no waiter), LATE (notify 1 after 2), NOQUEUE (5 does not wake; needs a
 *   death), EARLY (2 looks for no notification), NOCOUNT (1 does not ask how many waiters there are),
 *   LEAVEQUIET (a waiter that is refused the mutex wakes none), HANDQUIET (who hands on wakes none),
 *   HANDLATE (it unlocks and wakes before it notes), HANDNONE (a waiter whose deadline ended its wait
 *   hands on)
 */
#ifndef NS
#define NS 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef F
#define F 0
#endif
#if NS == 3
#define ALL(f) f(0) f(1) f(2)
#else
#define ALL(f) f(0) f(1)
#endif
#ifdef S
#define HALTED(i) halt[i]
#define NEVER_ON (gone[me] || halt[me])
#else
#define HALTED(i) false
#define NEVER_ON gone[me]
#endif
byte number, unused, mutex, ended, given, bf, told, count;
bool somebody, waits[NS], hand[NS], asleep[NS], gone[NS], begun[NS], same[NS], fsame[NW], nbegun[NW];
byte t[NS];
byte leaves;			/* how many waiters may still leave */
byte hands;			/* how many may still hand on */
#ifdef S
bool halt[NS], nhalt[NW]; byte stops;
#endif
#ifdef HAND
byte first[5];			/* of notification k: as which it was given first */
#endif
bool resting;
chan q = [NS] of { byte };
#define WAKEONE if :: q?x -> hand[x]=1; x=0 :: empty(q) fi
#define UNQUEUE if :: q??[eval(me)] -> q??eval(me) :: else fi; asleep[me]=0
#define OTHERSEQ same[0]=0; same[1]=0; same[NS-1]=0
#define OTHEREPOCH fsame[0]=0; fsame[NW-1]=0
#ifdef HAND
#define FIRST(k, n) first[k]=n
#else
#define FIRST(k, n) skip
#endif
#define NOTE number++; unused = unused | (1 << (number-1)); FIRST(number, number); given++
#define LATER(i) (unused >> t[i])
#ifdef HAND
#define FOR(i, k) (((unused >> ((k)-1)) & 1) && first[k]>t[i])
#define DUE(i) (FOR(i,1) || FOR(i,2) || FOR(i,3) || FOR(i,4))
#else
#define DUE(i) (LATER(i)!=0)
#endif

/* A notifier that notes nothing leaves no waiter behind that has unlocked. */
#define HERE(i) assert(gone[i] || !waits[i]);
#define UNSEEN ALL(HERE)
#if NW == 1
#define NFIRST true
#else
#define NFIRST (me==0 || nbegun[0])
#endif

proctype Notifier(byte me) {
	byte x; bool none;
#ifdef S
	{
	skip;
#endif
	if
#ifdef NOCOUNT
	:: atomic { NFIRST && !somebody -> UNSEEN nbegun[me]=1 }
	:: atomic { NFIRST && somebody -> nbegun[me]=1;
#else
	:: atomic { NFIRST && !somebody && count==0 -> UNSEEN nbegun[me]=1 }
	:: atomic { NFIRST && (somebody || count!=0) -> nbegun[me]=1;
#endif
#ifndef LATE
		NOTE
#endif
		};
		if
		:: atomic { somebody -> fsame[me]=1 };
			atomic { none=empty(q); OTHERSEQ; WAKEONE };
			atomic { if :: none && fsame[me] -> somebody=0 :: else fi; none=0; fsame[me]=0 }
		:: !somebody
		fi;
#ifdef LATE
		atomic { NOTE }
#endif
	fi
#ifdef S
	} unless { nhalt[me]; atomic { none=0; fsame[me]=0; nbegun[me]=1 } }
#endif
}

#define FIND k=t[me]; do :: !(unused >> k & 1) -> k++ :: else -> break od
#ifdef HAND
#define UNLOCK used=1
#else
#define UNLOCK mutex=0; hand[me]=0; k=0
#endif
#define USE FIND; unused = unused & ~(1 << k); ended++; count--; waits[me]=0; UNLOCK
#ifdef S
#define END_M(l) end_m##l:
#else
#define END_M(l)
#endif
#if NS == 3
#define WFIRST (me==0 || (begun[me-1] || gone[me-1]) && (me==1 || begun[0] || gone[0]))
#else
#define WFIRST (me==0 || begun[0] || gone[0])
#endif
#define QUIET (resting || mutex!=0 || told)
#ifdef RECHECK
#define RECHECKED(i) (!QUIET && asleep[i] && !gone[i] && !HALTED(i) && LATER(i)!=0)
#else
#define RECHECKED(i) false
#endif

proctype Waiter(byte me) {
	byte k, x; bool late, used;
	{
		skip;
end_b:		atomic { WFIRST && mutex==0 && !told -> mutex=me+1; begun[me]=1 };
		count++;
		t[me]=number;
		do
		:: atomic { same[me]=1; somebody=1; OTHEREPOCH; hand[me]=0 };
			atomic {
#ifndef EARLY
				if :: LATER(me)!=0 -> USE; break :: else fi;
#endif
				mutex=0; waits[me]=1
			};
			if
			:: atomic { same[me] -> asleep[me]=1; q!me };
end_s:				if
				:: atomic { hand[me] || told -> UNQUEUE }
#ifdef LEAVE
				:: atomic { leaves>0 && !hand[me] -> leaves--; late=1; UNQUEUE }
#endif
#ifdef RECHECK
				:: atomic { timeout && RECHECKED(me) -> UNQUEUE }
#endif
				fi
			:: !same[me]
			fi;
END_M(1)		if
			:: atomic { mutex==0 -> mutex=me+1 }
			:: atomic { mutex!=0 ->
#ifndef NOQUEUE
				WAKEONE;
#endif
				hand[me]=0 };
END_M(2)			atomic { mutex==0 -> mutex=me+1 }
#ifdef LEAVE
			:: atomic { mutex!=0 && leaves>0 -> leaves--;
#ifndef LEAVEQUIET
				WAKEONE;
#endif
				hand[me]=0; waits[me]=0; count--; break }
#endif
			fi;
#ifdef LEAVE
			if :: atomic { late -> WAKEONE } :: !late fi;
#endif
			atomic {
				if :: told -> waits[me]=0; break :: else fi;
				if :: LATER(me)!=0 -> USE; break
				:: else ->
#ifndef NOPASS
					if :: !same[me] && unused!=0 -> WAKEONE :: else fi;
#endif
					if :: late -> count--; waits[me]=0; break :: else fi
				fi
			}
		od;
#ifdef HAND
		if
#ifdef HANDNONE
		:: atomic { hands>0 && (used || late) && mutex==me+1 -> hands--; goto handon }
#else
		:: atomic { hands>0 && used && mutex==me+1 -> hands--; goto handon }
#endif
		:: skip
		fi;
#endif
		/* It has the mutex, or it was refused. */
leave:		atomic { if :: mutex==me+1 -> mutex=0 :: else fi; k=0; used=0; late=0; hand[me]=0; same[me]=0 };
		goto end_w;
#ifdef HAND
#define AGAIN number++; unused = unused | (1 << (number-1)); FIRST(number, first[k+1]); ended=ended-used; used=0; k=0
handon:
#ifdef HANDLATE
		atomic { mutex=0; hand[me]=1 };
		atomic { WAKEONE; hand[me]=0 };
		atomic { AGAIN };
#else
		atomic { AGAIN; hand[me]=1 };
		if
#ifdef HANDQUIET
		:: atomic { mutex=0; hand[me]=0 }
#else
		:: atomic { WAKEONE; hand[me]=0 }
		:: mutex=0;
			atomic { WAKEONE; hand[me]=0 }
#endif
		fi;
#endif
		goto leave;
#endif
end_w:		(false)
	} unless { NEVER_ON;
#ifdef S
		if
		:: atomic { halt[me] && !gone[me] ->
			if :: q??[eval(me)] -> q??eval(me) :: skip fi;
			k=0; begun[me]=1 };
end_h:			gone[me]
		:: gone[me]
		fi;
#endif
		atomic { k=0; UNQUEUE; late=0; used=0; same[me]=0;
			if :: mutex==me+1 -> mutex=0; told=1; WAKEONE
			:: mutex!=me+1 && hand[me] -> WAKEONE
			:: else fi; hand[me]=0 } }
}

#define KILLABLE(i) :: atomic { bf>0 && !gone[i] -> gone[i]=1; bf-- }
#define STOPPABLE(i) :: atomic { stops>0 && !gone[i] -> halt[i]=1; stops-- }
active proctype killer() {
	byte i;
	atomic {
		if :: bf=F
#if F > 0
		:: bf=F-1
#endif
		fi;
#ifdef LEAVE
		if :: leaves=1 :: skip fi;
#endif
#ifdef HAND
		if :: hands=1 :: skip fi;
#endif
#ifdef S
		stops=1;
#endif
		do :: i<NS -> run Waiter(i); i++ :: else -> break od;
		i=0; do :: i<NW -> run Notifier(i); i++ :: else -> break od; i=0
	};
end_k:	do
	ALL(KILLABLE)
#ifdef S
	ALL(STOPPABLE)
	:: atomic { stops>0 -> nhalt[0]=1; stops-- }
#if NW > 1
	:: atomic { stops>0 -> nhalt[1]=1; stops-- }
#endif
	:: bf==0 && stops==0 -> break
#else
	:: bf==0 -> break
#endif
	od;
#if NS == 3
	timeout && !RECHECKED(0) && !RECHECKED(1) && !RECHECKED(2);
#else
	timeout && !RECHECKED(0) && !RECHECKED(1);
#endif
	atomic {
		resting=1;
		assert(ended<=given);
#define REST(i) assert(told || mutex!=0 || !(asleep[i] && !gone[i] && !HALTED(i) && DUE(i)));
		ALL(REST)
	}
}
