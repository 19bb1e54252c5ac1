/* topic_watched.pml - which rings a subscriber looks at: not those that have no publisher and no
 * message for it.
 *
 *   owner[r]   0, or the process that has ring r; after[r]: it only looks after the ring
 *   ready[r]   how many messages of ring r are there
 *   changes    counts publishers that have come and gone
 *
 * publisher  owner -> me, looking after; owner := me; changes + 1; publishes some; owner := 0;
 *            changes + 1
 * choose     a subscriber: c = changes; each ring: its owner, then what is there. It is watched
 *            unless it has no publisher (0, looked after, or an owner that has exited) and nothing
 *            to take. seen := c
 * look       each ring that is watched: is there something to take? Then changes: it is not seen:
 *            choose, and look again
 * A subscriber may choose at any other time, too, before it looks.
 *
 * A process that has died may run on until it has exited (a thread of it is in the kernel still).
 * Checked: a look that finds nothing overlooks no message that was there when it began.
 * Switches: -DNP=publishers -DNR=rings -DROUNDS=comings of each -DM=messages of each coming -DD=deaths
 *   STOP        One publisher may stop for ever at any step.
 * Mutations, each must be caught:
 *   TOLDLATE    a publisher counts itself after its first message
 *   TOLDFIRST   a publisher counts itself, and then has the ring
 *   NOTTOLD     a publisher that comes into a used ring does not count
 *   SEENLATE    choose: changes is read last
 *   OWNERLATE   choose: what is there first, then the owner
 *   LOOKFIRST   a subscriber that chooses at another time does so between its look and changes
 *   DEADALONE   choose: an owner that is dead and has not exited publishes nothing any more
 */
#ifndef NP
#define NP 2
#endif
#ifndef NR
#define NR 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef M
#define M 1
#endif
#ifndef D
#define D 1
#endif
#define FREE(o) ((o)==0 || exited[o])
#ifdef DEADALONE
#define QUIET(r,o) ((o)==0 || after[r] || exited[o] || dead[o])
#else
#define QUIET(r,o) ((o)==0 || after[r] || exited[o])
#endif
byte owner[NR], ready[NR], cursor[NR], there[NR], changes, ended;
bool after[NR], watched[NR];
bool dead[NP+1], exited[NP+1], stopped[NP+1];

proctype P(byte me) {
	byte r, m, k;
	{
	do
	:: k<ROUNDS ->
		atomic { r=0; do :: r<NR-1 -> r++ :: break od; FREE(owner[r]) -> k++; owner[r]=me; after[r]=1 };
#ifdef TOLDFIRST
		changes++;
		after[r]=0;
#elif defined(TOLDLATE)
		after[r]=0;
		ready[r]++;
		changes++;
#elif defined(NOTTOLD)
		after[r]=0;
		if :: ready[r]==0 -> changes++ :: else fi;
#else
		after[r]=0;
		changes++;
#endif
		m=0;
		do
		:: m<M -> atomic { ready[r]++; m++ }
		:: break
		od;
		owner[r]=0;
		atomic { changes++; m=0; r=0 }
	:: break
	od
	} unless { (exited[me] || stopped[me]) };
	atomic { r=0; m=0; k=0; ended++ }
}

inline choose() {
#ifndef SEENLATE
	c=changes;
#endif
	do
	:: r<NR ->
#ifdef OWNERLATE
		v=(ready[r]==cursor[r]);
		atomic { watched[r]=!(v && QUIET(r,owner[r])); r++ }
#else
		v=QUIET(r,owner[r]);
		atomic { watched[r]=!(v && ready[r]==cursor[r]); r++ }
#endif
	:: else -> break
	od;
#ifdef SEENLATE
	c=changes;
#endif
	atomic { seen=c; c=0; v=0; r=0 }
}

proctype Sub() {
	byte r, c, seen; bool v, end, found;
	choose();
	do
	:: !end ->
		atomic { end=(ended==NP); do :: r<NR -> there[r]=ready[r]; r++ :: else -> break od; r=0 };
#ifndef LOOKFIRST
		if :: true :: !end -> choose() fi;
#endif
again:		do
		:: r<NR && watched[r] -> atomic { if :: ready[r]>cursor[r] -> found=1 :: else fi; r++ }
		:: r<NR && !watched[r] -> r++
		:: else -> break
		od;
		r=0;
#ifdef LOOKFIRST
		if :: true :: !end -> choose() fi;
#endif
		if :: changes!=seen -> found=0; choose(); goto again :: else fi;
		atomic {
			if
			:: found -> found=0; end=0; do :: r<NR -> if :: watched[r] && ready[r]>cursor[r] -> cursor[r]=cursor[r]+1; break :: else fi; r++ :: else -> break od; r=0
			:: else -> do :: r<NR -> assert(cursor[r]>=there[r]); r++ :: else -> break od; r=0
			fi;
			do :: r<NR -> there[r]=0; r++ :: else -> break od; r=0 }
	:: else -> break
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
