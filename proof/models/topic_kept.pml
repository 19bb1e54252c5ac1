/* topic_kept.pml - a named subscriber, whose place its topic keeps when its process dies, until a
 * successor of that name takes it: a recorder, with its file. Deaths between any two steps.
 *
 *   published            as in topic.pml; message p overwrites message p - K
 *   cp[l] cs[l] ck[l] ct[l]   subscriber slot l's claim, one word: its owner or 0, JOINING, RELIABLE or
 *                        LAGGING, whether the slot is kept, and which of its owners it is. All zero: free
 *   wt[l] wn[l]          slot l's word about deaths: of which of its owners, and whether a publisher has noted
 *                        that this one is dead (in the code: since when)
 *   cursor[l]            the next message that has not been acknowledged
 *   file                 how many messages are in the file; it outlives all processes
 *
 * publish  of each slot that is RELIABLE and whose owner lives, or which is kept: its cursor > p - K,
 *          else sleep until it is told, or until the owner that it has seen alive ends. Beside a kept slot
 *          whose owner does not live: note that in the word, by a compare-exchange from what was there before
 *          the look at the claim. When the patience has passed since: mark it, by a compare-exchange
 *          (owner, RELIABLE, kept, turn) -> (owner, LAGGING, kept, turn)
 * come     look for a kept slot that is joined: its owner lives: give up. Else compare-exchange (owner,
 *          state, kept, turn) -> (me, state, kept, turn+1); word := (that turn, not noted); tell publishers; go on at its cursor. None: a free slot -> (me, JOINING);
 *          -> (me, JOINING, kept); look at the other slots again, for kept ones: joined, or JOINING in
 *          an earlier slot: give mine back, and begin again; JOINING in a later one: wait for it.
 *          cursor := published; claim := (me, RELIABLE, kept)
 * take     the messages from the cursor on, but those that the file has; write; cursor; if the claim says
 *          LAGGING: RELIABLE
 * sweep    the owner has exited: a kept and joined slot: compare-exchange (owner, state, kept) -> (0,
 *          state, kept); any other: free
 *
 * Two processes come with the same name, at any time; a third one as soon as one has died. A dead process's
 * end comes at once here: a successor waits for it, since a thread of the dead one may still write.
 *
 * Checked: no message that was published after the first of them had joined is overwritten before it is in the
 * file, but behind a mark; the file has none twice, and a gap only behind a mark; no two living processes
 * have the name; the publisher publishes all; one is marked only if its patience has passed since its death was noted.
 * Switches: -DK=slots -DM=messages -DD=deaths
 *   MARK         the publisher may mark
 * Mutations, each must be caught:
 *   KEEPNOT      publish: a kept slot counts only while its owner lives
 *   ACKFIRST     take: the cursor before the write
 *   SKIPNOT      take: also what the file has
 *   NOSECOND     come: no look at the other slots after the name is there
 *   BOTHSTAY     come: of two that are JOINING, each one gives its slot back only for a joined one
 *   TELLNOT      come: a successor tells publishers nothing before it has taken
 *   THROUGHJOIN  come: the successor's claim says JOINING until it has read the cursor
 *   FREESWEEP    sweep: frees kept slots, too
 *   MARKANY      (MARK) mark by a plain store
 *   TAKEANY      come: the successor takes the slot by a plain store
 *   BYSLOT       (MARK, D=2) publish: the patience counts for the slot, whichever owner was noted
 *   ANYTURN      (MARK, D=2) publish: the mark compares no turn
 */
#ifndef K
#define K 1
#endif
#ifndef M
#define M 3
#endif
#ifndef D
#define D 1
#endif
#define JOINING 1
#define RELIABLE 2
#define LAGGING 3

byte published, file;
byte cp[2], cs[2], cursor[2];
bool ck[2];
byte ct[2], wt[2];
bool wn[2], passed[2];			/* passed (a ghost): the patience, since it was noted */
bool dead[4], killed[4], fin[4];
bool promised;				/* ghosts: one has joined, and was not marked since; from which message on */
byte base;
bool gap;				/* a mark allows one */
byte holder;				/* the living process that has the name */
bool pub_done, third;
bool asleep, told;			/* the publisher: asleep; told since its look */

#define LIVES(w) (w!=0 && !dead[w])
#define JOINED(l) (cs[l]==RELIABLE || cs[l]==LAGGING)
#ifdef KEEPNOT
#define COUNTS(l) (cs[l]==RELIABLE && LIVES(cp[l]))
#else
#define COUNTS(l) (cs[l]==RELIABLE && (ck[l] || LIVES(cp[l])))
#endif
#ifdef BYSLOT
#define SAMETURN(a, b) (true)
#else
#define SAMETURN(a, b) (a==b)
#endif
#ifdef ANYTURN
#define ISTURN(a, b) (true)
#else
#define ISTURN(a, b) (a==b)
#endif
#define INWAY(l, p) (COUNTS(l) && cursor[l]+K<=p)

proctype Pub() {
	byte l, was, turn, w, t; bool lived, noted;
	do
	:: published<M ->
		/* The look, and the sleep on what it has seen, are one step: topic_reliable.pml and
		 * event_count.md have them step by step */
		atomic {
			if
			:: !INWAY(0,published) && !INWAY(1,published) ->
				if
				:: published>=K -> assert(!promised || published-K<base || published-K<file)
				:: else
				fi;
				published++; goto next
			:: INWAY(0,published) -> l=0
			:: !INWAY(0,published) && INWAY(1,published) -> l=1
			fi;
			was=cp[l]; lived=LIVES(was); turn=ct[l]; told=0; asleep=1 };
#ifdef MARK
		if
		:: !lived ->
			atomic { w=wt[l]; noted=wn[l] };
			if
			:: atomic { cs[l]==RELIABLE && ck[l] && !LIVES(cp[l]) && !(noted && SAMETURN(w, ct[l])) -> t=ct[l] };
				atomic {
					if
					:: wt[l]==w && wn[l]==noted -> wt[l]=t; wn[l]=1; passed[l]=0
					:: else
					fi }
			:: else
			fi
		:: else
		fi;
#endif
#ifndef MARK
		/* a successor may not come */
end_p:
#endif
		if
		:: atomic { told || (lived && dead[was]) -> asleep=0; goto next }
#ifdef MARK
		/* the time of this sleep is over, and the word is not about the owner that it has seen dead */
		:: atomic { !lived && !(wn[l] && SAMETURN(wt[l], turn)) -> asleep=0; goto next }
		/* the patience has passed since what the word says */
		:: atomic { !lived && wn[l] && SAMETURN(wt[l], turn) -> passed[l]=1; asleep=0 }
#endif
		fi;
#ifdef MARK
		atomic {
			if
#ifdef MARKANY
			:: true -> cs[l]=LAGGING; ck[l]=1; cp[l]=was; if :: !LIVES(cp[l]) -> promised=0; gap=1 :: else fi
#else
			:: cp[l]==was && cs[l]==RELIABLE && ck[l] && ISTURN(turn, ct[l]) ->
				assert(wn[l] && wt[l]==ct[l] && passed[l]);
				cs[l]=LAGGING; promised=0; gap=1
			:: !(cp[l]==was && cs[l]==RELIABLE && ck[l] && ISTURN(turn, ct[l]))
#endif
			fi };
#endif
next:		atomic { l=0; was=0; turn=0; w=0; t=0; lived=0; noted=0 }
	:: else -> break
	od;
	pub_done=1
}

inline has_name() { assert(holder==0 || holder==me || dead[holder]); holder=me }

proctype Named(byte me) {
	byte l, o, was, state, turn, cur; bool got;
	{
	skip;
again:	l=0; got=0;
	do
	:: l<2 && !got ->
		/* one look at the slot's word */
		atomic { was=cp[l]; state=cs[l]; turn=ct[l];
			if
			:: ck[l] && JOINED(l) && LIVES(was) -> goto out
			:: ck[l] && JOINED(l) && !LIVES(was) -> got=1
			:: else
			fi };
		if
		:: got ->
			atomic {
				if
#ifdef TAKEANY
				:: true -> cp[l]=me; cs[l]=state; ck[l]=1; ct[l]=turn+1; has_name()
#elif defined(THROUGHJOIN)
				:: cp[l]==was && cs[l]==state && ck[l] && ct[l]==turn -> cp[l]=me; cs[l]=JOINING; ct[l]++; has_name()
				:: !(cp[l]==was && cs[l]==state && ck[l] && ct[l]==turn) -> goto again
#else
				:: cp[l]==was && cs[l]==state && ck[l] && ct[l]==turn -> cp[l]=me; ct[l]++; has_name()
				:: !(cp[l]==was && cs[l]==state && ck[l] && ct[l]==turn) -> goto again
#endif
				fi };
#if defined(MARK) && !defined(BYSLOT)
			atomic { wt[l]=ct[l]; wn[l]=0; passed[l]=0 };
#endif
#ifndef TELLNOT
			told=1;
#endif
			cur=cursor[l];
#ifdef THROUGHJOIN
			cs[l]=state;
#endif
			goto there
		:: else -> l++
		fi
	:: else -> break
	od;
	/* none: a slot of its own */
	l=0;
	do
	:: l<2 && !got ->
		atomic {
			if
			:: (cp[l]==0 && cs[l]==0) || (cp[l]!=0 && dead[cp[l]] && !(ck[l] && JOINED(l))) ->
				cp[l]=me; cs[l]=JOINING; ck[l]=0; ct[l]=0; got=1
			:: else
			fi };
		if :: !got -> l++ :: else fi
	:: else -> break
	od;
	if :: !got -> goto out :: else fi;
	atomic { ck[l]=1; wt[l]++; wn[l]=0; passed[l]=0; ct[l]=wt[l] };
#ifndef NOSECOND
	o=1-l;
	do
	:: atomic {
		if
		:: ck[o] && JOINED(o) -> goto back
		:: ck[o] && cs[o]==JOINING && LIVES(cp[o]) ->
#ifndef BOTHSTAY
			if :: o<l -> goto back :: else fi;
			/* the later one goes, or has joined */
			!(ck[o] && cs[o]==JOINING && LIVES(cp[o]))
#else
			break
#endif
		:: else -> break
		fi }
	od;
#endif
	cur=published;
	cursor[l]=cur;
	atomic { cs[l]=RELIABLE; has_name(); promised=1; base=published; if :: file<cur -> file=cur :: else fi };
there:	do
	:: atomic { published>cur ->
			/* what was overwritten is told */
			if
			:: published>K && cur<published-K -> assert(cur<base || gap || cur<file); cur=published-K
			:: else
			fi };
#ifdef ACKFIRST
		cursor[l]=cur+1;
#endif
		atomic {
			if
#ifdef SKIPNOT
			:: true ->
#else
			:: cur<file
			:: cur>=file ->
#endif
				assert(cur>=file);
				assert(cur==file || gap || cur<=base);
				file=cur+1
			fi;
			cur++ };
#ifndef ACKFIRST
		cursor[l]=cur;
#endif
		told=1;
		atomic { if :: cs[l]==LAGGING -> cs[l]=RELIABLE; promised=1; base=published :: else fi }
	:: pub_done && published<=cur -> break
	od;
	/* it leaves in order */
	atomic { holder=0; promised=0; cp[l]=0; cs[l]=0; ck[l]=0; ct[l]=0 };
	told=1;
	goto out;
	/* No claim of that turn has counted. The code goes on to the next one; here it may come again, as each
	 * number would be a state of its own. */
back:	atomic { cp[l]=0; cs[l]=0; ck[l]=0; ct[l]=0; wt[l]--; got=0; o=0; goto again };
out:	atomic { fin[me]=1; l=0; o=0; was=0; state=0; turn=0; cur=0; got=0 };
end_idle: (false)
	} unless { killed[me] && !fin[me];
		atomic { dead[me]=1; fin[me]=1; if :: holder==me -> holder=0 :: else fi; l=0; o=0; was=0; state=0; turn=0; cur=0; got=0 } }
}

/* as often as there are deaths */
proctype Sweep() {
	byte l, was, state, turn; bool k;
end_s:	do
	:: atomic { cp[0]!=0 && dead[cp[0]] -> l=0; was=cp[0]; state=cs[0]; k=ck[0]; turn=ct[0] }; goto clear
	:: atomic { cp[1]!=0 && dead[cp[1]] -> l=1; was=cp[1]; state=cs[1]; k=ck[1]; turn=ct[1] }; goto clear
clear:	atomic {
		if
		:: cp[l]==was && cs[l]==state && ck[l]==k && ct[l]==turn ->
			cp[l]=0;
#ifndef FREESWEEP
			if :: k && (state==RELIABLE || state==LAGGING) :: else -> cs[l]=0; ck[l]=0; ct[l]=0 fi
#else
			cs[l]=0; ck[l]=0; ct[l]=0
#endif
		:: else
		fi; l=0; was=0; state=0; turn=0; k=0 }
	od
}

active proctype killer() {
	byte budget=D;
	atomic { run Pub(); run Named(1); run Named(2); run Sweep() };
end_k:	do
	:: atomic { budget>0 && !fin[1] && !killed[1] -> killed[1]=1; budget-- }
	:: atomic { budget>0 && !fin[2] && !killed[2] -> killed[2]=1; budget-- }
	:: atomic { budget>0 && !fin[3] && !killed[3] && third -> killed[3]=1; budget-- }
	:: atomic { (dead[1] || dead[2]) && !third -> third=1; run Named(3) }
	:: budget==0 && third -> break
	od;
	timeout;
	/* no wake was lost: it sleeps only while one is in its way */
	assert(!asleep || INWAY(0,published) || INWAY(1,published))
}
