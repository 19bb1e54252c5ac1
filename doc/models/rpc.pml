/* rpc.pml - calls: clients that ask, one server at a time that carries out and replies, successors; one call slot, one place.
 *
 *   q       the requests (the queue is queue.pml's): {number, ghost: which call it is}; looked at at the head, then taken out
 *   rd      the queue's reader: 0 or server + 1
 *   cn cs co   the claim: number, state, owner (server + 1). OVER is any state but TAKEN, WRITING, CANC of the number before
 *   rn      `ready`: the number whose reply is there, END set       pay   ghost: whose reply the bytes are
 *   sl      `sleeping`; own  the place's word: client + 1, which is its process and its thread at once
 *
 * client  1. own 0, or of one whose process and thread are dead -> me     2. settle: claim -> CANC(number + 1), in WRITING by a
 *         living thread only after it has written or stopped      3. rd dead or 0 -> told     4. put {n} into q
 *         5. look: rn == n -> reply. Not begun: rd dead or 0 -> claim -> CANC(n), told "not begun" (or, PATIENT, wait for
 *         another). TAKEN by a dead process -> CANC(n), told "begun". WRITING by a dead thread: look at rn again, -> CANC(n)
 *         6. sl = odd, look again, sleep on {sl, x, claim, the owner}
 * server  1. rd 0 or dead, and its thread stopped -> me    2. look at the head; claim not n - 1 -> skip     3. claim -> TAKEN(n)
 *         4. take it out of q    5. carry out    6. claim TAKEN -> WRITING    7. write   8. rn = n   9. sl odd -> + 1, wake
 *         leaving: rd -> 0, then 9 for every slot
 *
 * A process dies in two moments: its token reads dead (pd), a while later its thread stops (td) and until then goes on. TALONE: a server's
 * thread may end alone, inside 6 to 9.
 *
 * Checked: a call is carried out at most once; never after its caller was told "not begun"; a reply is that call's; nobody writes into the
 * slot while another does, or while a caller reads; nobody waits for ever while the one it waits for is dead or gone.
 * Switches: -DNC=clients -DNS=servers -DR=calls each -DD=deaths -DPATIENT -DLEAVE -DTALONE -DTIMEOUT (a waiting client may give up)
 * Mutations, each must be caught:
 *   TOLDFIRST  the caller is told "not begun" without the exchange     TAKESTORE  step 3 is a store
 *   POPFIRST   4 before 3: a patient caller waits for ever             NOBUMP     settling leaves the number as it is
 *   WRITEPROC  a writer is taken for dead when its process is          PLACEPROC  a place is taken from a dead process whose thread runs
 *   NOLEAVE    a leaving server wakes nobody                           NOLOOK     no second look after `sleeping`
 *   READYFIRST 8 before 7                                              NOX        the kernel wakes nobody on x    (TALONE)
 *   (NOBUMP with two clients, a quarter of a minute; PLACEPROC with two clients and two calls: its trail lies deep, and is found at once
 *   when pan is compiled with -DT_REVERSE, so it stands in no run)
 *   NOWORD     the claim is not in the sleeper's set (TALONE)          WRITESTORE step 6 is a store
 */
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
#define Q 4
byte cn, cs, co, rn, pay, rd, sl, own;
byte qn[Q], qi[Q], ql;
bool pds[NS], tds[NS], pdc[NC], tdc[NC];        /* servers' and clients' */
bool asleep[NC], woken[NC];
byte watch[NC], wst[NC];
byte done[8]; bool nobegin[8];                    /* ghosts by call: times carried out; the caller was told "not begun" */
byte ids = 1, writers;
bool wr[NS];

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

#define OWNER_DEAD ((seen_n==n && seen_s==WRITING && tds[who-1]) || (!(seen_n==n && seen_s==WRITING) && pds[who-1]))

#ifdef NOWORD
#define SAME_WORD true
#else
#define SAME_WORD (cn==seen_n && cs==seen_s && co==seen_o)
#endif

/* wake whoever sleeps on the slot */
inline wake() {
	atomic { f=sl };
	if
	:: f%2==1 ->
		atomic { if :: sl==f -> sl=(f+1)%6 :: else fi };
		d_step { for (w : 0 .. NC-1) { if :: asleep[w] -> woken[w]=1 :: else fi }; w=0 }
	:: else
	fi;
	f=0
}

proctype Client(byte me) {
	byte n, id, seen_n, seen_s, seen_o, who, m, k;
	bool told, twice;
	{ skip;
	/* 1 */
	do
	:: atomic { OWN_FREE(own) -> own=me+1 }; break
	:: own!=0 && !pdc[own-1] -> goto stop   /* taken by a living one: another place, in truth */
	od;
	/* 2 */
settle:
	if
	:: atomic { !(cs==WRITING && rn!=cn && !T_DEAD(co)) ->
#ifdef NOBUMP
		if :: cs!=OVER || 1 -> cs=CANC; co=0 fi
#else
		cn++; cs=CANC; co=0
#endif
		; n=cn }
	fi;
again:
	if :: k==R -> goto leave :: else fi;
	k++; n++;
	atomic { id=ids; ids++; assert(ids<8) };
	/* 3 */
	if
	:: RD_DEAD ->
#ifdef PATIENT
end_wait:	!RD_DEAD
#else
		n--; goto again
#endif
	:: !RD_DEAD
	fi;
	/* 4 */
	atomic { ql<Q -> qn[ql]=n; qi[ql]=id; ql++ };
	/* 5 */
	twice=0;
look:
	if
	:: rn==n -> goto got
	:: else
	fi;
	atomic { seen_n=cn; seen_s=cs; seen_o=co };
	if
	:: seen_n!=n ->
		atomic { who=rd };
		if
		:: who==0 || pds[who-1] ->
#ifdef PATIENT
			end_wait2:	if :: !RD_DEAD -> goto look :: cn==n -> goto look fi
#else
#ifdef TOLDFIRST
			nobegin[id]=1; goto again
#else
			atomic { if :: cn==seen_n && cs==seen_s && co==seen_o -> cn=n; cs=CANC; co=0; told=1; nobegin[id]=1 :: else told=0 fi };
			if :: told -> goto again :: else -> goto look fi
#endif
#endif
		:: else
		fi
	:: seen_n==n && seen_s==TAKEN ->
		who=seen_o;
		if
		:: pds[who-1] ->
			if :: rn==n -> goto got :: else fi;
			atomic { if :: cn==n && cs==TAKEN && co==who -> cs=CANC; told=1 :: else told=0 fi };
			if :: told -> goto again :: else -> goto look fi
		:: else
		fi
	:: seen_n==n && seen_s==WRITING ->
		who=seen_o;
		if
		:: T_DEAD(who) ->
			if :: rn==n -> goto got :: else fi;
			atomic { if :: cn==n && cs==WRITING && co==who -> assert(!wr[who-1]); cs=CANC; told=1 :: else told=0 fi };
			if :: told -> goto again :: else -> goto look fi
		:: else
		fi
	:: else -> assert(pdc[me]); goto again      /* a sweep, or another who has the place */
	fi;
#ifdef TIMEOUT
	/* it gives up: not begun, or taken; what is being written is settled later */
	if
	:: skip
	:: atomic { if :: cn==seen_n && cs==seen_s && co==seen_o && !(seen_n==n && seen_s==WRITING) -> 
			if :: seen_n!=n -> nobegin[id]=1 :: else fi; cn=n; cs=CANC; co=0; told=1 :: else told=0 fi };
		if :: told -> goto again :: else -> goto look fi
	fi;
#endif
	/* 6 */
	if
	:: !twice ->
		atomic { if :: sl%2==0 -> sl=sl+1 :: else -> sl=(sl+2)%6 fi; m=sl; twice=1 };
#ifndef NOLOOK
		goto look
#endif
	:: else
	fi;
	atomic { woken[me]=0;
		if
		:: sl==m && !OWNER_DEAD && SAME_WORD -> asleep[me]=1; watch[me]=who; wst[me]=(seen_n==n && seen_s==WRITING)
		:: else -> woken[me]=1
		fi };
	atomic { (woken[me] || (asleep[me] && ((wst[me] && tds[watch[me]-1]) || (!wst[me] && pds[watch[me]-1])))) ->
		asleep[me]=0; woken[me]=0; watch[me]=0; wst[me]=0; twice=0;
		if :: sl==m -> sl=(m+1)%6 :: else fi };
	goto look;
got:
	/* the reply is ours to read */
	assert(pay==id && writers==0 && done[id]==1);
	goto again;
leave:
	atomic { if :: own==me+1 -> own=0 :: else fi };
stop:
	skip
	} unless { atomic { tdc[me] -> asleep[me]=0; woken[me]=0 } }
}

proctype Server(byte me) {
	byte n, id, sn, ss, so, f, w, c;
	bool ok, mine;
	{ skip;
	/* 1 */
end_come:
	atomic { RD_DEAD && (rd==0 || tds[rd-1]) -> rd=me+1 };
end_next:
	do
#ifdef LEAVE
	:: c>=1 && me==0 -> goto leave
#endif
	:: ql>0 ->
		/* 2 */
		d_step { n=qn[0]; id=qi[0] };
#ifdef POPFIRST
		d_step { for (w : 0 .. Q-2) { qn[w]=qn[w+1]; qi[w]=qi[w+1] }; ql--; w=0 };
#endif
		atomic { sn=cn; ss=cs; so=co };
		ok=0;
		/* 3 */
		if
		:: sn+1==n ->
#ifdef TAKESTORE
			d_step { cn=n; cs=TAKEN; co=me+1; ok=1 }
#else
			atomic { if :: cn==sn && cs==ss && co==so -> cn=n; cs=TAKEN; co=me+1; ok=1 :: else fi }
#endif
		:: else -> skip
		fi;
		/* 4; a failed exchange: cancelled meanwhile, looked at again */
#ifndef POPFIRST
		if :: !ok && sn+1==n -> goto end_next :: else fi;
		d_step { for (w : 0 .. Q-2) { qn[w]=qn[w+1]; qi[w]=qi[w+1] }; ql--; w=0 };
#endif
		if
		:: ok ->
			/* 5 */
			atomic { done[id]++; assert(done[id]==1); assert(!nobegin[id]); c++ };
			/* 6 */
#ifdef WRITESTORE
			atomic { mine=1; cs=WRITING; cn=n; co=me+1 };
#else
			atomic { mine=0; if :: cn==n && cs==TAKEN && co==me+1 -> cs=WRITING; mine=1 :: else fi };
#endif
			if
			:: mine ->
#ifdef READYFIRST
				rn=n;
#endif
				/* 7: two steps */
				atomic { writers++; wr[me]=1; assert(writers==1); pay=0 };
				atomic { pay=id; writers--; wr[me]=0 };
				/* 8 */
				rn=n;
				/* 9 */
				wake()
			:: else
			fi
		:: else
		fi;
		atomic { n=0; id=0; sn=0; ss=0; so=0; ok=0; mine=0 }
	od;
leave:
	rd=0;
#ifndef NOLEAVE
	wake();
#endif
stop:
	skip
	} unless { tds[me] }
}

#define STOP(v) atomic { tds[v]=1; if :: wr[v] -> wr[v]=0; writers-- :: else fi }

/* deaths: first the process's token, later its thread */
proctype Death() {
	byte left=D, w, v;
	do
	:: left==0 -> break
	:: left>0 -> left--;
		if
		:: skip                                 /* fewer */
		:: select (v : 0 .. NS-1); if :: atomic { !pds[v] -> pds[v]=1 }; STOP(v) :: pds[v] fi
		:: select (v : 0 .. NC-1); if :: atomic { !pdc[v] -> pdc[v]=1 }; tdc[v]=1 :: pdc[v] fi
#ifdef TALONE
		/* only where it is inside 6 to 9: elsewhere its process, which lives, has the call */
		:: atomic { cs==WRITING && !tds[co-1] && !pds[co-1] && rn!=cn -> v=co-1; STOP(v);
#ifndef NOX
			for (w : 0 .. NC-1) { if :: asleep[w] -> woken[w]=1 :: else fi }
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
