/* topic_rings.pml - how a topic's rings come to have pages, while publishers that take them are
 * slow, stop and die.
 *
 *   owner[r]   0, or the publisher that has ring r: taken by compare-exchange from 0 or from a dead
 *              owner
 *   page[r]    the ring's slots have pages. Making them again changes nothing; it may fail (the
 *              disk is full)
 *   rings      how many rings there are: every process takes it that all rings below have pages.
 *              Only grows
 *
 * take   the first ring that is free: owner -> me; r >= rings: pages of all from rings to r, then
 *        rings = max(rings, r + 1); no pages: owner -> 0
 * look   a subscriber, a sweep: rings, then the slots of all rings below
 *
 * A process may be slow between any two steps for any time (a stop is no more than that here: no
 * process waits), or die.
 * Checked: no process touches slots without pages; a publisher that finds a ring free and the disk
 * not full gets one.
 * Switches: -DNP=publishers -DNR=rings -DROUNDS=takings of each -DD=deaths
 *   STOP        One publisher may stop for ever, also with a ring whose pages it has not made. The
 *               others come to their ends.
 * Mutations, each must be caught:
 *   OWNONLY     a taker of ring r makes r's pages alone: the rings before it may be another
 *               publisher's that has not made their pages
 *   COUNTFIRST  rings grows before the pages are there
 *   WAITPAGES   (STOP) a taker waits for the rings before its own that another process has, instead
 *               of making their pages
 *   COUNTSET    rings is set by a store: a slow publisher takes rings away
 */
#ifndef NP
#define NP 3
#endif
#ifndef NR
#define NR 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef D
#define D 1
#endif
byte owner[NR], rings, most;
bool page[NR], dead[NP+1];
#ifdef STOP
bool stopped[NP+1], stop=1;
#endif

inline count() {
#ifdef COUNTSET
	rings=r+1;
#else
	atomic { if :: rings<r+1 -> rings=r+1 :: else fi };
#endif
	atomic { assert(rings>=most); most=rings }
}
proctype P(byte me) {
	byte r, s, i, k; bool ok;
	{
	skip;
L0:	atomic { r=0; s=0; i=0; ok=1; if :: k>=ROUNDS -> goto out :: else -> k++ fi };
L1:	if :: r>=NR -> goto L0 :: else -> s=owner[r] fi;
	if
	:: s==0 || dead[s] -> skip
	:: else -> r++; goto L1
	fi;
	atomic { if :: owner[r]==s -> owner[r]=me :: else -> r++; goto L1 fi };
	if
	:: r>=rings ->
#ifdef COUNTFIRST
		count();
#endif
#ifdef WAITPAGES
		do
		:: i<r -> (page[i] || owner[i]==0 || dead[owner[i]]); i++
		:: else -> break
		od;
		i=rings;
#elif defined(OWNONLY)
		i=r;
#else
		i=rings;
#endif
		do
		:: i<=r -> if :: page[i]=1; i++ :: ok=0; break fi
		:: else -> break
		od;
		if
		:: ok ->
#ifndef COUNTFIRST
			count()
#else
			skip
#endif
		:: else -> owner[r]=0; goto L0
		fi
	:: else
	fi;
	assert(page[r]);                /* publishes */
	atomic { if :: owner[r]==me -> owner[r]=0 :: else assert(0) fi; goto L0 };
out:	skip
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	atomic { r=0; s=0; i=0; ok=0; k=0 }
}
proctype Look() {
	byte n, r;
	do
	:: atomic { n=rings; r=0 };
		do
		:: r<n -> assert(page[r]); r++
		:: else -> break
		od
	:: break
	od
}
active proctype K() {
	byte d, i;
	atomic { for (i : 1 .. NP) { run P(i) }; run Look(); i=0 };
	do
	:: d<D -> atomic { i=1; do :: i<NP -> i++ :: break od; if :: !dead[i] -> dead[i]=1; d++ :: else fi; i=0 }
#ifdef STOP
	:: atomic { stop -> stop=0; i=1; do :: i<NP -> i++ :: break od; if :: !dead[i] -> stopped[i]=1 :: else fi; i=0 }
#endif
	:: break
	od
}
