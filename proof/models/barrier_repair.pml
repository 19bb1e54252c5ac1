/* barrier_repair.pml - a broken barrier that is made whole, and one that is reset, again and again,
 * beside participants that are stopped at any step.
 *
 * Two participants, seated from the beginning, that live on. A third one breaks the barrier, by its
 * death or by an abort; its deaths, and the joinings and arrivals of its successors, take no time
 * here. A fourth process resets the barrier. Each of the two waits R times. Told that the barrier is
 * broken, a participant repairs it; told so by a reset alone, it goes on.
 *   phase      counts; BROKEN and RESETTING beside it
 *   mk[i]      the mark that participant i's seat has; a seat whose mark is that of the phase has
 *              arrived
 *   away[i]    whatever the phase is, the participant is absent: since a repair
 *   back[i]    the same, and the participant has noticed
 *   out[i]     it has left: no participant waits for it
 * A process that is stopped is one whose next step does not come for a while. Nothing here waits
 * for a step of another, but for the lock of the repair, which is mutex.pml's: so there is no STOP.
 *
 * arrive  1. seat: away -> back   2. p = phase; broken: say so; being reset: end the reset, again
 *         3. compare-exchange of the seat, from what it was at 1 -> mark(p)
 *         failed: again from 1
 * look    all arrived -> compare-exchange phase p -> p+1; else sleep until the phase changes, or a
 *         seat
 * end     phase is p+1: passed; something else: broken
 * repair  under a lock: each seat by compare-exchange -> away; failed: its owner has just arrived
 *         in the broken phase, or come back; phase -> the broken one + 3
 * reset   under the same lock: RESETTING; then as a repair, but if the barrier is broken meanwhile, it
 *         stays so
 * end a reset: under the same lock, if it is RESETTING and not broken: as a repair
 *
 * Checked: a phase is opened only when both have arrived in that very phase, and no participant
 * passes another one; none waits for ever; what was broken during a reset is broken until a process
 * repairs or resets it that began afterwards.
 * Switches: -DK=breaks -DR=waits of each -DS=resets -DD=deaths of threads that repair or reset (the
 * lock goes to the next)
 * Mutations, each must be caught:
 *   ONEBIT      no away: arriving is a store of the phase's mark, and a repair leaves the other
 *               mark of the next phase
 *   NOBACK      an away seat is left for the mark directly
 *   PHASEFIRST  the phase is read before the seat says back
 *   EVEN        the phase after a repair is two further than the broken one
 * and with S:
 *   QUIET       a reset does not say RESETTING
 *   NOHELP      a participant that arrives leaves a reset to the process that makes it
 *   ABORTLOST   the last step of a reset is a store
 *   ONESTEP     a reset is that store alone
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
#ifndef S
#define S 0
#endif
#define N 2
#ifdef EVEN
#define STEP 2
#else
#define STEP 3
#endif
#define MARK(p) (1-((p)&1))
byte phase; bool broken, resetting;
bool mk[N], away[N], back[N], out[N];
byte came[N];				/* ghost: one more than the phase in which it has arrived last */
bool lock;
byte deaths;
bool unmended;				/* ghost: broken since the owner of the lock has looked */

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
		atomic { p=phase; told=broken; busy=resetting && !broken };
#endif
		if
		:: told -> break
		:: busy ->
#ifdef NOHELP
			!resetting || broken;
#else
			end_reset();
#endif
			busy=0
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
	:: phase!=p || broken || resetting -> break
	:: phase==p && !broken && !resetting ->
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
				:: phase==p && !broken && !resetting -> assert((out[0] || came[0]==p+1) && (out[1] || came[1]==p+1)); phase=p+1
				:: else
				fi }
		:: else -> phase!=p || broken || resetting || (ARRIVED(0,p) && ARRIVED(1,p))
		fi
	od
}

/* As the owner of the lock, in the place of a phase that is not whole; dire: it was broken already. */
inline renew() {
#ifdef ONESTEP
	if :: dire :: else -> i=N fi;
#endif
	do
	:: i<N ->
#ifdef ONEBIT
		mk[i]=MARK(phase+4);
#else
		atomic { a=away[i]; b=back[i]; m=mk[i] };
		/* The owner may arrive here, late: its mark is that of the old phase, or it has noticed an
		 * earlier repair. */
		atomic { if :: away[i]==a && back[i]==b && (a || mk[i]==m) -> away[i]=1; back[i]=0 :: else fi };
#endif
		i++
	:: else -> break
	od;
	atomic { i=0; a=0; b=0; m=0 };
	if
	:: deaths>0 -> atomic { deaths--; dire=0; lock=0 }	/* died: not whole yet, and the next gets the lock */
	:: true -> atomic {
		if
#ifndef ABORTLOST
		:: broken && !dire
#else
		:: 0
#endif
		:: else -> assert(!unmended); phase=phase+STEP; broken=0; resetting=0
		fi };
		atomic { dire=0; lock=0 }
	fi
}

inline repair() {
	atomic { !lock -> lock=1 };
	atomic { dire=broken; unmended=0; if :: broken || resetting -> found=1 :: else fi };
	if
	:: found -> found=0; renew()
	:: else -> lock=0
	fi
}

inline end_reset() {
	atomic { !lock -> lock=1 };
	atomic { if :: resetting && !broken -> found=1 :: else fi };
	if
	:: found -> found=0; renew()
	:: else -> lock=0
	fi
}

inline reset() {
	atomic { !lock -> lock=1 };
#ifndef QUIET
	if
	:: broken
	:: else -> resetting=1
	fi;
#endif
	atomic { dire=broken; unmended=0 };
	renew()
}

proctype T(byte me) {
	byte p, i, r; bool told, a, b, m, all, done, busy, dire, found;
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
		if :: told && broken -> repair() :: else fi;
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
	:: atomic { k<K && !broken -> broken=1; unmended=1; k++ }
	:: k==K -> break
	od;
	k=0
}

proctype Resets() {
	byte i, k; bool a, b, m, dire;
	do
	:: k<S -> k++; reset()
	:: else -> break
	od;
	k=0
}

init { atomic { deaths=D; mk[0]=0; mk[1]=0; run T(0); run T(1); run Breaks(); if :: S>0 -> run Resets() :: else fi } }
