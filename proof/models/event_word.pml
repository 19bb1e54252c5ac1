/* event_word.pml - event flags, or a latch, with the WAITERS bit in the same word: a process sees
 * no change that has not been notified.
 *
 *   fl wb         the word: flag, and WAITERS
 *   qw[i]         waiter i is in the kernel's queue of the word
 * There is no fence, no sequence, no epoch, no relay and no list_op_pending.
 *
 * set      1. v = the word. WAITERS is not set: compare-exchange v -> v|flag; it fails: again. Got:
 *             complete
 *          2. WAITERS is set: ONE step: flag set and wake all
 *          3. ONE step: WAITERS cleared and wake all. Complete
 * wait     1. v = the word; the flag is set: (AUTO: compare-exchange it away, keeping WAITERS) done
 *          2. compare-exchange v -> v|WAITERS
 *          3. sleep on {word == v|WAITERS}; from 1. So no waiter sleeps on a word with the flag
 * WIDE     (bits that the kernel's step cannot set) WAITERS is set: ONE step: WAITERS cleared and
 *          wake all; then from 1, while no waiter sleeps
 * A latch is the same with "count 0" as the flag; its last arrival makes steps 2 and 3 in one: SET
 * 0 and wake all.
 *
 * Checked, at rest: no waiter that lives and runs sleeps while the flag is set, also when the
 * setter is stopped or dead anywhere.
 * AUTO (the flag is taken by one waiter): the same.
 * Switches: -DNS=waiters -DNW=setters -DF=threads stopped or killed -DAUTO -DLATCH (one step SET 0
 * instead of 2 and 3) -DWIDE
 *   -DCLEAR (a process may clear the flag)
 * Mutations: TWOSTEP (step 2 as two), CLEARALONE (step 3 does not wake),
 *   SKIPSET (a setter that finds the flag set does nothing),
 *   PLAINCLEAR (step 3 is a compare-exchange of the word seen after the wake, without a wake),
 *   ASREAD (a waiter sets WAITERS, looks anew, and sleeps on the word as it was at the first of
 *          both, also with the flag)
 * SKIPSET is allowed here, since the flag and its notice are one step: it must pass.
 */
#ifndef NS
#define NS 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef F
#define F 1
#endif
bool fl, wb; bool qw[NS], woken[NS], asleep[NS], gone[NS+NW]; byte bf;
#define A(i) if :: qw[i] -> qw[i]=0; woken[i]=1 :: else fi
#if NS == 2
#define WAKEALL A(0); A(1)
#else
#define WAKEALL A(0); A(1); A(2)
#endif

proctype Setter(byte me) {
	bool vf, vw;
	{
		do
		:: atomic { vf=fl; vw=wb };
			if
#ifdef SKIPSET
			:: vf -> break
#endif
			:: atomic { !vw && fl==vf && !wb -> fl=1; break }
			:: atomic { !vw && (fl!=vf || wb) -> vf=0 }
#ifdef WIDE
			:: atomic { vw -> wb=0; WAKEALL; vf=0; vw=0 }
#elif defined(LATCH)
			:: atomic { vw -> fl=1; wb=0; WAKEALL; break }
#else
#ifdef TWOSTEP
			:: vw -> fl=1; d_step { WAKEALL };
#else
			:: atomic { vw -> fl=1; WAKEALL; vf=0; vw=0 };
#endif
#ifdef CLEARALONE
				atomic { wb=0; break }
#elif defined(PLAINCLEAR)
				d_step { vf=fl; vw=wb };
				atomic { if :: fl==vf && wb==vw -> wb=0 :: else fi; break }
#else
				atomic { wb=0; WAKEALL; break }
#endif
#endif
			fi
		od;
		atomic { vf=0; vw=0 };
end_n:		(false)
	} unless { gone[NS+me]; d_step { vf=0; vw=0 } }
}

#ifdef CLEAR
proctype Clearer() {
	if :: fl=0 :: skip fi
}
#endif

proctype Waiter(byte me) {
	bool vf, vw;
	{
		do
#ifdef ASREAD
		:: atomic { wb=1; vf=fl };
			if
#ifdef AUTO
			:: atomic { fl -> fl=0; vf=0; break }
#else
			:: atomic { fl -> vf=0; break }
#endif
			:: !fl ->
				if
				:: atomic { fl==vf && wb -> vf=0; qw[me]=1; asleep[me]=1 };
end_s:					d_step { woken[me] -> woken[me]=0; asleep[me]=0 }
				:: atomic { (fl!=vf || !wb) -> vf=0 }
				fi
			fi
#else
		:: atomic { vf=fl; vw=wb };
			if
#ifdef AUTO
			:: atomic { vf && fl && wb==vw -> fl=0; vf=0; vw=0; break }
			:: atomic { vf && (!fl || wb!=vw) -> vf=0; vw=0 }
#else
			:: atomic { vf -> vf=0; vw=0; break }
#endif
			:: atomic { !vf && (fl || wb!=vw) -> vw=0 }
			:: atomic { !vf && !fl && wb==vw -> wb=1; vw=0 };
				if
				:: atomic { !fl && wb -> qw[me]=1; asleep[me]=1 };
end_s:					d_step { woken[me] -> woken[me]=0; asleep[me]=0 }
				:: fl || !wb
				fi
			fi
#endif
		od;
end_w:		(false)
	} unless { gone[me]; d_step { qw[me]=0; woken[me]=0; asleep[me]=0; vf=0; vw=0 } }
}

active proctype killer() {
	byte i;
	atomic {
		if :: bf=F
#if F > 0
		:: bf=F-1
#endif
#if F > 1
		:: bf=F-2
#endif
		fi;
#ifdef CLEAR
		run Clearer();
#endif
		do :: i<NW -> run Setter(i); i++ :: else -> break od;
		i=0; do :: i<NS -> run Waiter(i); i++ :: else -> break od; i=0
	};
end_k:	do
	:: atomic { bf>0 && !gone[0] -> gone[0]=1; bf-- }
	:: atomic { bf>0 && !gone[1] -> gone[1]=1; bf-- }
	:: atomic { bf>0 && !gone[2] -> gone[2]=1; bf-- }
	:: atomic { bf>0 && !gone[3] -> gone[3]=1; bf-- }
#if NS+NW > 4
	:: atomic { bf>0 && !gone[4] -> gone[4]=1; bf-- }
#endif
	:: bf==0 -> break
	od;
	timeout;
	assert(!fl || (!asleep[0] && !asleep[1]));
	/* a setter that comes next finds WAITERS, so it wakes every sleeper */
	assert(wb || (!asleep[0] && !asleep[1]));
#if NS > 2
	assert(!asleep[2] || !fl && wb)
#endif
}
