/* rpc.pml - calls: clients that ask, one server at a time that carries out and replies, successors;
 * call slots, client slots, the bitmap that tells the server of calls, streams.
 *
 *   rd      the queue's receiver: 0 or server + 1
 *   ss      the server sleeps (an event count's flag; see queue.pml)
 * by call slot (one to a client slot):
 *   cn cs co   the claim: number, state, owner (server + 1). OVER is any state but TAKEN, WRITING,
 *              CANC of the number before
 *   aq      `asked`: the number of the request that lies in the slot
 *   aid     ghost: which call the request's bytes are of
 *   bm      the slot's bit in the bitmap
 *   rn rc   `ready`: number, replies written; END is rc == K
 *   rf fp   FAIL: `ready` says FAILED; ghost: the call that the failure's text is of
 *   texts   ghost: a failure's text is being written, beside a reply that may be read meanwhile
 *   pay     ghost: the call that the reply's bytes are of
 *   tn tk   `taken`: number, replies consumed
 *   sp      a server sleeps for room in the ring, which has one place
 *   sl      `sleeping`
 *   own     the client slot's word: client + 1, which is its process and its thread at once
 *
 * client  1. own 0, or a client's whose process and thread are dead -> me
 *         2. settle: claim -> CANC(number + 1), in WRITING by a living thread only after it has
 *            written or stopped
 *         3. rd dead or 0 -> told
 *         4. the request's bytes (two steps); aq = n; bm = 1; ss -> wake the server
 *         5. look: rn == n -> reply. Not begun: rd dead or 0 -> claim -> CANC(n), told "not begun"
 *            (or, PATIENT, wait for another). TAKEN by a dead process -> CANC(n), told "begun".
 *            WRITING by a dead thread: look at rn again, -> CANC(n)
 *         6. sl = odd, look again, sleep on {sl, x, claim, the owner}
 * server  1. rd 0 or dead, and its thread stopped -> me; every bit = 1
 *         2. a bit is set: claim not aq - 1 -> clear the bit, look again, set it if the call is
 *            asked by now
 *         3. claim -> WRITING(n)
 *         4. clear the bit, copy (two steps)  5. -> TAKEN(n)
 *         carry out
 *         6. claim TAKEN -> WRITING   7. write   8. rn = n   9. sl odd -> + 1, wake
 *         (more to come: -> TAKEN, 6)
 *         FAIL: or 6. 7. the text into a place of its own 8. rn = n, rf = 1, rc as it was 9.
 *         no bit: ss = 1, look again, sleep.   leaving: rd -> 0, then 9 for every slot
 *
 * A process dies in two moments: its token reads dead (pd), a while later its thread stops (td) and
 * until then goes on. TALONE: a server's thread may end alone, inside 3 to 5 and 6 to 9. STOPS:
 * client 0 is stopped for ever, at any step up to the end of 4: it lives and does nothing.
 * STOP: one process, a client or a server, may be stopped for ever, at any step, and be killed
 * then.
 * Each sleeper makes the recheck. A wait for what the stopped process holds may be given up, as at
 * a deadline; any other wait is an error. A stopped server holds the service: its clients wait, but
 * for one whose reply is there, and so do its successors (end_come). A stopped client holds the
 * room of its stream: the server's thread waits, and here goes on with other clients. Of two
 * clients, STOPS has one that is stopped.
 *
 * Checked: a call is carried out at most once; never after its caller was told "not begun"; what is
 * carried out is that call's request, whole; a reply is that call's; no process writes into the
 * slot while another does, or while a caller reads; no process waits for ever while the one that it
 * waits for is dead or gone; and none waits for ever for a server that lives, whichever other
 * client is stopped.
 * Switches: -DNC=clients -DNSL=slots -DNS=servers -DR=calls each -DK=replies each -DD=deaths
 * -DSTOPS -DPATIENT -DLEAVE -DTALONE -DTIMEOUT (a waiting client may give up)
 * -DFAIL (a server may fail a call in place of its next reply)
 * -DCANCELLED (a server may wait until its client lets go of the call, before it replies; a wait for a
 *           client that goes on wanting the reply ends by the server's deadline)
 * -DSKIPDEAD (as it is built: 2. skips a call whose client is dead: it clears the bit, and sets it
 *           again if a living client's call is asked by now)
 * Mutations, each must be caught:
 *   TOLDFIRST  the caller is told "not begun" without the exchange     TAKESTORE  step 3 is a store
 *   NORELOOK   no second look after a bit was cleared
 *   NOSETALL   a successor sets no bits
 *   BITFIRST   the bit before aq
 *   NOSERVERLOOK  no second look after ss = 1
 *   COPYTAKEN  3 takes the call for the process before it is copied
 *   CLAIMED    a place is claimed before it is filled, as in a queue (STOPS)
 *   NOBUMP     settling leaves the number as it is
 *   NOLEAVE    a leaving server wakes no client
 *   WRITEPROC  a writer is taken for dead when its process is
 *   PLACEPROC  a client slot is taken from a dead process whose thread runs
 *   NOLOOK     no second look after `sleeping`                         READYFIRST 8 before 7
 *   NOX        the kernel wakes no sleeper on x   (TALONE)
 *   NOWORD     the claim is not in the sleeper's set (TALONE)
 *   WRITESTORE step 6 is a store
 *   FAILFIRST  8 before 7, of a failure (FAIL)
 *   NOROOM     a stream does not wait for room (K)
 *   NOSPACE    a client that takes a reply does not wake the server (K)
 *   NOASKERLOOK  no second look after a dead client's bit was cleared
 *   NOCANCELWAKE  a client that lets go of a call wakes no server (CANCELLED)
 *   NOCANCELLOOK  no second look before that sleep (CANCELLED)
 *   NOCOME     a server that comes wakes no client (PATIENT)
 *   NOTIMER    a client makes no recheck (STOP)
 *   NOTIMERS   a server makes none (STOP; K or CANCELLED)
 *   (PLACEPROC with two clients and two calls: its trail lies deep, and pan finds it at once when
 *   compiled with -DT_REVERSE, so it is in no run)
 */
#ifndef NC
#define NC 1
#endif
#ifndef NSL
#define NSL 1
#endif
#ifndef NS
#define NS 2
#endif
#ifndef R
#define R 1
#endif
#ifndef K
#define K 1
#endif
#ifndef D
#define D 1
#endif
#define OVER 0
#define TAKEN 1
#define WRITING 2
#define CANC 3
byte rd;
bool ss, sawake;
byte cn[NSL], cs[NSL], co[NSL], aq[NSL], aid[NSL], rn[NSL], rc[NSL], tn[NSL], tk[NSL], pay[NSL], sl[NSL], own[NSL];
bool bm[NSL], sp[NSL];
#ifdef SKIPDEAD
byte ak[NSL];                                     /* the client that has asked, + 1 */
#endif
bool pds[NS], tds[NS], pdc[NC], tdc[NC], stc[NC];  /* servers' and clients' */
bool asleep[NC], woken[NC];
byte watch[NC], wst[NC], at[NC];
byte done[8]; bool nobegin[8];                    /* ghosts by call: times carried out; the caller was told "not begun" */
byte ids = 1, writers[NSL], copiers[NSL];
bool wr[NS], cp[NS]; byte ws[NS];

#ifdef STOP
bool sts[NS];
/* the service, or what is done in slot s, is in the hands of a server that is stopped */
#define STANDS(v) (sts[v] && !pds[v])
#define HANDS(s) ((rd!=0 && STANDS(rd-1)) || (co[s]!=0 && (cs[s]==TAKEN || cs[s]==WRITING) && STANDS(co[s]-1)))
#endif
#define RD_DEAD (rd==0 || pds[rd-1])
#define OWN_FREE(o) (o==0 || (pdc[o-1] && (tdc[o-1] || placeproc)))
#ifdef PLACEPROC
#define placeproc true
#else
#define placeproc false
#endif
#ifdef WRITEPROC
#define T_DEAD(t) (pds[t-1])
#else
#define T_DEAD(t) (tds[t-1])
#endif

#define MORE(s,n) (rn[s]==n && rc[s]>taken)
#ifdef FAIL
bool rf[NSL];
byte fp[NSL], texts[NSL];
#define UNWRITTEN(s) (writers[s]==texts[s])
#define NOTEXT(s) texts[s]=0;
#define ENDED(s,n) (rn[s]==n && (rc[s]==K || rf[s]))
#define FAILED(s,n) (rn[s]==n && rf[s] && rc[s]==taken)
#define READY(s,n) (MORE(s,n) || FAILED(s,n))
#define LOOK if :: MORE(s,n) -> goto got :: FAILED(s,n) -> goto told_why :: else fi
#define WRITES(k) atomic { rn[s]=n; rc[s]=k; rf[s]=0 }
#else
#define UNWRITTEN(s) (writers[s]==0)
#define NOTEXT(s)
#define ENDED(s,n) (rn[s]==n && rc[s]==K)
#define READY(s,n) MORE(s,n)
#define LOOK if :: MORE(s,n) -> goto got :: else fi
#define WRITES(k) atomic { rn[s]=n; rc[s]=k }
#endif
#define OWNER_DEAD ((seen_n==n && seen_s==WRITING && tds[who-1]) || (!(seen_n==n && seen_s==WRITING) && pds[who-1]))

#ifdef NOWORD
#define SAME_WORD true
#else
#define SAME_WORD (cn[s]==seen_n && cs[s]==seen_s && co[s]==seen_o)
#endif

#define MARKS atomic { if :: sl[s]%2==0 -> sl[s]=sl[s]+1 :: else -> sl[s]=(sl[s]+2)%6 fi; m=sl[s]; twice=1 }

#ifdef PATIENT
bool qp[NC];                                      /* asleep until a server comes */
/* when all has come to rest, no client waits for a server that is there */
active proctype Rest() {
	byte w;
	timeout;
	d_step { for (w : 0 .. NC-1) { assert(!(qp[w] && !RD_DEAD && !tdc[w])) } }
}
#endif

/* wake the process that sleeps on the slot */
inline wake(v) {
	atomic { f=sl[v] };
	if
	:: f%2==1 ->
		atomic { if :: sl[v]==f -> sl[v]=(f+1)%6 :: else fi };
		d_step { for (w : 0 .. NC-1) { if :: asleep[w] && at[w]==v -> woken[w]=1 :: else fi }; w=0 }
	:: else
	fi;
	f=0
}

proctype Client(byte me) {
	byte s, n, id, seen_n, seen_s, seen_o, who, m, k, taken;
	bool told, twice;
	{ skip;
	/* 1 */
	do
	:: atomic { OWN_FREE(own[s]) -> own[s]=me+1 }; break
	:: own[s]!=0 && !pdc[own[s]-1] ->            /* taken by a living one: another slot */
		if :: s<NSL-1 -> s++ :: else -> goto stop fi
	:: own[s]!=0 && s<NSL-1 -> s++
	od;
	/* 2 */
settle:
	if
	:: atomic { !(cs[s]==WRITING && !ENDED(s,cn[s]) && !T_DEAD(co[s])) ->
#ifdef NOBUMP
		if :: cs[s]!=OVER || 1 -> cs[s]=CANC; co[s]=0 fi
#else
		cn[s]++; cs[s]=CANC; co[s]=0
#endif
		; n=cn[s] }
#ifdef STOP
	:: HANDS(s) -> goto stop
#endif
	fi;
again:
	if :: k==R -> goto leave :: else fi;
	k++; n++;
	taken=0;
	atomic { id=ids; ids++; assert(ids<8) };
	/* 3 */
	if
	:: RD_DEAD ->
#ifdef PATIENT
		/* asleep on the service's word: the kernel compares it once, then a server that comes wakes */
		atomic { if :: RD_DEAD -> qp[me]=1; woken[me]=0 :: else -> woken[me]=1 fi };
end_wait:	atomic { woken[me] -> woken[me]=0 };
		n--; k--; goto again
#else
		n--; goto again
#endif
	:: !RD_DEAD
	fi;
	/* 4 */
#ifdef CLAIMED
	bm[s]=1;
#endif
	atomic { assert(copiers[s]==0); aid[s]=0 };
	aid[s]=id;
#ifdef BITFIRST
	bm[s]=1;
#endif
#ifdef SKIPDEAD
	ak[s]=me+1;
#endif
	aq[s]=n;
#ifndef BITFIRST
	bm[s]=1;
#endif
	if :: ss -> atomic { if :: ss -> ss=0; sawake=1 :: else fi } :: else fi;
	/* 5 */
#ifdef STOPS
	if :: me==0 -> goto stop :: else fi;
#endif
	twice=0;
look:
	LOOK;
	atomic { seen_n=cn[s]; seen_s=cs[s]; seen_o=co[s] };
	if
	:: seen_n!=n ->
		atomic { who=rd };
		if
		:: who==0 || pds[who-1] ->
#ifdef PATIENT
			if
			:: !twice -> MARKS; goto look
			:: else
			fi;
			/* asleep as in 6, behind no server */
			atomic { woken[me]=0; if :: sl[s]==m && RD_DEAD && SAME_WORD -> asleep[me]=1; at[me]=s; qp[me]=1 :: else -> woken[me]=1 fi };
end_wait2:		atomic { woken[me] -> woken[me]=0; asleep[me]=0; at[me]=0; qp[me]=0; twice=0;
				if :: sl[s]==m -> sl[s]=(m+1)%6 :: else fi };
			goto look
#else
#ifdef TOLDFIRST
			nobegin[id]=1; goto again
#else
			atomic { if :: cn[s]==seen_n && cs[s]==seen_s && co[s]==seen_o -> cn[s]=n; cs[s]=CANC; co[s]=0; told=1; nobegin[id]=1 :: else told=0 fi };
			if :: told -> goto again :: else -> goto look fi
#endif
#endif
		:: else
		fi
	:: seen_n==n && seen_s==TAKEN ->
		who=seen_o;
		if
		:: pds[who-1] ->
			LOOK;
			atomic { if :: cn[s]==n && cs[s]==TAKEN && co[s]==who -> cs[s]=CANC; told=1 :: else told=0 fi };
			if :: told -> goto again :: else -> goto look fi
		:: else
		fi
	:: seen_n==n && seen_s==WRITING ->
		who=seen_o;
		if
		:: T_DEAD(who) ->
			LOOK;
			atomic { if :: cn[s]==n && cs[s]==WRITING && co[s]==who -> assert(!(wr[who-1] && ws[who-1]==s)); cs[s]=CANC; told=1 :: else told=0 fi };
			if :: told -> goto again :: else -> goto look fi
		:: else
		fi
	:: else -> assert(pdc[me]); goto again      /* a sweep, or another that has the slot */
	fi;
#ifdef TIMEOUT
	/* it gives up: not begun, or taken; what is being copied or written is settled later */
	if
	:: skip
	:: true -> atomic { if :: cn[s]==seen_n && cs[s]==seen_s && co[s]==seen_o && !(seen_n==n && seen_s==WRITING) -> 
			if :: seen_n!=n -> nobegin[id]=1 :: else fi; cn[s]=n; cs[s]=CANC; co[s]=0; told=1 :: else told=0 fi };
		if :: told -> 
#if K > 1 || defined(CANCELLED)
#ifndef NOCANCELWAKE
			if :: sp[s] -> sp[s]=0 :: else fi;
#endif
#endif
			goto again :: else -> goto look fi
	fi;
#endif
	/* 6 */
	if
	:: !twice ->
		MARKS;
#ifndef NOLOOK
		goto look
#endif
	:: else
	fi;
	atomic { woken[me]=0;
		if
		:: sl[s]==m && !OWNER_DEAD && SAME_WORD -> asleep[me]=1; at[me]=s; watch[me]=who; wst[me]=(seen_n==n && seen_s==WRITING)
		:: else -> woken[me]=1
		fi };
#ifdef STOP
	if
	:: atomic { HANDS(s) && !READY(s,n) && asleep[me] -> asleep[me]=0; woken[me]=0; watch[me]=0; wst[me]=0; at[me]=0; goto stop }
#ifdef NOTIMER
	:: atomic { (woken[me] || (asleep[me] && ((wst[me] && tds[watch[me]-1]) || (!wst[me] && pds[watch[me]-1])))) ->
#else
	:: atomic { (woken[me] || READY(s,n) || !SAME_WORD || (seen_n!=n && rd!=who) || (asleep[me] && ((wst[me] && tds[watch[me]-1]) || (!wst[me] && pds[watch[me]-1])))) ->
#endif
		asleep[me]=0; woken[me]=0; watch[me]=0; wst[me]=0; at[me]=0; twice=0;
		if :: sl[s]==m -> sl[s]=(m+1)%6 :: else fi }
	fi;
#else
	atomic { (woken[me] || (asleep[me] && ((wst[me] && tds[watch[me]-1]) || (!wst[me] && pds[watch[me]-1])))) ->
		asleep[me]=0; woken[me]=0; watch[me]=0; wst[me]=0; at[me]=0; twice=0;
		if :: sl[s]==m -> sl[s]=(m+1)%6 :: else fi };
#endif
	goto look;
got:
	/* the reply is ours to read */
	assert(pay[s]==id && UNWRITTEN(s) && done[id]==1);
	taken++;
	if
	:: taken==K -> goto again
	:: else
#if K > 1
		-> atomic { tn[s]=n; tk[s]=taken };
#ifndef NOSPACE
		if :: sp[s] -> sp[s]=0 :: else fi;
#endif
		twice=0; goto look
#endif
	fi;
#ifdef FAIL
	goto leave;
told_why:
	/* the text is ours to read */
	assert(fp[s]==id && writers[s]==0 && done[id]==1);
	goto again;
#endif
leave:
	atomic { if :: own[s]==me+1 -> own[s]=0 :: else fi };
stop:
	skip
	} unless { atomic { (tdc[me] || stc[me]) -> asleep[me]=0; woken[me]=0 } }
}

proctype Server(byte me) {
	byte s, n, id, sn, st, so, f, w, c, k;
	bool ok;
	{ skip;
	/* 1 */
end_come:
	atomic { RD_DEAD && (rd==0 || tds[rd-1]) -> rd=me+1; ss=0; sawake=0 };
#ifndef NOSETALL
	do :: s<NSL -> bm[s]=1; s++ :: else -> break od;
#endif
	s=0;
#if defined(PATIENT) && !defined(NOCOME)
	d_step { for (w : 0 .. NC-1) { if :: qp[w] -> qp[w]=0; woken[w]=1 :: else fi }; w=0 };
#endif
next:
	do
#ifdef LEAVE
	:: c>=1 && me==0 -> goto leave
#endif
	/* 2 */
	:: bm[s] -> n=aq[s];
		atomic { sn=cn[s]; st=cs[s]; so=co[s] };
		if
		:: sn+1==n ->
#ifdef SKIPDEAD
			/* no client waits for a dead client's call; another client may have the slot by now */
			k=ak[s];
			if
			:: k!=0 && pdc[k-1] ->
				bm[s]=0;
#ifndef NOASKERLOOK
				n=aq[s]; sn=cn[s]; k=ak[s];
				if :: sn+1==n && k!=0 && !pdc[k-1] -> bm[s]=1 :: else fi;
#endif
				k=0;
				goto next
			:: else -> k=0
			fi
#else
			skip
#endif
		:: else ->
#ifdef CLAIMED
			if :: aid[s]==0 -> (aq[s]==sn+1 || (own[s]!=0 && pdc[own[s]-1])) :: else fi;
#endif
			bm[s]=0;
#ifndef NORELOOK
			atomic { n=aq[s] };
			if :: cn[s]+1==n -> bm[s]=1 :: else fi;
#endif
			goto next
		fi;
		ok=0;
		/* 3 */
#ifdef TAKESTORE
		d_step { cn[s]=n; cs[s]=WRITING; co[s]=me+1; ok=1 };
#else
		atomic { if :: cn[s]==sn && cs[s]==st && co[s]==so -> cn[s]=n; cs[s]=WRITING; co[s]=me+1; ok=1 :: else fi };
#endif
		if
		:: ok ->
#ifdef COPYTAKEN
			cs[s]=TAKEN;
#endif
			/* 4: two steps */
			bm[s]=0;
			atomic { id=aid[s]; assert(id!=0); copiers[s]++; cp[me]=1; ws[me]=s };
			atomic { assert(id==aid[s]); copiers[s]--; cp[me]=0; ws[me]=0 };
			/* 5 */
#ifndef COPYTAKEN
			atomic { assert(cn[s]==n && cs[s]==WRITING && co[s]==me+1); cs[s]=TAKEN };
#endif
			atomic { done[id]++; assert(done[id]==1); assert(!nobegin[id]); c++; k=0 };
#ifdef CANCELLED
#define WANTED (cn[s]==n && cs[s]==TAKEN && co[s]==me+1)
			/* it may wait until no client wants the reply any more */
			if
			:: skip -> goto reply
			:: true
			fi;
cancelled:
			if
			:: !WANTED -> goto over
			:: else
			fi;
			sp[s]=1;
#ifndef NOCANCELLOOK
			if
			:: !WANTED -> goto cancelled
			:: else
			fi;
#endif
			/* asleep: the process that cancels wakes it, or the death of the client, of which there is one
			 * (NC=1), or its deadline */
			if
			:: pdc[0] -> sp[s]=0; goto over
			:: !sp[s] -> goto cancelled
			:: WANTED -> sp[s]=0
#if defined(STOP) && !defined(NOTIMERS)
			:: !WANTED -> sp[s]=0; goto over
#endif
			fi;
#endif
reply:
#ifdef FAIL
			if
			:: skip
			:: true -> goto fail
			fi;
#endif
#if K > 1
			/* room in the ring */
#ifndef NOROOM
room:
			if
			:: !(cn[s]==n && cs[s]==TAKEN && co[s]==me+1) -> goto over
			:: else
			fi;
			if
			:: k>0 && !(tn[s]==n && tk[s]==k) ->
				sp[s]=1;
				if
				:: (tn[s]==n && tk[s]==k) || cn[s]!=n || cs[s]!=TAKEN -> goto room
				:: else
				fi;
				/* asleep: the process that takes or cancels wakes it, or the client's death */
#if defined(STOP) && !defined(NOTIMERS)
				(!sp[s] || (own[s]!=0 && (pdc[own[s]-1] || stc[own[s]-1])) || (tn[s]==n && tk[s]==k) || cn[s]!=n || cs[s]!=TAKEN) ->
				if :: own[s]==0 || pdc[own[s]-1] -> goto over :: stc[own[s]-1] -> goto over :: else -> goto room fi
#elif defined(STOP)
				(!sp[s] || (own[s]!=0 && pdc[own[s]-1]) || (own[s]!=0 && stc[own[s]-1] && !(tn[s]==n && tk[s]==k))) ->
				if :: own[s]==0 || pdc[own[s]-1] -> goto over :: stc[own[s]-1] -> goto over :: else -> goto room fi
#else
				(!sp[s] || (own[s]!=0 && pdc[own[s]-1])) ->
				if :: own[s]==0 || pdc[own[s]-1] -> goto over :: else -> goto room fi
#endif
			:: else
			fi;
#endif
#endif
			/* 6 */
#ifdef WRITESTORE
			atomic { ok=1; cs[s]=WRITING; cn[s]=n; co[s]=me+1 };
#else
			atomic { ok=0; if :: cn[s]==n && cs[s]==TAKEN && co[s]==me+1 -> cs[s]=WRITING; ok=1 :: else fi };
#endif
			if
			:: ok ->
				k++;
#ifdef READYFIRST
				WRITES(k);
#endif
				/* 7: two steps */
				atomic { writers[s]++; wr[me]=1; ws[me]=s; assert(writers[s]==1);
#if K > 1
					assert(k==1 || (tn[s]==n && tk[s]==k-1));
#endif
					pay[s]=0 };
				atomic { pay[s]=id; writers[s]--; wr[me]=0; ws[me]=0 };
				/* 8 */
				WRITES(k);
				if :: k<K -> atomic { if :: cn[s]==n && cs[s]==WRITING && co[s]==me+1 -> cs[s]=TAKEN :: else assert(false) fi } :: else fi;
				/* 9 */
				wake(s);
				if :: k<K -> goto reply :: else fi
			:: else
			fi
#ifdef FAIL
			; goto over;
fail:
			/* 6 */
			atomic { ok=0; if :: cn[s]==n && cs[s]==TAKEN && co[s]==me+1 -> cs[s]=WRITING; ok=1 :: else fi };
			if
			:: ok ->
#ifdef FAILFIRST
				atomic { rn[s]=n; rc[s]=k; rf[s]=1 };
#endif
				/* 7: two steps */
				atomic { writers[s]++; wr[me]=1; ws[me]=s; assert(writers[s]==1); fp[s]=0; texts[s]=1 };
				atomic { fp[s]=id; texts[s]=0; writers[s]--; wr[me]=0; ws[me]=0 };
				/* 8 */
				atomic { rn[s]=n; rc[s]=k; rf[s]=1 };
				/* 9 */
				wake(s)
			:: else
			fi
#endif
		:: else
		fi;
over:
		atomic { n=0; id=0; sn=0; st=0; so=0; ok=0; k=0 }
	:: NSL>1 && !bm[s] -> s=(s+1)%NSL;
		if
		:: bm[s] -> skip
		:: else ->
			ss=1;
#ifndef NOSERVERLOOK
			if :: bm[0] || bm[NSL-1] -> ss=0; goto next :: else fi;
#endif
#ifdef STOP
end_sleep:		atomic { (sawake || bm[0] || bm[NSL-1]) -> sawake=0 }
#else
end_sleep:		atomic { sawake -> sawake=0 }
#endif
		fi
	:: NSL==1 && !bm[0] ->
			ss=1;
#ifndef NOSERVERLOOK
			if :: bm[0] -> ss=0; goto next :: else fi;
#endif
#ifdef STOP
end_sleep1:		atomic { (sawake || bm[0]) -> sawake=0 }
#else
end_sleep1:		atomic { sawake -> sawake=0 }
#endif
	od;
leave:
	rd=0;
#ifndef NOLEAVE
	s=0;
	do :: s<NSL -> wake(s); s++ :: else -> break od;
#endif
stop:
	skip
#ifdef STOP
	} unless { (tds[me] || sts[me]) }
#else
	} unless { tds[me] }
#endif
}

#define ENDS(v) atomic { tds[v]=1; if :: wr[v] -> wr[v]=0; NOTEXT(ws[v]) writers[ws[v]]-- :: else fi; if :: cp[v] -> cp[v]=0; copiers[ws[v]]-- :: else fi; ws[v]=0 }

/* deaths: first the process's token, later its thread; and stops */
proctype Death() {
	byte left=D, w, v;
#ifdef STOPS
	stc[0]=1;
#endif
#ifdef STOP
	bool st=1;
#endif
	do
#ifdef STOP
	:: st -> st=0;
		if
		:: select (v : 0 .. NS-1); sts[v]=1
		:: select (v : 0 .. NC-1); stc[v]=1
		fi
#endif
	:: left==0 -> break
	:: left>0 -> left--;
		if
		:: skip                                 /* fewer */
		:: select (v : 0 .. NS-1); if :: atomic { !pds[v] -> pds[v]=1 }; ENDS(v) :: pds[v] fi
		:: select (v : 0 .. NC-1); if :: atomic { !pdc[v] -> pdc[v]=1 }; tdc[v]=1 :: pdc[v] fi
#ifdef TALONE
		/* only where it is inside 3 to 5 or 6 to 9: elsewhere its process, which lives, has the call */
		:: atomic { cs[0]==WRITING && !tds[co[0]-1] && !pds[co[0]-1] && !ENDED(0,cn[0]) -> v=co[0]-1; ENDS(v);
#ifndef NOX
			for (w : 0 .. NC-1) { if :: asleep[w] && at[w]==0 -> woken[w]=1 :: else fi }
#endif
			}
#endif
		fi
	od
}

init {
	byte i;
	atomic {
		for (i : 0 .. NC-1) { run Client(i) };
		for (i : 0 .. NS-1) { run Server(i) };
		run Death()
	}
}
