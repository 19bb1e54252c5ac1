/* queue.pml - the growing queue: many senders, one receiver, regions of doubling size.
 *
 *   slot[i]   the slot's claim {lap, owner + 1, state}: EMPTY(lap), WRITING(owner), ABANDONED;
 *             pa[i] its payload
 *   rdy[i]    lap + 1 when the message of that lap is there ("READY"): a word of its own, only ever
 *             stored to by the claim's owner
 *   tail[r]   the region's tail and its CLOSED bit; cur a hint which region senders use, rreg the
 *             receiver's region
 *   rcv       the receiver; head[r] how far it got
 *   rseq rflag   the receiver's futex word and its sleep flag: odd = sleeps, a new number each
 *                sleep
 *   sseq swait   the senders' futex word, and "a sender waits for space"
 *
 * send  1. r = cur; receiver dead -> ReceiverDied   2. t = tail[r]; closed -> cur and r move on
 *       3. a lap behind -> full; not EMPTY(lap) -> help the tail
 *       4. compare-exchange EMPTY(lap) -> WRITING(me)
 *       5. compare-exchange tail t -> t+1; closed at <= t: the claim is void
 *       6. write, READY; with FAIL a send may fail here: WRITING(me) -> ABANDONED, by itself
 *       7. f = rflag; odd -> rseq+1, wake, compare-exchange f -> f+1
 * full  room for r+1 first, then close r; at the last region: s = sseq, swait, step 7, look again,
 *       wait {sseq, receiver's end}
 *       (KEEP) s = sseq, swait, step 7; the role: rcv, is it dead? look again; living: wait {sseq,
 *       rcv as it was, receiver's end}; dead: wait {sseq, rcv as it was}
 * recv  READY -> take; closed at <= head -> next region; WRITING by a dead thread, and still not
 *       READY when looked at after the death, or ABANDONED -> compare-exchange to EMPTY(lap+1);
 *       after a slot is given back: senders waiting -> swait := 0, sseq+1, wake all
 *       sleep: s = rseq, flag, look at slot and tail again, wait {rseq == s, end of the WRITING
 *       slot's owner}
 *
 * Any process may be killed between any two shared accesses (process K): from then on it does
 * nothing and its token reads dead. With STOPS one may also stop for ever with its token alive
 * (SIGSTOP). A step is one shared access, with the local work folded into it. endpoint.pml has how
 * the receiver's role passes from process to process; here it is one step.
 *
 * Checked: no living process hangs (unless the receiver is behind a stopped sender's slot); nothing
 * acknowledged is lost or left lying while a receiver lives; order per sender; exactly once; no
 * message torn.
 * Switches: NS senders, M messages each, NR successive receivers, CAP0 slots in region 0, NREG
 * regions, DEATHS, STOPS
 *   FAIL      a send of the first sender may fail with its slot claimed; it sends nothing more then
 *   KEEP      a sender goes on while the receiver is dead (on_receiver_death). Beside a dead receiver
 *             that has no successor, a sender may sleep at the end, if its slot has not been given
 *             back. A taker wakes those that sleep on rcv, in its own step: state_wait.pml has what
 *             happens if it dies between the two
 *   LATE      a receiver's token reads dead before its thread stops; a successor waits for that
 *   BOUND     the queue is bounded to so many messages: its one region is a ring of so many slots
 *             (NREG=1, CAP0=BOUND). Checked: no more than so many are unread at any moment
 *   NOSLEEP   a wait looks straight at what it waits for: far fewer states, for scenes that are not
 *             about sleeping
 *   STOP      Any process may stop for ever, receivers too, and a sleeper makes the
 *             recheck. Only these may stay asleep then: a sender at the largest size, beside a
 *             receiver that is stopped or is behind a stopped sender's slot; and that receiver.
 *             The receiver has taken all that is READY in front of that slot, notified or not.
 * Mutations, each must be caught:
 *   NOVOID      a sender does not look whether its claim lies at or past the closed tail
 *   NOREREAD    the receiver skips a dead writer's slot without looking after the death whether it
 *               is READY
 *   CLEARFIRST  the waker clears the sleep flag, then wakes, and dies in between
 *   NOEPOCH     the sleep flag is a bare bit: a waker's late clear hits the next sleep
 *   NORECHECK   the receiver sleeps without a second look after it has set the flag
 *   SPACE_LATE  the receiver clears swait after the wake
 *   NOFULLWAKE  a sender that finds the queue full goes to sleep without step 7
 *   NOLAPSKIP   a new receiver does not begin with a look whether the lap of the head slot has
 *               moved on
 *   KEEPWRITING a send that failed leaves its slot WRITING, while its sender lives on
 *   QUIETFAIL   a send that failed wakes no sleeper
 *   ROOMFIRST   (KEEP) the sender looks for room before it reads the role
 *   DEADBYPROCESS (KEEP, LATE) the sender takes the token's word for the thread's
 *   NOHOLDER    (KEEP) a sender beside a dead receiver sleeps on sseq alone
 *   ROUNDED     (BOUND) the ring is rounded up, to a power of two for one: CAP0=BOUND+1
 *   NEXTREGION  (BOUND) the full region is followed by another one: NREG=2
 *   NOTIMER     (STOP) a sleeper makes no recheck
 *   ZOMBIE      a token reads dead before its holder has stopped (a process token used for a
 *               thread's claim)
 */
#ifndef NS
#define NS 2
#endif
#ifndef M
#define M 2
#endif
#ifndef NR
#define NR 2
#endif
#ifndef CAP0
#define CAP0 2
#endif
#ifndef NREG
#define NREG 2
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef STOPS
#ifdef STOP
#define STOPS 1
#else
#define STOPS 0
#endif
#endif
#define NP (NS+NR)
#ifdef DEADBYPROCESS
#define GONE(p) tokdead[p]
#else
#define GONE(p) dead[p]
#endif
#if NREG==1
#define TOT CAP0
#elif NREG==2
#define TOT 3*CAP0
#else
#define TOT 7*CAP0
#endif
#define WRITING 1
#define ABANDONED 2
#define READY(r,p) (rdy[IX(r,p)]==LP(r,p)+1)
#define W(lap,own,st) ((lap)*64+(own)*4+(st))
#define LAP(w) ((w)/64)
#define OWN(w) (((w)/4)%16)
#define ST(w)  ((w)%4)
#define CL 128                     /* the closed bit of a tail word */
#define ISCL(t) ((t)>=CL)
#define POS(t) ((t)&127)
#define CAPR(r) (CAP0<<(r))
#define IX(r,p) (CAP0*((1<<(r))-1)+((p)%CAPR(r)))
#define LP(r,p) ((p)/CAPR(r))

short slot[TOT]; byte rdy[TOT], pa[TOT];      /* claim; ready; payload (one step to write, one to copy) */
byte tail[NREG], head[NREG]; byte cur, rreg;  /* cur: senders' hint; rreg: the receiver's region */
byte rcv = NS;                                /* header: the receiver's token */
byte rseq, rflag;                             /* receiver's futex word; sleeping flag (odd = sleeps; epoch above) */
byte sseq; bool swait;                        /* senders' futex word; "a sender waits for space" */
bool asleep[NP];                              /* kernel: in futex_waitv */
byte wfor[NP];                                /* ghost: token+1 waited for */
bool dead[NP], tokdead[NP], stopped[NP];
byte acked[NS], last[NS]; bool done[NS];      /* ghosts */
#ifdef BOUND
byte unread;                                  /* ghost: messages that are READY and not given back */
#endif
#ifdef KEEP
byte wix[NS], wlap[NS];                       /* ghosts: the slot that a sender waits for, and the lap */
#endif

inline wake_receiver() {                      /* x is a local of the caller */
#ifndef NOSLEEP
	atomic { x=rflag; if :: x%2==0 -> x=0 :: else fi };
	if
	:: x ->
#ifdef CLEARFIRST
		atomic { if :: rflag==x -> rflag=x+1 :: else fi };
		rseq++;
		asleep[rcv]=0
#else
		rseq++;                               /* a late sleeper gets EAGAIN */
		asleep[rcv]=0;                        /* FUTEX_WAKE */
#ifdef NOEPOCH
		rflag=0
#else
		atomic { if :: rflag==x -> rflag=x+1 :: else fi }  /* clears only that very sleep's flag */
#endif
#endif
	:: else
	fi
#else
	skip
#endif
}

#ifdef KEEP
bool onrcv[NP];                               /* asleep on rcv, too */
#ifdef NOHOLDER
#define ONRCV !kd
#else
#define ONRCV 1
#endif
#define WAKETAKEN for (i : 0 .. NS-1) { if :: onrcv[i] -> onrcv[i]=0; asleep[i]=0 :: else fi }; i=0
#else
#define WAKETAKEN skip
#endif

proctype S(byte me) {
	byte k=1, r, t, x, s, rc; short v; bool failed;
#ifdef KEEP
	bool kd;
#endif
	{
		skip;
L0:		atomic { if :: k>M -> goto out :: else fi;
#ifdef KEEP
			rc=rcv; r=cur; kd=0 };
#else
			rc=rcv; if :: tokdead[rc] -> goto out :: else -> r=cur fi };   /* ReceiverDied */
#endif
L1:		atomic { t=tail[r]; if :: ISCL(t) -> goto LN :: else fi };
		atomic { v=slot[IX(r,t)];
			if
			:: v==W(LP(r,t),0,0) -> skip
			:: else -> if :: LAP(v)<LP(r,t) -> goto LF :: else -> goto LH fi
			fi };
		atomic { if :: slot[IX(r,t)]==v -> slot[IX(r,t)]=W(LP(r,t),me+1,WRITING) :: else -> goto L1 fi };
		atomic { if                            /* CAS tail; the failed CAS hands back the value seen */
			:: tail[r]==t -> tail[r]=t+1
			:: else -> x=tail[r];
#ifndef NOVOID
				if :: ISCL(x) && POS(x)<=t -> goto LN :: else fi    /* void claim */
#endif
			fi };
#ifdef FAIL
		if :: !failed && me==0 -> failed=1; goto LX :: skip fi;
#endif
		pa[IX(r,t)]=me*8+k;
#ifdef BOUND
		atomic { rdy[IX(r,t)]=LP(r,t)+1; unread++; assert(unread<=BOUND) };
#else
		rdy[IX(r,t)]=LP(r,t)+1;
#endif
		wake_receiver();
		atomic { acked[me]=k; k++; t=0; x=0; s=0; v=0; goto L0 };   /* send returned */
#ifdef FAIL
LX:
#ifndef KEEPWRITING
		slot[IX(r,t)]=W(LP(r,t),me+1,ABANDONED);
#endif
#ifndef QUIETFAIL
		wake_receiver();
#endif
		goto out;                              /* send returned an error; nothing more is sent */
#endif
LH:		atomic { if :: tail[r]==t -> tail[r]=t+1 :: else fi }; goto L1;   /* help */
LN:		atomic { if :: cur==r -> cur=r+1 :: else fi }; r=r+1; goto L1;
LF:		if
		:: r<NREG-1 ->                         /* fallocate region r+1 first, only then close r */
			atomic { if :: tail[r]==t -> tail[r]=t+CL :: else fi }; goto L1
		:: else ->                             /* at max: wait for {space, the receiver's end} */
#ifdef NOSLEEP
#ifdef KEEP
			atomic { asleep[me]=1; wix[me]=IX(r,t); wlap[me]=LP(r,t) };
end_s:			atomic { LAP(slot[IX(r,t)])>=LP(r,t) -> asleep[me]=0; wix[me]=0; wlap[me]=0; goto L0 }
#else
			atomic { asleep[me]=1; wfor[me]=rc+1 };
end_s:			atomic { (LAP(slot[IX(r,t)])>=LP(r,t) || tokdead[rc]) -> asleep[me]=0; wfor[me]=0; goto L0 }
#endif
#else
			s=sseq;
			swait=1;
#ifndef NOFULLWAKE
			wake_receiver();                   /* its sender may have died before it could */
#endif
#if defined(KEEP) && !defined(ROOMFIRST)
			atomic { rc=rcv; kd=GONE(rc) };
#endif
			atomic { v=slot[IX(r,t)]; if :: LAP(v)>=LP(r,t) -> goto L1 :: else fi };
#ifdef KEEP
#ifdef ROOMFIRST
			atomic { rc=rcv; kd=GONE(rc) };
#endif
			atomic { if :: sseq!=s || rcv!=rc || (!kd && GONE(rc)) -> goto L0
				:: else -> asleep[me]=1; onrcv[me]=ONRCV; wfor[me]=rc+1; wix[me]=IX(r,t); wlap[me]=LP(r,t) fi };
#if defined(STOP) && !defined(NOTIMER)
end_s:			(!asleep[me] || (!kd && GONE(rc)) || rcv!=rc || LAP(slot[IX(r,t)])>=LP(r,t));
#else
end_s:			(!asleep[me] || (!kd && GONE(rc)));
#endif
			atomic { asleep[me]=0; onrcv[me]=0; wfor[me]=0; wix[me]=0; wlap[me]=0; goto L0 }
#else
			atomic { if :: sseq!=s -> goto L0 :: else -> asleep[me]=1; wfor[me]=rc+1 fi };
#if defined(STOP) && !defined(NOTIMER)
end_s:			(!asleep[me] || tokdead[rc] || LAP(slot[IX(r,t)])>=LP(r,t));
#else
end_s:			(!asleep[me] || tokdead[rc]);
#endif
			atomic { asleep[me]=0; wfor[me]=0; goto L0 }
#endif
#endif
		fi;
out:	atomic { done[me]=1; k=0; r=0; t=0; x=0; s=0; rc=0; v=0 }
	} unless { (dead[me]||stopped[me]) }
}

inline wake_space() {
	atomic { if :: !swait -> goto L1 :: else fi };
#ifdef SPACE_LATE
	sseq++;
	d_step { for (i : 0 .. NS-1) { asleep[i]=0 }; i=0 };
	swait=0
#else
	swait=0;
	sseq++;
	d_step { for (i : 0 .. NS-1) { asleep[i]=0 }; i=0 }
#endif
}

proctype R(byte me) {
	byte r, h, s, x, wf, a, fx, i; short v, v2;
	{
	if
	:: me==NS -> skip
	:: else -> 
#ifdef LATE
end_t:		atomic { tokdead[rcv] && dead[rcv] && rcv==me-1 -> rcv=me; WAKETAKEN }
#else
end_t:		atomic { tokdead[rcv] && rcv==me-1 -> rcv=me; WAKETAKEN }   /* take over: CAS dead -> me */
#endif
	fi;
	atomic { r=rreg; h=head[r] };
#ifndef NOLAPSKIP
	/* taken, but the head not moved: the predecessor died there. READY still says that the
	 * message is there */
	atomic { v=slot[IX(r,h)]; if :: LAP(v)>LP(r,h) -> v=0; goto LA :: else -> v=0 fi };
#endif
	goto L1;
LR:	h=head[r];
L1:	atomic { wf=0; v=0; v2=0; x=0; s=0; a=0; fx=0; if :: READY(r,h) -> goto LT :: else fi };
	atomic { v=slot[IX(r,h)];
		if
		:: LAP(v)==LP(r,h) && ST(v)==WRITING -> wf=OWN(v)
		:: else
		fi };
	atomic { x=tail[r]; if :: ISCL(x) && h>=POS(x) -> goto LM :: else fi };
#ifdef FAIL
	atomic { if :: LAP(v)==LP(r,h) && ST(v)==ABANDONED -> slot[IX(r,h)]=W(LP(r,h)+1,0,0); goto LA :: else fi };
#endif
	if
	:: wf && tokdead[wf-1] ->
#ifndef NOREREAD
		if :: READY(r,h) -> goto L1 :: else fi;
#endif
		atomic { if :: slot[IX(r,h)]==v -> slot[IX(r,h)]=W(LP(r,h)+1,0,0); goto LA :: else -> goto L1 fi }
	:: else
	fi;
#ifdef NOSLEEP
	wfor[me]=wf;
end_r:	atomic { (READY(r,h) || slot[IX(r,h)]!=v || (ISCL(tail[r]) && h>=POS(tail[r])) || (wf && tokdead[wf-1])) -> wfor[me]=0; goto L1 };
#else
	/* sleep */
	s=rseq;
#ifdef NOEPOCH
	atomic { rflag=1; fx=1 };
#else
	atomic { rflag=rflag+1+(rflag%2); fx=rflag };      /* a new epoch each time, also after a dead predecessor's */
#endif
#ifndef NORECHECK
	atomic { if :: READY(r,h) -> goto LU :: else fi };
	atomic { v2=slot[IX(r,h)]; if :: v2!=v -> goto LU :: else fi };
	atomic { x=tail[r]; if :: ISCL(x) && h>=POS(x) -> goto LU :: else fi };
#endif
	atomic { if :: rseq!=s -> goto LU :: else -> asleep[me]=1; wfor[me]=wf fi };
#if defined(STOP) && !defined(NOTIMER)
end_r:	(!asleep[me] || (wf && tokdead[wf-1]) || READY(r,h) || slot[IX(r,h)]!=v || (ISCL(tail[r]) && h>=POS(tail[r])));
#else
end_r:	(!asleep[me] || (wf && tokdead[wf-1]));
#endif
LU:	atomic { asleep[me]=0; wfor[me]=0; if :: rflag==fx -> rflag=fx+1 :: else fi; goto L1 };
#endif
LT:	a=pa[IX(r,h)];                             /* peek: copy out */
	atomic {                                   /* commit: recycle the slot */
		assert(a==pa[IX(r,h)] && a/8+1==OWN(slot[IX(r,h)]));   /* not torn */
		slot[IX(r,h)]=W(LP(r,h)+1,0,0);
#ifdef BOUND
		unread--;
#endif
		assert(a%8==last[a/8]+1);              /* FIFO, exactly once */
		last[a/8]=a%8 };
LA:
#ifdef NOSLEEP
	atomic { h=h+1; head[r]=h; goto L1 };
#else
	atomic { h=h+1; head[r]=h };
	wake_space();
	goto L1;
#endif
LM:	rreg=r+1; r=r+1; goto LR
	} unless { (dead[me]||stopped[me]) }
}

active proctype K() {
	byte d, st, i;
	do
	:: d<DEATHS -> atomic {
		i=0; do :: i+1<NP -> i++ :: break od;
		if :: !tokdead[i] -> tokdead[i]=1; d++;
#if defined(LATE)
			if :: i<NS -> dead[i]=1 :: else fi
#elif !defined(ZOMBIE)
			dead[i]=1
#endif
		   :: else fi;
		i=0 }
	:: st<STOPS -> atomic {
#ifdef STOP
		i=0; do :: i+1<NP -> i++ :: break od;
#else
		i=0; do :: i+1<NS -> i++ :: break od;
#endif
		if :: !stopped[i] && !dead[i] -> stopped[i]=1; st++ :: else fi;
		i=0 }
	:: break
	od;
#if defined(ZOMBIE) || defined(LATE)
	i=0;
	do
	:: i<NP -> atomic { if :: tokdead[i] -> dead[i]=1 :: else fi; i++ }   /* the real end, later */
	:: else -> break
	od;
#endif
	skip
}

init {
	byte i; bool hol;
	atomic { for (i : 0 .. NS-1) { run S(i) }; for (i : NS .. (NS+NR-1)) { run R(i) } };
	timeout ->
	atomic {
		/* receiver sits behind a stopped writer? then waiting at max is what we must expect */
#ifdef STOP
		/* or stopped itself */
		hol = (stopped[rcv] || (wfor[rcv]>0 && stopped[wfor[rcv]-1]));
		assert(tokdead[rcv] || stopped[rcv] || !READY(rreg,head[rreg]));
#else
		hol = (wfor[rcv]>0 && stopped[wfor[rcv]-1]);
#endif
		for (i : 0 .. NS-1) {
#ifdef KEEP
			assert(dead[i] || stopped[i] || done[i] || (hol && asleep[i])
				|| (asleep[i] && dead[rcv] && LAP(slot[wix[i]])<wlap[i]));
#else
			assert(dead[i] || stopped[i] || done[i] || (hol && asleep[i]));   /* nobody alive hangs */
#endif
			assert(tokdead[rcv] || hol || last[i]>=acked[i])                  /* nothing acknowledged is lost or left lying */
		}
	}
}
