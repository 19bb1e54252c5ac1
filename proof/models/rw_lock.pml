/* rw_lock.pml - the reader-writer lock: a mutex for writers, a word for each reader, death between
 * any two steps.
 *
 * Threads 0..2, each with one token: 0..NW-1 write, the others read; with SWEEP the last one sweeps
 * instead.
 *   wo ww ws      the writers' word: owner + 1 or 0, the WAITERS bit, and the mark SHARED;  st  the
 *                 state beside it
 *   ins           1: the holder of the writers' word may be in the middle of a change
 *   so[s]         NS readers' words: reader + 1 or 0
 *   sl sq         the eventcount: sleepers (odd: a writer may sleep until readers leave), sequence;
 *                 see semaphore.pml: as there, what is kept is whether they have changed since they
 *                 were read
 *   tdead tw      the token word of a thread: OWNER_DIED and WAITERS
 *   pend[i]       list_op_pending of thread i: the slot (thread + 1) whose X (a word that is always
 *                 0) the kernel wakes when i dies, or 0
 * Kernel queues: qL (writers' word: 1), qB (the eventcount's sequence: 1), qT (token + 1), qX
 * (token + 1); see mutex.pml.
 *
 * read     1. a readers' word 0 or a dead one's -> me       none left: step 4
 *          2. the writers' word is 0 and the state consistent: inside
 *          3. give the readers' word back: 0, then notify. Writer alive: wait as for a mutex, from
 *             1 again
 *          4. writer dead, or inconsistent: take the writers' word as a writer. Told: wait for the
 *             readers, be told. Not told: a readers' word -> me, give the writers' word back (none
 *             left: keep it), inside (ins is 0: the dead writer had not begun, or was done: as if
 *             the state were consistent, everywhere)
 * write    the mutex's lock, then each readers' word: 0 -> next; dead -> compare-exchange to 0;
 *          alive -> prepare to wait (a new odd sl, a heavy fence), look again, wait on {X, sq, its
 *          owner's token}. A deadline that passes meanwhile: give the writers' word back, state as
 *          it is.
 *          Then ins = 1, the change, ins = 0, unlock; told, and not repaired: ins and the state
 *          stay, the next is told; a panic in the middle of the change: state := inconsistent, ins
 *          stays; marking it so: state := not recoverable
 * down     ins = 0, a readers' word -> me, then give the writers' word back
 * upgradable  the writers' word 0 -> me, with the mark, in one step; or as a writer takes it, then
 *          the mark is set and all are woken. Readers that find the mark are inside (step 2). To
 *          become the writer: the mark out, then as a writer waits for readers; if the deadline
 *          passed: the mark set, all woken. Back: ins = 0, the mark set, all woken. The mark counts
 *          beside a consistent state only; beside another one readers wait as for a writer. (The
 *          code sleeps on word and state both, the state last: here one step looks at both)
 * up       keeping the readers' word, compare-exchange the writers' word 0 -> me, dead -> me;
 *          alive: refused. Wait for the other readers, then give the own word back
 *
 * Checked: never a writer beside another thread; no thread reads or writes torn data without being
 * told; told only after a death or a panic inside, refused only after a writer has marked the lock
 * not recoverable; no thread takes a living reader's word; none sleeps for ever (an invalid end
 * state). Switches: -DD=deaths -DNW=writers -DNS=readers' words -DHOME0 (all try word 0 first)
 * -DDOOR  a reader that would wait may go to step 4 -DUP -DDOWN  readers may upgrade, writers
 * downgrade -DSHARE=n  threads 0..n-1 are upgradable readers instead, which may become writers and
 * go back to upgradable or to ordinary reading -DSTAYS  thread 0 reads on until thread 2 has read
 * -DTIMEOUT  a sleeper may give up at any time -DSWEEP    thread 2 sweeps; a dead
 * writer's name becomes DIED, see mutex.pml -DPANIC    a writer may panic      -DPAIR  thread 2 is
 * not there -DDIES=i   with -DD=1: only thread i may die. The runs for all threads together cover
 * the run
 *              without DIES. Where the writer dies beside two readers, more than one readers' word
 *              needs more than 10 GB
 *   -DSTOP  one thread is stopped at any step, takes no further step and is not dead. A wake-up
 *           that it received is used up; it leaves the kernel's queues (SIGSTOP) or stays there and
 *           swallows wakes (the freezer of version 1). It may be killed later (D counts that). A
 *           sleeper rechecks, as once a second in the code, the word for which it sleeps and its
 *           owner. The writers' word is freed, and sq raised, in the same step as the wake, as in
 *           the code; the other runs have two steps, which allows more.
 *           With -DWHO=i it is thread i; the runs in which no thread stops are left out then.
 *           At rest a running thread may sleep for the writers' word alone if that names the
 *           stopped one, or a writer that sleeps behind the stopped reader; and a writer behind a
 *           reader's word alone that names the stopped one
 * Mutations, each must be caught:
 *   CHECKFIRST  a reader looks at the writers' word before it claims its own (so: no fence between
 *               the two)
 *   NOLEAVEWAKE a reader that gives its word back in step 3 does not notify
 *   NOLOOK      a writer does not look again after it has prepared to wait
 *   CLEARFIRST  the number is cleared before it wakes
 *   NOSTATE     a reader does not look at the state
 *   INSLATE     a writer says that it is inside after it has begun
 *   NOINS       every thread that takes the writers' word from a dead one is told
 *   NODRAIN     a writer that comes after a dead one does not wait for the readers
 *   NOSLOTTOK   a writer sleeps on the eventcount alone
 *   WAKEONE     unlock wakes one sleeper only
 *   NOWAKEALL   a thread that finds the owner dead after a sleep does not wake the others
 *   NOPEND      no pending
 *   CLEARSTORE  a dead reader's word is cleared by a store
 *   DOWNLATE    a downgrade gives the writers' word back before it claims a reader's
 *   UPWAIT      a reader that upgrades waits for another writer
 *   UPLEAVE     a reader that upgrades gives its readers' word back before it has the writers' word
 *   DROPGIVESUP a writer that was told and does not repair marks the lock not recoverable
 *   DROPENDS    a writer that was told and does not repair says that it is no longer inside
 *   PANICQUIET  a panic leaves the state as it is
 *   SHQUIET     the mark is set without waking the sleepers
 *   UPLATE      an upgrade waits for the readers first, then takes the mark out
 *   UPNOSTATE   an upgradable reader does not look at the state
 *   TAKEMARK    a thread that takes over a dead upgradable reader's word leaves the mark there
 * and with STOP:
 *   NORECHECK   no recheck: the stopped one had left, and not yet notified
 *   SEQONLY     a writer rechecks sq, and not the reader's word
 */
#ifndef NW
#define NW 1
#endif
#ifndef D
#define D 1
#endif
#ifndef NS
#define NS 2
#endif
#define N 3
#ifdef HOME0
#define HOME(i) 0
#else
#define HOME(i) ((i+1)%NS)
#endif
#define CONSISTENT 0
#define INCONSISTENT 1
#define GONE 2                  /* not recoverable */
#define OK 1                    /* outcomes */
#define OWNER_DIED 2
#define TIMED_OUT 3
#define NOT_RECOVERABLE 4
#define READING 5

#ifdef SHARE
#define UNMARK ; ws=0
/* a reader that finds the mark beside another state sleeps; that it does not go round for ever
 * instead is no end state: a loom test and a test with a stopped process show it */
#define OPENS (ws && st==CONSISTENT)
#define ALONE && !OPENS
#define SEEN(w) (ws -> 0 : w)
#define IFMARK(x) || (x && OPENS)
#define GIVEBACK(own) if :: own==NS+1 -> share() :: else -> release() fi
#ifdef TAKEMARK
#define TAKEOVER
#else
#define TAKEOVER UNMARK
#endif
#define SHARES(i) (i<SHARE)
#define MARKED 6
#define HEEDS && !(me>=NW && OPENS)
#define OUTERMARK :: !dd && me>=NW && OPENS -> got=MARKED
#define AFTERMARK :: got==MARKED -> skip
#define DOORMARK :: got==MARKED -> got=0
#else
#define HEEDS
#define OUTERMARK
#define AFTERMARK
#define DOORMARK
#define UNMARK
#define ALONE
#define SEEN(w) w
#define IFMARK(x)
#define GIVEBACK(own) release()
#define TAKEOVER
#endif
byte wo; bool ww; byte st; bool ins;
#ifdef SHARE
bool ws; bool over;                     /* over: ghost, thread 2 has come to its end */
#endif
byte so[NS]; bool odd;
byte same[N];                           /* sl since the reader that leaves read it: 0 will not be asked for, 1 the same, 2 changed */
byte fresh[N];                          /* sq since the writer read it, likewise */
#ifdef SWEEP
#define DIED (N+1)
bool tdead[N+1], tw[N+1];               /* [N]: no thread's token, dead from the beginning */
#else
bool tdead[N], tw[N];
#endif
byte qL[N], qB[N], qT[N], qX[N]; bool woken[N];
byte pend[N];
bool killed[N];
byte nr, nw; bool inr[N], inw[N];       /* ghost: the threads that are inside */
bool torn;                              /* ghost: the data are in the middle of a change */
bool wdied, gaveup;                     /* ghost: a writer has died or panicked after ins = 1; one has marked it not recoverable */
byte budget;

#ifdef STOP
bool stopped[N]; byte bs;
byte behind[N];                         /* ghost: the reader's word + 1 behind which a writer sleeps */
#define ENDS (killed[me] || stopped[me])
#define RUNS(i) (!killed[i] && !stopped[i])
#define STILL(w) (w!=0 && !tdead[w-1] && stopped[w-1])
#define DRAINS(i) (qB[i]!=0 && behind[i]!=0 && STILL(so[behind[i]-1]))
#ifdef SHARE
#define WAITSFOR(i) (STILL(wo) && (SHARES(i) || i<NW || !OPENS))
#else
#define WAITSFOR(i) STILL(wo)
#endif
#define WELL(i) (!RUNS(i) || (qL[i]==0 && qB[i]==0) || (qL[i]!=0 && (WAITSFOR(i) || (wo!=0 && RUNS(wo-1) && DRAINS(wo-1)))) || DRAINS(i))
#ifdef SEQONLY
#define LEFT (fresh[me]==2)
#else
#define LEFT (so[k]!=vo)
#endif
#define FINDS ((qL[me]!=0 && wo!=vo) IFMARK(qL[me]!=0 && me>=NW) || (qB[me]!=0 && LEFT) || tdead[vo-1])
#else
#define ENDS killed[me]
#endif
#define CHANGED(x,i) if :: x[i]==1 -> x[i]=2 :: else fi
#define CHANGE(x) CHANGED(x,0); CHANGED(x,1); CHANGED(x,2)
#define PICK(i,q,k) :: (q[i]==(k)) -> q[i]=0; woken[i]=1
#define wake1(q,k) atomic { if PICK(0,q,k) PICK(1,q,k) PICK(2,q,k) :: else fi }
#define ALL1(i,q,k) if :: q[i]==(k) -> q[i]=0; woken[i]=1 :: else fi
#define wakeall(q,k) d_step { ALL1(0,q,k); ALL1(1,q,k); ALL1(2,q,k) }
inline unqueue() { qL[me]=0; qB[me]=0; qT[me]=0; qX[me]=0; woken[me]=0 }

/* is in queue q for `key`, as long as the word satisfies `still`, and in that of the end of thread
 * vo - 1. late = 1: its deadline passed */
inline doze(q, key, still, withtok) {
	ok=1;
#ifndef NOPEND
	pend[me]=vo;
#endif
	if
	:: withtok -> atomic { if :: tdead[vo-1] -> ok=0 :: !tdead[vo-1] -> tw[vo-1]=1; qX[me]=vo fi }
	:: else
	fi;
	if :: ok -> atomic { if :: still -> q=key :: else -> ok=0; unqueue() fi } :: else fi;
	if :: ok && withtok -> atomic { if :: !tdead[vo-1] -> qT[me]=vo :: else -> ok=0; unqueue() fi } :: else fi;
	if
	:: ok ->
#ifdef STOP
		atomic { if :: qB[me]!=0 -> behind[me]=k+1 :: else fi };
end_s:
#endif
		if
		:: atomic { woken[me] -> unqueue() }
#if defined(STOP) && !defined(NORECHECK)
		:: atomic { FINDS -> unqueue() }
#endif
#ifdef TIMEOUT
		:: atomic { !woken[me] -> unqueue(); ok=0; late=1 }
#endif
		fi
	:: else
	fi;
	ok=1;
#ifndef NOWAKEALL
	if :: withtok && tdead[vo-1] -> wakeall(qT,vo) :: else fi
#endif
}

inline release() {
#ifdef STOP
	atomic { vw=ww; wo=0; ww=0 UNMARK; if :: vw -> d_step { ALL1(0,qL,1); ALL1(1,qL,1); ALL1(2,qL,1) } :: else fi; vw=0 };
#else
	atomic { vw=ww; wo=0; ww=0 UNMARK };
#endif
	if
	:: vw ->
		vw=0;
#ifdef WAKEONE
		wake1(qL,1)
#else
		wakeall(qL,1)
#endif
	:: else
	fi
}

/* the mutex's lock */
inline take() {
	got=0;
	do
	:: got==0 ->
		atomic { vo=wo; vw=ww };
		if
		:: vo==0 -> atomic { if :: wo==0 -> wo=me+1; ww=0; got=OK; dd=0 :: else fi }
		:: else ->
			dd=tdead[vo-1];
			if
			:: dd ->
				atomic { if :: wo==vo && ww==vw -> wo=me+1; ww=1 TAKEOVER; got=OWNER_DIED :: else fi };
				if :: got==OWNER_DIED && st==CONSISTENT -> st=INCONSISTENT :: else fi
			OUTERMARK
			:: else ->
				ok=1;
				if :: !vw -> atomic { if :: wo==vo && !ww HEEDS -> ww=1 :: else -> ok=0 fi } :: else fi;
				if
				:: ok -> doze(qL[me], 1, (wo==vo && ww HEEDS), true);
					if :: late -> got=TIMED_OUT :: else fi
				:: else
				fi
			fi
		fi
	:: else -> break
	od;
#ifdef NODRAIN
	pend[me]=0;
#else
	atomic { pend[me]=0; vo=0; vw=0; dd=0; ok=0 };
#endif
	if
	:: got==TIMED_OUT -> late=0
	AFTERMARK
	:: else ->
		if
		:: st==GONE -> assert(gaveup); got=NOT_RECOVERABLE; release()
		#ifdef NOINS
		:: st==INCONSISTENT -> got=OWNER_DIED
#else
		:: st==INCONSISTENT -> if :: ins -> got=OWNER_DIED :: else -> st=CONSISTENT; got=OK fi
#endif
		:: else -> got=OK
		fi
	fi
}

/* waits until all readers' words are free, save `own` (word + 1, or 0); a deadline gives the
 * writers' word back */
inline drain(own) {
	k=0;
	do
	:: k<NS && got!=TIMED_OUT ->
		vo=so[k];
		if
		:: vo==0 || k+1==own -> k++
		:: else ->
			dd=tdead[vo-1];
			if
			:: dd ->
#ifdef CLEARSTORE
				so[k]=0
#else
				atomic { if :: so[k]==vo -> so[k]=0 :: else fi }
#endif
			:: else ->
				atomic { fresh[me]=1; odd=1; CHANGE(same) };
#ifndef NOLOOK
				vo=so[k];
#endif
				if
				:: vo!=0 && !tdead[vo-1] ->
#ifdef NOSLOTTOK
					doze(qB[me], 1, (fresh[me]==1), false);
#else
					doze(qB[me], 1, (fresh[me]==1), true);
#endif
					if :: late -> late=0; got=TIMED_OUT :: else fi
				:: else
				fi;
				atomic { fresh[me]=0; ok=0 }
			fi
		fi
	:: else -> break
	od;
	atomic { pend[me]=0; vo=0; dd=0; k=0; ok=0 };
	if
	:: got==TIMED_OUT ->
		GIVEBACK(own)
	:: else
	fi
}

inline announce() {     /* wd = word + 1, or 0: none left */
	atomic { wd=0; k=0 };
	do
	:: wd==0 && k<NS ->
		atomic {
			if
			:: so[(HOME(me)+k)%NS]==0 -> wd=(HOME(me)+k)%NS+1
			:: so[(HOME(me)+k)%NS]!=0 && tdead[so[(HOME(me)+k)%NS]-1] -> wd=(HOME(me)+k)%NS+1
			:: else -> k++
			fi;
			if :: wd!=0 -> so[wd-1]=me+1 :: else fi }
	:: else -> break
	od
}
inline ring() {
	if
	:: atomic { odd -> same[me]=1 };
#ifdef CLEARFIRST
		atomic { if :: same[me]==1 -> odd=0; CHANGE(same) :: else fi };
#endif
#ifdef STOP
		d_step { CHANGE(fresh); ALL1(0,qB,1); ALL1(1,qB,1); ALL1(2,qB,1) };
#else
		d_step { CHANGE(fresh) };
		wakeall(qB,1);
#endif
#ifndef CLEARFIRST
		atomic { if :: same[me]==1 -> odd=0; CHANGE(same) :: else fi };
#endif
		same[me]=0
	:: !odd
	fi
}
inline vacate() {
	assert(so[wd-1]==me+1);
	so[wd-1]=0
}
inline leave() {
	vacate();
	ring()
}
inline withdraw() {
#ifdef NOLEAVEWAKE
	vacate()
#else
	leave()
#endif
}

/* step 4 */
inline door() {
	take();
	if
	:: got==OWNER_DIED -> drain(0)
	:: got==OK ->
		announce(); got=READING;
		if :: wd!=0 -> release() :: else fi
	DOORMARK
	:: else
	fi
}

/* got = READING, or as a writer */
inline read() {
	got=0;
	do
	:: got==0 ->
#ifdef CHECKFIRST
		vo=wo; announce();
		if :: wd==0 -> door() :: else ->
#else
		/* the fast path claims at once; the slow one looks first */
		if :: announce(); vo=(wd==0 -> 0 : SEEN(wo)) :: atomic { wo!=0 ALONE -> vo=wo; wd=0 } fi;
		if :: wd==0 && vo==0 -> door() :: else ->
#endif
#ifdef NOSTATE
			if :: vo==0 -> got=READING :: else fi;
#else
			if :: vo==0 && st==CONSISTENT -> got=READING :: else fi;
#endif
			if
			:: got==0 ->
				if :: wd!=0 -> withdraw() :: else fi;
				atomic { vo=wo; vw=ww };
				if
				:: vo==0 -> if :: st!=CONSISTENT -> door() :: else fi
				:: else ->
					dd=tdead[vo-1];
					if
					:: dd -> door()
#ifdef DOOR
					:: !dd -> door()
#endif
					:: !dd ->
						ok=1;
						if :: !vw -> atomic { if :: wo==vo && !ww ALONE -> ww=1 :: else -> ok=0 fi } :: else fi;
						if
						:: ok -> doze(qL[me], 1, (wo==vo && ww ALONE), true);
							if :: late -> late=0; got=TIMED_OUT; wd=0 :: else fi
						:: else
						fi
					fi
				fi
			:: else
			fi
		fi
	:: else -> break
	od;
	atomic { pend[me]=0; vo=0; vw=0; dd=0; k=0; ok=0 }
}

#define ENTER_R atomic { nr++; inr[me]=1; assert(nw==0); assert(!torn) }
#define LEAVE_R atomic { nr--; inr[me]=0 }
#define ENTER_W atomic { nw++; inw[me]=1; assert(nw==1 && nr==0); assert(got!=OK || !torn); assert(got==OK || wdied) }
#define LEAVE_W atomic { nw--; inw[me]=0 }

/* what a writer does */
inline change() {
#ifndef INSLATE
	ins=1;
#endif
	if
#ifdef INSLATE
	:: got==OK -> torn=1; ins=1; torn=0
#else
	:: got==OK -> torn=1; torn=0
#endif
#ifdef PANIC
#ifdef PANICQUIET
	:: got==OK -> atomic { torn=1; wdied=1 }
#else
	:: got==OK -> atomic { torn=1; wdied=1 }; st=INCONSISTENT
#endif
#endif
	:: got==OWNER_DIED ->
		if
		:: atomic { torn=0; st=CONSISTENT }
#ifdef DROPGIVESUP
		:: st=GONE
#else
		:: skip
#endif
		:: gaveup=1; st=GONE
		fi
	fi
}
inline unlock() {
#ifdef DROPENDS
	ins=0;
#else
	if :: st==CONSISTENT -> ins=0 :: else fi;
#endif
	release()
}
inline stop_reading() { if :: wd!=0 -> leave() :: else -> release() fi }
inline try_up() {
	atomic { vo=wo; vw=ww };
	if
	:: wd==0 -> got=OK                              /* we hold the writers' word */
	:: wd!=0 && vo==0 -> atomic { if :: wo==0 -> wo=me+1; ww=0; got=OK :: else fi }
	:: wd!=0 && vo!=0 ->
		dd=tdead[vo-1];
		if
		:: dd -> atomic { if :: wo==vo && ww==vw -> wo=me+1; ww=1; got=OK :: else fi }
		:: else
#ifdef UPWAIT
			-> take(); if :: got==OWNER_DIED -> got=OK :: else fi
#endif
		fi
	fi;
	if :: got==OK && wd!=0 && vo!=0 -> assert(!ins); st=CONSISTENT :: else fi
}
inline up() {
	byte own; own=wd;
#ifdef UPLEAVE
	if :: wd!=0 -> leave(); take(); if :: got==OWNER_DIED -> got=OK :: else fi :: else -> got=OK fi;
	own=0;
#else
	try_up();
#endif
	if
	:: got==OK ->
		if
		:: own==0 -> drain(0)                   /* in the code a refusal keeps the word here: so no deadline then */
		:: else -> drain(own)
		fi;
		if
		:: got==TIMED_OUT -> got=READING
		:: else ->
			atomic { nr--; inr[me]=0; nw++; inw[me]=1; assert(nw==1 && nr==0); assert(!torn) };
#ifndef UPLEAVE
			if :: wd!=0 -> leave() :: else fi;
#endif
			change(); LEAVE_W; unlock()
		fi
	:: else
	fi
}

#ifdef SHARE
inline share() {
#ifdef SHQUIET
	ws=1
#elif defined(STOP)
	d_step { ws=1; ALL1(0,qL,1); ALL1(1,qL,1); ALL1(2,qL,1) }
#else
	ws=1;
	wakeall(qL,1)
#endif
}
/* got = READING, or as a writer */
inline upgradable() {
	got=0;
	if
	:: atomic { wo==0 -> wo=me+1; ww=0; ws=1; got=READING };
#ifndef UPNOSTATE
		if
		:: st!=CONSISTENT ->
			ws=0;
			if
			:: st==GONE -> assert(gaveup); got=NOT_RECOVERABLE; release()
			:: st==INCONSISTENT && ins -> got=OWNER_DIED
			:: else -> st=CONSISTENT; share()
			fi
		:: else
		fi
#endif
	:: true -> take(); if :: got==OK -> share(); got=READING :: else fi
	fi;
	if :: got==OWNER_DIED -> drain(0) :: else fi
}
/* an upgradable reader becomes a writer: got = OK, or READING */
inline up_shared() {
	got=OK;
#ifdef UPLATE
	drain(NS+1);
	ws=0;
#else
	ws=0;
	drain(NS+1);
#endif
	if
	:: got==TIMED_OUT -> got=READING
	:: else -> atomic { nr--; inr[me]=0; nw++; inw[me]=1; assert(nw==1 && nr==0); assert(!torn) }
	fi
}
#endif

proctype T(byte me) {
	byte vo, got, k, wd; bool vw, ok, dd, late;
	{
		if
#ifdef SHARE
		:: SHARES(me) ->
			upgradable();
			if
			:: got==READING ->
				ENTER_R;
#ifdef STAYS
				if :: me==0 -> (over || killed[2]) :: else fi;
#endif
				if
				:: up_shared();
					if
					:: got==OK -> change();
						if
						:: st==CONSISTENT ->
							ins=0; atomic { LEAVE_W; nr++; inr[me]=1; assert(nw==0 && !torn) }; share(); got=READING
						:: LEAVE_W; unlock()
						fi
					:: else
					fi
				:: skip
				fi;
				if
				:: got==READING ->
					if
					:: LEAVE_R; release()
					:: announce();
						if :: wd!=0 -> release() :: else -> ws=0 fi;
						assert(nw==0 && !torn);
						LEAVE_R; stop_reading()
					fi
				:: else
				fi
			:: got==OWNER_DIED -> ENTER_W; change(); LEAVE_W; unlock()
			:: else
			fi
		:: me<NW && !SHARES(me) ->
#else
		:: me<NW ->
#endif
			take();
			if
#ifdef NODRAIN
			:: dd -> skip
			:: !dd && (got==OK || got==OWNER_DIED) -> drain(0)
#else
			:: got==OK || got==OWNER_DIED -> drain(0)
#endif
			:: else
			fi;
			if
			:: got==OK || got==OWNER_DIED ->
				ENTER_W; change();
				if
#ifdef DOWN
				:: st==CONSISTENT ->
					ins=0;
#ifdef DOWNLATE
					atomic { LEAVE_W; nr++; inr[me]=1 }; release(); announce();
#else
					announce();
					atomic { LEAVE_W; nr++; inr[me]=1 };
					if :: wd!=0 -> release() :: else fi;
#endif
					assert(nw==0 && !torn);
					LEAVE_R; stop_reading()
#endif
				:: LEAVE_W; unlock()
				fi
			:: else
			fi
#ifdef SWEEP
		:: me==2 ->
			atomic { vo=wo; vw=ww };
			if
			:: vo!=0 && vo!=DIED && tdead[vo-1] ->
				atomic { if :: wo==vo -> vw=ww; wo=DIED; ww=0 UNMARK; ok=1 :: else -> ok=0 fi };
				assert(wo!=vo);
				if :: ok && vw -> wakeall(qL,1) :: else fi
			:: else
			fi;
			k=0;
			do
			:: k<NS ->
				vo=so[k];
				if
				:: vo!=0 && tdead[vo-1] -> atomic { if :: so[k]==vo -> so[k]=0 :: else fi }
				:: else
				fi;
				k++
			:: else -> break
			od
#endif
		:: else ->
			read();
			if
			:: got==READING ->
				ENTER_R;
#ifdef UP
				if :: up() :: skip fi;
#endif
				if :: got==READING -> LEAVE_R; stop_reading() :: else fi
			:: got==OWNER_DIED ->
				ENTER_W; change(); LEAVE_W; unlock()
			:: else
			fi
		fi;
		atomic { vo=0; vw=0; ok=0; dd=0; got=0; k=0; wd=0; same[me]=0; fresh[me]=0; late=0 };
#ifdef STAYS
		if :: me==2 -> over=1 :: else fi;
#endif
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { if :: unqueue() :: skip fi; behind[me]=0; vo=0; vw=0; ok=0; dd=0; got=0; k=0; wd=0; same[me]=0; fresh[me]=0; late=0 };
end_stop:		killed[me]
		fi;
		behind[me]=0;
#endif
		atomic {
			unqueue();
			if :: inr[me] -> nr--; inr[me]=0 :: else fi;
			if :: inw[me] -> nw--; inw[me]=0 :: else fi;
			if :: wo==me+1 && ins -> wdied=1 :: else fi;
			ok=tw[me]; tdead[me]=1 };
		if :: ok -> wake1(qT,me+1) :: else fi;
		if
		:: pend[me]!=0 -> wake1(qX,pend[me]); pend[me]=0
		:: else
		fi;
		atomic { vo=0; vw=0; ok=0; dd=0; got=0; k=0; wd=0; same[me]=0; fresh[me]=0; late=0 }
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
#ifdef WHO
		bs=1; if :: true
#else
		if :: bs=1 :: bs=0
#endif
#endif
#ifdef PAIR
		fi; run T(0); run T(1) };
#else
		fi; run T(0); run T(1); run T(2) };
#endif
end_k:	do
#if !defined(DIES) || DIES == 0
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
#endif
#if !defined(DIES) || DIES == 1
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
#endif
#if !defined(DIES) || DIES == 2
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
#endif
#ifdef STOP
#if !defined(WHO) || WHO == 0
	:: atomic { bs>0 && RUNS(0) -> stopped[0]=1; bs-- }
#endif
#if !defined(WHO) || WHO == 1
	:: atomic { bs>0 && RUNS(1) -> stopped[1]=1; bs-- }
#endif
#if !defined(WHO) || WHO == 2
	:: atomic { bs>0 && RUNS(2) -> stopped[2]=1; bs-- }
#endif
	:: budget==0 && bs==0 -> break
	od;
	timeout;
	assert(WELL(0) && WELL(1) && WELL(2))
#else
	:: budget==0 -> break
	od
#endif
}
