/* topic_order.pml - the order of messages of several publishers, each with a ring of its own.
 *
 *   order[r]      the order of ring r's last message, or of the one that is being written
 *   ready[r]      how many messages of ring r are there (topic.pml's `ready`, of slots that are
 *                 never used again)
 *   so[r,p]       message p's order
 *   published[r]  the same, told a step later
 *
 * publish  order of each other ring; mine: one more than the highest; so := mine; order := mine;
 *          ready := p + 1; published := p + 1
 * take     look at the rings in turn, from any one on: is its next message there, and which order
 *          has it; once something is: at all others once more, and the lowest of these and of that
 *          one is taken, of two alike the one of the lower ring
 * latest   (-DLATEST: before each take, or not) look at all rings, each: published, then the slot
 *          behind it: there, it is the ring's newest, else the one before. The highest of all is
 *          returned, of two alike the one of the higher ring; then each other ring once more: back
 *          from its newest to the first message that is older than the returned one; up to there
 *          all are passed over
 * A publisher that dies or is stopped is one whose next step does not come: what is checked up to
 * there holds for it, too.
 *
 * Checked: when a message is taken, all those that had been published before its publishing began
 *          have been taken already, or passed over. What latest passes over is older than what it
 *          returns; and what it returns is no older than what was there when it was called.
 * Switches: -DN=rings -DM=messages of each -DLATEST
 *   STOP       One publisher may stop for ever (its death looks the same from here). The subscriber
 *              comes to its end and has taken all that is there, in that publisher's ring and in
 *              the others.
 * Mutations, each must be caught:
 *   ORDERLATE  publish: order after ready
 *   ONELOOK    take: the rings that were looked at before something was found are not looked at again
 *   FIRSTFOUND take: what was found first, whatever the others have
 *   UNSEEN     take: a ring of which `published` tells at a ready that was not there counts as the
 *              lowest
 *   STEPOVER   latest: in each other ring one further than its newest was, if `published` says by
 *              now that there is one
 *   FIRSTLOOK  latest: in each other ring what the first look has found is passed over, and no more
 *   PASSNEWEST latest: in each other ring all that the second look finds is passed over
 *   WAITORDER  (STOP) take: a message waits for one of another ring that has a lower order and is
 *              still being written
 *   TOLDONLY   latest: only `published` tells what is there
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
#ifdef STOP
bool stopped[N];
#endif
#ifdef LATEST
byte newest[N];				/* latest: how many of each ring are up to its newest */
byte oldtaken[N];			/* ghost: before it */
byte there[N];				/* ghost: how many were there when latest was called */
#endif

proctype Pub(byte me) {
	byte p, i, high;
#ifdef STOP
	{
#endif
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
#ifdef STOP
	skip
	} unless { stopped[me] };
#endif
	atomic { p=0; ended++ }
}

inline look() {
	atomic {
		low=NONE; found=NONE; n=0; r=0;
		do :: r<N-1 -> r++ :: break od		/* from any ring on */
	};
	do
	:: n<N ->
		atomic {
			v=ready[r];
			if
			:: taken[r]<M && v>taken[r] ->
#ifndef ONELOOK
				if :: found==NONE -> n=0 :: else fi;
#endif
#ifdef FIRSTFOUND
				if :: found==NONE -> low=so[AT(r,taken[r])]; found=r :: else fi
#else
				if
				:: so[AT(r,taken[r])]<low || (so[AT(r,taken[r])]==low && r<found) -> low=so[AT(r,taken[r])]; found=r
				:: else
				fi
#endif
			:: else
			fi
		};
#ifdef UNSEEN
		if :: taken[r]<M && v<=taken[r] && published[r]>taken[r] && low>0 -> low=0; found=r :: else fi;
#endif
		atomic { v=0; n++; r=(r+1)%N }
	:: else -> break
	od;
	atomic { n=0; r=0 }
}

#ifdef LATEST
#define LOWER(a,i,b,j) ((a)<(b) || ((a)==(b) && (i)<(j)))

inline look_newest() {
	atomic { v=published[r]; newest[r]=v };
#ifndef TOLDONLY
	atomic { if :: ready[r]>v -> newest[r]=v+1 :: else fi }
#else
	skip
#endif
}

inline latest() {
	atomic { do :: r<N -> there[r]=ready[r]; r++ :: else -> break od; r=0; low=0; found=NONE };
	do
	:: r<N ->
		look_newest();
		atomic {
			if
			:: newest[r]>0 && so[AT(r,newest[r]-1)]>=low -> low=so[AT(r,newest[r]-1)]; found=r
			:: else
			fi;
#ifdef STEPOVER
			if :: newest[r]>0 && newest[r]-1>taken[r] -> taken[r]=newest[r]-1 :: else fi;
#endif
			v=0; r++ }
	:: else -> break
	od;
	r=0;
	if
	:: found!=NONE ->
		do
		:: r<N ->
			if
			:: r==found -> atomic { if :: newest[r]>taken[r] -> taken[r]=newest[r] :: else fi }
			:: else ->
#ifdef STEPOVER
				atomic {
					v=taken[r]+1;
					if :: v>published[r] -> v=published[r] :: else fi;
					if :: v>taken[r] -> taken[r]=v :: else fi }
#else
#ifndef FIRSTLOOK
				look_newest();
#ifndef PASSNEWEST
				do
				:: atomic { newest[r]>taken[r] && !LOWER(so[AT(r,newest[r]-1)],r,low,found) -> newest[r]=newest[r]-1 }
				:: atomic { !(newest[r]>taken[r] && !LOWER(so[AT(r,newest[r]-1)],r,low,found)) -> break }
				od;
#endif
#endif
				atomic { if :: newest[r]>taken[r] -> taken[r]=newest[r] :: else fi }
#endif
			fi;
			atomic { v=0; r++ }
		:: else -> break
		od;
		atomic {
			r=0;
			do
			:: r<N ->
				if
				:: r!=found ->
					assert(taken[r]>=before[AT(found,newest[found]-1)*N+r]);
					assert(taken[r]<=oldtaken[r] || LOWER(so[AT(r,taken[r]-1)],r,low,found));
					assert(there[r]==0 || LOWER(so[AT(r,there[r]-1)],r,low,found))
				:: else -> assert(newest[r]>=there[r])
				fi;
				oldtaken[r]=taken[r]; r++
			:: else -> break
			od }
	:: else -> atomic { assert(there[0]==0); assert(there[N-1]==0) }
	fi;
	atomic { r=0; do :: r<N -> newest[r]=0; there[r]=0; r++ :: else -> break od; r=0; low=0; found=NONE; v=0 }
}
#endif

proctype Sub() {
	byte r, v, n, low, found; bool end;
	do
	:: !end ->
#ifdef LATEST
		atomic { do :: r<N -> oldtaken[r]=taken[r]; r++ :: else -> break od; r=0 };
		if :: true -> latest() :: true fi;
#endif
		end=(ended==N);
		look();
		if
		:: found!=NONE ->
#ifdef WAITORDER
			(found==0 || !(order[0]!=0 && order[0]<=low && taken[0]==ready[0] && published[0]<M && (ready[0]==0 || so[AT(0,ready[0]-1)]<order[0])));
#endif
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

#ifdef STOP
init { atomic { byte k; do :: k<N -> run Pub(k); k++ :: else -> break od; run Sub() }; if :: stopped[0]=1 :: stopped[N-1]=1 :: true fi }
#else
init { atomic { byte k; do :: k<N -> run Pub(k); k++ :: else -> break od; run Sub() } }
#endif
