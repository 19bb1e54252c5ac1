/* one_fence.pml - sleepers that share a fence: who finds that another's has been made since somebody came to sleep makes none.
 *
 *   w             the word that is waited for; b[i]: what waker i has in its store buffer for it, w + 1 or 0
 *   n o f         epoch: number, somebody may sleep, a fence has been made; one word
 *   sq            sequence (odd: a ring is under way)
 *
 * wake   1. store w + 1, into the buffer    2. e = epoch (the buffer need not be empty); o not set: done
 *        3. sq := the next odd number (empties the buffer, as every locked instruction)   4. wake all
 *        5. epoch is e -> number + 1, o and f off    6. sq is ours -> + 1
 * wait   1. sq odd: wake all, sq -> + 1; t = sq   2. epoch: number + 1, o on; f as it was if o was on, else off   3. t odd: 1. again
 *        4. f was off: the heavy fence: all buffers are emptied   5. e = epoch; o set and sq == t: epoch is e -> f on
 *        6. w, new: seen   7. sleep, if sq == t
 *
 * Buffers are emptied at any time. What is asleep here does not watch w itself, as the real ones do besides.
 * Deaths are condvar.pml's: one who dies anywhere in wait leaves what a sleeper leaves that is not woken yet.
 * Checked: when all has come to rest, every sleeper has seen the last value.
 * Switches: -DNS=sleepers -DNW=wakers -DM=values of each waker
 * Mutations, each must be caught:
 *   KEEP        f stays on when o goes off
 *   NOTICKET    5 without looking at sq
 *   BLIND       5 sets f whatever epoch has become
 *   EARLY       f goes on before the fence
 *   NOFENCE     nobody makes a fence
 *   LATETICKET  t is read after 2
 */
#ifndef NS
#define NS 2
#endif
#ifndef NW
#define NW 1
#endif
#ifndef M
#define M 2
#endif
#define ALL (NW*M)
byte w, n; bool o, f; byte sq;
bool b[NW];
byte seen[NS]; bool asleep[NS];

#define drain(i) d_step { if :: b[i] -> w=w+1; b[i]=0 :: else fi }
#define drainall d_step { k=0; do :: k<NW -> if :: b[k] -> w=w+1; b[k]=0 :: else fi; k++ :: else -> break od; k=0 }
#define wakeall d_step { k=0; do :: k<NS -> asleep[k]=0; k++ :: else -> break od; k=0 }
#define odd(x) ((x)&1)

proctype Waker(byte me) {
	byte m, e, r, k; bool eo, ef;
	do
	:: m<M ->
		atomic { !b[me] -> b[me]=1 };		/* a store behind a store of the same word: in order */
		atomic { e=n; eo=o; ef=f };
		if
		:: eo ->
			atomic { drain(me); r=sq; sq=(odd(r) -> r+2 : r+1); r=sq };
			wakeall;
#ifdef KEEP
			atomic { if :: n==e && o==eo && f==ef -> n=n+1; o=0 :: else fi };
#else
			atomic { if :: n==e && o==eo && f==ef -> n=n+1; o=0; f=0 :: else fi };
#endif
			atomic { if :: sq==r -> sq=sq+1 :: else fi; r=0 }
		:: else
		fi;
		atomic { e=0; eo=0; ef=0; m++ }
	:: else -> break
	od
}

/* the processor, which empties a buffer when it likes */
proctype Buffer(byte me) {
end:	do
	:: atomic { b[me] -> drain(me) }
	od
}

proctype Sleeper(byte me) {
	byte t, e, x, k; bool had, eo, ef, fenced;
	do
	:: seen[me]==ALL -> break
	:: else ->
again:
		x=sq;
		if
		:: odd(x) -> wakeall; atomic { if :: sq==x -> sq=sq+1 :: else fi; x=0 }
		:: else -> x=0
		fi;
#ifndef LATETICKET
		t=sq;
#endif
#ifdef KEEP
		atomic { had=f; n=n+1; o=1 };
#else
		atomic { had=(o && f); f=had; n=n+1; o=1 };
#endif
#ifdef LATETICKET
		t=sq;
#endif
		if :: odd(t) -> goto again :: else fi;
		atomic { fenced=had; had=0 };
		if
		:: !fenced ->
#ifndef EARLY
#ifndef NOFENCE
			drainall;
#endif
#endif
			atomic { e=n; eo=o; ef=f };
			if
#ifdef NOTICKET
			:: eo ->
#else
			:: eo && sq==t ->
#endif
#ifdef BLIND
				f=1
#else
				atomic { if :: n==e && o==eo && f==ef -> f=1 :: else fi }
#endif
			:: else
			fi;
#ifdef EARLY
			drainall;
#endif
			atomic { e=0; eo=0; ef=0 }
		:: else
		fi;
		atomic { x=w; fenced=0; had=0 };
		if
		:: x!=seen[me] -> atomic { seen[me]=x; x=0; t=0 }
		:: else ->
			atomic { if :: sq==t -> asleep[me]=1 :: else fi; x=0; t=0 };
			!asleep[me]		/* nobody left to wake it: an invalid end */
		fi
	od
}

init {
	byte i;
	atomic {
		i=0; do :: i<NW -> run Waker(i); run Buffer(i); i++ :: else -> break od;
		i=0; do :: i<NS -> run Sleeper(i); i++ :: else -> break od
	}
}
