/* barrier_join.pml - a process that joins a barrier while another one resets it, beside a
 * participant that dies unnoticed.
 *
 * Two seats. A has the first; it arrives and waits, and again when it is told that its phase was
 * broken by a reset. D has the second, never arrives, and dies at any step or not at all. R resets
 * the barrier S times. J joins once. Whether an arrival counts in the phase in which it was meant
 * is barrier_repair.pml's question: here an arrival is one step.
 *   phase   counts; BROKEN and RESETTING beside it
 *   seat    of the second seat: FREE, D's or J's
 *
 * join    1. phase; being reset: end the reset if its lock is free, then phase again; broken: say so
 *         2. seat: dead, in a whole phase: break the barrier, again from 1
 *            dead, in a phase that was being reset: phase; another one: again from 1
 *         3. dead or free: compare-exchange of the seat -> J's; failed, if it was dead: again from 1
 *         4. neither: full
 * reset   under a lock: RESETTING; the seat by compare-exchange -> FREE, if its owner is dead;
 *         phase -> phase + 3
 *
 * Checked: J always ends, also beside a stopped R, and is never told "full" beside a seat whose
 * owner it found dead; when everything has come to rest, A does not sleep beside a death in a whole
 * phase that no reset came after.
 * Switches: -DS=resets -DD=deaths of R during a reset -DSTOP (R stops at any step, for ever)
 * Mutations, each must be caught:
 *   SKIP     J leaves a dead participant's seat to the reset
 *   NOLOOK   J does not look at the phase again
 */
#ifndef S
#define S 1
#endif
#ifndef D
#define D 0
#endif
#define FREE 0
#define DS 1
#define JS 2
byte phase; bool broken, resetting, lock;
byte seat = DS;
bool dead;
byte deaths = D;
bool jdone, asleep;
bool missed;			/* ghost: D has died in a whole phase, and neither a break nor a reset has come */

#define WHOLE (!broken && !resetting)

/* As the owner of the lock. */
inline renew() {
	atomic { s=seat; gone=(s==DS && dead) };
	atomic { if :: gone && seat==s -> seat=FREE :: else fi };
	atomic { phase=phase+3; broken=0; resetting=0 };
	atomic { s=FREE; gone=0; lock=0 }
}

inline break_it() {
	atomic { if :: phase==p && WHOLE -> broken=1; missed=0 :: else fi }
}

proctype A() {
	byte p, s; bool gone, busy;
	do
	:: true ->
		atomic { p=phase; if :: broken -> break :: else -> busy=resetting fi };
		if
		:: busy ->
			busy=0;
end_lock:		atomic { !lock -> lock=1 };
			if :: resetting && !broken -> renew() :: else -> lock=0 fi
		:: else ->
			do
			:: phase!=p || !WHOLE -> break
			:: phase==p && WHOLE ->
				atomic { gone=(seat==DS && dead) };
				if
				:: gone -> gone=0; break_it()
				:: else ->
					asleep=1;
end_asleep:				atomic { phase!=p || !WHOLE || (seat==DS && dead) -> asleep=0 }
				fi
			od
		fi
	od
}

proctype Dies() {
	if
	:: atomic { dead=1; if :: WHOLE && seat==DS -> missed=1 :: else fi }
	:: true
	fi
}

proctype R() {
	byte s, k; bool gone;
	do
	:: k<S ->
		k++;
		atomic { !lock -> lock=1 };
#ifdef STOP
		if :: true :: true -> goto end_stopped fi;
#endif
		atomic { if :: broken :: else -> resetting=1; missed=0 fi };
#ifdef STOP
		if :: true :: true -> goto end_stopped fi;
#endif
		if
		:: deaths>0 -> atomic { deaths--; lock=0 }; break
		:: true
		fi;
		renew()
	:: else -> break
	od;
	goto over;
end_stopped:
	false;
over:	skip
}

proctype J() {
	byte p, s; bool was, gone, d, told;
	do
	:: true ->
		atomic { p=phase; was=resetting && !broken; told=broken };
		if
		:: was ->
			atomic { if :: !lock -> lock=1; gone=1 :: else fi };
			if
			:: gone -> gone=0; if :: resetting && !broken -> renew() :: else -> lock=0 fi
			:: else
			fi;
			atomic { p=phase; was=resetting && !broken; told=broken }
		:: else
		fi;
		if :: told -> break :: else fi;
		atomic { s=seat; d=(s==DS && dead) };
		if
		:: d && !was -> break_it()
		:: else ->
#ifndef NOLOOK
			atomic { if :: d && (phase!=p || broken || !resetting) -> told=1 :: else fi };
#endif
			if
			:: told -> told=0
			:: else ->
#ifdef SKIP
				if :: s==FREE -> skip :: else -> assert(!d); break fi;
#else
				if :: s==FREE || d -> skip :: else -> assert(!d); break fi;
#endif
				atomic { if :: seat==s -> seat=JS; told=1 :: else fi };
				if
				:: told -> break
				:: !told && !d -> break
				:: else
				fi
			fi
		fi;
		atomic { d=0; s=FREE; was=0; told=0; p=0 }
	od;
	jdone=1
}

init {
	atomic { run A(); run Dies(); run R(); run J() };
	atomic { timeout -> assert(jdone); assert(!(missed && asleep)) };
end_rest:	false
}
