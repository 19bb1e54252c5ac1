/* limit.pml - a ring region whose slots are allocated in steps, and which may stay shorter than it
 * was meant to be.
 *
 *   limit    {f slots allocated, SEALED}; NOM slots are meant to be there, STEP come at a time, the
 *            first STEP at creation
 *   cap      f, once SEALED or f == NOM: positions wrap modulo cap. Before that position p lies in
 *            slot p (p < f)
 *   slot[i]  {lap, state} as in queue.pml; tail, head: positions
 *
 * at position t, with f and sealed from an older look at limit (lim, each sender's own):
 *   1. t < f, or the capacity is settled: slot t mod cap, lap t div cap
 *   2. t >= f, not settled: load limit anew; still t >= f: allocate the next step
 *        done   -> compare-exchange limit f -> f+STEP
 *        failed -> compare-exchange limit f -> f|SEALED
 *      then load limit again, from 1. A sender that loses the race goes by what the winner wrote
 * Sealed is for ever, also when memory is free again: laps and slots are counted by it. Whether an
 * allocation succeeds differs from process to process and from try to try (each has its own
 * limits). A process may be killed between any two steps.
 *
 * sweep (-DSWEEP), by any process: for each slot that exists by a first look at limit: the claim;
 *   WRITING by a dead sender -> limit again; its position by this one: the object of the message
 *   there is freed, if the tag says that place; then the claim -> ABANDONED, from what was seen. A
 *   lap that this limit does not have: left for the next sweep.
 *
 * Checked: no process touches a slot that is not allocated; no slot holds two positions of one lap,
 * that is: a sender that claims position t finds there what was left by position t - cap, and the
 * receiver finds at h what was sent at h; a sweep takes a claim for that of the position that was
 * claimed; no living process hangs.
 * Switches: -DNOM -DSTEP -DNS=senders -DM=messages each -DDEATHS
 *   STOP        One sender, or the receiver, may stop for ever, and a sender may be killed then.
 *               Beside a sender that is stopped with the slot at the head, the receiver stays
 *               blocked, and senders when all is full; beside a stopped receiver, senders when all
 *               is full. No other process stays blocked: another process makes the step of
 *               growing or sealing that the stopped process has left.
 * Mutations, each must be caught:
 *   SEALSTORE   the seal is set by a store            GROWSTORE   growth is set by a store
 *   GROWFIRST   limit is raised before the allocation
 *   NORELOAD    a sender whose own allocation failed takes f for the capacity without reading limit
 *               again
 *   OLDCAP      a sender takes the f of its older look for the capacity when it reaches its end
 *   OLDLIMIT    a sweep goes by the limit of its first look
 *   WAITGROW    (STOP) a sender waits for another one whose step of growth has pages beyond the
 *               limit
 *   UNSEAL      a sealed region grows on when memory is free again
 */
#ifndef NOM
#define NOM 4
#endif
#ifndef STEP
#define STEP 2
#endif
#ifndef NS
#define NS 2
#endif
#ifndef M
#define M 3
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#define SEALED 16
#define F(l) ((l)%SEALED)
#define SETTLED(l) ((l)>=SEALED || F(l)==NOM)
#define WRITING 1
#define READY 2
#define ABANDONED 3
#define W(lap,own,st) ((lap)*64+(own)*4+(st))
#define LAP(w) ((w)/64)
#define OWNER(w) (((w)/4)%16)
#define ST(w) ((w)%4)

byte limit = STEP, tail, head;
short slot[NOM];
byte val[NOM];                          /* payload: position + 1 (what the sender meant) */
byte pos[NOM];                          /* ghost: the position that was claimed here last */
bool there[NOM];                        /* allocated */
bool dead[NS+1], done[NS];
#ifdef STOP
bool stopped[NS+1], stop=1;
#endif
byte sent;                              /* ghost: messages that came to READY */

/* slot of position p under limit l: l is SETTLED, or p < F(l) */
#define IX(l,p) (SETTLED(l) -> (p)%F(l) : (p))
#define LP(l,p) (SETTLED(l) -> (p)/F(l) : 0)
#define KNOWN(l,p) (SETTLED(l) || (p)<F(l))

#define AGAIN t=0; v=0; goto L1
#define NEXT t=0; v=0; if :: k==M -> k=0; lim=0; done[me]=1; goto out :: else -> goto L1 fi

proctype S(byte me) {
	byte k, t, lim=STEP, i; short v;                /* lim: the older look */
	{
	skip;
L1:	atomic { t=tail;
#ifdef UNSEAL
		if :: lim>=SEALED && F(lim)<NOM && t>=F(lim) -> goto LG :: else fi;
#endif
		if :: KNOWN(lim,t) -> goto LC :: else -> goto LG fi };

LG:	/* beyond what is known to exist */
#ifdef OLDCAP
	atomic { lim=F(lim)+SEALED; AGAIN };
#else
	atomic { lim=limit;
#ifdef UNSEAL
		if :: lim>=SEALED && F(lim)<NOM -> goto LA :: else fi;
#endif
		if :: KNOWN(lim,t) -> AGAIN :: else fi };
#endif
LA:
#ifdef WAITGROW
	if :: there[F(lim)] -> (limit!=lim) :: else fi;
#endif
	if
#ifdef GROWFIRST
	:: atomic { limit==lim -> limit=lim+STEP };
		d_step { for (i : lim .. (lim+STEP-1)) { there[i]=1 }; i=0 }
#else
	:: d_step { for (i : F(lim) .. (F(lim)+STEP-1)) { there[i]=1 }; i=0 };
#ifdef GROWSTORE
		limit=F(lim)+STEP
#else
		atomic { if :: limit==lim -> limit=F(lim)+STEP :: else fi }
#endif
#endif
	/* the allocation may fail at any time */
#ifdef SEALSTORE
	:: limit=F(lim)+SEALED
#else
	:: atomic { limit==lim -> limit=F(lim)+SEALED }
	:: atomic { limit!=lim ->
#ifdef NORELOAD
			lim=F(lim)+SEALED; AGAIN
#else
			skip
#endif
		}
#endif
	fi;
LL:	atomic { lim=limit; AGAIN };

LC:	atomic { assert(there[IX(lim,t)]); v=slot[IX(lim,t)];
		if
		:: v==W(LP(lim,t),0,0) -> v=0
		:: LAP(v)<LP(lim,t) -> goto LF                  /* full */
		:: else -> v=0; goto LH
		fi };
	atomic { if :: slot[IX(lim,t)]==W(LP(lim,t),0,0) -> slot[IX(lim,t)]=W(LP(lim,t),me+1,WRITING); pos[IX(lim,t)]=t :: else -> AGAIN fi };
	atomic { if :: tail==t -> tail=t+1 :: else fi };
	val[IX(lim,t)]=t+1;
	atomic { slot[IX(lim,t)]=W(LP(lim,t),me+1,READY); sent++; k++; NEXT };
LH:	atomic { if :: tail==t -> tail=t+1 :: else fi; AGAIN };
LF:	/* the mutex-like wait for space is queue.pml's; here: till the slot or the limit is another */
end_f:	atomic { (slot[IX(lim,t)]!=v) -> AGAIN };
out:	skip
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	atomic { k=0; t=0; lim=0; v=0 }
}

/* the one receiver; it does not die here (takeover: queue.pml, endpoint.pml) */
proctype R() {
	byte lim=STEP; short v;
#ifdef STOP
	{
	skip;
#endif
L1:	if
	:: atomic { KNOWN(lim,head) -> assert(there[IX(lim,head)]); v=slot[IX(lim,head)];
		if
		:: LAP(v)==LP(lim,head) && ST(v)==READY -> v=0; goto LR
		:: LAP(v)==LP(lim,head) && ST(v)==WRITING && dead[OWNER(v)-1] -> goto LS
		:: LAP(v)==LP(lim,head) && ST(v)==ABANDONED -> goto LS
		:: else -> assert(LAP(v)==LP(lim,head)); goto LW        /* never ahead: that would be another position's */
		fi }
	:: atomic { !KNOWN(lim,head) -> lim=limit; if :: KNOWN(lim,head) -> goto L1 :: else fi };
end_l:		atomic { (limit!=lim) -> goto L1 }
	fi;
LR:	atomic { assert(val[IX(lim,head)]==head+1); sent--; slot[IX(lim,head)]=W(LP(lim,head)+1,0,0); head++; goto L1 };
LS:	atomic { if :: slot[IX(lim,head)]==v -> slot[IX(lim,head)]=W(LP(lim,head)+1,0,0); head++ :: else fi; v=0; goto L1 };
LW:
end_r:	atomic { (slot[IX(lim,head)]!=v || (ST(v)==WRITING && dead[OWNER(v)-1])) -> v=0; goto L1 }
#ifdef STOP
	} unless { stopped[NS]; lim=0; v=0 }
#endif
}

/* it never receives and never moves the head */
proctype Sweep() {
	byte lim, first, i; short v;
	first=F(limit);
L1:	atomic {
		if :: i==first -> first=0; i=0; goto out :: else fi;
		assert(there[i]); v=slot[i];
		if :: ST(v)==WRITING && dead[OWNER(v)-1] -> skip :: else -> v=0; i++; goto L1 fi };
#ifdef OLDLIMIT
	lim=first;
#else
	atomic { lim=limit; if :: LAP(v)==0 || SETTLED(lim) :: else -> v=0; lim=0; i++; goto L1 fi };
#endif
	/* as long as the slot says so, it is about that position */
	atomic { if :: slot[i]==v -> assert(LAP(v)*F(lim)+i==pos[i]) :: else fi; lim=0 };
	atomic { if :: slot[i]==v -> slot[i]=W(LAP(v),0,ABANDONED) :: else fi; v=0; i++; goto L1 };
out:	skip
}

active proctype K() {
	byte d, i;
	atomic { for (i : 0 .. (STEP-1)) { there[i]=1 }; for (i : 0 .. NS-1) { run S(i) }; run R(); i=0 };
#ifdef SWEEP
	run Sweep();
#endif
	do
	:: d<DEATHS -> atomic { i=0; do :: i+1<NS -> i++ :: break od; if :: !dead[i] -> dead[i]=1; d++ :: else fi; i=0 }
#ifdef STOP
	:: atomic { stop -> stop=0; i=0; do :: i<NS -> i++ :: break od; if :: !dead[i] -> stopped[i]=1 :: else fi; i=0 }
	:: break
	od;
	timeout -> atomic {
		if
		:: KNOWN(limit,head) && ST(slot[IX(limit,head)])==WRITING && LAP(slot[IX(limit,head)])==LP(limit,head) && stopped[OWNER(slot[IX(limit,head)])-1] -> d=99
		:: stopped[NS] -> d=99
		:: else -> d=0
		fi;
		/* what is READY in front of a stopped one's slot is taken; done, or full */
		for (i : 0 .. NS-1) { assert(dead[i] || stopped[i] || done[i] || (d==99 && SETTLED(limit) && tail>=head+F(limit))) };
		assert(sent==0 || d==99); d=0; i=0 }
#else
	:: break
	od;
	timeout -> atomic { for (i : 0 .. NS-1) { assert(dead[i] || done[i]) }; assert(sent==0) }
#endif
}
