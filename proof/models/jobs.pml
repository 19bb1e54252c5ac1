/* jobs.pml - a job queue: slots whose word names the producer or the worker; death and stop between
 * any two steps.
 *
 * Producers 0..NP-1 put R jobs each; workers NP..NP+NW-1 take jobs, are done with them or (-DBACK)
 * give some back, for ever. NS slots.
 *   st[s] turn[s]  the slot's word: FREE, WAIT, ASIDE, WRIT + p, TAKEN + w; how often it was claimed
 *   att[s]         in the same word: how often the job was taken
 *   tick[s]        the job's ticket, written before WAIT
 *   tickets        the counter
 *   torn[s]        the bytes are not whole
 * The eventcounts are one step here: `prepare` notes the sequence, `notify` changes it for all and
 * wakes WAKES sleepers; eventcount.pml has their words. Sleeping on the ends of several owners is
 * several.pml's.
 *
 * put   1. a slot that is FREE, or a dead thread's WRIT: compare-exchange -> WRIT + me, turn + 1
 *       2. the bytes   3. tickets + 1   4. the ticket   5. -> WAIT   6. notify two workers
 *       No slot: prepare on room, search again, sleep behind all that words name.
 * take  1. T = tickets  2. read all slots: the lowest ticket below T that is WAIT or a dead worker's
 *       3. compare-exchange from the word read -> TAKEN + me, att + 1; at the limit: -> ASIDE
 *       None: prepare on jobs, look again, sleep behind the workers that the look has seen.
 *       At the limit with this take: notify all that join.
 * done  1. -> FREE   2. notify two producers   3. notify all that join
 * retry, discard (-DRETRY, -DDISCARD: a process that does one of them once)
 *       1. read the slots: one that is ASIDE, or a dead worker's at the limit
 *       2. compare-exchange from the word read -> WAIT with 0 attempts, turn + 1; or -> FREE
 *       3. notify two workers; or two producers
 * join  (-DJOIN: a process that begins when the first two puts have returned, of one the first)
 *       1. t = tickets  2. read all slots  3. one is WAIT, TAKEN or WRIT: unfinished; not if it is a
 *       dead thread's WRIT, or a dead worker's at the limit  4. tickets is still t  5. the words of
 *       jobs set aside and of the dead at the limit are the same; else from 1
 *       Unfinished: prepare on finished, look again, sleep behind all that words name.
 * The process that retries or discards names itself nowhere. So its death and its stop are the same:
 * with -DCUT it may end between its exchange and its notification.
 *
 * Checked: a job whose put returned is done, set aside, or in its slot, whole, at every end; no two
 * living workers have one job; no job is taken again unless its worker died or gave it back; if A's
 * put returned before B's ticket was drawn, A has been taken when B is; no process sleeps for ever
 * beside a job or a slot (an assertion when all has come to rest). A retried job may be taken MAX
 * times again, and no oftener; none is taken after it was discarded; none is retried or discarded
 * that a living worker has, or in the place of another job. join returns only if there was a moment
 * since its last look began at which no job was waiting, or taken (but by a dead worker at the limit);
 * and it does not sleep for ever when all is finished.
 * Switches: -DNP -DNW -DNS -DR -DD=deaths -DMAX=attempts (0: no limit) -DBACK
 *   -DWORKERS  only workers are killed
 *   -DRECHECK  sleepers look when all has come to rest (once a second in the code)
 *   -DJOIN     another process joins; the worker of the second job puts one more before it is done.
 *              -DDOWN: it reads the slots from the last to the first. -DJSLEEP: it sleeps; without,
 *              it looks again and again. -DTOGETHER: the last take and its notification are one
 *              step; a death between the two is left to the recheck
 *   -DRETRY -DDISCARD -DCUT   see above
 *   -DSETS     two wait sets sleep for a job as workers do, once each; they take none, but wake one
 *              more sleeper when they were notified and a job waits. One of them may die woken
 *   -DSTOP     one process stops at any step for ever, and is not dead: it holds what names it. With
 *              it a notice of a death may be lost
 * Mutations, each must be caught:
 *   STALE      a dead worker's job is taken over by a store
 *   EARLY      WAIT before the bytes are whole
 *   NOBOUND    the ticket need not be below T
 *   NOTURN     the word has no turn (an old job's word passes for a new one's: order)
 *   NOLOOK     no second look between prepare and sleep
 *   NOWATCH    the sleeper does not watch the workers' ends
 *   WAKES=1    one is notified
 *   FREEDEAD   a dead worker's slot is freed as a dead producer's is
 *   NORECOUNT  join does not read the counter again
 *   NOWRITING  join passes over slots that are being written
 *   NOREREAD   join does not read the words of jobs set aside again
 *   SAMETURN   a retry leaves the turn: a job that is retried, taken and set aside again beside a join
 *              has its old word
 *   LIMITHOLDS join waits for a dead worker's job at the limit
 *   LASTQUIET  a worker that takes a job for the last time notifies no process that joins
 *   NOFINISH   done notifies no process that joins
 *   KEEPCOUNT  a retry leaves the attempts
 *   COUNTLATE  a retry sets the attempts to 0 after the job is WAIT
 *   BLIND      retry and discard are stores: the job may have been retried, and taken, since the look
 *   DISCARDDEAD  a dead worker's job may be discarded below the limit
 *   RETRYQUIET, DISCARDQUIET   they notify no process
 *   SETQUIET   a set that was woken wakes none
 */
#ifndef NP
#define NP 1
#endif
#ifndef NW
#define NW 2
#endif
#ifndef NS
#define NS 2
#endif
#ifndef R
#define R 2
#endif
#ifndef D
#define D 1
#endif
#ifndef MAX
#define MAX 0
#endif
#ifndef WAKES
#define WAKES 2
#endif
#define N (NP+NW)
#ifdef JOIN
#define SL (N+1)		/* those that may sleep; the last one joins */
#elif defined(SETS)
#define SL (N+2)		/* the last two are sets */
#else
#define SL N
#endif
#define NT 8			/* the most tickets */
#define FREE 0
#define WAIT 1
#define ASIDE 2
#define WRIT 10
#define TAKEN 20
#define ISWRIT(x) ((x)>=WRIT && (x)<TAKEN)
#define ISTAKEN(x) ((x)>=TAKEN)
byte st[NS], turn[NS], att[NS], tick[NS]; bool torn[NS];
byte tickets;
byte still[SL];			/* the sequence since the sleeper read it: 1 the same, 2 changed */
byte asleep[SL];		/* 1 for a job, 2 for room, 3 for the last job's end */
bool woken[SL]; byte watch[SL];
bool killed[N], dead[N], stopped[N];
/* ghosts, a bit or a number for each ticket */
byte acked, donebits, everset, asidebits; byte has[NT]; byte before[NT]; bool back[NT];
byte budget, bs; bool resting;
#if defined(RETRY) || defined(DISCARD)
#define OPS
#endif
#ifdef OPS
byte tries[NT];			/* how often a job was taken since its put, or its retry */
#endif
#ifdef BACK
bool gave[NT];			/* it was given back once */
#endif
#ifdef JOIN
bool moment;			/* since the join's last look began all was finished once */
#endif

#define RUNS(i) (!killed[i] && !stopped[i])
#define DEADW(x) (ISTAKEN(x) && dead[(x)-TAKEN])
#define DEADP(x) (ISWRIT(x) && dead[(x)-WRIT])
#define TAKEABLE(s) (st[s]==WAIT || DEADW(st[s]))
#ifdef FREEDEAD
#define CLAIMABLE(s) (st[s]==FREE || DEADP(st[s]) || DEADW(st[s]))
#else
#define CLAIMABLE(s) (st[s]==FREE || DEADP(st[s]))
#endif
#if NS == 1
#define ANYJOB TAKEABLE(0)
#define ANYROOM CLAIMABLE(0)
#else
#define ANYJOB (TAKEABLE(0) || TAKEABLE(1))
#define ANYROOM (CLAIMABLE(0) || CLAIMABLE(1))
#endif
#ifdef STOP
#define TOLD(i) (dead[i] && bs==1)	/* nobody was stopped: the notice is not lost */
#else
#define TOLD(i) dead[i]
#endif
#define W1(i) (((watch[me]>>(i))&1) && TOLD(i))
#if NP+NW == 2
#define ENDSEEN (W1(0) || W1(1))
#elif NP+NW == 3
#define ENDSEEN (W1(0) || W1(1) || W1(2))
#else
#define ENDSEEN (W1(0) || W1(1) || W1(2) || W1(3))
#endif

/* which eventcount a process prepares on */
#ifdef JOIN
#define FOR(w) ((w)<NP -> 2 : ((w)<N -> 1 : 3))
#else
#define FOR(w) ((w)<NP -> 2 : 1)
#endif
#ifdef SETS
#define SLEEPER(w) (SL-1-(w))	/* the sets first */
#else
#define SLEEPER(w) w
#endif
inline notify(what, most) {	/* one step */
	w=0; k=0;
	do
	:: w<SL ->
		if :: still[w]==1 && FOR(w)==what -> still[w]=2 :: else fi;
		if :: asleep[SLEEPER(w)]==what && k<most -> asleep[SLEEPER(w)]=0; woken[SLEEPER(w)]=1; k++ :: else fi;
		w++
	:: else -> break
	od;
	w=0; k=0
}
#define ALL 9

#define ATLIMIT(s) (MAX>0 && att[s]>=MAX)
/* set aside, or as good as that */
#define RESTING(s) (st[s]==ASIDE || (DEADW(st[s]) && ATLIMIT(s)))
#define FINISHED(s) (st[s]==FREE || ISWRIT(st[s]) || RESTING(s))
#if NS == 1
#define ALLFINISHED FINISHED(0)
#else
#define ALLFINISHED (FINISHED(0) && FINISHED(1))
#endif
#ifdef JOIN
/* after each change that may finish the last job */
#define MOMENT if :: ALLFINISHED -> moment=1 :: else fi
#define NOTIFYJOIN atomic { notify(3, ALL) }
#else
#define MOMENT skip
#define NOTIFYJOIN skip
#endif

#ifdef OPS
#define SETASIDE(s) assert(tries[tick[s]]>=MAX); st[s]=ASIDE; asidebits=asidebits|(1<<tick[s]); MOMENT
#else
#define SETASIDE(s) st[s]=ASIDE; asidebits=asidebits|(1<<tick[s]); MOMENT
#endif
#define SAME(s) (st[s]==b_st && att[s]==b_att && TURNSAME(s))
#ifdef NOTURN
#define TURNSAME(s) true
#else
#define TURNSAME(s) (turn[s]==b_turn)
#endif

#ifdef NOBOUND
#define BELOW(s) true
#else
#define BELOW(s) (tick[s]<t)
#endif
#ifdef STALE
#define EXCHANGES(s) (SAME(s) || ISTAKEN(b_st))
#else
#define EXCHANGES(s) SAME(s)
#endif
#define RESET s=0; b=NS; b_st=0; b_att=0; b_turn=0; b_tick=0; late=0; t=0; w=0; k=0

#ifdef STOP
#define ENDS (killed[me] || stopped[me])
#else
#define ENDS killed[me]
#endif

/* the put, steps 2 to 6, into slot `to` */
inline fill() {
#ifdef EARLY
	atomic { mt=tickets; tick[to]=mt; before[mt]=acked; tickets++; st[to]=WAIT };
	atomic { torn[to]=0 };
#else
	atomic { torn[to]=0 };
	atomic { mt=tickets; before[mt]=acked; tickets++ };
	tick[to]=mt;
	atomic { assert(st[to]==WRIT+me); st[to]=WAIT };
#endif
	atomic { notify(1, WAKES) };
	atomic { acked=acked|(1<<mt); mt=0 }
}

inline claim() {		/* `found` says whether there was a slot */
	s=0;
	do
	:: atomic { s<NS && CLAIMABLE(s) -> st[s]=WRIT+me; turn[s]=(turn[s]+1)%4; att[s]=0; torn[s]=1; to=s; s=0; still[me]=0; watch[me]=0; found=1; break }
	:: atomic { s<NS && !CLAIMABLE(s) -> s++ }
	:: atomic { s==NS -> s=0; found=0; break }
	od
}

proctype P(byte me) {
	byte s, w, k, r, to, mt; bool found;
	{
		do
		:: r<R ->
search:			claim();
			if :: found -> found=0 :: else -> goto nothing fi;
			fill();
			r++
		:: else -> break
		od;
end_idle:	(false);
nothing:	atomic { still[me]=1; watch[me]=0 };
#ifndef NOLOOK
		s=0;
		do
		:: atomic { s<NS && CLAIMABLE(s) -> s=0; still[me]=0; goto search }
		:: atomic { s<NS && !CLAIMABLE(s) ->
			if :: ISTAKEN(st[s]) && !DEADW(st[s]) -> watch[me]=watch[me]|(1<<(st[s]-TAKEN))
			:: ISWRIT(st[s]) -> watch[me]=watch[me]|(1<<(st[s]-WRIT))
			:: else fi;
			s++ }
		:: atomic { s==NS -> s=0; break }
		od;
#endif
		if
		:: atomic { still[me]==1 -> asleep[me]=2 };
end_s:			if
			:: atomic { woken[me] || ENDSEEN -> asleep[me]=0; woken[me]=0; still[me]=0; watch[me]=0 }
#ifdef RECHECK
			:: atomic { timeout && !resting && ANYROOM -> asleep[me]=0; woken[me]=0; still[me]=0; watch[me]=0 }
#endif
			fi
		:: atomic { still[me]!=1 -> still[me]=0; watch[me]=0 }
		fi;
		goto search
	} unless { ENDS;
		if
		:: killed[me]
		:: else -> atomic { asleep[me]=0; woken[me]=0; watch[me]=0; still[me]=0; s=0; w=0; k=0 };
end_stop:		killed[me]
		fi;
		atomic { asleep[me]=0; woken[me]=0; watch[me]=0; still[me]=0; s=0; w=0; k=0; r=0; to=0; mt=0; found=0; dead[me]=1; MOMENT }
	}
}

proctype W(byte me) {
	byte s, w, k, t, b=NS, b_st, b_att, b_turn, b_tick, mine, to, mt; bool late, found;
	{
		skip;	/* one look: goes to `have` with a job, or on with none */
next:	atomic { t=tickets; s=0; b=NS; late=0; watch[me]=0 };
	do
	:: atomic { s<NS ->
		if
		:: TAKEABLE(s) && BELOW(s) ->
			if
			:: b==NS || tick[s]<b_tick -> b=s; b_st=st[s]; b_att=att[s]; b_turn=turn[s]; b_tick=tick[s]
			:: else
			fi
		:: TAKEABLE(s) && !BELOW(s) -> late=1
		:: !TAKEABLE(s) ->
			if
			:: ISTAKEN(st[s]) -> watch[me]=watch[me]|(1<<(st[s]-TAKEN))
			:: else
			fi
		fi;
		s++ }
	:: atomic { s==NS -> s=0; break }
	od;
	if
	:: atomic { b==NS && late -> late=0; goto next }
	:: atomic { b==NS && !late -> skip }
	:: b<NS && MAX>0 && ISTAKEN(b_st) && b_att>=MAX ->
		atomic { if :: SAME(b) -> SETASIDE(b) :: else fi; b=NS; b_st=0; b_att=0; b_turn=0; b_tick=0 };
#ifdef JOIN
		NOTIFYJOIN;
#endif
		goto next
	:: b<NS && !(MAX>0 && ISTAKEN(b_st) && b_att>=MAX) ->
		atomic {
			if
			:: EXCHANGES(b) ->
				/* order */
				if
				:: ISTAKEN(b_st) || back[tick[b]]
				:: else -> assert((before[tick[b]] & ~everset)==0)
				fi;
				/* no living worker has it */
				assert(has[tick[b]]==0);
				assert(!torn[b]);
				/* once, unless its worker died or gave it back */
				assert(!((everset>>tick[b])&1) || ISTAKEN(b_st) || back[tick[b]]);
				assert(!((donebits>>tick[b])&1));
				st[b]=TAKEN+me; if :: att[b]<3 -> att[b]++ :: else fi;
				everset=everset|(1<<tick[b]); has[tick[b]]=me+1;
#ifdef OPS
				if :: tries[tick[b]]<3 -> tries[tick[b]]++ :: else fi;
				assert(MAX==0 || tries[tick[b]]<=MAX);
#endif
#if defined(TOGETHER) && !defined(LASTQUIET)
				if :: ATLIMIT(b) -> notify(3, ALL) :: else fi;
#endif
				mine=b; b=NS; b_st=0; b_att=0; b_turn=0; b_tick=0; watch[me]=0; still[me]=0; t=0;
				goto have
			:: else -> b=NS; b_st=0; b_att=0; b_turn=0; b_tick=0; goto next
			fi }
	fi;
		do
		:: atomic { still[me]=1 };
#ifndef NOLOOK
			goto looksecond;
#endif
back2:
			if
			:: atomic { still[me]==1 -> asleep[me]=1;
#ifdef NOWATCH
				watch[me]=0;
#endif
				};
end_s:				if
				:: atomic { woken[me] || ENDSEEN -> asleep[me]=0; woken[me]=0; still[me]=0; watch[me]=0 }
#ifdef RECHECK
				:: atomic { timeout && !resting && ANYJOB -> asleep[me]=0; woken[me]=0; still[me]=0; watch[me]=0 }
#endif
				fi
			:: atomic { still[me]!=1 -> still[me]=0; watch[me]=0 }
			fi;
			goto next
		od;
looksecond:
		/* the same look, after preparing */
		atomic { t=tickets; s=0; watch[me]=0 };
		do
		:: atomic { s<NS && TAKEABLE(s) -> s=0; t=0; still[me]=0; watch[me]=0; goto next }
		:: atomic { s<NS && !TAKEABLE(s) ->
			if :: ISTAKEN(st[s]) -> watch[me]=watch[me]|(1<<(st[s]-TAKEN)) :: else fi;
			s++ }
		:: atomic { s==NS -> s=0; t=0; goto back2 }
		od;
have:
#if defined(JOIN) && MAX > 0 && !defined(LASTQUIET) && !defined(TOGETHER)
		if
		:: ATLIMIT(mine) -> NOTIFYJOIN
		:: !ATLIMIT(mine)
		fi;
#endif
#ifdef JOIN
		if
		:: tick[mine]==1 ->
			claim();
			if :: found -> found=0; fill() :: else fi
		:: tick[mine]!=1
		fi;
#endif
		/* it is done, or given back */
#ifdef BACK
		if
		:: atomic { !gave[tick[mine]] && st[mine]==TAKEN+me ->
			has[tick[mine]]=0; back[tick[mine]]=1; gave[tick[mine]]=1;
			if :: ATLIMIT(mine) -> SETASIDE(mine) :: else -> st[mine]=WAIT; found=1 fi; mine=0 };
			if
			:: found -> atomic { found=0; notify(1, WAKES) }
			:: !found -> NOTIFYJOIN
			fi;
			goto next
		:: skip
		fi;
#endif
		atomic { assert(st[mine]==TAKEN+me); donebits=donebits|(1<<tick[mine]); has[tick[mine]]=0; st[mine]=FREE; att[mine]=0; mine=0; MOMENT };
		atomic { notify(2, WAKES) };
#if defined(JOIN) && !defined(NOFINISH)
		NOTIFYJOIN;
#endif
		goto next
	} unless { ENDS;
		if
		:: killed[me]
		:: else -> atomic { asleep[me]=0; woken[me]=0; watch[me]=0; still[me]=0; RESET };
end_stop:		killed[me]
		fi;
		atomic { asleep[me]=0; woken[me]=0; watch[me]=0; still[me]=0;
			s=0; do :: s<NT -> if :: has[s]==me+1 -> has[s]=0 :: else fi; s++ :: else -> break od;
			RESET; mine=0; to=0; mt=0; found=0; dead[me]=1; MOMENT }
	}
}

#ifdef OPS
#ifdef DISCARDDEAD
#define ENDABLE(s) (st[s]==ASIDE || DEADW(st[s]))
#else
#define ENDABLE(s) RESTING(s)
#endif
#if NS == 1
#define ANYENDABLE ENDABLE(0)
#else
#define ANYENDABLE (ENDABLE(0) || ENDABLE(1))
#endif
#ifdef BLIND
#define OSAME(s) true
#else
#define OSAME(s) SAME(s)
#endif
/* Retries one job, or discards it. */
proctype O(bool again) {
	byte s, w, k, b, b_st, b_att, b_turn, b_tick;
end_o:	ANYENDABLE;
	do
	:: atomic { s<NS && ENDABLE(s) -> b=s; b_st=st[s]; b_att=att[s]; b_turn=turn[s]; b_tick=tick[s]; s=0; break }
	:: atomic { s<NS && !ENDABLE(s) -> s++ }
	:: atomic { s==NS -> s=0; goto gone }
	od;
	atomic {
		if
		:: OSAME(b) ->
			assert(tick[b]==b_tick && has[b_tick]==0 && !((donebits>>b_tick)&1));
			assert(tries[b_tick]>=MAX);
			if
			:: again ->
				st[b]=WAIT; asidebits=asidebits&~(1<<b_tick); back[b_tick]=1; tries[b_tick]=0;
#ifdef BACK
				gave[b_tick]=0;
#endif
#ifndef SAMETURN
				turn[b]=(turn[b]+1)%4;
#endif
#if !defined(KEEPCOUNT) && !defined(COUNTLATE)
				att[b]=0
#endif
			:: !again -> st[b]=FREE; att[b]=0; donebits=donebits|(1<<b_tick); MOMENT
			fi
		:: else -> goto gone
		fi
	};
#ifdef COUNTLATE
	atomic { if :: again -> att[b]=0 :: else fi };
#endif
#ifdef CUT
	if :: goto gone :: skip fi;
#endif
	if
#ifndef RETRYQUIET
	:: atomic { again -> notify(1, WAKES) }
#else
	:: again
#endif
#ifndef DISCARDQUIET
	:: atomic { !again -> notify(2, WAKES) }
#else
	:: !again
#endif
	fi;
gone:	atomic { b=0; b_st=0; b_att=0; b_turn=0; b_tick=0 }
}
#endif

#ifdef SETS
#if NS == 1
#define ANYWAITS (st[0]==WAIT)
#else
#define ANYWAITS (st[0]==WAIT || st[1]==WAIT)
#endif
bool setdied;
proctype Z(byte me) {
	byte s, w, k;
look:	atomic { still[me]=1; watch[me]=0 };
	do
	:: atomic { s<NS && TAKEABLE(s) -> goto ready }
	:: atomic { s<NS && !TAKEABLE(s) ->
		if :: ISTAKEN(st[s]) && !DEADW(st[s]) -> watch[me]=watch[me]|(1<<(st[s]-TAKEN)) :: else fi;
		s++ }
	:: atomic { s==NS -> s=0; break }
	od;
	if
	:: atomic { still[me]==1 -> asleep[me]=1 };
end_s:		if
		:: atomic { woken[me] || ENDSEEN -> asleep[me]=0; woken[me]=0 }
		:: atomic { woken[me] && !setdied -> setdied=1; goto ready }
		fi
	:: still[me]!=1
	fi;
#ifndef SETQUIET
	if
	:: atomic { still[me]==2 && ANYWAITS -> notify(1, 1) }
	:: !(still[me]==2 && ANYWAITS)
	fi;
#endif
	goto look;
ready:	atomic { asleep[me]=0; woken[me]=0; still[me]=0; watch[me]=0; s=0 }
}
#endif

#ifdef JOIN
#ifdef NOWRITING
#define WRITTEN(s) false
#else
#define WRITTEN(s) (ISWRIT(st[s]) && !dead[st[s]-WRIT])
#endif
#ifdef LIMITHOLDS
#define UNFINISHED(s) (st[s]==WAIT || ISTAKEN(st[s]) || WRITTEN(s))
#else
#define UNFINISHED(s) (st[s]==WAIT || (ISTAKEN(st[s]) && !RESTING(s)) || WRITTEN(s))
#endif
#ifdef DOWN
#define AT(s) (NS-1-(s))
#else
#define AT(s) (s)
#endif
#define JOINABLE (ALLFINISHED && !LIVEWRIT)
#if NS == 1
#define LIVEWRIT (ISWRIT(st[0]) && !dead[st[0]-WRIT])
#else
#define LIVEWRIT ((ISWRIT(st[0]) && !dead[st[0]-WRIT]) || (ISWRIT(st[1]) && !dead[st[1]-WRIT]))
#endif
#define FORGET s=0; un=0; jst[0]=0; jatt[0]=0; jturn[0]=0; jst[NS-1]=0; jatt[NS-1]=0; jturn[NS-1]=0
proctype J() {
	byte me=N, s, t; byte jst[NS], jatt[NS], jturn[NS]; bool un, prepared;
	/* begins when the first puts have returned */
#if R == 1
end_j:	(acked&1);
#else
end_j:	((acked&3)==3);
#endif
look:	atomic { t=tickets; s=0; un=0; watch[me]=0; moment=0; MOMENT };
	do
	:: atomic { s<NS ->
		jst[s]=0;
		if
		:: UNFINISHED(AT(s)) -> un=1;
			if
			:: ISTAKEN(st[AT(s)]) && !DEADW(st[AT(s)]) -> watch[me]=watch[me]|(1<<(st[AT(s)]-TAKEN))
			:: ISWRIT(st[AT(s)]) -> watch[me]=watch[me]|(1<<(st[AT(s)]-WRIT))
			:: else
			fi
		:: !UNFINISHED(AT(s)) && RESTING(AT(s)) ->
			jst[s]=st[AT(s)]; jatt[s]=att[AT(s)]; jturn[s]=turn[AT(s)]
		:: else
		fi;
		s++ }
	:: atomic { s==NS -> s=0; break }
	od;
	if
#ifndef JSLEEP
	:: atomic { un -> FORGET; goto look }
#else
	:: atomic { un && !prepared -> FORGET; prepared=1; still[me]=1; goto look }
	:: atomic { un && prepared -> FORGET; prepared=0 };
		if
		:: atomic { still[me]==1 -> asleep[me]=3 };
end_s:			if
			:: atomic { woken[me] || ENDSEEN -> asleep[me]=0; woken[me]=0; still[me]=0; watch[me]=0 }
#ifdef RECHECK
			:: atomic { timeout && !resting && JOINABLE -> asleep[me]=0; woken[me]=0; still[me]=0; watch[me]=0 }
#endif
			fi
		:: atomic { still[me]!=1 -> still[me]=0; watch[me]=0 }
		fi;
		goto look
#endif
	:: !un
	fi;
#ifndef NORECOUNT
	if :: atomic { t!=tickets -> FORGET; goto look } :: t==tickets fi;
#endif
#ifndef NOREREAD
	do
	:: atomic { s<NS && jst[s]!=0 && (st[AT(s)]!=jst[s] || att[AT(s)]!=jatt[s] || turn[AT(s)]!=jturn[s]) -> FORGET; goto look }
	:: atomic { s<NS && !(jst[s]!=0 && (st[AT(s)]!=jst[s] || att[AT(s)]!=jatt[s] || turn[AT(s)]!=jturn[s])) -> s++ }
	:: atomic { s==NS -> s=0; break }
	od;
#endif
	atomic { assert(moment || ALLFINISHED); FORGET; t=0; moment=0; still[me]=0; watch[me]=0; prepared=0 }
}
#endif

#define RESTS(i) (!RUNS(i) || asleep[i]!=1)
#define ROOMRESTS(i) (!RUNS(i) || asleep[i]!=2)
#define JOBRESTS (RESTS(0) && RESTS(1 % N) && RESTS(2 % N) && RESTS(3 % N))
#define ROOMSREST (ROOMRESTS(0) && ROOMRESTS(1 % N) && ROOMRESTS(2 % N) && ROOMRESTS(3 % N))
#ifdef JOIN
#define JOINWAITS (JOINABLE && asleep[N]==3)
#else
#define JOINWAITS false
#endif
#ifdef RECHECK
#define RECHECKS ((ANYJOB && !JOBRESTS) || (ANYROOM && !ROOMSREST) || JOINWAITS)
#else
#define RECHECKS false
#endif
init {
	atomic {
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
#if D > 1
		:: budget=D-2
#endif
		fi;
#ifdef STOP
		bs=1;
#endif
		run P(0);
#if NP > 1
		run P(1);
#endif
		run W(NP); 
#if NW > 1
		run W(NP+1);
#endif
#if NW > 2
		run W(NP+2);
#endif
#ifdef JOIN
		run J();
#endif
#ifdef SETS
		run Z(N); run Z(N+1);
#endif
#ifdef RETRY
		run O(1);
#endif
#ifdef DISCARD
		run O(0);
#endif
	}
end_k:	do
#ifndef WORKERS
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
#endif
	:: atomic { budget>0 && !killed[1] && NP<=1 -> killed[1]=1; budget-- }
	:: atomic { budget>0 && N>2 && !killed[2 % N] -> killed[2 % N]=1; budget-- }
	:: atomic { budget>0 && N>3 && !killed[3 % N] -> killed[3 % N]=1; budget-- }
#ifdef STOP
	:: atomic { bs==1 && RUNS(0) -> stopped[0]=1; bs=2 }
	:: atomic { bs==1 && N>1 && RUNS(1 % N) -> stopped[1 % N]=1; bs=2 }
	:: atomic { bs==1 && N>2 && RUNS(2 % N) -> stopped[2 % N]=1; bs=2 }
	:: atomic { bs==1 && N>3 && RUNS(3 % N) -> stopped[3 % N]=1; bs=2 }
	:: budget==0 && bs==2 -> break
#else
	:: budget==0 -> break
#endif
	od;
	/* all has come to rest */
	timeout && !RECHECKS;
	atomic {
		resting=1;
		assert(!ANYJOB || JOBRESTS);
		assert(!ANYROOM || ROOMSREST);
		assert(!JOINWAITS);
		/* nothing acknowledged is lost: it is done, set aside, or in a slot */
		budget=0; bs=0;
		do
		:: bs<NT ->
			if
			:: !((acked>>bs)&1) || ((donebits>>bs)&1) || ((asidebits>>bs)&1)
			:: else ->
				assert((tick[0]==bs && (st[0]==WAIT || ISTAKEN(st[0]))) || (tick[NS-1]==bs && (st[NS-1]==WAIT || ISTAKEN(st[NS-1]))))
			fi;
			bs++
		:: else -> break
		od
	}
}
