/* endpoint.pml - a role (claim/role.rs): the right to receive, to write a state, or to serve. One word
 * names a process, the other the one thread of it that may be in a call.
 *
 *   ep      `holder`: 0, or the process (p + 1) that has the role: senders look at it, and because
 *           of it a second receiver is refused
 *   ins     `inside`: 0, or the thread (th + 1) that may be inside a receive call; it stays while
 *           calls stay on that thread
 *   obj[p] last[p]   private to process p: which of its threads owns the object (a Receiver) now,
 *           and the thread that the object last put into ins (HeldRole). The object is passed on
 *           with exclusive ownership, so no two threads of p use it at once
 *
 * call      last is not me: compare-exchange ins last -> me (no wait), failed -> this process is no
 *           receiver any more
 *           then read and write the queue. Nothing is cleared afterwards.
 * takeover  1. ep names a living process -> Taken
 *           2. compare-exchange ep (0 or the dead) -> my process; failed -> 1
 *           3. loop: i = ins; the thread i alive -> wait for i's end; ep is not mine any more ->
 *              NotReceiver; compare-exchange ins i -> me, till it is mine
 *           (a taker that has waited too long: compare-exchange ep mine -> what it found, 0 or
 *           "died", which are one here, and returns an error: -DGIVEUP)
 * drop      1. compare-exchange ins last -> 0 (failed -> another process has taken over: done)
 *           2. wake   3. compare-exchange ep mine -> 0
 *
 * A process dies in two moments: first its process token reads dead (pdead), a while later each of
 * its threads stops (tdead), and until then they go on and even start new calls. A thread may also
 * end by itself when it does not own the object. NP processes of two threads each; process 0 has
 * the object at the start, every other one takes over: told Taken, it tries again when ep is 0 or
 * dead.
 *
 * Checked: never two threads inside a call; a receiver whose process lives never loses the role
 * (its calls do not fail, it is the one in ep); when all has come to rest no living thread is in
 * step 3: a taker is not blocked for ever, whichever process dies.
 * Switches: -DNP=processes -DDEATHS=deaths -DCALLS=calls and hand-overs a process makes
 *   -DLEAVES=threads that end by themselves   -DLASTONE: the last process has one thread only
 *   STOP      One process may stop for ever, both its threads at once; its token reads alive, and
 *             it may die then. It holds the endpoint: a taker that is told Taken comes back in vain
 *             (end_t). No thread that runs is in step 3, so none waits for an end that does not
 *             come. PREWAIT is caught then: the second taker waits for the thread of the first,
 *             which is stopped.
 *   PREWAIT   the taker waits for the inside thread's end before step 2 as well: safe too, but a
 *             second taker then waits where it could be told Taken
 *   SWEEP     a process sweeps meanwhile: i = ins, then e = ep; i dead and e dead or 0 ->
 *             compare-exchange ins i -> 0; e dead and i dead or 0 -> compare-exchange ep e -> 0
 * Mutations, each must be caught:
 *   NOEPCHECK step 3 without the second look at ep: a thread of a dead process, still running,
 *             takes `ins` from the living receiver that came after it, when that one's ins names a
 *             thread that has ended by itself after handing the object on
 *   INSFIRST  ins before ep, and no look at ep: a living receiver loses the role, or the second
 *             taker waits for the first's thread
 *   NOWAIT    the taker does not look whether the inside thread has ended
 *   INSSTORE  step 3 is a store                     EPSTORE   step 2 is a store
 *   ONCE      step 3 is tried once: a taker goes in although the dead process has passed the object
 *             to another thread meanwhile
 *   INSWAKE   (CALLS=4) step 3 also goes on when ins has changed, and compares with what it read
 *             before: the dying receiver has passed the object on and back again
 *   READOLD   a call passes ins on from whatever it reads there, not from what its own object put
 *             in
 *   BYINSIDE  takeover goes by the inside thread's end, not by the process's
 *   KEEPINS   drop leaves ins as it is
 *   SWEEPORDER  (with SWEEP) the sweep reads ep before ins: it takes the ended thread of the
 *             receiver that has come since for one of the dead receiver's, and takes the role from
 *             the living one
 */
#ifndef NP
#define NP 3
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#define NT (2*NP)
#ifndef LEAVES
#define LEAVES 1
#endif
#define PROC(t) ((t)/2)
byte ep = 1, ins = 1;
byte obj[NP], last[NP];         /* thread + 1; obj 0: the process has no Receiver */
byte todo[NP];                  /* calls and hand-overs still to be made: bounds the scene */
bool pdead[NP], tdead[NT];
byte leaves;
#ifdef STOP
bool pstop[NP], stopped;
#endif
byte inside;                    /* ghosts: how many are in a call; is this one; is in step 3; over and done with */
bool in[NT], stuck[NT], fin[NT];
#ifdef LASTONE
#define RUNS(t) (t!=NT-1)
#else
#define RUNS(t) true
#endif
#define EP_DEAD(e) (e==0 || pdead[e-1])
#define EP_FREE EP_DEAD(ep)

#define P PROC(me)
#define MINE (obj[P]==me+1)
#define GO_IN inside++; in[me]=1; assert(inside==1); assert(pdead[P] || ep==P+1)
/* the receiver object is the taker's */
#define HAS obj[P]=me+1; todo[P]=CALLS; goto have
#ifdef BYINSIDE
#define FREE (ins==0 || tdead[ins-1])
#else
#define FREE EP_FREE
#endif

/* thread 2p takes over for its process; both use the object when it is theirs */
proctype T(byte me) {
	byte old; bool ok;
	{
		skip;
end_t:		if
		/* A taker that is told Taken comes back later, or never. So its look at ep, its wait and
		 * its exchange are one step: a dead owner stays dead */
#ifdef INSFIRST
		:: atomic { me%2==0 && P>0 && EP_FREE -> stuck[me]=1 }
#elif defined(EPSTORE) || defined(PREWAIT)
		:: atomic { me%2==0 && P>0 && FREE -> old=ep };
taken:
#ifdef PREWAIT
			atomic { ok=1; stuck[me]=1; (ins==0 || tdead[ins-1]) -> stuck[me]=0; ok=0 };
#endif
#ifdef EPSTORE
			atomic { ep=P+1; old=0; stuck[me]=1 }
#else
			if
			:: atomic { ep==old -> ep=P+1; old=0; stuck[me]=1 }
			:: atomic { ep!=old -> old=0 };
end_u:				atomic { FREE -> old=ep; goto taken }
			fi
#endif
#else
		:: atomic { me%2==0 && P>0 && FREE -> ep=P+1; stuck[me]=1 }
#endif
		:: atomic { (me%2!=0 || P==0) -> goto have }
		fi;

		/* step 3: the taker waits until the thread that it read in ins has ended, whatever ins
		 * has become meanwhile: the compare-exchange shows a change */
enter:		if
#ifdef GIVEUP
		:: stuck[me]=0; atomic { if :: ep==P+1 -> ep=0 :: else fi; goto have }
#endif
#ifdef NOWAIT
		:: atomic { old=ins; stuck[me]=0 }
#else
		:: old=ins;
#ifdef INSWAKE
			atomic { (ins!=old || old==0 || tdead[old-1]) -> stuck[me]=0 }
#else
			atomic { (old==0 || tdead[old-1]) -> stuck[me]=0 }
#endif
#endif
		fi;
#if !defined(NOEPCHECK) && !defined(INSFIRST)
		atomic { if :: ep!=P+1 -> assert(pdead[P]); old=0; goto have :: else fi };
#endif
#ifdef INSSTORE
		atomic { if :: ins!=old -> old=0; stuck[me]=1; goto enter :: else fi };
		atomic { ins=me+1; last[P]=me+1; old=0; HAS };
#else
		atomic {
			if
			:: ins==old -> ins=me+1; last[P]=me+1; old=0
#ifdef ONCE
			:: else -> last[P]=me+1; old=0; HAS
#else
			:: else -> old=0; stuck[me]=1; goto enter
#endif
			fi;
#ifndef INSFIRST
			HAS
#endif
		};
#endif
#ifdef INSFIRST
end_w:		atomic { EP_FREE -> ep=P+1; HAS };
#endif

have:
end_i:		do
		/* call: from its own thread, or passed on */
		:: atomic { MINE && todo[P]>0 && last[P]==me+1 -> todo[P]--; GO_IN };
call:			atomic { inside--; in[me]=0 }
#ifdef READOLD
		:: atomic { MINE && todo[P]>0 && last[P]!=me+1 -> todo[P]--; old=ins; ok=1 };
			atomic {
				if
				:: ins==old -> ins=me+1; last[P]=me+1; old=0; ok=0
				:: else -> obj[P]=0; assert(pdead[P]); old=0; ok=0; goto have
				fi };
#else
		:: atomic { MINE && todo[P]>0 && last[P]!=me+1 && ins!=last[P] -> todo[P]--; obj[P]=0; assert(pdead[P]) }
		:: atomic { MINE && todo[P]>0 && last[P]!=me+1 && ins==last[P] -> todo[P]--; ins=me+1; last[P]=me+1 };
#endif
			atomic { GO_IN; goto call }
		:: atomic { MINE && todo[P]>0 && !fin[2*P+1-me%2] -> todo[P]--; obj[P]=2*P+2-me%2 }     /* hand on */
		/* drop */
#ifndef KEEPINS
		:: atomic { MINE && ins!=last[P] -> obj[P]=0; assert(pdead[P]) }
		:: atomic { MINE && ins==last[P] -> obj[P]=0; ins=0 };
#else
		:: atomic { MINE -> obj[P]=0 };
#endif
			atomic { if :: ep==P+1 -> ep=0 :: else -> assert(pdead[P]) fi }
		:: atomic { !MINE && leaves<LEAVES -> leaves++; fin[me]=1; tdead[me]=1; break } /* ends by itself */
		od
#ifdef STOP
	} unless { (tdead[me] || pstop[P]) && !fin[me] };
#else
	} unless { tdead[me] && !fin[me] };
#endif
	atomic { fin[me]=1; old=0; ok=0 }
}

inline stop(t) { atomic { tdead[t]=1; if :: in[t] -> inside--; in[t]=0 :: else fi; stuck[t]=0 } }
/* a sweep after a death: gives the ends of the dead back; 0 means "no receiver" and "the receiver
 * died" alike */
proctype Sweep() {
	byte e, i;
#ifdef SWEEPORDER
	e=ep; i=ins;
#else
	i=ins; e=ep;
#endif
	if
	:: i!=0 && tdead[i-1] && EP_DEAD(e) -> atomic { if :: ins==i -> ins=0 :: else fi }
	:: else
	fi;
	if
	:: e!=0 && pdead[e-1] && (i==0 || tdead[i-1]) -> atomic { if :: ep==e -> ep=0 :: else fi }
	:: else
	fi
}

/* a process's token reads dead, then its threads stop, in any order, at any later time */
proctype End(byte p) {
end_a:	pdead[p];
	if
	:: stop(2*p); stop(2*p+1)
	:: stop(2*p+1); stop(2*p)
	fi
}

active proctype K() {
	byte d, i;
	atomic { obj[0]=1; last[0]=1; todo[0]=CALLS; for (i : 0 .. NT-1) { if :: RUNS(i) -> run T(i) :: else -> fin[i]=1 fi }; for (i : 0 .. NP-1) { run End(i) };
#ifdef SWEEP
		run Sweep();
#endif
		i=0 };
	do
	:: d<DEATHS -> atomic { i=0; do :: i+1<NP -> i++ :: break od; if :: !pdead[i] -> pdead[i]=1; d++ :: else fi; i=0 }
#ifdef STOP
	:: !stopped -> atomic { stopped=1; i=0; do :: i+1<NP -> i++ :: break od; if :: !pdead[i] -> pstop[i]=1 :: else fi; i=0 }
#endif
	:: break
	od;
	timeout -> atomic {
#ifdef STOP
		for (i : 0 .. NT-1) { assert(!stuck[i] || tdead[i] || pstop[PROC(i)]) };
#else
		for (i : 0 .. NT-1) { assert(!stuck[i] || tdead[i]) };
#endif
		for (i : 0 .. NP-1) { assert(obj[i]==0 || pdead[i] || ep==i+1) } }
}
