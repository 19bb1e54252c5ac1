/* semaphore.pml - permits that name their holders, and the eventcount where waiters sleep; death
 * between any two steps.
 *
 * Threads 0..N-1 want one of NP permits, R times each; thread 2 may add one that was absent
 * (-DADD).
 *   rec[p]        0 free, id + 1 held, ABSENT
 *   sl seq        the eventcount: epoch (odd: a thread may sleep), sequence; eventcount.pml has its
 *                 fence. Of both numbers the steps ask only whether they have changed since they
 *                 were read, and that is what is kept here
 * Sleeping on the ends of several owners is several.pml's: here a sleeper simply runs again when a
 * holder that it watches is dead, or when it is woken from the queue of `sequence`.
 *
 * acquire  1. a free record: compare-exchange 0 -> me; a dead holder's: compare-exchange id -> me
 *          2. none: sl := a new odd number (heavy fence); 3. look at all again; 4. sleep on
 *             {sequence, all holders' ends}; 1. again
 * release  1. record := 0   2. sl odd: ONE step: sequence += 1 and wake WAKES of them
 *          3. fewer were woken: compare-exchange sl -> + 1
 * A thread that is left asleep may watch a former holder; one of the two that were woken watches
 * the new one.
 *
 * Checked: never two live holders of one permit; no thread sleeps for ever beside a permit that is
 * free or a dead holder's (an invalid end state: every holder releases or dies).
 * Switches: -DN=threads -DD=deaths -DNP=permits -DR=rounds -DADD -DRECHECK (a sleeper looks when
 * all has come to rest)
 *   -DSTOP  one thread is stopped at any step, takes no further step and is not dead. A wake-up
 *           that it received is used up; it leaves the kernel's queue (SIGSTOP) or stays there and
 *           swallows wakes (the freezer of version 1). The notice of a death is not told to the
 *           others once a thread is stopped: it may have received it. It may be killed later (D
 *           counts that). A sleeper makes the recheck when all has come to rest (once a second in
 *           the code), and goes on when a permit is free or a dead holder's.
 *           At rest a running thread may sleep only while each permit names the stopped one, or has
 *           not been added.
 * Mutations, each must be caught:
 *   CLEARFIRST  the epoch is cleared before the wake
 *   CLEARALL    the epoch is cleared though there may be more asleep
 *   BAREBIT     the epoch is 0 or 1
 *   NOLOOK      the sleeper does not look again between 2 and 4
 *   WAKES=1     one is woken
 * With two deaths and without RECHECK it must fail: the thread that watched the new holder is dead.
 *   OWNONLY     the sleeper watches the holder of the first permit only
 *   STALE       a dead holder's record is taken over by a store
 * and with STOP:
 *   NORECHECK   no recheck
 *   SEQONLY     the recheck is of "sequence", not of the permits
 */
#ifndef D
#define D 1
#endif
#ifndef NP
#define NP 1
#endif
#ifndef R
#define R 1
#endif
#ifndef N
#define N 3
#endif
#ifndef WAKES
#define WAKES 2
#endif
#define ABSENT 9
byte rec[NP]; bool odd;
byte same[N];			/* sl since the releasing thread read it: 0 will not be asked for, 1 the same, 2 changed */
byte still[N];			/* seq since the sleeper read it, likewise */
bool dead[N], killed[N]; byte inq[N]; bool woken[N];
byte cs[NP];
byte has[N];			/* ghost: permit + 1 */
byte watch[N];			/* bit mask of threads whose ends this sleeper watches */
byte budget;

#ifdef STOP
bool stopped[N]; byte bs;
#define ENDS (killed[me] || stopped[me])
#define RUNS(i) (!killed[i] && !stopped[i])
#define HELDUP(p) (rec[p]==ABSENT || (rec[p]!=0 && !dead[rec[p]-1] && stopped[rec[p]-1]))
#if NP == 1
#define WELL(i) (!inq[i] || !RUNS(i) || HELDUP(0))
#else
#define WELL(i) (!inq[i] || !RUNS(i) || (HELDUP(0) && HELDUP(1)))
#endif
#define ASLEEP(i) (inq[i] && RUNS(i))
#if N == 4
#define ANYASLEEP (ASLEEP(0) || ASLEEP(1) || ASLEEP(2) || ASLEEP(3))
#define TOLD(i) (dead[i] && !stopped[0] && !stopped[1] && !stopped[2] && !stopped[3])
#else
#define ANYASLEEP (ASLEEP(0) || ASLEEP(1) || ASLEEP(2))
#define TOLD(i) (dead[i] && !stopped[0] && !stopped[1] && !stopped[2])
#endif
#ifdef SEQONLY
#define FINDS (still[me]==2)
#else
#define FINDS TOBEHAD
#endif
#else
#define ENDS killed[me]
#define TOLD(i) dead[i]
#endif
#define ISDEAD(w) ((w)!=0 && (w)!=ABSENT && dead[(w)-1])
#if NP == 1
#define TOBEHAD (rec[0]==0 || ISDEAD(rec[0]))
#else
#define TOBEHAD (rec[0]==0 || ISDEAD(rec[0]) || rec[1]==0 || ISDEAD(rec[1]))
#endif
#define CHANGED(x, i) if :: x[i]==1 -> x[i]=2 :: else fi
#if N == 4
#define CHANGE(x) CHANGED(x,0); CHANGED(x,1); CHANGED(x,2); CHANGED(x,3)
#else
#define CHANGE(x) CHANGED(x,0); CHANGED(x,1); CHANGED(x,2)
#endif
#define P(i) :: inq[i] -> inq[i]=0; woken[i]=1; w++
#if N == 4
#define WAKE1 if P(0) P(1) P(2) P(3) :: else fi
#else
#define WAKE1 if P(0) P(1) P(2) :: else fi
#endif
#if WAKES == 1
#define WAKEN WAKE1
#else
#define WAKEN WAKE1; WAKE1
#endif

#define CLEAR odd=0; CHANGE(same)
#define OVER(last) if :: last -> r++; if :: r==R -> r=0; goto end_idle :: else fi :: else fi
inline ring(last) {
	if
	:: atomic { odd -> same[me]=1 };
#ifdef CLEARFIRST
		atomic { if :: same[me]==1 -> CLEAR :: else fi };
#endif
		atomic { CHANGE(still); w=0; WAKEN };
		atomic {
#ifdef BAREBIT
			odd=0;
#elif defined(CLEARALL)
			if :: same[me]==1 -> CLEAR :: else fi;
#elif !defined(CLEARFIRST)
			if :: same[me]==1 && w<WAKES -> CLEAR :: else fi;
#endif
			same[me]=0; w=0; OVER(last)
		}
	:: atomic { !odd -> OVER(last) }
	fi
}

/* one look at all permits, each on its own. Reading a record and the compare-exchange from what was
 * read are one step: one that fails reads again */
#define TAKE rec[p]=me+1; cs[p]++; assert(cs[p]==1); has[me]=p+1; p=0; goto have
inline look(notes) {
	do
	:: atomic { rec[p]==0 -> TAKE }
#ifdef STALE
	:: ISDEAD(rec[p]) -> atomic { TAKE }
#else
	:: atomic { ISDEAD(rec[p]) -> TAKE }
#endif
	:: atomic { rec[p]!=0 && !ISDEAD(rec[p]) ->
			if :: notes && rec[p]!=ABSENT -> watch[me]=watch[me]|(1<<(rec[p]-1)) :: else fi;
			p++; if :: p==NP -> p=0; break :: else fi }
	od
}

#if N == 4
#define END (woken[me] || (watch[me]&1 && TOLD(0)) || (watch[me]&2 && TOLD(1)) || (watch[me]&4 && TOLD(2)) || (watch[me]&8 && TOLD(3)))
#else
#define END (woken[me] || (watch[me]&1 && TOLD(0)) || (watch[me]&2 && TOLD(1)) || (watch[me]&4 && TOLD(2)))
#endif
#define AWAKE inq[me]=0; woken[me]=0; watch[me]=0; still[me]=0

proctype T(byte me) {
	byte p, r, w;
	{
#ifdef ADD
		if
		:: atomic { me==2 && rec[NP-1]==ABSENT -> rec[NP-1]=0 }; ring(0)
		:: me!=2
		fi;
#endif
		do
		:: look(0);
			do
			::
				atomic {
					still[me]=1; odd=1;
#ifndef BAREBIT
					CHANGE(same)
#endif
				};
#ifndef NOLOOK
				look(1);
#endif
				if
				:: atomic { still[me]==1 -> inq[me]=1;
#ifndef SEQONLY
					still[me]=0;
#endif
#ifdef OWNONLY
					watch[me]=watch[me]&1;
#endif
					skip };
#ifdef STOP
end_s:
#endif
					if
					:: atomic { END -> AWAKE }
#if defined(STOP) && !defined(NORECHECK)
					:: atomic { timeout && FINDS -> AWAKE }
#endif
#ifdef RECHECK
					:: atomic { timeout && TOBEHAD -> AWAKE }
#endif
					fi
				:: atomic { still[me]!=1 -> AWAKE }
				fi;
				look(0)
			od;
have:
			atomic { p=has[me]-1; cs[p]--; has[me]=0; rec[p]=0; p=0; watch[me]=0; still[me]=0 };
			ring(1)
		od;
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { if :: inq[me]=0; woken[me]=0 :: skip fi; watch[me]=0; p=0; same[me]=0; still[me]=0; r=0; w=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic { inq[me]=0; woken[me]=0; watch[me]=0; if :: has[me]!=0 -> cs[has[me]-1]--; has[me]=0 :: else fi; dead[me]=1;
			p=0; same[me]=0; still[me]=0; r=0; w=0 }
	}
}

active proctype killer() {
	atomic {
#ifdef ADD
		rec[NP-1]=ABSENT;
#endif
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
#if D > 1
		:: budget=D-2
#endif
#ifdef STOP
		fi;
		if :: bs=1 :: bs=0
#endif
		fi; run T(0); run T(1); run T(2);
#if N == 4
		run T(3)
#endif
		};
end_k:	do
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
#ifndef ADD
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
#endif
#if N == 4
	:: atomic { budget>0 && !killed[3] -> killed[3]=1; budget-- }
#endif
#ifdef STOP
	:: atomic { bs>0 && RUNS(0) -> stopped[0]=1; bs-- }
	:: atomic { bs>0 && RUNS(1) -> stopped[1]=1; bs-- }
	:: atomic { bs>0 && RUNS(2) -> stopped[2]=1; bs-- }
#if N == 4
	:: atomic { bs>0 && RUNS(3) -> stopped[3]=1; bs-- }
#endif
	:: budget==0 && bs==0 -> break
	od;
	timeout && !(TOBEHAD && ANYASLEEP);
	assert(WELL(0) && WELL(1) && WELL(2));
#if N == 4
	assert(WELL(3))
#endif
#else
	:: budget==0 -> break
	od
#endif
}
