/* queue_tasks.pml - join: the wait until all messages of a queue have been received and are done.
 *
 *   has[i]   slot i has a message; head: the first one that has not been given back
 *   turn      the receiver (c + 1), or 0: consumers take turns; who takes over from a dead one is in
 *             endpoint.pml, here it is one step
 *   cnt[c]    the table's word of consumer c: messages that it has received and not done
 *   seq jwait the eventcount `room`, and "a waiter sleeps on it"
 *
 * receive  1. the turn, notify   2. cnt[c]+1   3. the slot is given back (EMPTY), the head moves
 *          4. notify     5. the turn is free
 * done     6. cnt[c]-1   7. notify
 * join     s = seq, jwait; 0. the turn   1. the slots: a message -> wait {seq == s, the receiver's end}
 *          2. the table: a living consumer with a count -> wait {seq == s, that one's end}
 *          3. the slots again: a message -> from 0.; the head has moved since 1. -> from 1.
 *          4. otherwise it returns
 *
 * Any consumer may be killed between any two steps. A step is one shared access, except that EMPTY
 * and the head are one (a death between them: queue.pml).
 * Checked: when join returns, no message is unread, and none has been received by a living consumer
 * that has not done it; join does not sleep for ever while no message is left.
 * Switches: NC consumers, M messages (all are sent before), DEATHS
 *   SENDS       the consumer of message 0 sends the last one before it is done with its own; that one
 *               alone is not there from the beginning
 *   STOP        one consumer may stop for ever. A sleeping waiter makes the recheck; it may stay
 *               asleep while the stopped one has the turn or a message that is not done
 * Mutations, each must be caught:
 *   COUNTLATE   the count is raised after the slot is given back
 *   TABLEFIRST  (with ONELOOK) the waiter looks at the table before it looks at the slots, once
 *   ROLELATE    the waiter reads which process receives after it has looked at the slots
 *   QUIETDONE   done notifies nobody
 *   NOWATCH     the waiter sleeps on seq alone
 *   NORELOOK    the waiter looks before it has prepared its wait, and not after
 *   NOTIMER     (STOP) the waiter makes no recheck
 *   ONELOOK     (SENDS) the waiter does not look at the slots again after the table
 *   NOHEAD      (SENDS) it does, and does not look whether the head has moved
 */
#ifndef NC
#define NC 2
#endif
#ifndef M
#define M 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif

bool has[M]; byte head, turn, cnt[NC];
byte seq; bool jwait, asleep, joined;
bool dead[NC], stopped[NC];
byte got[M];                            /* ghost: consumer + 1, from EMPTY to done; 99: done */
byte watched;                           /* consumer + 1 whose end wakes the waiter */

/* all have been received; with SENDS also when the sender of the last one died before it sent it */
#ifdef SENDS
#define NONE (head==M || (head==M-1 && !has[M-1]))
#else
#define NONE (head==M)
#endif

/* what the recheck finds: no message and no count of a living process */
#if NC==2
#define ALLGOT (NONE && (cnt[0]==0 || dead[0]) && (cnt[1]==0 || dead[1]))
#else
#define ALLGOT (NONE && (cnt[0]==0 || dead[0]) && (cnt[1]==0 || dead[1]) && (cnt[2]==0 || dead[2]))
#endif

inline notify() {
	atomic { if :: jwait -> jwait=0; seq++; asleep=0 :: else fi }
}

proctype C(byte me) {
	byte h;
	{
	skip;
L1:
#ifdef STOP
end_c:
#endif
#ifdef SENDS
end_w:
#endif
	atomic { ((turn==0 || (turn!=me+1 && dead[turn-1])) && (head==M || has[head]) || head==M);
		if :: head==M -> goto out :: else -> turn=me+1 fi };
	notify();                              /* as a receiver does that comes in */
	atomic { if :: head==M -> turn=0; goto out :: else -> h=head fi };
#ifndef COUNTLATE
	cnt[me]=cnt[me]+1;
#endif
	atomic { assert(has[h]); has[h]=0; head=h+1; got[h]=me+1 };
#ifdef COUNTLATE
	cnt[me]=cnt[me]+1;
#endif
	notify();
	turn=0;
#ifdef SENDS
	atomic { if :: h==0 -> has[M-1]=1 :: else fi };
#endif
	atomic { cnt[me]=cnt[me]-1; got[h]=99; h=0 };
#ifndef QUIETDONE
	notify();
#endif
	goto L1;
out:	skip
	} unless { (dead[me] || stopped[me]) }
}

proctype J() {
	byte s, i, w, e; bool there;
L1:
#ifndef NORELOOK
	s=seq;
	jwait=1;
#endif
L2:	w=0; i=0; there=0;
#ifndef ROLELATE
	atomic { w=turn; if :: w>0 && dead[w-1] -> w=0 :: else fi };
#endif
LA:	e=head;
#ifdef TABLEFIRST
	do
	:: i<NC -> atomic { if :: cnt[i]>0 && !dead[i] -> w=i+1; there=1; break :: else -> i++ fi }
	:: else -> break
	od;
	i=0;
	if :: there -> goto LS :: else fi;
#endif
	do
	:: i<M -> atomic { if :: has[i] -> there=1; break :: else -> i++ fi }
	:: else -> break
	od;
#ifdef ROLELATE
	if :: there -> atomic { w=turn; if :: w>0 && dead[w-1] -> w=0 :: else fi; goto LS } :: else fi;
#else
	if :: there -> goto LS :: else fi;
#endif
#ifndef TABLEFIRST
	i=0;
	do
	:: i<NC -> atomic { if :: cnt[i]>0 && !dead[i] -> w=i+1; there=1; break :: else -> i++ fi }
	:: else -> break
	od;
	if :: there -> goto LS :: else fi;
#endif
#ifndef ONELOOK
	/* the claim at the head, in one step with the head */
	i=0;
	do
	:: i<M -> atomic { if :: has[i] -> there=1; break :: else -> i++ fi }
	:: else -> break
	od;
	if :: there -> there=0; i=0; goto L2 :: else fi;
#ifndef NOHEAD
	atomic { if :: head!=e -> i=0; goto L2 :: else fi };
#endif
#endif
	atomic {
		for (i : 0 .. M-1) {
			assert(!has[i]);
#ifdef SENDS
			/* never sent: its sender died before */
			assert(got[i]==99 || (got[i]>0 && dead[got[i]-1])
				|| (got[i]==0 && got[0]!=99 && dead[got[0]-1]))
#else
			assert(got[i]==99 || dead[got[i]-1])
#endif
		};
		joined=1; i=0; e=0; goto out };
LS:
#ifdef NORELOOK
	s=seq;
	jwait=1;
#endif
#ifdef NOWATCH
	w=0;
#endif
	atomic { if :: seq!=s -> goto L1 :: else -> asleep=1; watched=w fi };
#if defined(STOP) && !defined(NOTIMER)
end_j:	(!asleep || (w>0 && dead[w-1]) || ALLGOT);
#else
end_j:	(!asleep || (w>0 && dead[w-1]));
#endif
	atomic { asleep=0; watched=0; s=0; w=0; i=0; e=0; there=0; goto L1 };
out:	skip
}

active proctype K() {
	byte d, i;
#ifdef STOP
	bool st=1;
#endif
	atomic { for (i : 0 .. M-1) { has[i]=1 };
#ifdef SENDS
		has[M-1]=0;
#endif
		for (i : 0 .. NC-1) { run C(i) }; run J(); i=0 };
	do
	:: d<DEATHS -> atomic { i=0; do :: i+1<NC -> i++ :: break od; if :: !dead[i] -> dead[i]=1; d++ :: else fi; i=0 }
#ifdef STOP
	:: atomic { st -> st=0; i=0; do :: i+1<NC -> i++ :: break od; if :: !dead[i] -> stopped[i]=1 :: else fi; i=0 }
#endif
	:: break
	od;
	timeout -> atomic {
		/* all messages are got and done, or went with the dead: then join has returned. All consumers
		 * may be dead, and messages unread */
		d=0;
		for (i : 0 .. M-1) { if :: has[i] -> d=1 :: else fi };
		for (i : 0 .. NC-1) { if :: stopped[i] && !dead[i] && (turn==i+1 || cnt[i]>0) -> d=1 :: else fi };
		assert(joined || d); i=0; d=0 }
}
