/* rpc_objects.pml - the object of a long request, and of the reply to it, by their tags: written in
 * place by one side, read in place by the other, while either dies.
 *
 *   claim   of the call: NOT (not begun), WRITING (a thread of the server), TAKEN (the server), CANC
 *   ready   `ready` says that the reply is there
 *   tag     of each of the two objects: FREE, OWNED (who), CACHED (who), REQ and REP (queued: the
 *           slot's)
 *   holds   ghost: which side's bytes are in an object; 0: what a third process wrote there
 *
 * client  1. an object -> OWNED(client), write the request; -> REQ; asked
 *         2. ready: REP -> OWNED(client), read the reply in place, free it
 *         3. the server dead, and no reply: claim -> CANC, told; frees what the slot has (REQ, REP).
 *            Or it lets go of the call before: the same (in WRITING: later)
 * server  1. claim NOT -> WRITING; REQ -> OWNED(server); claim -> TAKEN
 *         2. read the request in place
 *         3. REUSE: the reply is written into the request's object. Else: another object ->
 *            OWNED(server), write, and the request's is freed at the end
 *         4. claim TAKEN -> WRITING; OWNED(server) -> REP; ready. Not TAKEN: the object is freed
 * other   takes a free object and writes there, frees it; and frees what the dead owned (collect), as
 *         soon as the process has ended; settles the slot of a dead client
 * SPARE   a side that has read keeps the object instead of freeing it: OWNED -> CACHED(me). It writes
 *         its next message there after CACHED(me) -> OWNED(me), or frees it by the same exchange. Any
 *         process that finds no memory: CACHED -> FREE, its process dead or alive
 * SHORT   (SPARE) that process waits for memory: 1. it says so (`waiting`); 2. it frees what is kept;
 *         3. it takes what is free, else it sleeps. A side that keeps an object looks for it *after*
 *         CACHED(me), and frees the object then, and wakes it. What is kept by the dead, a sweep frees
 *
 * A process dies in two moments: its token reads dead, and a while later its last thread stops; until
 * then it goes on.
 *
 * Checked: a process that reads or writes an object has it to itself meanwhile; a request and a reply
 * that are read are whole and this call's; a reply that the client takes was made from an undamaged
 * request; in the end, when both processes are gone and all has been collected and settled, both
 * objects are free.
 * SHORT: a process that sleeps for memory is woken, or the side that keeps some has not looked yet.
 * Switches: -DREUSE -DLETGO (the client may let go of the call) -DSPARE -DSHORT
 * Mutations, each must be caught:
 *   BYTOKEN   collect frees what a process owned when its token reads dead
 *   LEFTREQ   the server reads a request that is still the slot's
 *   READQ     the client reads a reply that is still the slot's
 *   EARLYFREE the client frees the objects in the slot before the claim is CANC
 *   TAGLATE   `ready` before the object's tag
 *   SPAREMINE (SPARE) the next message is written without the exchange: a kept object is still mine
 *   SPAREDEAD (SPARE) only its own process frees what is kept
 *   LOOKFIRST (SHORT) a side looks for a process that waits before CACHED(me)
 *   NOLOOK    (SHORT) it does not look
 */
mtype = { NOT, WRITING, TAKEN, CANC, FREE, OWNED, CACHED, REQ, REP };
#define CLIENT 1
#define SERVER 2
#define OTHER 3
#define NEEDY 4
mtype claim = NOT, tag[2] = FREE;
byte owner[2], holds[2], inside[2];               /* inside: how many read or write there */
bool asked, ready, whole;
byte reqat = 2, repat = 2;                        /* the slot's references: which object, 2 none */
bool pd[5], td[5];                                /* tokens dead; threads stopped */
byte at[5] = 2;                                   /* where each is inside; 2: nowhere */
bool done, given;                                /* given: the client has taken the reply, and uses the slot again */

bool waiting, slept, woken;                       /* SHORT: slept: it has found nothing at 2 and 3 */

/* one step of reading or writing is two: begin, end */
#define BEGIN(me,o) atomic { assert(inside[o]==0); inside[o]++; at[me]=o }
#define END(me,o) inside[o]--; at[me]=2
#define MINE(o,me) (tag[o]==OWNED && owner[o]==me)

/* keeps what it has read, and writes the next message there, which is freed on the other side */
#define KEPT(o,me) (tag[o]==CACHED && owner[o]==me)
inline keep(o,me) {
#ifdef LOOKFIRST
	sees=waiting;
#endif
	atomic { if :: MINE(o,me) -> tag[o]=CACHED :: else fi };
#ifdef SHORT
#if !defined(LOOKFIRST) && !defined(NOLOOK)
	sees=waiting;
#endif
	if
	:: sees -> atomic { if :: KEPT(o,me) -> tag[o]=FREE :: else fi; woken=1 }
	:: !sees
	fi;
	assert(!(slept && !woken && KEPT(o,me)));
#endif
	if
#ifdef SPAREMINE
	:: atomic { tag[o]=OWNED; owner[o]=me };
#else
	:: atomic { KEPT(o,me) -> tag[o]=OWNED };
#endif
		BEGIN(me,o);
		atomic { holds[o]=0; END(me,o) };
		atomic { assert(MINE(o,me)); tag[o]=FREE }
	:: atomic { KEPT(o,me) -> tag[o]=FREE }
	/* it stays as it is, or another process has it by now */
	:: true
	fi
}

/* frees what the slot has: by the tag alone */
inline free_slot() {
	atomic { if :: reqat<2 -> if :: tag[reqat]==REQ -> tag[reqat]=FREE :: else fi :: else fi };
	atomic { if :: repat<2 -> if :: tag[repat]==REP -> tag[repat]=FREE :: else fi :: else fi }
}

proctype Client() {
	byte o = 2; bool won, sees;
	{
	if
	:: atomic { tag[0]==FREE -> tag[0]=OWNED; owner[0]=CLIENT; o=0 }
	:: atomic { tag[1]==FREE -> tag[1]=OWNED; owner[1]=CLIENT; o=1 }
	fi;
	BEGIN(CLIENT,o);
	atomic { holds[o]=CLIENT; END(CLIENT,o) };
	reqat=o;
	atomic { assert(MINE(o,CLIENT)); tag[o]=REQ };
	asked=1;
	do
	:: ready ->
		o=repat; assert(o<2);
#ifndef READQ
		atomic { assert(tag[o]==REP); tag[o]=OWNED; owner[o]=CLIENT };
#endif
		given=1;
		BEGIN(CLIENT,o);
		atomic { assert(holds[o]==SERVER && whole); END(CLIENT,o) };
#ifdef SPARE
		keep(o,CLIENT);
#else
		atomic { if :: MINE(o,CLIENT) || tag[o]==REP -> tag[o]=FREE :: else assert(false) fi };
#endif
		break
	:: !ready && (pd[SERVER]
#ifdef LETGO
		|| true
#endif
		) ->
#ifdef EARLYFREE
		free_slot();
#endif
		if
		:: atomic { (claim==NOT || claim==TAKEN || (claim==WRITING && td[SERVER])) && !ready -> claim=CANC }; 
			free_slot(); break
		:: ready
		:: claim==WRITING && !td[SERVER] -> (claim!=WRITING || td[SERVER] || ready)
		fi
	od;
	done=1
	} unless { td[CLIENT] }
}

proctype Server() {
	byte o = 2, r = 2; bool fine, sees;
	{
	asked;
	if
	:: atomic { claim==NOT -> claim=WRITING }
	:: claim!=NOT -> goto over
	fi;
	o=reqat;
#ifndef LEFTREQ
	atomic { assert(tag[o]==REQ); tag[o]=OWNED; owner[o]=SERVER };
#endif
	claim=TAKEN;
	BEGIN(SERVER,o);
	atomic { fine=(holds[o]==CLIENT); assert(fine || pd[SERVER] || claim==CANC); END(SERVER,o) };
#ifdef LEFTREQ
	atomic { if :: tag[o]==REQ -> tag[o]=OWNED; owner[o]=SERVER :: else fi };
#endif
#ifdef REUSE
	r=o;
#else
	if
	:: atomic { tag[1-o]==FREE -> tag[1-o]=OWNED; owner[1-o]=SERVER; r=1-o }
	:: tag[1-o]!=FREE || pd[SERVER] -> goto give_up
	fi;
#endif
	BEGIN(SERVER,r);
	atomic { holds[r]=SERVER; END(SERVER,r) };
	if
	:: atomic { claim==TAKEN -> claim=WRITING };
		repat=r; whole=fine;
#ifdef TAGLATE
		ready=1;
		atomic { if :: MINE(r,SERVER) -> tag[r]=REP :: else fi }
#else
		atomic { assert(MINE(r,SERVER)); tag[r]=REP };
		ready=1
#endif
	:: claim!=TAKEN -> atomic { if :: MINE(r,SERVER) -> tag[r]=FREE :: else fi }
	fi;
#ifndef REUSE
give_up:
#ifdef SPARE
	keep(o,SERVER);
#else
	atomic { if :: MINE(o,SERVER) -> tag[o]=FREE :: else fi };
#endif
#endif
over:
	skip
	} unless { td[SERVER] }
}

#ifdef BYTOKEN
#define GONE(p) pd[p]
#else
#define GONE(p) td[p]
#endif

#ifdef SPAREDEAD
#define NONEKEPT true
#else
#define NONEKEPT (tag[0]!=CACHED && tag[1]!=CACHED)
#endif

proctype Other() {
	byte o, n;
	do
#ifndef SHORT
	/* another call's message, in whatever is free; with SHORT the third process's alone */
	:: n<2 ->
		n++;
		if :: o=0 :: o=1 fi;
		if
		:: atomic { tag[o]==FREE -> tag[o]=OWNED; owner[o]=OTHER };
			BEGIN(OTHER,o);
			atomic { holds[o]=0; END(OTHER,o) };
			atomic { assert(MINE(o,OTHER)); tag[o]=FREE }
		:: else
		fi
#endif
	/* another thread of the client lets go of the next call in the slot, while the reply is read */
	:: given && !td[CLIENT] -> given=0; free_slot()
#ifdef SHORT
	/* a sweep */
	:: atomic { tag[0]==CACHED && td[owner[0]] -> tag[0]=FREE }
	:: atomic { tag[1]==CACHED && td[owner[1]] -> tag[1]=FREE }
#elif defined(SPARE) && !defined(SPAREDEAD)
	/* it finds no memory; and so does a sweep with what the dead have kept */
	:: atomic { tag[0]==CACHED -> tag[0]=FREE }
	:: atomic { tag[1]==CACHED -> tag[1]=FREE }
#endif
	/* collect */
	:: atomic { tag[0]==OWNED && owner[0]<3 && GONE(owner[0]) -> tag[0]=FREE }
	:: atomic { tag[1]==OWNED && owner[1]<3 && GONE(owner[1]) -> tag[1]=FREE }
	/* a dead client's slot is settled, in WRITING by a thread that runs later */
	:: atomic { td[CLIENT] && !done && (claim!=WRITING || td[SERVER] || ready) -> claim=CANC; done=1 }; free_slot()
	/* the end */
	:: atomic { td[CLIENT] && td[SERVER] && done && tag[0]!=OWNED && tag[1]!=OWNED && NONEKEPT ->
		assert(tag[0]==FREE && tag[1]==FREE) }; break
	od
}

#ifdef SHORT
/* a process that has no memory for its message, and waits for some */
proctype Needy() {
	byte o = 2;
	waiting=1;
	atomic { if :: tag[0]==CACHED -> tag[0]=FREE :: else fi };
	atomic { if :: tag[1]==CACHED -> tag[1]=FREE :: else fi };
	if
	:: atomic { tag[0]==FREE -> tag[0]=OWNED; owner[0]=NEEDY; o=0 }
	:: atomic { tag[1]==FREE -> tag[1]=OWNED; owner[1]=NEEDY; o=1 }
	/* it looks again when it is woken, once a second (of a side that died before it looked), and in vain */
	:: atomic { tag[0]!=FREE && tag[1]!=FREE -> slept=1 }; woken || td[CLIENT] || td[SERVER]
	fi;
	atomic { waiting=0; slept=0 };
	if
	:: o<2 ->
		BEGIN(NEEDY,o);
		atomic { holds[o]=0; END(NEEDY,o) };
		atomic { assert(MINE(o,NEEDY)); tag[o]=FREE }
	:: else
	fi
}
#endif

/* both end, at any time; the last moments are ends in good order */
proctype Death(byte v) {
	pd[v]=1;
	atomic { td[v]=1; if :: at[v]<2 -> inside[at[v]]--; at[v]=2 :: else fi }
}

init { atomic {
	run Client(); run Server(); run Other(); run Death(CLIENT); run Death(SERVER);
#ifdef SHORT
	run Needy()
#endif
} }
