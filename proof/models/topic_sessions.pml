/* topic_sessions.pml - which messages of a ring a later subscriber gets in a topic that is transient
 * local; death of processes between any two steps.
 *
 *   owner            the process that has the ring; 0: none
 *   stok snum        the ring's `session`, one word: the process that vouches for its messages, and
 *                    the session's number; 0: no process
 *   sfrom            the session's first message
 *   published whose[m]  messages in the ring; ghost: the session of each
 *   life before      how long messages with a lifespan count: from sfrom on, and before it; 0: for
 *                    ever
 *   brief[m]         LIFE; message m says that it has a lifespan; ghost: and how long, which is the
 *                    process's number
 *
 * start    owner 0 or dead's -> me; session := 0; a number that no other has; before := the shortest
 *          of before and life; sfrom := published; life := mine; session := (me, number)
 * publish  whose[published] := number; published += 1
 * leave    compare-exchange session: (me, number) -> 0; owner := 0
 * join     p := published; session; is its process alive; then sfrom: the cursor is the smaller of
 *          sfrom and p; p where no process vouches
 *
 * take     (LIFE) of a message that says that it has a lifespan: life, then sfrom; before, if the
 *          message lies before sfrom
 *
 * Processes 1 and 2 start up to S times each, publish up to L messages in each session, and leave or
 * die; a process that has left lives on. The subscriber joins at any time.
 *
 * Checked: a message that the subscriber gets as history is of no session that was over, by a death
 * or because its publisher had left, when the joining began. Beside a publisher that has begun and
 * lives, and no other process at work, it gets all of that session.
 * LIFE: processes 1 and 2 have lifespans, or have none, in each session. A message with a lifespan is
 * never taken for one that counts longer, whichever process has the ring by then, at whichever step of a
 * start: neither for ever nor for the longer one.
 * Switches: -DS=starts -DL=messages -DD=deaths -DLIFE
 * Mutations, each must be caught:
 *   FROMLATE   start: the session before its first message
 *   NOEND      leave: the session stays
 *   ANYALIVE   join: the session's process is not asked for
 *   FROMFIRST  join: sfrom before the session
 *   LIFEFIRST  (LIFE) start: life before sfrom
 *   NOBEFORE   (LIFE) start: before is left as it is
 *   LASTONLY   (LIFE) start: before := life, whatever before was
 *   SFROMFIRST (LIFE) take: sfrom before life
 */
#ifndef S
#define S 2
#endif
#ifndef L
#define L 1
#endif
#ifndef D
#define D 1
#endif
#define MOST 8

byte owner, stok, snum, sfrom, published, whose[MOST], count;
bool dead[3], killed[3], fin[3], over[MOST], was[MOST];
byte mine[3];				/* ghost: the session that a process is in */
byte budget;
#ifdef LIFE
byte life, before, brief[MOST];
#define SHORTER(a,b) (a==0 -> b : (b==0 -> a : (a<b -> a : b)))
#endif

proctype Pub(byte me) {
	byte starts, sent, old;
#ifdef LIFE
	byte own, b;
#endif
	{
		do
		:: starts<S ->
			if
			:: atomic { (owner==0 || dead[owner]) -> owner=me }
			:: true -> break
			fi;
			atomic { stok=0; snum=0 };
			atomic { count++; old=count };
#ifdef FROMLATE
			atomic { stok=me; snum=old; mine[me]=old };
			sfrom=published;
#else
#ifdef LIFE
			if :: own=0 :: own=me fi;
#ifndef NOBEFORE
#ifdef LASTONLY
			before=life;
#else
			/* both words have one writer, which this process is */
			before=SHORTER(before,life);
#endif
#endif
#ifdef LIFEFIRST
			life=own;
#endif
#endif
			sfrom=published;
#if defined(LIFE) && !defined(LIFEFIRST)
			life=own;
#endif
			atomic { stok=me; snum=old; mine[me]=old };
#endif
			do
#ifdef LIFE
			:: sent<L -> atomic { whose[published]=old; brief[published]=own; published++; sent++ }
#else
			:: sent<L -> atomic { whose[published]=old; published++; sent++ }
#endif
			:: true -> break
			od;
			if
			:: true -> break	/* it stays */
			:: true ->
				atomic {
#ifndef NOEND
					if :: stok==me && snum==old -> stok=0; snum=0 :: else fi;
#endif
					over[old]=1; mine[me]=0 };
				atomic { if :: owner==me -> owner=0 :: else fi; starts++; sent=0 }
			fi
		:: else -> break
		od;
		fin[me]=1;
end_pub:	killed[me]
	} unless { killed[me] };
	atomic { dead[me]=1; if :: mine[me] -> over[mine[me]]=1 :: else fi }
}

proctype Sub() {
	byte p, w, from, m, n;
	atomic { m=0; do :: m<MOST -> was[m]=over[m]; m++ :: else -> break od; m=0 };
	p=published;
#ifdef FROMFIRST
	from=sfrom;
#endif
	atomic { w=stok; n=snum };
	if
#ifdef ANYALIVE
	:: w!=0 ->
#else
	:: w!=0 && !dead[w] ->
#endif
#ifndef FROMFIRST
		from=sfrom
#else
		skip
#endif
	:: else -> from=p
	fi;
	if :: from>p -> from=p :: else fi;
	atomic {
		m=from;
		do
		:: m<p -> assert(!was[whose[m]]); m++
		:: else -> break
		od;
		/* all is quiet: what it leaves out is no living session's */
		if
		:: fin[1] && fin[2] && published==p ->
			m=0;
			do
			:: m<from -> assert(over[whose[m]]); m++
			:: else -> break
			od
		:: else
		fi }
}

#ifdef LIFE
/* takes any message that is there, at any time */
proctype Take() {
	byte m, l, from;
end_none:
	atomic { published>0 -> m=published-1; do :: m>0 -> m-- :: break od };
	if
	:: brief[m]!=0 ->
#ifdef SFROMFIRST
		from=sfrom;
		l=life;
#else
		l=life;
		from=sfrom;
#endif
		if :: m<from -> l=before :: else fi;
		assert(l!=0 && l<=brief[m])
	:: else
	fi
}
#endif

active proctype killer() {
	budget=D;
#ifdef LIFE
	atomic { run Pub(1); run Pub(2); run Take() };
#else
	atomic { run Pub(1); run Pub(2); run Sub() };
#endif
end_k:	do
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
	:: true -> break
	od
}
