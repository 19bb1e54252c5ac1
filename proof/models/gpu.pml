/* gpu.pml - loans and samples that devices write and read (doc/protocols/gpu.md): host functions
 * publish and let go; death between any two steps, and devices that go on after a death. What
 * topic.pml shows is one step here: to publish, to hold, to look at who holds what.
 *
 *   owner      the ring: 0, or the publishing process
 *   device     a device may write into the ring's objects
 *   slot       the object in place
 *   want[o]    its message
 *   lent[o]    the publisher that lends it
 *   cell[c]    a hazard pointer: what the subscriber holds
 *   bytes[x]   which message's bytes are in that memory, 0: torn
 *   -DBLOCKS:
 *   card[o]      the block that object o names
 *   exporter[b]  the process that exports it
 *   bind[p,o]    what p has for it
 *   mapped[o]    the subscriber's table
 *
 * Publishers 1 and 2, the ring is 1's at first, and 2's when 1 has left or ended (with `device`: is
 * gone); subscriber 3. A device is a job for each copy: one that writes, or reads, in two steps,
 * and then calls its host function. Jobs are of streams of their own, so any two go on at once.
 * killed: *ended*, no thread of it does anything, and no host function runs; *gone*, its device has
 * stopped. In between the device goes on.
 * publish   loan; device = 1; job {bytes := torn, bytes := m; host function: slot := o}
 *           or dropped: {...; lent := 0}
 *           or the driver fails behind the copy: lent for good
 * blocks    a card that is lent gets another block, or keeps its own; `device` is not used
 * take      cell := slot; (blocks: mapped := card, asked of a living exporter, else told); job
 *           {reads, reads; cell := 0}
 *
 * Checked: what a living subscriber's device reads is the message, whole, to the end.
 * Switches: -DM=messages of publisher 1 -DM2=of publisher 2 -DR=takes -DO=objects -DD=deaths
 * -DBLOCKS
 * Mutations, each must be caught:
 *   PUBNOW      published when it is enqueued, not when the stream has got there
 *   DROPNOW     a loan that is dropped is given back at once
 *   ERRBACK     a loan whose host function could not be enqueued is given back
 *   SHARENOW    the sample is let go of when its copy is enqueued
 *   ENDED       the ring is taken from a publisher that has ended, with `device` or not (pinned)
 *   DEVLATE     `device` is set behind the copy (pinned)
 *   NUMBER      what is mapped for a card is used, whichever block it names (blocks)
 *   HELDSWAP    a card's block is exchanged, and used, though a process holds the card (blocks)
 */
#ifndef M
#define M 2
#endif
#ifndef M2
#define M2 1
#endif
#ifndef R
#define R 1
#endif
#ifndef O
#define O 3
#endif
#ifndef D
#define D 1
#endif
#define NB 5
#define BACK 0
#define PUBLISH 1
#define KEEP 2

byte owner=1, slot, want[O+1], lent[O+1], cell[2];
byte bytes[NB+1];
bool device, ended[4], gone[4];
byte out[4];				/* jobs whose host function has still to be called */
#ifdef BLOCKS
byte card[O+1], exporter[NB+1], bind[2*(O+1)], mapped[O+1], blocks;
#define BIND(p,o) bind[((p)-1)*(O+1)+(o)]
#define SWAPS(o) (blocks<NB)
#define RINGGONE ended[1]
#else
#ifdef ENDED
#define RINGGONE ended[1]
#else
#define RINGGONE (device -> gone[1] : ended[1])
#endif
#endif

#define HELD(o) (!ended[3] && (cell[0]==(o) || cell[1]==(o)))
#ifdef HELDSWAP
#define FREE(o) (lent[o]==0 && slot!=(o))
#else
#define FREE(o) (lent[o]==0 && slot!=(o) && !HELD(o))
#endif

inline publish(o,m) { slot=o; want[o]=m; lent[o]=0 }

/* A copy to memory x, and what is to become of the loan behind it. */
proctype Write(byte p, o, x, m, then) {
	atomic { if :: !gone[p] -> bytes[x]=0 :: else -> goto stopped fi };
	atomic { if :: !gone[p] -> bytes[x]=m :: else -> goto stopped fi };
	atomic {
		if
		:: ended[p] || then==KEEP
		:: !ended[p] && then==PUBLISH -> publish(o,m)
		:: !ended[p] && then==BACK -> lent[o]=0
		fi;
		out[p]--; o=0; x=0; m=0; goto over
	};
stopped: atomic { out[p]--; o=0; x=0; m=0 };
over:	skip
}

proctype Read(byte c, x, w) {
	atomic { if :: !gone[3] -> assert(ended[3] || bytes[x]==w) :: else -> goto over fi };
	atomic { if :: !gone[3] -> assert(ended[3] || bytes[x]==w) :: else -> goto over fi };
#ifndef SHARENOW
	atomic { if :: !ended[3] -> cell[c]=0 :: else fi };
#endif
over:	skip
}

proctype Publisher(byte p) {
	byte i, o, x, then;
	{
		if
		:: p==1
		:: p==2 ->
end_r:			atomic { (owner==0 || (owner==1 && RINGGONE)) -> owner=2; device=0; o=1; do :: o<=O -> lent[o]=0; o++ :: else -> break od; o=0 }
		fi;
		do
		:: i<(p==1 -> M : M2) ->
end_l:			atomic {
				if :: FREE(1) -> o=1 :: FREE(2) -> o=2
#if O>2
				:: FREE(3) -> o=3
#endif
				fi;
				lent[o]=p
			};
#ifdef BLOCKS
			atomic {
				x=BIND(p,o);
				if
				:: x!=0
				:: SWAPS(o) -> blocks++; x=blocks; exporter[x]=p; BIND(p,o)=x
				:: x==0 && !SWAPS(o) -> break
				fi;
				card[o]=x
			};
#else
			x=o;
#ifndef DEVLATE
			device=1;
#endif
#endif
			if :: then=PUBLISH :: then=BACK :: then=KEEP fi;
			atomic {
				out[p]++;
#ifdef DROPNOW
				if :: then==BACK -> lent[o]=0; then=KEEP :: else fi;
#endif
#ifdef ERRBACK
				if :: then==KEEP -> lent[o]=0 :: else fi;
#endif
#ifdef PUBNOW
				if :: then==PUBLISH -> publish(o,p*M+i); then=KEEP :: else fi;
#endif
				run Write(p,o,x,p*M+i,then)
			};
#if !defined(BLOCKS) && defined(DEVLATE)
			device=1;
#endif
			atomic { i++; o=0; x=0; then=0 }
		:: else -> break
		od;
		/* the last host function leaves the ring; with a loan that is kept, none does */
end_o:		atomic { (out[p]==0 && lent[1]!=p && lent[2]!=p
#if O>2
			&& lent[3]!=p
#endif
			) -> owner=0 }
	} unless { ended[p] }
}

proctype Subscriber() {
	byte r, h, x, w, c;
	{
		do
		:: r<R ->
end_s:			atomic { (slot!=0 && (cell[0]==0 || cell[1]==0)) -> h=slot; w=want[h]; c=(cell[0]==0 -> 0 : 1); cell[c]=h };
#ifdef BLOCKS
			x=mapped[h];
#ifdef NUMBER
			if
			:: x!=0
			:: x==0 ->
#else
			if
			:: x==card[h]
			:: x!=card[h] ->
#endif
				atomic {
					if
					:: !ended[exporter[card[h]]] -> mapped[h]=card[h]; x=card[h]
					:: else -> cell[c]=0; x=0
					fi
				}
			fi;
#else
			x=h;
#endif
			atomic {
				if :: x!=0 -> run Read(c,x,w) :: else fi;
#ifdef SHARENOW
				cell[c]=0;
#endif
				r++; h=0; x=0; w=0; c=0
			}
		:: else -> break
		od
	} unless { ended[3] }
}

active proctype Killer() {
	byte k, n;
	atomic { run Publisher(1); run Publisher(2); run Subscriber() };
	do
	:: n<D -> if :: !ended[1] -> k=1 :: !ended[3] -> k=3 fi; ended[k]=1; gone[k]=1; n++
	:: break
	od
}
