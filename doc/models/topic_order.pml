/* topic_order.pml - the order of messages of several publishers, each with a ring of its own.
 *
 *   order[r]      the order of ring r's last message, or of the one that is being written
 *   ready[r]      how many messages of ring r are there (topic.pml's `ready`, of slots that are never used again)      so[r,p]  message p's order
 *   published[r]  the same, told a step later
 *
 * publish  order of each other ring; mine: one more than the highest; so := mine; order := mine; ready := p + 1; published := p + 1
 * take     look at all rings, each: is its next message there, and which order has it; something is: once more; the lowest of the
 *          second look is taken, of two alike the one of the lower ring
 * A publisher that dies is one whose next step does not come: what was checked up to there holds for it, too.
 *
 * Checked: when a message is taken, all those that had been published before its publishing began have been taken already.
 * Switches: -DN=rings -DM=messages of each
 * Mutations, each must be caught:
 *   ORDERLATE  publish: order after ready
 *   ONELOOK    take: what the first look has found
 *   UNSEEN     take: a ring of which `published` tells at a ready that was not there counts as the lowest
 */
#ifndef N
#define N 2
#endif
#ifndef M
#define M 2
#endif
#define AT(r,p) ((r)*M+(p))
#define NONE 99
byte order[N], ready[N], published[N], so[N*M];
byte before[N*M*N];			/* ghost: how many of each ring were there when message (r, p) began */
byte taken[N];
byte ended;

proctype Pub(byte me) {
	byte p, i, high;
	do
	:: p<M ->
		atomic { do :: i<N -> before[AT(me,p)*N+i]=ready[i]; i++ :: else -> break od; i=0 };
		do
		:: i<N -> atomic { if :: order[i]>high -> high=order[i] :: else fi; i++ }
		:: else -> break
		od;
		i=0;
		atomic { high++; so[AT(me,p)]=high };
#ifndef ORDERLATE
		order[me]=high;
#endif
		ready[me]=p+1;
#ifdef ORDERLATE
		order[me]=high;
#endif
		atomic { published[me]=p+1; high=0; p++ }
	:: else -> break
	od;
	atomic { p=0; ended++ }
}

inline look() {
	atomic { low=NONE; found=NONE; r=0 };
	do
	:: r<N ->
		if
		:: taken[r]<M ->
			atomic { v=ready[r]; if :: v>taken[r] && so[AT(r,taken[r])]<low -> low=so[AT(r,taken[r])]; found=r :: else fi };
#ifdef UNSEEN
			if :: v<=taken[r] && published[r]>taken[r] && low>0 -> low=0; found=r :: else fi
#endif
		:: else
		fi;
		atomic { v=0; r++ }
	:: else -> break
	od;
	r=0
}

proctype Sub() {
	byte r, v, low, found; bool end;
	do
	:: !end ->
		end=(ended==N);
		look();
#ifndef ONELOOK
		if :: found!=NONE -> look() :: else fi;
#endif
		if
		:: found!=NONE ->
			atomic {
				end=0;
				do :: r<N -> assert(taken[r]>=before[AT(found,taken[found])*N+r] || r==found); r++ :: else -> break od;
				r=0; taken[found]=taken[found]+1; found=NONE; low=0 }
		:: else -> low=0
		fi
	:: else -> break
	od;
	end=0;
	do :: r<N -> assert(taken[r]==ready[r]); r++ :: else -> break od
}

init { atomic { byte k; do :: k<N -> run Pub(k); k++ :: else -> break od; run Sub() } }
