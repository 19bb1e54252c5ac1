/* barrier_repair.pml - a broken barrier that is made whole, again and again, beside participants
 * that are stopped at any step.
 *
 * Two participants, seated from the beginning, that live on. A third one breaks the barrier; its
 * deaths, and the joinings and arrivals of its successors, take no time here. Each of the two waits
 * R times. Told that the barrier is broken, a participant repairs it.
 *   phase      counts; BROKEN beside it
 *   mk[i]      the mark that participant i's seat has; a seat whose mark is that of the phase has
 *              arrived
 *   away[i]    whatever the phase is, the participant is absent: since a repair
 *   back[i]    the same, and the participant has noticed
 *   out[i]     it has left: no participant waits for it
 * A process that is stopped is one whose next step does not come for a while. Nothing here waits
 * for a step of another, but for the lock of the repair, which is mutex.pml's: so there is no STOP.
 *
 * arrive  1. seat: away -> back   2. p = phase; broken: say so
 *         3. compare-exchange of the seat, from what it was at 1 -> mark(p)
 *         failed: again from 1
 * look    all arrived -> compare-exchange phase p -> p+1; else sleep until the phase changes, or a
 *         seat
 * end     phase is p+1: passed; something else: broken
 * repair  under a lock: each seat by compare-exchange -> away; failed: its owner has just arrived
 *         in the broken phase, or come back; phase -> the broken one + 3
 *
 * Checked: a phase is opened only when both have arrived in that very phase, and no participant
 * passes another one.
 * Switches: -DK=breaks -DR=waits of each -DD=deaths of repairing participants (the lock goes to the
 * next)
 * Mutations, each must be caught:
 *   ONEBIT      no away: arriving is a store of the phase's mark, and a repair leaves the other
 *               mark of the next phase
 *   NOBACK      an away seat is left for the mark directly
 *   PHASEFIRST  the phase is read before the seat says back
 *   EVEN        the phase after a repair is two further than the broken one
 */
#ifndef K
#define K 2
#endif
#ifndef R
#define R 3
#endif
#ifndef D
#define D 0
#endif
#define N 2
#ifdef EVEN
#define STEP 2
#else
#define STEP 3
#endif
#define MARK(p) (1-((p)&1))
byte phase; bool broken;
bool mk[N], away[N], back[N], out[N];
byte came[N];				/* ghost: one more than the phase in which it has arrived last */
bool lock;
byte deaths;

inline arrive() {
	do
	:: true ->
#ifdef ONEBIT
		atomic { p=phase; told=broken };
		if
		:: told -> break
		:: else -> atomic { mk[me]=MARK(p); came[me]=p+1 }; break
		fi
#else
#ifdef PHASEFIRST
		atomic { p=phase; told=broken };
#endif
		atomic { a=away[me]; b=back[me]; m=mk[me] };
#ifndef NOBACK
		if
		:: a && !b -> atomic { if :: away[me] && !back[me] -> back[me]=1; b=1 :: else fi }
		:: else
		fi;
#endif
#ifndef PHASEFIRST
		atomic { p=phase; told=broken };
#endif
		if
		:: told -> break
		:: else ->
			atomic {
				if
				:: away[me]==a && back[me]==b && (a || mk[me]==m) ->
					away[me]=0; back[me]=0; mk[me]=MARK(p); came[me]=p+1; done=1
				:: else
				fi };
			if :: done -> break :: else fi
		fi
#endif
	od;
	atomic { done=0; a=0; b=0; m=0 }
}

#define ARRIVED(i,q) (out[i] || !away[i] && mk[i]==MARK(q))

inline open_or_sleep() {
	do
	:: phase!=p || broken -> break
	:: phase==p && !broken ->
		/* a look: one seat after the other */
		all=1; i=0;
		do
		:: i<N -> atomic { if :: ARRIVED(i,p) :: else -> all=0 fi; i++ }
		:: else -> break
		od;
		i=0;
		if
		:: all ->
			atomic {
				if
				:: phase==p && !broken -> assert((out[0] || came[0]==p+1) && (out[1] || came[1]==p+1)); phase=p+1
				:: else
				fi }
		:: else -> phase!=p || broken || (ARRIVED(0,p) && ARRIVED(1,p))
		fi
	od
}

inline repair() {
	atomic { !lock -> lock=1 };
	if
	:: broken ->
		i=0;
		do
		:: i<N ->
#ifdef ONEBIT
			mk[i]=MARK(phase+4);
#else
			atomic { a=away[i]; b=back[i]; m=mk[i] };
			/* The owner may arrive here, late: its mark is that of the broken phase, or it
			 * has noticed an earlier repair. */
			atomic { if :: away[i]==a && back[i]==b && (a || mk[i]==m) -> away[i]=1; back[i]=0 :: else fi };
#endif
			i++
		:: else -> break
		od;
		atomic { i=0; a=0; b=0; m=0 };
		if
		:: deaths>0 -> atomic { deaths--; lock=0 }		/* died: broken still, and the next to repair gets the lock */
		:: atomic { phase=phase+STEP; broken=0 }; lock=0
		fi
	:: else -> lock=0
	fi
}

proctype T(byte me) {
	byte p, i, r; bool told, a, b, m, all, done;
	do
	:: r<R ->
		arrive();
		if
		:: told
		:: else ->
			open_or_sleep();
			atomic {
				if
				:: phase==p+1 -> assert((out[0] || came[0]>p) && (out[1] || came[1]>p))
				:: else -> told=1
				fi }
		fi;
		if :: told -> repair() :: else fi;
		atomic { told=0; all=0; p=0; r++ }
	:: else -> break
	od;
	/* It leaves: no participant waits for it. */
	atomic { r=0; out[me]=1 };
end_left:	do :: broken -> repair() od
}

proctype Breaks() {
	byte k;
	do
	:: atomic { k<K && !broken -> broken=1; k++ }
	:: k==K -> break
	od;
	k=0
}

init { atomic { deaths=D; mk[0]=0; mk[1]=0; run T(0); run T(1); run Breaks() } }
