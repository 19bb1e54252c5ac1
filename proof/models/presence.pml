/* presence.pml - following which members come and go on a topic (topic/participants.rs), in a wait
 * set; death between any two steps.
 *
 *   pl[i]     member i's slot or ring: claimed or not       dead[i]
 *   ch        `changes`
 *   told[i]   what the follower was told, in words of its process
 *
 * member   1. pl=1   2. ch+1, wake all on ch   3. pl=0   4. ch+1, wake all
 *          (1 to 4: R times; it may stay for ever, after 2)
 * follower 1. c = ch
 *          2. look: which members have one and live; another than told -> told by it or by another
 *             thread; again from 1
 *          3. the ends to watch: of the members that were told
 *          4. sleep on {ch == c, those ends: one dead already -> again}
 *
 * several.pml shows that an end wakes all its sleepers: here they simply run again.
 * Checked: when all has come to rest, the follower has been told of the members that are there and
 * live, and of no others.
 * Switches: -DN=members -DR=rounds -DD=deaths
 *   STOP        One member may stop for ever, at any step, and be killed then. The follower makes
 *               the recheck. No wait is excused: the follower is told of each member
 *               that has one by then. The follower holds nothing, so its own stop delays no
 *               process.
 * Mutations, each must be caught:
 *   COUNTLATE   ch is read after the look
 *   OWNLOOK     the ends to watch are of the members that live at another, separate look
 *   QUIET       a member that leaves does not wake
 *   NOTIMER     (STOP) the follower makes no recheck
 */
#ifndef N
#define N 2
#endif
#ifndef R
#define R 1
#endif
#ifndef D
#define D 1
#endif
bool pl[N], dead[N], told[N], stays[N];
byte ch, deaths, down;
#ifdef STOP
bool stopped[N], stop;
#endif
bool asleep, woken, watch[N];

#define WAKE() ch++; if :: asleep -> woken=1 :: else fi

proctype Member(byte me) {
	byte r;
	{
		do
		:: r<R -> r++;
			pl[me]=1;
			atomic { ch++ };
			atomic { if :: asleep -> woken=1 :: else fi };
			if
			:: true
			:: true -> stays[me]=1;
end_m:				(false)
			fi;
			pl[me]=0;
			atomic { ch++ };
#ifndef QUIET
			atomic { if :: asleep -> woken=1 :: else fi }
#endif
		:: else -> break
		od;
		down++
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	skip
}

proctype Follower() {
	byte c, i; bool news, now[N];
again:
#ifndef COUNTLATE
	c=ch;
#endif
	/* one after the other, as the look does */
	i=0; do :: i<N -> now[i]=(pl[i] && !dead[i]); i++ :: else -> break od;
	atomic { i=0; news=0; do :: i<N -> if :: now[i]!=told[i] -> news=1; told[i]=now[i] :: else fi; now[i]=0; i++ :: else -> break od; i=0 };
#ifdef COUNTLATE
	c=ch;
#endif
	if :: news -> news=0; if :: goto again :: true fi :: else fi;	/* told by another thread: the sleep goes on */
	atomic {
		i=0; do :: i<N ->
#ifdef OWNLOOK
			watch[i]=(pl[i] && !dead[i]);
#else
			watch[i]=told[i];
#endif
			i++ :: else -> break od; i=0 };
	atomic {
		i=0; do :: i<N -> if :: watch[i] && dead[i] -> news=1 :: else fi; i++ :: else -> break od; i=0;
		if :: ch==c && !news -> asleep=1 :: else -> woken=1 fi; news=0; c=0 };
#if defined(STOP) && !defined(NOTIMER)
#define NEWS(i) (told[i]!=(pl[i] && !dead[i]))
end_f:	atomic { (woken || (watch[0] && dead[0]) || (watch[N-1] && dead[N-1]) || NEWS(0) || NEWS(N-1)) ->
#else
end_f:	atomic { (woken || (N>0 && watch[0] && dead[0]) || (N>1 && watch[N-1] && dead[N-1])) ->
#endif
		woken=0; asleep=0; i=0; do :: i<N -> watch[i]=0; i++ :: else -> break od; i=0 };
	goto again
}

active proctype K() {
	byte i;
	atomic { run Follower(); for (i : 0 .. N-1) { run Member(i) }; i=0 };
	do
	:: deaths<D -> atomic { i=0; do :: i+1<N -> i++ :: break od; dead[i]=1; deaths++; i=0 }
#ifdef STOP
	:: !stop -> atomic { stop=1; i=0; do :: i+1<N -> i++ :: break od; stopped[i]=1; i=0 }
#endif
	:: break
	od;
	timeout -> atomic { for (i : 0 .. N-1) { assert(told[i]==(pl[i] && !dead[i])) } }
}
