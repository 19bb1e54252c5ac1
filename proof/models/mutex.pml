/* mutex.pml - the token mutex: futex_waitv, the kernel's walk at a thread's end, death between any
 * two steps.
 *
 * Threads 0..2, each with one token (slots are not reused here: token.pml does that), NL locks.
 *   lo[l] lw[l]   the lock word: owner + 1 or 0, and the WAITERS bit
 *   st[l]         the state word beside it: consistent, inconsistent, not recoverable
 *   tdead tw      the token word of a thread: OWNER_DIED and WAITERS
 *   X             a word that is always 0, one in each token's slot
 *   pend[i]       list_op_pending of thread i: the slot (thread + 1) whose X the kernel wakes when
 *                 i dies, or 0
 * A sleeper i is in up to three kernel queues: qL[i] (lock + 1), qT[i] (token + 1), qX[i] (token +
 * 1). A wake takes one entry out of one queue, in any order (priorities can make every order
 * happen), and sets woken[i]; the other entries of i stay until i runs, so they may swallow wakes
 * that were meant for other sleepers.
 *
 * lock     1. compare-exchange 0 -> me
 *          a dead owner: compare-exchange -> me|W, state := inconsistent
 *          2. set W, wait on {X of the owner, L, the owner's token}; on any return from a dead
 *             owner wake all on its token
 *          3. not recoverable -> unlock and return that; inconsistent -> the caller is told
 * unlock   1. a panic: state consistent -> inconsistent
 *          2. compare-exchange me -> 0; W is set: 0 and wake all on L in one step of the kernel's
 *             (FUTEX_WAKE_OP; mutex_wake_op.pml has that step beside stopped threads)
 * mark     not recoverable: 1. state := not recoverable   2. as unlock, 2 A caller that was told
 * repairs and marks the state consistent, or leaves all as it is, or marks the lock not
 * recoverable; one that was not told finishes its change, or panics in the middle of it. Death: the
 * thread leaves every queue, its token is marked and one waiter there is woken, then one waiter on
 * the pending X.
 *
 * Checked: never two owners; no thread enters torn data without being told; only an owner writes
 * the state; a lock is refused only after an owner has marked it so; a sweep leaves no dead owner's
 * name that it saw; no thread sleeps for ever (an invalid end state).
 * Switches: -DD=deaths -DR=rounds -DR2=rounds of thread 2
 *   -DNL=2 -DNEST  thread 0 takes locks 0 and 1, thread 1 takes 0, thread 2 takes 1
 *   -DTIMEOUT      a sleeper may give up at any time      -DPANIC  a holder may panic
 *   -DSWEEP        thread 2 does not lock, but sweeps R2 times: it takes a dead owner's name out of
 *                  the word of lock 0, in one step, and leaves DIED there, which reads like a dead
 *                  owner's name for ever. Beside a stopped sweep no thread may sleep for that.
 *   -DSTOP         one thread is stopped at any step, takes no further step and is not dead: its
 *                  token reads alive and no list is walked. A wake-up that it received is used up;
 *                  SIGSTOP takes it out of the kernel's queues, the freezer of version 1 leaves it
 *                  there, where it swallows wakes: both are tried. It may be killed later (D counts
 *                  that). A sleeper makes the recheck, as once a second in the code, and goes on
 *                  when the word has changed or the owner is dead. At rest a running thread may
 *                  sleep for a lock alone whose word names the stopped one (NEST: or whose owner
 *                  sleeps for such a lock).
 * Mutations, each must be caught:
 *   WAKEONE     unlock wakes one sleeper only
 *   XLAST       X is last in the wait vector
 *   PENDLOCK    pending points at the lock word, as libc's does, and X is not waited for
 *   NOPEND      no pending at all
 *   EARLYCLEAR  pending is cleared on each return from the wait instead of when the lock is in hand
 *   NOWAKEALL   a thread that finds the owner dead after a sleep does not wake the others
 *   TAKESTORE   a dead owner's lock is taken over by a store
 *   NOMARK      the taker of a dead owner's lock does not make the state inconsistent
 *   NRLATE      the marking releases the word before it says "not recoverable"
 *   NOTAGAIN    a lock that comes free and inconsistent is entered, and the caller is not told
 *   DROPGIVESUP unlock without a repair marks the lock not recoverable
 *   PANICQUIET  a panic leaves the state as it is
 *   PANICLATE   a panic releases the word before it says "inconsistent"
 *   SWEEPFREE   a sweep leaves the word free
 *   SWEEPONCE   a sweep whose compare-exchange fails for a sleeper's WAITERS does not try again:
 *               the name stays
 *   SWEEPHOLDS  (with STOP) a sweep takes the lock over, and gives it back
 * and with STOP:
 *   NORECHECK   no recheck: the stopped one had received the notice of the owner's death. Without
 *               deaths it must pass
 *   TWOSTEP     (with NORECHECK) unlock frees the word and wakes in two steps
 */
#ifndef NL
#define NL 1
#endif
#ifndef R
#define R 1
#endif
#ifndef R2
#define R2 R
#endif
#ifndef D
#define D 1
#endif
#define N 3
#define CONSISTENT 0
#define INCONSISTENT 1
#define GONE 2                  /* not recoverable */
#define OK 1                    /* outcomes of lock */
#define OWNER_DIED 2
#define TIMED_OUT 3
#define NOT_RECOVERABLE 4

byte lo[NL]; bool lw[NL]; byte st[NL];
#ifdef SWEEP
#define DIED (N+1)
bool tdead[N+1], tw[N+1];       /* [N]: no thread's token, dead from the beginning */
#else
bool tdead[N], tw[N];
#endif
byte qL[N], qT[N], qX[N]; bool woken[N];
byte pend[N];
bool killed[N];
byte cs[NL];            /* ghost: live threads that own the lock */
bool torn[NL];          /* ghost: the protected data are in the middle of a change */
byte inL[N];            /* ghost: bit mask of the locks this thread owns */
bool gaveup[NL];        /* ghost: an owner has decided to give the lock up */
byte budget;            /* deaths still to come; drawn first, so that a hang after fewer deaths is a real end state */

#ifdef STOP
bool stopped[N];
byte bs;                /* stops still to come; drawn first, too */
#define ENDS (killed[me] || stopped[me])
#define RUNS(i) (!killed[i] && !stopped[i])
#ifdef SWEEP
#define HELDUP(l) (lo[l]!=0 && lo[l]!=3 && !tdead[lo[l]-1] && stopped[lo[l]-1])
#else
#define HELDUP(l) (lo[l]!=0 && !tdead[lo[l]-1] && stopped[lo[l]-1])
#endif
#if NL > 1
#define EXCUSED(l) (HELDUP(l) || (l==0 && lo[0]!=0 && RUNS(lo[0]-1) && qL[lo[0]-1]==2 && HELDUP(1)))
#else
#define EXCUSED(l) HELDUP(l)
#endif
#define WELL(i) (!RUNS(i) || qL[i]==0 || EXCUSED(qL[i]-1))      /* a sleeper is in the queue of the word, or has been woken */
#else
#define ENDS killed[me]
#endif
#define SET(l,value) atomic { assert(lo[l]==me+1); st[l]=value }
#define OWN(l) cs[l]++; assert(cs[l]==1); inL[me]=inL[me]|(1<<l)
#define PICK(i,q,k) :: (q[i]==(k)) -> q[i]=0; woken[i]=1
#define wake1(q,k) atomic { if PICK(0,q,k) PICK(1,q,k) PICK(2,q,k) :: else fi }
#define ALL1(i,q,k) if :: q[i]==(k) -> q[i]=0; woken[i]=1 :: else fi
#define wakeall(q,k) d_step { ALL1(0,q,k); ALL1(1,q,k); ALL1(2,q,k) }
inline unqueue() { qL[me]=0; qT[me]=0; qX[me]=0; woken[me]=0 }

/* unlock's last two steps */
inline release(l) {
	atomic { if :: !lw[l] -> cs[l]--; inL[me]=inL[me]&(3-(1<<l)); lo[l]=0; vw=0 :: else -> vw=1 fi };
	if
	:: vw ->
		atomic { cs[l]--; inL[me]=inL[me]&(3-(1<<l)); lo[l]=0; lw[l]=0;
#ifdef TWOSTEP
		};
		atomic {
#endif
#ifdef WAKEONE
			if PICK(0,qL,l+1) PICK(1,qL,l+1) PICK(2,qL,l+1) :: else fi
#else
			d_step { ALL1(0,qL,l+1); ALL1(1,qL,l+1); ALL1(2,qL,l+1) }
#endif
		}
	:: else
	fi
}

inline lock(l) {
	got=0;
	atomic { if :: lo[l]==0 && !lw[l] -> lo[l]=me+1; got=OK; OWN(l) :: else fi };
	do
	:: got==0 ->
		atomic { vo=lo[l]; vw=lw[l] };
		if
		:: vo==0 -> atomic { if :: lo[l]==0 && lw[l]==vw -> lo[l]=me+1; lw[l]=1; got=OK; OWN(l) :: else fi }
		:: else ->
			if :: !vw -> atomic { if :: lo[l]==vo && !lw[l] -> lw[l]=1; ok=1 :: else -> ok=0 fi } :: else -> ok=1 fi;
			if
			:: ok ->
				atomic { dd=tdead[vo-1]; tv=tw[vo-1] };
				if
				:: dd ->
#ifdef TAKESTORE
					lo[l]=me+1; atomic { got=OWNER_DIED; OWN(l) };
#else
					atomic { if :: lo[l]==vo && lw[l] -> lo[l]=me+1; got=OWNER_DIED; OWN(l) :: else fi };
#endif
#ifndef NOMARK
					if
					:: got==OWNER_DIED && st[l]==CONSISTENT -> SET(l,INCONSISTENT)
					:: else
					fi
#endif
				:: else ->
					if :: !tv -> atomic { if :: !tdead[vo-1] && !tw[vo-1] -> tw[vo-1]=1 :: else -> ok=0 fi } :: else fi;
					if
					:: ok ->            /* futex_waitv, word by word as the kernel does; X is always 0, so it always matches */
#ifndef NOPEND
						pend[me]=vo;
#endif
#if !defined(XLAST) && !defined(PENDLOCK)
						qX[me]=vo;
#endif
						atomic { if :: lo[l]==vo && lw[l] -> qL[me]=l+1 :: else -> ok=0; unqueue() fi };
						if :: ok -> atomic { if :: !tdead[vo-1] && tw[vo-1] -> qT[me]=vo :: else -> ok=0; unqueue() fi } :: else fi;
						if
						:: ok ->
#ifdef XLAST
							qX[me]=vo;
#endif
#ifdef STOP
end_sleep:
#endif
							if
							:: atomic { woken[me] -> unqueue() }
#if defined(STOP) && !defined(NORECHECK)
							:: atomic { lo[l]!=vo || tdead[vo-1] -> unqueue() }
#endif
#ifdef TIMEOUT
							:: atomic { !woken[me] -> unqueue(); got=TIMED_OUT }
#endif
							fi
						:: else
						fi;
#ifdef EARLYCLEAR
						pend[me]=0;
#endif
#ifndef NOWAKEALL
						if :: tdead[vo-1] -> wakeall(qT,vo) :: else fi;
#endif
					:: else
					fi
				fi
			:: else
			fi
		fi
	:: else -> break
	od;
	pend[me]=0;
	if
	:: got!=TIMED_OUT && st[l]==GONE -> assert(gaveup[l]); got=NOT_RECOVERABLE; release(l)
#ifndef NOTAGAIN
	:: got==OK && st[l]==INCONSISTENT -> got=OWNER_DIED
#endif
	:: else
	fi;
	if
	:: got==OK -> atomic { assert(!torn[l]); torn[l]=1 }          /* inside, and told that all is well */
	:: else
	fi
}

/* marking; what the holder wants is decided before it writes */
inline give_up(l) {
	gaveup[l]=1;
#ifdef NRLATE
	release(l); SET(l,GONE)
#else
	SET(l,GONE); release(l)
#endif
}

/* what the holder does, see above */
inline unlock(l) {
	if
	:: got==OWNER_DIED ->
		if
		:: atomic { torn[l]=0; assert(lo[l]==me+1); st[l]=CONSISTENT }; release(l)
#ifdef DROPGIVESUP
		:: SET(l,GONE); release(l)
#else
		:: true -> release(l)   /* `true` first: otherwise spin takes an `else` in release() only if no option here is executable */
#endif
		:: give_up(l)
		fi
	:: got==OK -> torn[l]=0; release(l)
#ifdef PANIC
	:: got==OK ->
#ifdef PANICQUIET
		release(l)
#elif defined(PANICLATE)
		release(l); SET(l,INCONSISTENT)
#else
		SET(l,INCONSISTENT); release(l)
#endif
#endif
	fi
}

#ifdef SWEEP
inline sweep() {
	atomic { vo=lo[0]; vw=lw[0] };
	if
	:: vo!=0 && vo!=DIED && tdead[vo-1] ->
#ifdef SWEEPHOLDS
		atomic { if :: lo[0]==vo && lw[0]==vw -> lo[0]=me+1; lw[0]=1; OWN(0); ok=1 :: else -> ok=0 fi };
		if :: ok && st[0]==CONSISTENT -> SET(0,INCONSISTENT) :: else fi;
		if :: ok -> release(0) :: else fi
#else
#ifdef SWEEPFREE
		atomic { if :: lo[0]==vo -> vw=lw[0]; lo[0]=0; lw[0]=0; ok=1 :: else -> ok=0 fi };
#elif defined(SWEEPONCE)
		atomic { if :: lo[0]==vo && lw[0]==vw -> lo[0]=DIED; lw[0]=0; ok=1 :: else -> ok=0 fi };
#else
		atomic { if :: lo[0]==vo -> vw=lw[0]; lo[0]=DIED; lw[0]=0; ok=1 :: else -> ok=0 fi };
#endif
		assert(lo[0]!=vo);
		if :: ok && vw -> wakeall(qL,1) :: else fi
#endif
	:: else
	fi
}
#endif

#define INSIDE (got==OK || got==OWNER_DIED)
inline use(l) { lock(l); if :: INSIDE -> unlock(l) :: else fi }

proctype T(byte me) {
	byte vo, got, r; bool vw, ok, dd, tv;
	{
		r=0;
		do
		:: r<((me==2) -> R2 : R) ->
#ifdef SWEEP
			if
			:: me==2 -> sweep()
			:: else -> use(0)
			fi;
#elif defined(NEST)
			if
			:: me==0 ->
				lock(0); byte got0; got0=got;
				use(1);
				atomic { got=got0; got0=0 };
				if :: INSIDE -> unlock(0) :: else fi
			:: me==1 -> use(0)
			:: else  -> use(1)
			fi;
#else
			use(0);
#endif
			r++
		:: else -> break
		od;
		atomic { vo=0; vw=0; ok=0; dd=0; tv=0; got=0; r=0 };
end_idle:	(false)                                         /* lives on, holding nothing */
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { if :: unqueue() :: skip fi; vo=0; vw=0; ok=0; dd=0; tv=0; got=0; r=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic {                                        /* leaves every queue; what it had swallowed is gone */
			unqueue();
			if :: inL[me]&1 -> cs[0]-- :: else fi;
#if NL > 1
			if :: inL[me]&2 -> cs[1]-- :: else fi;
#endif
			inL[me]=0; ok=tw[me]; tdead[me]=1 };
		if :: ok -> wake1(qT,me+1) :: else fi;
		if
		:: pend[me]!=0 ->
#ifdef PENDLOCK
			if :: lo[0]==0 -> wake1(qL,1) :: else fi;
#else
			wake1(qX,pend[me]);
#endif
			pend[me]=0
		:: else
		fi;
		atomic { vo=0; vw=0; ok=0; dd=0; tv=0; got=0; r=0 }
	}
}

active proctype killer() {
	atomic {
#ifdef SWEEP
		tdead[DIED-1]=1;
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
		fi; run T(0); run T(1); run T(2) };
end_k:	do
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
#ifdef STOP
	:: atomic { bs>0 && RUNS(0) -> stopped[0]=1; bs-- }
	:: atomic { bs>0 && RUNS(1) -> stopped[1]=1; bs-- }
	:: atomic { bs>0 && RUNS(2) -> stopped[2]=1; bs-- }
	:: budget==0 && bs==0 -> break
	od;
	timeout;
	assert(WELL(0) && WELL(1) && WELL(2))
#else
	:: budget==0 -> break
	od
#endif
}
