/* rpc_parts.pml - a request of several parts: the client sends them one after the other, the server
 * takes them, in the slot of one client and one server; the ring has one place.
 *
 *   cn cs    the claim: number, state (the server's); not begun: cn is asked - 1
 *   pn pc pe `parts`: number, parts sent, END
 *   qn qc    `parts_taken`: number, parts taken
 *   ref      the place of the ring: which object; tag[], pay[] of each object: whose it is, and
 *            ghost: which call's which part is in it
 *   rdy      `ready` says END of that number
 *   sw, cw   the server sleeps on `space`, the client on `replies`
 *
 * client  1. parts = {n, 0}; asked = n; wake the server
 *         2. room: parts - parts_taken < 1, else sleep {`replies`, the server}; the call over: 5
 *         3. an object -> HELD, its bytes; ref; HELD -> SLOT; parts + 1; wake the server. No object
 *            is free: sleep {`room`, `replies`, the server}; the call over: 5. All sent:
 *            parts END; wake
 *         4. the reply, or the server dead: claim -> CANC (in WRITING by a living thread: later)
 *         5. free what the slot has (SLOT). LETGO: at any moment in 2 and 4 claim -> CANC, wake, 5
 * server  1. claim asked - 1 -> WRITING -> TAKEN
 *         2. parts > taken: claim TAKEN -> WRITING; the object SLOT -> OWN; parts_taken + 1;
 *            -> TAKEN; wake the client; read, free. END, and all taken: 3. None: sleep {`space`, the
 *            client}; CANC or the client dead: the call is over
 *         3. claim TAKEN -> WRITING; rdy; wake. EARLY: at any moment in 2
 * other   settles the slot of a dead client: claim -> CANC(cn + 1) (not in WRITING by a living thread),
 *         wakes, frees SLOT; frees what the dead had (HELD, OWN)
 *
 * A process dies in two moments: its token reads dead, and a while later its thread stops. STOP: one
 * of the two stops for ever, at any step; each sleeper makes the recheck.
 *
 * Checked: each part is taken once, whole, in order, and is this call's; a part that is read is the
 * server's alone; no process waits for ever while the other one is dead, or lives and goes on; in
 * the end, when all has been collected and settled, each object is free.
 * Switches: -DR=calls -DK=parts each -DD=deaths -DNO=objects -DSTOP -DLETGO -DEARLY
 * With -DNO=1 what the client waits for is freed by the server that reads it, or is its own part, which
 * a server that has replied does not take. OTHERS: another process has that object, and keeps it.
 * Mutations, each must be caught:
 *   PARTLATE    `parts` before the object's tag      NOPARTLOOK  no second look before the server sleeps
 *   NOPARTSPACE the server wakes no client           NOROOMLOOK  the same of the client
 *   NOPARTWAKE  the client wakes no server           LEFTPARTS   5 leaves the parts where they are
 *   TAKEDIRECT  2 of the server without WRITING      NOTIMER     no recheck (STOP)
 *   NOPARTROOM  2 of the client waits for no room    NOOLD       1 leaves `parts` as it was
 *   NOMEMWAKE   who frees an object wakes no client  NOMEMLOOK   no second look for an object
 *   MEMALONE    3 sleeps on `room` and the server, not on `replies` (OTHERS)
 *   MEMDEAF     3 sleeps on {`room`, `replies`}, not behind the server (OTHERS)
 */
#ifndef R
#define R 2
#endif
#ifndef K
#define K 2
#endif
#ifndef D
#define D 1
#endif
#ifndef NO
#define NO 3
#endif
#define NONE 7
#define OVER 0
#define TAKEN 1
#define WRITING 2
#define CANC 3
mtype = { FREE, HELD, SLOT, OWN, LENT };
mtype tag[NO] = FREE;
byte pay[NO], reading[NO];
byte cn, cs, asked, pn, pc, qn, qc, rdy, ref = NONE;
bool pe, sw, sx, cw, cx, mw, mx;                  /* sx, cx, mx: woken; mw: the client sleeps on `room` */
bool pdc, tdc, stc, pds, tds, sts, fin;

#define THEIRS (cs==WRITING && rdy!=cn && !tds)   /* a living thread of the server writes there */
#define GONE_S ((cn==n && cs==WRITING) -> tds : pds)
#define Q (qn==n -> qc : 0)
inline wakes() { atomic { if :: sw -> sx=1 :: else fi } }
inline wakec() { atomic { if :: cw -> cx=1 :: else fi } }
#ifdef NOMEMWAKE
#define wakem() skip
#else
inline wakem() { atomic { if :: mw -> mx=1 :: else fi } }
#endif
/* frees what the slot has: by the tag alone */
inline free_slot() { atomic { if :: ref<NO && tag[ref]==SLOT -> assert(reading[ref]==0); tag[ref]=FREE; pay[ref]=0 :: else fi }; wakem() }
#define ANYFREE (tag[0]==FREE || tag[NO-1]==FREE || tag[NO/2]==FREE)
/* what ends the wait for memory, but for a free object */
#define ENDED (rdy==n || GONE_S)
#ifdef MEMALONE
#define WOKEN (mx)
#else
#define WOKEN (mx || cx)
#endif
#ifdef MEMDEAF
#define TOLD false
#else
#define TOLD GONE_S
#endif
#ifdef STOP
#ifdef NOTIMER
#define RECHECK(x) false
#else
#define RECHECK(x) (x)
#endif
#else
#define RECHECK(x) false
#endif
#ifdef LETGO
#define MAYLETGO :: goto letgo
#else
#define MAYLETGO
#endif
#ifdef EARLY
#define MAYREPLY :: goto reply
#else
#define MAYREPLY
#endif

proctype Client() {
	byte n, k, o; bool sent;
	{ skip;
	do
	:: n==R -> break
	:: n<R ->
		/* 1 */
		n++; k=0; sent=0;
#ifndef NOOLD
		atomic { pn=n; pc=0; pe=0 };
#endif
		asked=n;
		wakes();
again:		/* 2, 4 */
		if
		:: rdy==n -> goto answered
		MAYLETGO
#ifdef NOPARTROOM
		:: rdy!=n && k<K -> goto send
#else
		:: rdy!=n && k<K && k-Q<1 -> goto send
#endif
		:: rdy!=n && k==K && !sent -> atomic { pe=1; sent=1 }; wakes(); goto again
		:: rdy!=n && (sent || (k<K && k-Q>=1)) -> skip
		fi;
		atomic { cw=1; cx=0 };
		if
#ifndef NOROOMLOOK
		:: rdy==n || (k<K && k-Q<1) -> cw=0; goto again
#endif
		:: rdy!=n && GONE_S -> cw=0; goto died
#ifdef NOROOMLOOK
		:: !GONE_S ->
#else
		:: !(rdy==n || (k<K && k-Q<1)) && !GONE_S ->
#endif
#ifdef STOP
			/* what waits for a process that is stopped may give up, as at a deadline */
			if :: atomic { (cx || GONE_S || RECHECK(rdy==n || (k<K && k-Q<1))) -> cw=0 }
			:: atomic { sts && !(rdy==n || (k<K && k-Q<1)) -> cw=0; goto stop } fi
#else
			atomic { (cx || GONE_S) -> cw=0 }
#endif
		fi;
		goto again;
send:		/* 3 */
		atomic {
			if
			:: tag[0]==FREE -> o=0; tag[o]=HELD; pay[o]=0; goto held
			:: tag[0]!=FREE && tag[NO/2]==FREE -> o=NO/2; tag[o]=HELD; pay[o]=0; goto held
			:: tag[0]!=FREE && tag[NO/2]!=FREE && tag[NO-1]==FREE -> o=NO-1; tag[o]=HELD; pay[o]=0; goto held
			:: !ANYFREE
			fi };
		/* none: both waits are prepared, then what ends them is looked at, then the objects again */
		atomic { cw=1; cx=0 };
		atomic { mw=1; mx=0 };
		if
		:: ENDED -> atomic { cw=0; mw=0 }; goto again
		:: !ENDED
		fi;
#ifndef NOMEMLOOK
		if
		:: ANYFREE -> atomic { cw=0; mw=0 }; goto send
		:: !ANYFREE
		fi;
#endif
#ifdef STOP
		if :: atomic { (WOKEN || TOLD || RECHECK(ENDED || ANYFREE)) -> cw=0; mw=0 }
		:: atomic { sts && !ENDED && !ANYFREE -> cw=0; mw=0; goto stop } fi;
#else
#ifdef OTHERS
end_mem:	/* for ever, while the server lives and says nothing: Other looks at the end */
#endif
		atomic { (WOKEN || TOLD) -> cw=0; mw=0 };
#endif
		goto send;
held:		pay[o]=n*8+k+1;
#ifdef PARTLATE
		pc=k+1;
#endif
		ref=o;
		tag[o]=SLOT;
#ifndef PARTLATE
		pc=k+1;
#endif
#ifndef NOPARTWAKE
		wakes();
#endif
		k++;
		goto again;
died:		atomic { if :: rdy!=n && GONE_S -> cn=n; cs=CANC :: else -> goto again fi };
		free_slot();
		goto stop;
letgo:		atomic {
			if
			:: rdy==n -> goto answered
			:: rdy!=n && !THEIRS -> cn=n; cs=CANC
#ifdef STOP
			/* the slot is settled later: it is not used again here */
			:: rdy!=n && THEIRS && sts -> goto stop
#endif
			fi };
		wakes();
answered:
#ifndef LEFTPARTS
		free_slot();
#endif
		skip
	od;
stop:	fin=1
	} unless { (tdc || stc) }
}

proctype Server() {
	byte n, k, o;
	{ skip;
end:
	do
	:: atomic { asked==cn+1 -> n=asked; cn=n; cs=WRITING };
		cs=TAKEN; k=0;
next:
		if
		:: !(cn==n && cs==TAKEN) -> goto over
		MAYREPLY
		:: cn==n && cs==TAKEN && pn==n && pc>k ->
#ifndef TAKEDIRECT
			atomic { if :: cn==n && cs==TAKEN -> cs=WRITING :: else -> goto over fi };
#endif
			o=ref;
			atomic { assert(o<NO && tag[o]==SLOT); tag[o]=OWN };
			atomic { qn=n; qc=k+1 };
#ifndef TAKEDIRECT
			cs=TAKEN;
#endif
#ifndef NOPARTSPACE
			wakec();
#endif
			atomic { assert(tag[o]==OWN && pay[o]==n*8+k+1); reading[o]++ };
			atomic { reading[o]--; tag[o]=FREE; pay[o]=0 };
			wakem();
			k++;
			goto next
		:: cn==n && cs==TAKEN && pn==n && pe && pc==k -> assert(k==K); goto reply
		:: cn==n && cs==TAKEN && !(pn==n && (pc>k || pe)) -> skip
		fi;
		atomic { sw=1; sx=0 };
		if
#ifndef NOPARTLOOK
		:: !(cn==n && cs==TAKEN) || (pn==n && (pc>k || pe)) -> sw=0; goto next
		:: (cn==n && cs==TAKEN) && !(pn==n && (pc>k || pe)) && pdc -> sw=0; goto over
		:: (cn==n && cs==TAKEN) && !(pn==n && (pc>k || pe)) && !pdc ->
#else
		:: pdc -> sw=0; goto over
		:: !pdc ->
#endif
#ifdef STOP
			if :: atomic { (sx || pdc || RECHECK(!(cn==n && cs==TAKEN) || (pn==n && (pc>k || pe)))) -> sw=0 }
			:: atomic { stc && !(!(cn==n && cs==TAKEN) || (pn==n && (pc>k || pe))) -> sw=0; goto over } fi
#else
#ifdef OTHERS
end_part:
#endif
			atomic { (sx || pdc) -> sw=0 }
#endif
		fi;
		goto next;
reply:		/* 3 */
		atomic { if :: cn==n && cs==TAKEN -> cs=WRITING :: else -> goto over fi };
		rdy=n;
		wakec();
over:		atomic { k=0; o=0 }
	od
	} unless { (tds || sts) }
}

/* deaths, each in two moments, and the one stop */
proctype Death() {
	byte left=D;
#ifdef STOP
	if :: stc=1 :: sts=1 :: skip fi;
#endif
	do
	:: left==0 -> break
	:: left>0 -> left--;
		if
		:: skip
		:: pdc=1; tdc=1
		:: pds=1; atomic { tds=1; reading[0]=0; reading[NO/2]=0; reading[NO-1]=0 }
		fi
	od
}

/* settles and collects what the dead have left, and looks at the end */
proctype Other() {
	byte i;
	/* another client takes the slot */
	if
	:: atomic { tdc && !THEIRS -> cn=cn+1; cs=CANC }; wakes(); free_slot()
	:: fin
	:: stc || (sts && !fin)
#ifdef OTHERS
	:: true
#endif
	fi;
end:	timeout;
	d_step {
#ifdef OTHERS
#define KEPT (!pds && rdy!=asked)
#else
#define KEPT false
#endif
		if :: fin || stc || sts || tdc || KEPT -> skip :: else -> assert(false) fi;
		if
		:: stc || sts -> skip
		:: else ->
			for (i : 0 .. NO-1) {
				if
				:: tag[i]==HELD && tdc -> tag[i]=FREE
				:: tag[i]==OWN && tds -> tag[i]=FREE
				:: tag[i]==LENT -> tag[i]=FREE
				:: else
				fi;
				assert(tag[i]==FREE)
			}
		fi
	}
}

init { atomic {
#ifdef OTHERS
	tag[0]=LENT;
#endif
	run Client(); run Server(); run Death(); run Other() } }
