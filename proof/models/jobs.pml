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
 * done  1. -> FREE   2. notify two producers
 *
 * Checked: a job whose put returned is done, set aside, or in its slot, whole, at every end; no two
 * living workers have one job; no job is taken again unless its worker died or gave it back; if A's
 * put returned before B's ticket was drawn, A has been taken when B is; no process sleeps for ever
 * beside a job or a slot (an assertion when all has come to rest); join returns only when all jobs
 * put before, and those that their workers put, are done.
 * Switches: -DNP -DNW -DNS -DR -DD=deaths -DMAX=attempts (0: no limit) -DBACK
 *   -DWORKERS  only workers are killed
 *   -DRECHECK  sleepers look when all has come to rest (once a second in the code)
 *   -DJOIN     another process joins; the worker of the second job puts one more before it is done
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
byte still[N];			/* the sequence since the sleeper read it: 1 the same, 2 changed */
byte asleep[N];			/* 1 for a job, 2 for room */
bool woken[N]; byte watch[N];
bool killed[N], dead[N], stopped[N];
/* ghosts, a bit or a number for each ticket */
byte acked, donebits, everset, asidebits; byte has[NT]; byte before[NT]; bool back[NT];
byte budget, bs; bool resting;

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

inline notify(what, most) {	/* one step */
	w=0; k=0;
	do
	:: w<N -> if :: still[w]==1 -> still[w]=2 :: else fi;
		w++
	:: else -> break
	od;
	do
	:: k<most ->
		if
		:: asleep[0]==what -> asleep[0]=0; woken[0]=1
		:: N>1 && asleep[1 % N]==what -> asleep[1 % N]=0; woken[1 % N]=1
		:: N>2 && asleep[2 % N]==what -> asleep[2 % N]=0; woken[2 % N]=1
		:: N>3 && asleep[3 % N]==what -> asleep[3 % N]=0; woken[3 % N]=1
		:: else -> k=most-1
		fi;
		k++
	:: else -> break
	od;
	w=0; k=0
}

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
			if :: ISTAKEN(st[s]) -> watch[me]=watch[me]|(1<<(st[s]-TAKEN))
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
		atomic { asleep[me]=0; woken[me]=0; watch[me]=0; still[me]=0; s=0; w=0; k=0; r=0; to=0; mt=0; found=0; dead[me]=1 }
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
		atomic { if :: SAME(b) -> st[b]=ASIDE; asidebits=asidebits|(1<<tick[b]) :: else fi; b=NS; b_st=0; b_att=0; b_turn=0; b_tick=0; goto next }
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
		:: atomic { !back[tick[mine]] && st[mine]==TAKEN+me ->
			has[tick[mine]]=0; back[tick[mine]]=1;
			if :: MAX>0 && att[mine]>=MAX -> st[mine]=ASIDE; asidebits=asidebits|(1<<tick[mine]) :: else -> st[mine]=WAIT fi; mine=0 };
			atomic { notify(1, WAKES) };
			goto next
		:: skip
		fi;
#endif
		atomic { assert(st[mine]==TAKEN+me); donebits=donebits|(1<<tick[mine]); has[tick[mine]]=0; st[mine]=FREE; att[mine]=0; mine=0 };
		atomic { notify(2, WAKES) };
		goto next
	} unless { ENDS;
		if
		:: killed[me]
		:: else -> atomic { asleep[me]=0; woken[me]=0; watch[me]=0; still[me]=0; RESET };
end_stop:		killed[me]
		fi;
		atomic { asleep[me]=0; woken[me]=0; watch[me]=0; still[me]=0;
			s=0; do :: s<NT -> if :: has[s]==me+1 -> has[s]=0 :: else fi; s++ :: else -> break od;
			RESET; mine=0; to=0; mt=0; found=0; dead[me]=1 }
	}
}

#ifdef JOIN
#ifdef NOWRITING
#define UNFINISHED(s) (st[s]==WAIT || ISTAKEN(st[s]))
#else
#define UNFINISHED(s) (st[s]==WAIT || ISTAKEN(st[s]) || (ISWRIT(st[s]) && !dead[st[s]-WRIT]))
#endif
proctype J() {
	byte s, t;
	/* begins when two puts have returned */
end_j:	((acked&3)==3);
	do
	:: atomic { t=tickets; s=0 };
		do
		:: atomic { s<NS && UNFINISHED(s) -> s=0; break }
		:: atomic { s<NS && !UNFINISHED(s) -> s++ }
		:: atomic { s==NS ->
			s=0;
#ifndef NORECOUNT
			if :: t!=tickets -> break :: else fi;
#endif
			/* the two, and what the second one's worker put, are done */
			assert((acked & ~donebits & ~asidebits)==0); goto joined }
		od
	od;
joined:	skip
}
#endif

#define RESTS(i) (!RUNS(i) || asleep[i]!=1)
#define ROOMRESTS(i) (!RUNS(i) || asleep[i]!=2)
#define JOBRESTS (RESTS(0) && RESTS(1 % N) && RESTS(2 % N) && RESTS(3 % N))
#define ROOMSREST (ROOMRESTS(0) && ROOMRESTS(1 % N) && ROOMRESTS(2 % N) && ROOMRESTS(3 % N))
#ifdef RECHECK
#define RECHECKS ((ANYJOB && !JOBRESTS) || (ANYROOM && !ROOMSREST))
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
