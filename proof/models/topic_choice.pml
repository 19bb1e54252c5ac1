/* topic_choice.pml - which ring a publisher takes when it joins: none whose messages a subscriber
 * has not taken, while another one is free.
 *
 *   owner[r]   0, or the process that has ring r
 *   after[r]   it only looks after the ring (one word with owner)
 *   unread[r]  ring r, of one slot, has a message that the subscriber has not taken
 *   order[r]   the order of its last message
 *
 * join     look at each ring: free, and nothing unread in it: that one. If there is none: of the
 *          free ones the one with the lowest order. owner -> me, looking after, by compare-exchange.
 *          Look at it again: unread, and it was not: owner -> 0, and again from the start.
 *          owner := me
 * publish  unread := 1; leave: owner := 0
 * A process that has died stays the owner until it has exited; then the ring is free.
 *
 * Checked: a publisher overwrites an unread message only if each other ring was, at some moment of
 *          its joining, another process's or had an unread message, too.
 * Switches: -DNP=publishers -DNR=rings -DROUNDS=joinings of each -DD=deaths
 *   STOP       One publisher may stop for ever at any step. The others come to their ends.
 * Mutations, each must be caught:
 *   NOSECOND   no second look: another publisher had the ring, published and left in between
 *   FIRSTFREE  the first free ring, whatever is in it
 *   WAITAFTER  (STOP) a publisher that joins waits until a ring is not looked after any more
 */
#ifndef NP
#define NP 2
#endif
#ifndef NR
#define NR 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef D
#define D 1
#endif
#define AT(p,r) ((p)*NR+(r))
#define FREE(o) ((o)==0 || exited[o])
#define NONE 99
byte owner[NR], order[NR], clock;
bool after[NR], unread[NR];
bool dead[NP+1], exited[NP+1], stopped[NP+1];
bool busy[(NP+1)*NR];			/* ghost: since me began to join, ring r was not free, or unread */
byte ended;

inline not_free() { atomic { j=1; do :: j<=NP -> if :: j!=me -> busy[AT(j,r)]=1 :: else fi; j++ :: else -> break od; j=0 } }

proctype P(byte me) {
	byte r, s, best, low, k, j; bool was;
	{
	do
	:: k<ROUNDS ->
		atomic { k++; r=0; do :: r<NR -> busy[AT(me,r)]=(!FREE(owner[r]) || unread[r]); r++ :: else -> break od; r=0 };
again:		atomic { r=0; best=NONE; low=NONE };
		do
		:: r<NR ->
#ifdef WAITAFTER
			(!after[r]);
#endif
			atomic {
				if
				:: !FREE(owner[r]) -> r++
#ifdef FIRSTFREE
				:: FREE(owner[r]) -> best=r; s=owner[r]; was=unread[r]; break
#else
				:: FREE(owner[r]) && !unread[r] -> best=r; s=owner[r]; was=0; break
				:: FREE(owner[r]) && unread[r] -> if :: order[r]<low -> low=order[r]; best=r; s=owner[r]; was=1 :: else fi; r++
#endif
				fi }
		:: else -> break
		od;
		if :: best==NONE -> goto again :: else fi;
		atomic { r=best; if :: owner[r]==s -> owner[r]=me; after[r]=1; not_free() :: else -> goto again fi };
#ifndef NOSECOND
		atomic {
			if
			:: unread[r] && !was -> busy[AT(me,r)]=1; was=1
			:: else -> was=0
			fi };
		if :: was -> atomic { owner[r]=0; after[r]=0; was=0; goto again } :: else fi;
#endif
		after[r]=0;
		atomic {
			if
			:: unread[r] -> j=0; do :: j<NR -> assert(j==r || busy[AT(me,j)]); j++ :: else -> break od; j=0
			:: else
			fi;
			clock++; order[r]=clock; unread[r]=1; was=0; low=0; best=0; s=0 };
		atomic { owner[r]=0; r=0 }
	:: else -> break
	od
	} unless { (dead[me] || stopped[me]) };
	atomic { r=0; s=0; best=0; low=0; k=0; j=0; was=0; ended++ }
}
proctype Sub() {
	byte r;
	do
	:: atomic { r=0; do :: r<NR-1 -> r++ :: break od; if :: unread[r] -> unread[r]=0 :: else fi; r=0 }
	:: break
	od
}
active proctype K() {
	byte d, i;
	atomic { for (i : 1 .. NP) { run P(i) }; run Sub(); i=0 };
#ifdef STOP
	atomic { i=1; do :: i<NP -> i++ :: break od };
	if :: stopped[i]=1 :: true fi;
	i=0;
#endif
	do
	:: d<D -> atomic { i=1; do :: i<NP -> i++ :: break od; if :: !dead[i] && !stopped[i] -> dead[i]=1; d++ :: else fi; i=0 }
	:: atomic { i=1; do :: i<NP -> i++ :: break od; if :: dead[i] && !exited[i] -> exited[i]=1 :: else fi; i=0 }
	:: break
	od
}
