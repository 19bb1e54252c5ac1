/* eventcount.pml - an eventcount whose notify_all is one FUTEX_WAKE_OP: death and stop between any
 * two steps.
 *
 * NS waiters wait for changes 1..CH of a condition word; NW notifiers bring them.
 *   w             the condition; b[i]: the change that notifier i has in its store buffer, or 0
 *   n o f         epoch: number, SOMEBODY, FENCED; one word
 *   sq            sequence
 *   q[i]          waiter i is in the kernel's queue of `sequence`
 *
 * notify_all     1. the change   2. e = epoch; SOMEBODY is not set: complete
 *                3. ONE step (empties the buffer): sequence + 1 and wake all
 *                4. compare-exchange epoch: e -> number + 1, SOMEBODY cleared
 * prepare_wait   1. t = sequence   2. epoch: number + 1, SOMEBODY; FENCED stays if SOMEBODY was set
 *                3. FENCED was not set: the heavy fence, which empties all buffers
 *                4. e = epoch; SOMEBODY and sequence == t: compare-exchange epoch: e -> FENCED
 * the look       w has changed: done
 * commit_wait    sleep on {sequence == t}; from prepare_wait again
 * cancel_wait    (CANCEL) the wait is over, slept or not: if SOMEBODY was not set when it was
 *                prepared, and epoch has that number still: number + 1, SOMEBODY cleared
 *
 * Changes: the default is a plain store into a buffer (a queue's READY): the notifiers together
 * bring 1..CH.
 * FLAGS: event flags, set by a locked instruction: each notifier sets every flag 1..M, so flags are
 * set twice. A notifier that is killed or stopped with a change in its buffer: the processor still
 * empties the buffer.
 *
 * Checked: P1 a notify that completes leaves no waiter asleep that had returned from prepare_wait
 * when the notify began; P2 no waiter sleeps with an old sequence; P3 at rest no waiter that lives
 * and runs sleeps without having seen a change whose notify has completed, whichever other threads
 * are stopped or dead.
 * Switches: -DNS=waiters -DNW=notifiers -DM=changes of each -DF=number of threads that are stopped
 *   or killed (for an eventcount both are the same: no thread watches another one's end) -DFLAGS
 *   -DCANCEL
 * Mutations, each must be caught:
 *   TWOSTEP     sequence + 1 and the wake are two steps (P2 at rest)
 *   CLEARFIRST  SOMEBODY is cleared before the wake
 *   SKIPSET     (FLAGS) a notifier that finds the flag set already does not notify
 *   KEEP        FENCED stays on when SOMEBODY goes off
 *   NOTICKET    4 without looking at sequence
 *   BLIND       4 sets FENCED whatever epoch has become
 *   EARLY       FENCED goes on before the fence
 *   NOFENCE     no waiter makes the fence
 *   LATETICKET  t is read after 2
 *   BARE        SOMEBODY is cleared whatever the epoch has become
 *   CANCELANY   (CANCEL) also by a waiter that had not been the first
 *   CANCELBARE  (CANCEL) whatever the number has become
 */
#ifndef NS
#define NS 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef M
#define M 1
#endif
#ifndef F
#define F 1
#endif
#ifdef FLAGS
#define CH M
#else
#define CH (NW*M)
#endif
byte w, n; bool o, f; byte sq;
byte b[NW];
bool q[NS], woken[NS], asleep[NS]; byte t[NS], seen[NS];
bool gone[NS+NW];
bool prep[NS];          /* ghost: has returned from prepare_wait and neither slept through nor left */
bool must[NS];          /* ghost: a notify that began after that has completed */
byte snap[NW];          /* ghost: bit mask of the waiters that had prepared when this notify began, and have not left since */
byte done;              /* ghost: the last change whose notify has completed */
byte bf;

#define drain(i) if :: b[i] -> w=w+1; b[i]=0 :: else fi
#define A(i) if :: q[i] -> q[i]=0; woken[i]=1 :: else fi
#if NS == 1
#define WAKEALL A(0)
#elif NS == 2
#define WAKEALL A(0); A(1)
#else
#define WAKEALL A(0); A(1); A(2)
#endif
#if NW == 1
#define DRAINALL drain(0)
#elif NW == 2
#define DRAINALL drain(0); drain(1)
#else
#define DRAINALL drain(0); drain(1); drain(2)
#endif
#define DONE(i) if :: snap[me]&(1<<i) -> assert(!asleep[i] || woken[i]); must[i]=1 :: else fi
#if NS == 1
#define PREPARED prep[0]
#elif NS == 2
#define PREPARED (prep[0]|(prep[1]<<1))
#else
#define PREPARED (prep[0]|(prep[1]<<1)|(prep[2]<<2))
#endif
#define ALLBITS 7
#if NW == 1
#define LEAVE prep[me]=0; must[me]=0; t[me]=0; snap[0]=snap[0]&(ALLBITS-(1<<me))
#elif NW == 2
#define LEAVE prep[me]=0; must[me]=0; t[me]=0; snap[0]=snap[0]&(ALLBITS-(1<<me)); snap[1]=snap[1]&(ALLBITS-(1<<me))
#else
#define LEAVE prep[me]=0; must[me]=0; t[me]=0; snap[0]=snap[0]&(ALLBITS-(1<<me)); snap[1]=snap[1]&(ALLBITS-(1<<me)); snap[2]=snap[2]&(ALLBITS-(1<<me))
#endif
#define CLEAR(cond) atomic { if :: cond -> n=n+1; o=0; CLF :: else fi }
#ifdef KEEP
#define CLF skip
#else
#define CLF f=0
#endif
#ifdef BARE
#define SAME 1
#else
#define SAME (n==e && o==1 && f==ef)
#endif

#define COMPLETE \
	DONE(0); DONE1; DONE2; snap[me]=0; COUNTDONE; e=0; ef=0; eo=0; v=0; \
	m++; if :: m==M -> m=0; goto end_n :: else fi
#if NS > 1
#define DONE1 DONE(1)
#else
#define DONE1 skip
#endif
#if NS > 2
#define DONE2 DONE(2)
#else
#define DONE2 skip
#endif
#ifdef FLAGS
#define COUNTDONE if :: v>done -> done=v :: else fi
#else
#define COUNTDONE done=done+1   /* how many have completed; all are in w or in a buffer that will be emptied */
#endif

/* Here a notification completes with its last shared step, before it does in the code: a stricter
 * check */
proctype Notifier(byte me) {
	byte m, e, v; bool ef, eo;
	{
		do
#ifdef FLAGS
		:: atomic { snap[me]=PREPARED; v=m+1;   /* the notify begins; the change */
				if
				:: w<v -> w=v
				:: else ->
#ifdef SKIPSET
					COMPLETE; goto next
#else
					skip
#endif
				fi };
#else
		:: atomic { b[me]==0 -> snap[me]=PREPARED; b[me]=1; v=1 };
#endif
			atomic { e=n; eo=o; ef=f; if :: !eo -> COMPLETE; goto next :: else fi };
#ifdef CLEARFIRST
			CLEAR(SAME);
#endif
#ifdef TWOSTEP
			atomic { drain(me); sq++ };
			d_step { WAKEALL };
#else
			d_step { drain(me); sq++; WAKEALL };
#endif
			atomic {
#ifndef CLEARFIRST
				CLEAR(SAME);
#endif
				COMPLETE };
next:			skip
		od;
end_n:		(false)
	} unless { gone[NS+me];
		d_step { m=0; e=0; ef=0; eo=0; v=0; snap[me]=0 } }
}

/* the processor, which empties a buffer when it likes, also one of a thread that is gone */
proctype Buffer(byte me) {
end:	do
	:: d_step { b[me] -> drain(me) }
	od
}

#ifdef CANCEL
#define FIRST first=!o
#define MINE mine=n
#ifdef CANCELANY
#define MAYCANCEL n==mine && o
#elif defined(CANCELBARE)
#define MAYCANCEL first
#else
#define MAYCANCEL first && n==mine && o
#endif
#define FORGET first=0; mine=0
#define CANCELWAIT ; atomic { if :: MAYCANCEL -> n=n+1; o=0; f=0 :: else fi; first=0; mine=0; SEENALL }
#define LOOKED skip
#else
#define FIRST skip
#define MINE skip
#define CANCELWAIT
#define FORGET skip
#define LOOKED SEENALL
#endif
#define SEENALL if :: seen[me]==CH -> goto end_w :: else fi

proctype Waiter(byte me) {
	byte e; bool had, ef, eo;
#ifdef CANCEL
	byte mine; bool first;
#endif
	{
		do
		::
#ifdef LATETICKET
			d_step { FIRST; had=(o && f); f=had; n=n+1; o=1; MINE };
			atomic { t[me]=sq;
#else
			t[me]=sq;
			atomic { FIRST;
#ifdef KEEP
				had=f;
#else
				had=(o && f); f=had;
#endif
				n=n+1; o=1; MINE;
#endif
				if :: had -> had=0; prep[me]=1; goto look :: else fi };
#ifdef EARLY
			d_step { e=n; eo=o; ef=f };
			d_step { if :: eo && sq==t[me] && n==e && o && f==ef -> f=1 :: else fi; e=0; eo=0; ef=0 };
			d_step { DRAINALL; prep[me]=1 };
#else
#ifndef NOFENCE
			d_step { DRAINALL };
#endif
			atomic { e=n; ef=f; if :: !o -> e=0; ef=0; prep[me]=1; goto look :: else fi };
#ifndef NOTICKET
			atomic { if :: sq!=t[me] -> e=0; ef=0; prep[me]=1; goto look :: else fi };
#endif
#ifdef BLIND
			atomic { f=1; e=0; ef=0; prep[me]=1 };
#else
			atomic { if :: n==e && o && f==ef -> f=1 :: else fi; e=0; ef=0; prep[me]=1 };
#endif
#endif
look:			/* prepare_wait has returned */
			if
			:: atomic { w!=seen[me] -> seen[me]=w; LEAVE; LOOKED } CANCELWAIT
			:: w==seen[me] ->               /* the look saw nothing new: commit_wait, later */
				if
				:: atomic { sq==t[me] -> assert(!must[me]); q[me]=1; asleep[me]=1 };
end_s:					atomic { woken[me] -> woken[me]=0; asleep[me]=0; LEAVE } CANCELWAIT
				:: atomic { sq!=t[me] -> LEAVE; FORGET }
				fi
			fi
		od;
end_w:		(false)
	} unless { gone[me];
		d_step { q[me]=0; woken[me]=0; asleep[me]=0; LEAVE; e=0; had=0; ef=0; eo=0; FORGET } }
}

#define FINE(i) (!asleep[i] || (seen[i]>=done && t[i]==sq))
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
		i=0; do :: i<NW -> run Notifier(i);
#ifndef FLAGS
			run Buffer(i);
#endif
			i++ :: else -> break od;
		i=0; do :: i<NS -> run Waiter(i); i++ :: else -> break od; i=0
	};
end_k:	do
	:: atomic { bf>0 && !gone[0] -> gone[0]=1; bf-- }
	:: atomic { bf>0 && !gone[1] -> gone[1]=1; bf-- }
#if NS+NW > 2
	:: atomic { bf>0 && !gone[2] -> gone[2]=1; bf-- }
#endif
#if NS+NW > 3
	:: atomic { bf>0 && !gone[3] -> gone[3]=1; bf-- }
#endif
	:: bf==0 -> break
	od;
	timeout;
#if NS == 1
	assert(FINE(0))
#elif NS == 2
	assert(FINE(0) && FINE(1))
#else
	assert(FINE(0) && FINE(1) && FINE(2))
#endif
}
