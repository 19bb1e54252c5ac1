/* event_word.pml - event flags, or a latch, with the WAITERS bit in the same word: no change can be seen that has not been notified.
 *
 *   fl wb         the word: flag, and WAITERS     qw[i]  waiter i stands in the kernel's queue of the word
 * There is no fence, no sequence, no epoch, no relay and no list_op_pending.
 *
 * set      1. v = the word. WAITERS is not set: compare-exchange v -> v|flag; it fails: again. Got: complete
 *          2. WAITERS is set: ONE step: flag set and wake all       3. ONE step: WAITERS cleared and wake all. Complete
 * wait     1. v = the word; the flag is set: (AUTO: compare-exchange it away, keeping WAITERS) done
 *          2. compare-exchange v -> v|WAITERS   3. sleep on {word == v|WAITERS}; from 1
 * WIDE     (bits that the kernel's step cannot set) WAITERS is set: ONE step: WAITERS cleared and wake all; then from 1, while nobody sleeps
 * A latch is the same with "count 0" as the flag; its last arrival makes steps 2 and 3 in one: SET 0 and wake all.
 *
 * Checked, at rest: no waiter that lives and runs sleeps while the flag is set, also when the setter is stopped or dead anywhere.
 * AUTO (the flag is taken by one waiter): the same.
 * Switches: -DNS=waiters -DNW=setters -DF=threads stopped or killed -DAUTO -DLATCH (one step SET 0 instead of 2 and 3) -DWIDE
 * Mutations: TWOSTEP (step 2 as two), CLEARALONE (step 3 does not wake), SKIPSET (a setter that finds the flag set does nothing),
 *   PLAINCLEAR (step 3 is a compare-exchange of the word seen after the wake, without a wake)
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
	byte r; bool vf, vw;
	{
		skip;
again:		skip;
		d_step { vf=fl; vw=wb };
		if
#ifdef SKIPSET
		:: vf -> goto complete
#endif
		:: d_step { !vw -> if :: fl==vf && wb==vw -> fl=1; r=1 :: else fi; vf=0 };
			if :: r :: else -> goto again fi
		:: vw ->
#ifdef WIDE
			d_step { wb=0; WAKEALL; vf=0; vw=0 };
			goto again
#elif defined(LATCH)
			d_step { fl=1; wb=0; WAKEALL }
#else
#ifdef TWOSTEP
			fl=1; d_step { WAKEALL };
#else
			d_step { fl=1; WAKEALL; vf=0; vw=0 };
#endif
#ifdef CLEARALONE
			wb=0
#elif defined(PLAINCLEAR)
			d_step { vf=fl; vw=wb };
			d_step { if :: fl==vf && wb==vw -> wb=0 :: else fi }
#else
			d_step { wb=0; WAKEALL }
#endif
#endif
		fi;
complete:	skip;
		d_step { r=0; vf=0; vw=0 };
end_n:		(false)
	} unless { gone[NS+me]; d_step { r=0; vf=0; vw=0 } }
}

proctype Waiter(byte me) {
	bool vf, vw, ok;
	{
		do
		:: d_step { vf=fl; vw=wb };
			if
#ifdef AUTO
			:: vf -> d_step { if :: fl==vf && wb==vw -> fl=0; ok=1 :: else fi; vf=0; vw=0 }; if :: ok -> break :: else fi
#else
			:: vf -> break
#endif
			:: !vf ->
				d_step { if :: fl==vf && wb==vw -> wb=1; ok=1 :: else fi; vw=0 };
				if
				:: ok ->
					d_step { ok=0; if :: !fl && wb -> qw[me]=1; asleep[me]=1 :: else fi };
					if
					:: asleep[me] ->
end_s:						d_step { woken[me] -> woken[me]=0; asleep[me]=0 }
					:: else
					fi
				:: else
				fi
			fi
		od;
		skip;
		d_step { vf=0; vw=0; ok=0 };
end_w:		(false)
	} unless { gone[me]; d_step { qw[me]=0; woken[me]=0; asleep[me]=0; vf=0; vw=0; ok=0 } }
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
#if NS > 2
	assert(!fl || !asleep[2]);
#endif
	assert(wb || (!asleep[0] && !asleep[1]))        /* nobody sleeps whom the next setter would overlook */
}
