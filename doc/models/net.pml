/* net.pml - who sleeps without a net, and a wait set that could swallow his wake-up (sync/raw_sleepers.rs, liveness/net.rs).
 *
 *   seq       `sequence`, odd: a ring is under way     may     `may_lose`: 0; 1 a set has come; 2 it has rung
 *
 * sleeper  1. t = seq; odd -> it is finished: again    2. m = may (behind a fence)    3. sleep on {seq == t}: with a net, if m
 * set      1. may 2: -> 4; 0 -> 1    2. ring: seq+1, wake all, seq+1    3. may = 2    4. sleeps
 * Any of them may die anywhere. A ring that is cut short is finished by whoever comes next.
 * Checked: nobody is asleep without a net while a set that has come to 4 lives.
 * Mutations, each must be caught:
 *   NORING      the set does not ring
 *   MARKLATE    it rings first, and marks then
 *   ONESTEP     0 -> 2 in 1: who dies before the ring leaves the next set nothing to do
 *   MARKFIRST   the sleeper looks at `may` before he reads seq
 */
#ifndef NS
#define NS 2
#endif
byte seq; byte may; bool asleep[NS], net[NS], setin, setdead, set2in;

proctype Sleeper(byte me) {
	byte t; bool m;
again:
#ifdef MARKFIRST
	m=(may!=0);
#endif
	t=seq;
	if :: t&1 -> atomic { asleep[0]=0; asleep[1]=0 }; atomic { if :: seq==t -> seq++ :: else fi }; goto again :: else fi;
#ifndef MARKFIRST
	m=(may!=0);
#endif
	atomic { if :: seq==t -> asleep[me]=1; net[me]=m :: else -> goto again fi };
end_s:	(!asleep[me]);
	goto again
}

#ifdef NORING
#define RING() skip
#else
#define RING() atomic { seq++; r=seq }; atomic { asleep[0]=0; asleep[1]=0 }; atomic { if :: seq==r -> seq++ :: else fi; r=0 }
#endif
#ifdef ONESTEP
#define COME() atomic { was=may; may=2 }; if :: was==0 -> RING() :: else fi
#else
#ifdef MARKLATE
#define COME() was=may; if :: was!=2 -> RING(); may=2 :: else fi
#else
#define COME() was=may; if :: was!=2 -> atomic { if :: may==0 -> may=1 :: else fi }; RING(); may=2 :: else fi
#endif
#endif

proctype Set() {
	byte was, r;
	{
		COME();
		setin=1;
end_t:		(false)
	} unless { setdead };
	setin=0
}

proctype Next() {
	byte was, r;
	COME();
	set2in=1
}

active proctype K() {
	atomic { run Sleeper(0); run Sleeper(1); run Set() };
	if :: true -> setdead=1; run Next() :: true fi
}

active proctype Never() {
end_n:	atomic { ((setin || set2in) && ((asleep[0] && !net[0]) || (asleep[1] && !net[1]))) -> assert(false) }
}
