/* topic_sessions.pml - which messages of a ring a later subscriber gets in a topic that is transient
 * local; death of processes between any two steps.
 *
 *   owner            the process that has the ring; 0: none
 *   stok snum        the ring's `session`, one word: the process that vouches for its messages, and
 *                    the session's number; 0: no process
 *   sfrom            the session's first message
 *   published whose[m]  messages in the ring; ghost: the session of each
 *
 * start    owner 0 or dead's -> me; session := 0; a number that no other has; sfrom := published;
 *          session := (me, number)
 * publish  whose[published] := number; published += 1
 * leave    compare-exchange session: (me, number) -> 0; owner := 0
 * join     p := published; session; is its process alive; then sfrom: the cursor is the smaller of
 *          sfrom and p; p where no process vouches
 *
 * Processes 1 and 2 start up to S times each, publish up to L messages in each session, and leave or
 * die; a process that has left lives on. The subscriber joins at any time.
 *
 * Checked: a message that the subscriber gets as history is of no session that was over, by a death
 * or because its publisher had left, when the joining began. Beside a publisher that has begun and
 * lives, and no other process at work, it gets all of that session.
 * Switches: -DS=starts -DL=messages -DD=deaths
 * Mutations, each must be caught:
 *   FROMLATE   start: the session before its first message
 *   NOEND      leave: the session stays
 *   ANYALIVE   join: the session's process is not asked for
 *   FROMFIRST  join: sfrom before the session
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

proctype Pub(byte me) {
	byte starts, sent, old;
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
			sfrom=published;
			atomic { stok=me; snum=old; mine[me]=old };
#endif
			do
			:: sent<L -> atomic { whose[published]=old; published++; sent++ }
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

active proctype killer() {
	budget=D;
	atomic { run Pub(1); run Pub(2); run Sub() };
end_k:	do
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
	:: true -> break
	od
}
