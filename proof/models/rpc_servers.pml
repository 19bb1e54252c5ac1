/* rpc_servers.pml - several servers at one service, each with a place of its own; what differs from
 * rpc.pml, which has one: who finds a call that a dead server has not begun, and who is told.
 *
 *   pl[v]    server v's place: taken
 *   asl wk   servers that sleep for requests, and that were woken
 *   by call slot, one to a client: cn cs co the claim; aq `asked`; bm the bit; rn `ready`; sl a client
 *   sleeps there; woken[c]
 *
 * client  1. no place held by a living process -> told, "no server"
 *         2. aq = n; bm = 1; wake all servers that sleep
 *         3. look: rn == n -> reply. Not begun: no living place -> claim -> CANC(n), told "not begun".
 *            Begun by a dead server -> CANC(n), told "begun"
 *         4. sl = 1, look again, sleep: not begun: behind all that live; begun: behind the one of
 *            the claim
 *         MEM: it waits for memory instead, which does not come: `serving`; no living place -> told;
 *            sleep on `serving` behind all that live
 * server  1. its place; every bit = 1; wake all clients
 *         2. a bit is set: claim not aq - 1 -> clear the bit, look again; asked by now -> set it, wake
 *            all servers that sleep
 *         3. claim -> WRITING(n)  4. clear the bit  5. -> TAKEN(n)  6. reply: rn = n, wake the client
 *         7. no bit: a place whose holder is dead, its thread too, and for which this server has not
 *            done it: every bit = 1
 *         8. announce the sleep, 2 and 7 again, sleep, behind all servers that hold places. A recheck:
 *            every bit = 1
 *         leaving: the place, then `serving` + 1, and wake all clients
 *
 * A process dies in two moments: its token (pd), its thread (td).
 * STOP: one server is stopped for ever, at any step: what it has begun waits for it. TIMEOUT: a client
 * gives a call up that is TAKEN, and asks again.
 * Checked: a call is carried out once at most, and never after its caller was told that it was not
 * begun; no caller is told "not begun" while a server lives; no process sleeps for ever: a call that no
 * stopped or dead server has begun is carried out by another one that lives.
 * BUSY: server 0 has begun a call, and never looks again. LEAVE: then it leaves; server 1 may
 * leave at any time.
 * In the end no client waits for memory while no server lives.
 * Switches: -DNC=clients -DNS=servers -DR=calls each -DD=deaths -DSTOP -DTIMEOUT -DLEAVE -DBUSY
 * Mutations, each must be caught:
 *   CLEARLATE   4 after 5 (TIMEOUT)
 *   NOSETALL    7 does not set the bits
 *   NOWATCH     8 sleeps behind no other server
 *   EARLYSET    7 when the token is dead, the thread not yet
 *   ONEWATCHED  4 sleeps behind one server, also when the call is not begun
 *   ONETOLD     3 tells the caller when server 0 is dead, though another lives
 *   TAKESTORE   3 of the server is a store
 *   NOTIMER     a recheck sets no bits (STOP)
 *   NORELOOK    2 without the second look
 *   NOTELL      2 sets the bit again and wakes none (LEAVE, BUSY)
 *   NOCOME      1 wakes no client
 *   NOLEAVE     a server that leaves wakes no client (LEAVE); with MEM, one that waits for memory
 *   MEMLATE     MEM: `serving` is read behind the look at the places (LEAVE)
 */
#ifdef ONEWATCHED
#define OTHER_ENDED	false
#else
#define OTHER_ENDED	((both==1 && pd[NS-1-who]) || (both==2 && td[NS-1-who]))
#endif
#ifndef NC
#define NC 1
#endif
#ifndef NS
#define NS 2
#endif
#ifndef R
#define R 1
#endif
#ifndef D
#define D 1
#endif
#define OVER 0
#define TAKEN 1
#define WRITING 2
#define CANC 3
bool pl[NS], pd[NS], td[NS], st[NS], asl[NS], wk[NS];
byte cn[NC], cs[NC], co[NC], aq[NC], rn[NC];
bool bm[NC], sl[NC], woken[NC];
byte serving;
byte done[8], ids = 1, idof[NC]; bool nobegin[8];

#define LIVES(v) (pl[v] && !pd[v])
#define ANY_LIVES (LIVES(0) || LIVES(NS-1))
#define GONE(v) (pd[v] && td[v])
#ifdef EARLYSET
#define DEAD(v) pd[v]
#else
#define DEAD(v) GONE(v)
#endif

/* a call is asked: what a recheck finds */
#define ASKED(s) (aq[s]==cn[s]+1)
#define LOST (ASKED(0) || ASKED(NC-1))

inline wake_servers() {
	d_step { for (w : 0 .. NS-1) { if :: asl[w] -> wk[w]=1 :: else fi }; w=0 }
}

proctype Client(byte me) {
	byte n, k, id, sn, ss, so, who, w;
	byte both;
	bool twice;
again:
	atomic { sn=0; ss=0; so=0; who=0; id=0; twice=0; both=0 };
	/* 1 */
	atomic {
		if
		:: k==R -> goto stop
		:: k<R && !ANY_LIVES -> k++; goto again
		:: else -> k++; n++; id=ids; ids++; idof[me]=id
		fi };
#ifdef MEM
mem:
#ifndef MEMLATE
	k=serving;
#endif
	/* the places one after the other, until they are as they were */
	atomic {
		if
		:: LIVES(0) -> who=0
		:: !LIVES(0) && LIVES(NS-1) -> who=NS-1
		:: !ANY_LIVES -> goto stop
		fi;
		if
		:: NS>1 && LIVES(NS-1-who) -> both=1
		:: NS>1 && pl[NS-1-who] && pd[NS-1-who] && !td[NS-1-who] -> both=2
		:: else -> both=0
		fi };
#ifdef MEMLATE
	k=serving;
#endif
	/* the kernel compares the word */
	if
	:: atomic { serving!=k -> goto mem }
	:: atomic { serving==k -> sl[me]=1; woken[me]=0 }
	fi;
end_mem:
	atomic { (woken[me] || pd[who] || OTHER_ENDED) -> sl[me]=0; both=0 };
	goto mem;
#endif
	/* 2 */
	aq[me]=n;
	bm[me]=1;
	wake_servers();
look:
	/* 3 */
	if :: rn[me]==n -> goto got :: else fi;
	atomic { sn=cn[me]; ss=cs[me]; so=co[me];
	if
	:: sn!=n ->
#ifdef ONETOLD
		if
		:: LIVES(0) -> who=0
		:: else -> goto not_begun
		fi
#else
		/* it sleeps behind all that live */
		if
		:: LIVES(0) -> who=0
		:: !LIVES(0) && LIVES(NS-1) -> who=NS-1
		:: !ANY_LIVES -> goto not_begun
		fi;
		if
		:: NS>1 && LIVES(NS-1-who) -> both=1
		/* its thread may begin the call still */
		:: NS>1 && pl[NS-1-who] && pd[NS-1-who] && !td[NS-1-who] -> both=2
		:: else -> both=0
		fi
#endif
	:: sn==n && (ss==TAKEN || ss==WRITING) ->
		who=so-1;
		if
		:: (ss==TAKEN && pd[who]) || (ss==WRITING && td[who]) ->
			if :: rn[me]==n -> goto got :: else fi;
			goto let_go
		:: else
		fi
	:: else -> assert(false)
	fi };
#ifdef TIMEOUT
	if
	:: true
	:: sn==n && ss==TAKEN ->
		atomic { if :: cn[me]==n && cs[me]==TAKEN && co[me]==so -> cs[me]=CANC; co[me]=0; goto again :: else -> goto look fi }
	fi;
#endif
	/* 4 */
	if
	:: atomic { !twice -> sl[me]=1; woken[me]=0; twice=1 }; goto look
	:: else
	fi;
	/* the kernel compares the claim; the owner: the process, or the thread that writes */
	if
	:: atomic { cn[me]!=sn || cs[me]!=ss -> sl[me]=0; twice=0; both=0; goto look }
	:: else
	fi;
	/* asleep: from here on a change of the claim wakes it no more; the end of a thread in WRITING does, by the call's relay word */
	if
	:: atomic { woken[me] || (cs[me]==WRITING && td[co[me]-1]) || (ss==WRITING && sn==n && td[who]) || (!(ss==WRITING && sn==n) && pd[who]) || OTHER_ENDED -> sl[me]=0; twice=0; both=0 }
#ifdef STOP
	/* its own recheck: a server was stopped after it had begun the call, or before it woke the client */
	:: atomic { cn[me]!=sn || cs[me]!=ss -> sl[me]=0; twice=0; both=0 }
	:: atomic { rn[me]==n -> sl[me]=0; twice=0 }
	:: atomic { sn==n && st[who] && rn[me]!=n && cn[me]==n -> sl[me]=0; goto stop }
	:: atomic { sn!=n && st[0] && (NS==1 || !LIVES(NS-1)) && cn[me]!=n -> sl[me]=0; goto stop }
	:: atomic { sn!=n && st[NS-1] && !LIVES(0) && cn[me]!=n -> sl[me]=0; goto stop }
#endif
	fi;
	goto look;
let_go:
	atomic { if :: cn[me]==n && cs[me]==ss && co[me]==so -> cs[me]=CANC; co[me]=0; goto again :: else -> goto look fi };
not_begun:
	atomic { if :: cn[me]==sn && cs[me]==ss && co[me]==so -> cn[me]=n; cs[me]=CANC; co[me]=0; nobegin[id]=1;
#ifdef ONETOLD
			assert(!ANY_LIVES)
#endif
			goto again
		:: else -> goto look fi };
got:
	atomic { assert(done[id]==1); goto again };
stop:
	skip
}

inline set_all() {
	d_step { for (w : 0 .. NC-1) { bm[w]=1 }; w=0 }
}

proctype Server(byte me) {
	byte s, n, sn, ss, so, id, w, c;
	bool ok, seen, twice;
	byte other = NS-1-me;
	{ skip;
	/* 1 */
	atomic { pl[me]=1; n=0 };
	/* it has read which places are dead before it sets the bits */
	atomic { seen = (pl[other] && DEAD(other)); set_all() };
#ifndef NOCOME
	/* those that sleep do not sleep behind this one yet */
	serving++;
	d_step { for (w : 0 .. NC-1) { if :: sl[w] -> woken[w]=1 :: else fi }; w=0 };
#endif
next:
	do
#ifdef LEAVE
#ifdef MEM
	:: goto leave
#else
	:: c>=1 || me==1 -> goto leave
#endif
#endif
#ifdef BUSY
	:: c>=1 && me==0 -> goto busy
#endif
	:: atomic { bm[s] -> twice=0 };
		/* 2 */
		n=aq[s];
		atomic { sn=cn[s]; ss=cs[s]; so=co[s];
		if
		:: sn+1!=n -> goto clear
		:: else
		fi };
		/* 3 */
#ifdef TAKESTORE
		atomic { cn[s]=n; cs[s]=WRITING; co[s]=me+1; ok=1;
#else
		atomic { if :: cn[s]==sn && cs[s]==ss && co[s]==so -> cn[s]=n; cs[s]=WRITING; co[s]=me+1; ok=1 :: else ok=0 fi;
#endif
			sn=0; ss=0; so=0;
			if
			:: ok -> id=idof[s]; done[id]++; assert(done[id]==1 && !nobegin[id]); id=0;
#if defined(LEAVE) || defined(BUSY)
				c=1;
#endif
			:: else -> n=0; goto next
			fi };
#ifdef CLEARLATE
		cs[s]=TAKEN;
		bm[s]=0;
#else
		/* 4 */
		bm[s]=0;
		/* 5 */
		atomic { assert(cn[s]==n && cs[s]==WRITING && co[s]==me+1); cs[s]=TAKEN };
#endif
		/* 6: the client may have let go */
		atomic { if :: cn[s]==n && cs[s]==TAKEN && co[s]==me+1 -> cs[s]=WRITING; ok=0 :: else -> n=0; ok=0; goto next fi };
		rn[s]=n;
		atomic { if :: sl[s] -> woken[s]=1 :: else fi; n=0; goto next };
clear:
		atomic { bm[s]=0; n=0; sn=0; ss=0; so=0 };
#ifndef NORELOOK
		n=aq[s];
		atomic { if :: cn[s]+1==n -> n=0 :: else -> n=0; goto next fi };
		bm[s]=1;
#ifndef NOTELL
		wake_servers()
#endif
#endif
	:: !bm[s] && s<NC-1 -> s++
	:: atomic { !bm[s] && s==NC-1 ->
		s=0;
		/* 7 */
		if
		:: pl[other] && DEAD(other) && !seen ->
			seen=1;
#ifndef NOSETALL
			set_all();
#endif
			goto next
		/* 8 */
		:: else ->
			if
			:: !twice -> asl[me]=1; wk[me]=0; twice=1; goto next
			:: else
			fi
		fi };
end_sleep:
#ifdef NOWATCH
		atomic { wk[me] -> asl[me]=0; wk[me]=0; twice=0 }
#else
		if
		:: atomic { (wk[me] || (pl[other] && GONE(other) && !seen)) -> asl[me]=0; wk[me]=0; twice=0 }
#if defined(STOP) && !defined(NOTIMER)
		:: atomic { st[other] && LOST -> asl[me]=0; wk[me]=0; twice=0; set_all() }
#endif
		fi
#endif
	od;
#ifdef BUSY
busy:
end_busy:
	false;
#endif
#ifdef LEAVE
leave:
	pl[me]=0;
#ifndef NOLEAVE
	serving++;
	d_step { for (w : 0 .. NC-1) { if :: sl[w] -> woken[w]=1 :: else fi }; w=0 }
#endif
#endif
	skip
	} unless { (td[me] || st[me]) }
}

proctype Death() {
	byte left_=D, v;
#ifdef STOP
	bool s=1;
#endif
	do
#ifdef STOP
	:: atomic { s -> s=0; if :: v=0 :: v=NS-1 fi; if :: !td[v] && !pd[v] -> st[v]=1 :: else fi; v=0 }
#endif
	:: break
	:: atomic { left_>0 -> left_--; if :: v=0 :: v=NS-1 fi; if :: !pd[v] -> pd[v]=1 :: else -> break fi };
		atomic { td[v]=1; v=0 }
	od
}

init {
	byte i;
	atomic {
		for (i : 0 .. NC-1) { run Client(i) };
		for (i : 0 .. NS-1) { run Server(i) };
		run Death()
	}
#ifdef MEM
end:	timeout;
	assert(!(sl[0] && !ANY_LIVES))
#endif
}
