/* pool.pml - large messages: objects of a pool on their way through the queue, and back.
 *
 *   tag[o]    the object's control word: 0 free, HELD(thread), IN_QUEUE(position). A process that
 *             changes what another wrote does so by compare-exchange; the tag lies in a table of
 *             its own, never inside the object
 *   slot[i] rdy[i]   claim and ready as in queue.pml
 *   obj[i]    which object: a word of its own, left as it was by a death, so it may name an object
 *             of an earlier lap
 *   tail[r] (with CLOSED), head[r], two regions of CAP0 and 2 CAP0 slots; a position names region
 *   and place: POS(r,t)
 *
 * send     1. alloc: compare-exchange tag 0 -> HELD(me)          2. write the payload
 *          3. claim: slot EMPTY -> WRITING(me), the tail; closed at <= t: void, next region (the
 *             object stays mine)
 *          4. obj = o          5. tag HELD(me) -> IN_QUEUE(pos)  6. READY
 * recv     READY: copy; slot -> EMPTY(lap+1); compare-exchange tag IN_QUEUE(pos) -> 0
 *          WRITING: see its owner dead, then read ready; still not: o = obj; compare-exchange tag
 *          of o IN_QUEUE(this very pos) -> 0 (another tag: a stale index, left alone);
 *          compare-exchange slot -> EMPTY(lap+1)
 *          ABANDONED: slot -> EMPTY(lap+1)
 * sweep    any process, any time: a slot WRITING by the dead: as the receiver does, but slot ->
 *          ABANDONED
 * collect  any process, any time: HELD(dead) -> 0; IN_QUEUE(pos) whose slot has gone past pos -> 0,
 *          save for the last one before the head of a living receiver, which that one frees; by
 *          compare-exchange
 * Each process (senders, receivers, the collector) may be killed between any two steps; a next
 * receiver takes over.
 *
 * Checked: an object is never freed while it lies in the queue unread; never two owners; what
 * arrives is whole, once, in order; nothing acknowledged is lost while a receiver lives; when all
 * is quiet one collection leaves no object that is neither free nor in the queue nor held by the
 * living.
 * STOP: any one process may stop for ever, and one be killed. Behind a slot that a stopped sender
 * has claimed, or beside a stopped receiver, messages and their objects stay where they are, and
 * senders wait when the queue is full. The object that the stopped process holds, or has taken
 * last, stays its own, and that of a sender that waits is the sender's. Every other process comes
 * to its end, and every other object is free after one collection.
 * Switches: NS senders, M messages each, NR successive receivers, NOBJ objects, CAP0, DEATHS,
 * NG=0|1 process that sweeps and collects meanwhile
 * Mutations, each must be caught:
 *   NOREREAD     the skipping receiver does not look at ready after it has seen the owner dead
 *   SKIPANY      it frees whatever object the index names
 *   TAGLATE      READY before the tag
 *   FREEFIRST    the receiver frees before it gives the slot back
 *   NOVOID       the claim is not looked at for being void
 *   GCSTORE      the collector frees by a store
 *   GCLAP        it takes any IN_QUEUE whose slot is not READY
 *   WAITHELD     (STOP) a sender that finds no free object waits until one is, instead of giving up
 *   NOFINISH     a receiver that comes in does not free what its predecessor had just taken, and
 *                the collector leaves it, too
 *   NOGCQUEUE    the collector does not look at IN_QUEUE at all: what a receiver had taken when it
 *                died leaks
 */
#ifndef NS
#define NS 2
#endif
#ifndef M
#define M 1
#endif
#ifndef NR
#define NR 2
#endif
#ifndef NOBJ
#define NOBJ 2
#endif
#ifndef CAP0
#define CAP0 1
#endif
#ifndef NREG
#define NREG 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef NG
#define NG 1
#endif
#define NP (NS+NR+NG)
#if NREG==1
#define TOT CAP0
#else
#define TOT 3*CAP0
#endif
#define WRITING 1
#define READY(r,p) (rdy[IX(r,p)]==LP(r,p)+1)
#define ABANDONED 3
#define W(lap,own,st) ((lap)*64+(own)*4+(st))
#define LAP(w) ((w)/64)
#define OWN(w) (((w)/4)%16)
#define ST(w)  ((w)%4)
#define CL 64                           /* the closed bit of a tail */
#define ISCL(t) ((t)>=CL)
#define PLACE(t) ((t)%CL)
#define CAPR(r) (CAP0<<(r))
#define IX(r,p) (CAP0*((1<<(r))-1)+((p)%CAPR(r)))
#define LP(r,p) ((p)/CAPR(r))
#define RG(i) ((i)>=CAP0 -> 1 : 0)
#define HELD(t) ((t)+1)
#define POS(r,t) (32+(r)*32+(t))
#define ISPOS(w) ((w)>=32)
#define PREG(w) (((w)-32)/32)
#define PPL(w) ((w)%32)
#define GARBAGE 99

short slot[TOT]; byte rdy[TOT], obj[TOT];
byte tag[NOBJ], pay[NOBJ];
byte tail[NREG], head[NREG]; byte cur, rreg, rcv = NS;
bool dead[NP], done[NP];
#ifdef STOP
bool stopped[NP];
#define HEAD slot[IX(rreg,head[rreg])]
#define BEHIND (stopped[rcv] || (ST(HEAD)==WRITING && LAP(HEAD)==LP(rreg,head[rreg]) && stopped[OWN(HEAD)-1]))
#endif
byte acked[NS], last[NS];               /* ghosts */
bool lies[NOBJ];                        /* ghost: READY in the queue and unread */
byte owner[NOBJ];                       /* ghost: the living sender it belongs to + 1 */

inline free_ok(o) { assert(!lies[o]); assert(owner[o]==0 || dead[owner[o]-1]); owner[o]=0; pay[o]=GARBAGE }

/* one pass over all tags; c afterwards */
inline collect() {
	do
	:: atomic { o<NOBJ && tag[o]==0 -> o++ }
	:: atomic { o<NOBJ && tag[o]!=0 -> w=tag[o]; c=0 };
		atomic {
			if
			:: !ISPOS(w) -> c=dead[w-1]
			:: ISPOS(w) ->
#ifdef GCLAP
				c=!READY(PREG(w),PPL(w))
#elif !defined(NOGCQUEUE)
				c=(LAP(slot[IX(PREG(w),PPL(w))])>LP(PREG(w),PPL(w)));
				if :: c && PREG(w)==rreg && PPL(w)+1>=head[rreg] && !dead[rcv] -> c=0 :: else fi
#else
				skip
#endif
			fi };
		if
#ifdef GCSTORE
		:: atomic { c -> tag[o]=0; free_ok(o); o++; w=0; c=0 }
#else
		:: atomic { c && tag[o]==w -> tag[o]=0; free_ok(o); o++; w=0; c=0 }
		:: atomic { c && tag[o]!=w -> o++; w=0; c=0 }
#endif
		:: atomic { !c -> o++; w=0 }
		fi
	:: atomic { o==NOBJ -> o=0; c=1; break }
	od
}

proctype S(byte me) {
	byte k=1, r, t, x, o, w; short v; bool c;
	{
	skip;
L0:	atomic { if :: k>M -> goto out :: else fi; if :: dead[rcv] -> goto out :: else -> r=cur; c=0 fi };
	/* alloc: any free one; when there is none, collect once, and if that gave nothing, give up */
A0:	atomic {
		if
		:: tag[0]==0 -> o=0
#if NOBJ > 1
		:: tag[1]==0 -> o=1
#endif
		:: else -> if :: c -> goto out :: else -> goto A1 fi
		fi;
		tag[o]=HELD(me); assert(owner[o]==0 && !lies[o]); owner[o]=me+1; goto A2 };
A1:
#ifdef WAITHELD
	(tag[0]==0 || tag[NOBJ-1]==0);
#endif
	collect(); goto A0;
A2:	atomic { c=0; pay[o]=me*8+k };
L1:	atomic { t=tail[r]; if :: ISCL(t) -> goto LN :: else fi };
	atomic { v=slot[IX(r,t)];
		if
		:: v==W(LP(r,t),0,0) -> v=0
		:: else -> if :: LAP(v)<LP(r,t) -> if :: r<NREG-1 -> v=0; goto LC :: else -> goto LF fi :: else -> v=0; goto LH fi
		fi };
	atomic { if :: slot[IX(r,t)]==W(LP(r,t),0,0) -> slot[IX(r,t)]=W(LP(r,t),me+1,WRITING) :: else -> goto L1 fi };
	atomic { if
		:: tail[r]==t -> tail[r]=t+1
		:: else -> x=tail[r];
#ifndef NOVOID
			if :: ISCL(x) && PLACE(x)<=t -> x=0; goto LN :: else -> x=0 fi
#endif
		fi };
	obj[IX(r,t)]=o;
#ifdef TAGLATE
	atomic { rdy[IX(r,t)]=LP(r,t)+1; lies[o]=1; owner[o]=0 };
	atomic { if :: tag[o]==HELD(me) -> tag[o]=POS(r,t) :: else fi };
#else
	atomic { assert(tag[o]==HELD(me)); tag[o]=POS(r,t) };
	atomic { rdy[IX(r,t)]=LP(r,t)+1; lies[o]=1; owner[o]=0 };
#endif
	atomic { acked[me]=k; k++; o=0; t=0; x=0; v=0; goto L0 };
LH:	atomic { if :: tail[r]==t -> tail[r]=t+1 :: else fi; goto L1 };
LN:	atomic { if :: cur==r -> cur=r+1 :: else fi; r=r+1; goto L1 };
LC:	atomic { if :: tail[r]==t -> tail[r]=t+CL :: else fi; goto L1 };
LF:
end_s:	atomic { (slot[IX(r,t)]!=v || dead[rcv]) -> v=0; if :: dead[rcv] -> skip :: else -> goto L1 fi };
	/* ReceiverDied: the object goes back */
	atomic { assert(tag[o]==HELD(me)); owner[o]=0; free_ok(o); tag[o]=0 };
out:	done[me]=1
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	atomic { k=0; r=0; t=0; x=0; v=0; o=0; c=0; w=0 }
}

proctype R(byte me) {
	byte r, h, x, a, o, b; short v; bool c;
	{
	if
	:: me==NS -> skip
	:: else ->
end_t:		atomic { dead[rcv] && rcv==me-1 -> rcv=me }
	fi;
	atomic { r=rreg; h=head[r] };
	/* given back by a predecessor that died before the head moved */
	atomic { v=slot[IX(r,h)]; if :: LAP(v)>LP(r,h) -> v=0; h=h+1; head[r]=h :: else -> v=0 fi };
#ifndef NOFINISH
	if
	:: atomic { h>0 -> o=obj[IX(r,h-1)] }; atomic { if :: tag[o]==POS(r,h-1) -> tag[o]=0; free_ok(o) :: else fi; o=0 }
	:: h==0
	fi;
#endif
	goto L1;
LR:	h=head[r];
L1:	atomic { v=0; a=0; o=0; x=0; b=0; if :: READY(r,h) -> goto LT :: else fi };
	v=slot[IX(r,h)];
	atomic { x=tail[r]; if :: ISCL(x) && h>=PLACE(x) -> x=0; v=0; goto LM :: else -> x=0 fi };
	if
	:: atomic { LAP(v)==LP(r,h) && ST(v)==ABANDONED -> slot[IX(r,h)]=W(LP(r,h)+1,0,0); v=0; goto LA }
	:: atomic { LAP(v)==LP(r,h) && ST(v)==WRITING && dead[OWN(v)-1] -> skip };
#ifndef NOREREAD
		atomic { if :: READY(r,h) -> goto L1 :: else fi };
#endif
		o=obj[IX(r,h)];
#ifdef SKIPANY
		atomic { b=tag[o]; if :: b!=0 -> tag[o]=0; free_ok(o) :: else fi };
#else
		atomic { if :: tag[o]==POS(r,h) -> tag[o]=0; free_ok(o) :: else fi };
#endif
		atomic { o=0; b=0; if :: slot[IX(r,h)]==v -> slot[IX(r,h)]=W(LP(r,h)+1,0,0); v=0; goto LA :: else -> goto L1 fi }
	:: atomic { else -> goto LW }
	fi;
LW:
end_r:	atomic { (READY(r,h) || slot[IX(r,h)]!=v || (ISCL(tail[r]) && h>=PLACE(tail[r])) || (ST(v)==WRITING && LAP(v)==LP(r,h) && dead[OWN(v)-1])) -> goto L1 };
LT:	o=obj[IX(r,h)];
	a=pay[o];                                               /* copy */
#ifdef FREEFIRST
	atomic { if :: tag[o]==POS(r,h) -> tag[o]=0; lies[o]=0; free_ok(o) :: else fi };
#endif
	atomic {
		assert(a/8+1==OWN(slot[IX(r,h)]));
		slot[IX(r,h)]=W(LP(r,h)+1,0,0); lies[o]=0;
#ifndef FREEFIRST
		assert(a==pay[o]);                              /* whole */
#endif
		assert( a%8==last[a/8]+1);       /* in order, once */
		last[a/8]=a%8; a=0 };
#ifndef FREEFIRST
	atomic { if :: tag[o]==POS(r,h) -> tag[o]=0; free_ok(o) :: else fi; o=0 };
#endif
LA:	atomic { h=h+1; head[r]=h; o=0; goto L1 };
LM:	atomic { rreg=r+1; r=r+1; goto LR }
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	atomic { r=0; h=0; x=0; a=0; o=0; b=0; v=0; c=0 }
}

proctype G(byte me) {
	byte o, w, i; short v; bool c;
	{
	/* sweeps the slots: as the skipping receiver does, but a sweep does not give a slot back:
	 * ABANDONED */
	do
	:: atomic { i<TOT -> v=slot[i]; if :: ST(v)==WRITING && dead[OWN(v)-1] -> skip :: else -> v=0; i++; goto again fi };
		atomic { if :: rdy[i]!=LAP(v)+1 -> skip :: else -> v=0; i++; goto again fi };
		o=obj[i];
		atomic { if :: tag[o]==POS(RG(i),LAP(v)*CAPR(RG(i))+i-IX(RG(i),0)) -> tag[o]=0; free_ok(o) :: else fi; o=0 };
		atomic { if :: slot[i]==v -> slot[i]=W(LAP(v),0,ABANDONED) :: else fi; v=0; i++; goto again };
again:		skip
	:: atomic { i==TOT -> i=0; break }
	od;
	collect(); done[me]=1
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	atomic { o=0; w=0; c=0; i=0; v=0 }
}

active proctype K() {
	byte d, i;
#ifdef STOP
	bool stop=1;
#endif
	do
#ifdef STOP
	:: stop -> atomic { stop=0; i=0; do :: i+1<NP -> i++ :: break od; if :: !dead[i] -> stopped[i]=1 :: else fi; i=0 }
#endif
	:: d<DEATHS -> atomic { i=0; do :: i+1<NP -> i++ :: break od; if :: !dead[i] -> dead[i]=1; d++ :: else fi; i=0 }
	:: break
	od
}

init {
	byte i, o, w; bool c;
	atomic {
		for (i : 0 .. NS-1) { run S(i) };
		for (i : NS .. (NS+NR-1)) { run R(i) };
#if NG > 0
		run G(NS+NR);
#endif
		i=0 };
	timeout ->
	atomic {
		for (i : 0 .. NS-1) {
#ifdef STOP
			assert(dead[i] || stopped[i] || done[i] || (dead[rcv] && rcv==NS+NR-1) || BEHIND);
			assert(dead[rcv] || BEHIND || last[i]>=acked[i]) };
#else
			assert(dead[i] || done[i] || (dead[rcv] && rcv==NS+NR-1));
			assert(dead[rcv] || last[i]>=acked[i]) };
#endif
		i=0 };
	collect();
	atomic {
		for (i : 0 .. NOBJ-1) {
#ifdef STOP
			assert(tag[i]==0 || (!ISPOS(tag[i]) && (stopped[tag[i]-1] || (BEHIND && !done[tag[i]-1])))
				|| (ISPOS(tag[i]) && (dead[rcv] || BEHIND) && LAP(slot[IX(PREG(tag[i]),PPL(tag[i]))])==LP(PREG(tag[i]),PPL(tag[i])))
				|| (ISPOS(tag[i]) && stopped[rcv]));
#else
			/* what is left is in the queue, unread or half written (a receiver would skip
			 * it), and no receiver is left */
			assert(tag[i]==0 || (dead[rcv] && ISPOS(tag[i]) && LAP(slot[IX(PREG(tag[i]),PPL(tag[i]))])==LP(PREG(tag[i]),PPL(tag[i]))));
#endif
			assert(!lies[i] || tag[i]!=0) } }
}
