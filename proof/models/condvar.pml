/* condvar.pml - the condition variable: futex_waitv on {x, sequence}, the kernel's walk at a
 * thread's end, death between any two steps.
 *
 * NW waiters that each take RW items, and NN notifiers that each bring RN items; one mutex over the
 * items. The mutex is one word here (mutex.pml has its steps): free or a dead owner's -> mine, and
 * a thread that takes it from a dead one repairs and notifies all.
 *   seq         the sequence: raised by each notifier before its wake
 *   slp         the epoch: odd = a waiter may sleep; each sleeper takes a new odd number
 *   qx[i]       waiter i is in the kernel's queue of x, which is always 0
 *   pend[i]     list_op_pending of waiter i points to x: the kernel wakes one there when i dies
 * A wake takes one waiter out of the queue, any of them (priorities), and sets woken.
 *
 * wait     1. s = seq   2. a new odd number   3. pending = x   4. unlock   5. queue on x
 *          6. seq still s -> sleep
 *          7. trylock; held by another -> wake one on x first
 *          8. pending given back with the lock (see KEEP)
 * notify   1. f = slp, even -> nothing   2. seq+1   3. wake one (or all) on x
 *          4. woken 0, or all -> compare-exchange f -> f+1
 *
 * Checked, when everything has come to rest, and once more after one more item has been brought and
 * notified by a thread that comes last: no living waiter sleeps while an item is there that was
 * notified. Items whose notifier died before its wake are not counted (`unsig`), unless a thread
 * has notified all since; and the property need not hold while a dead thread has the lock and no
 * thread has been told of that: at rest with LEAVE (pending is given back once the lock is in hand)
 * the dead one may be any thread, without LEAVE only a notifier.
 * Switches: -DD=deaths -DNW= -DRW= -DNN= -DRN= -DTIMEOUT (waiter 0 has a deadline, which may pass
 * at any time)
 *   ASLEEP      notifiers begin when all waiters are asleep
 *   LEAVE       pending is given back when the lock is in hand, not when it is unlocked: weaker,
 *               see above
 *   STOP        one thread is stopped at any step, takes no further step and is not dead. A
 *               notification that it received is used up; it leaves the kernel's queue (SIGSTOP) or
 *               stays there and swallows wakes (the freezer of version 1). It may be killed later
 *               (D counts that). A waiter makes the recheck, as once a second in the code: it takes
 *               the mutex and goes on when an item is there. seq+1 and the wake are one step, as in
 *               the code; the other runs have them as two, which allows more: each step that can
 *               come between two of the one-step form can come there in the two-step form, too. At
 *               rest a running waiter may sleep beside an item, or wait for the mutex, only while
 *               the stopped one has the mutex; a dead thread's mutex, and an item whose notifier is
 *               stopped or dead, excuse no waiter
 *   PI          the mutex is libc's, which takes list_op_pending at each lock and unlock: pending is 0
 *               meanwhile. A woken waiter wakes another one before it locks, if some notification is
 *               unused and seq is not its s, or the mutex is a dead owner's; a waiter that has used
 *               its notification wakes another one before it unlocks. unused: how many notifications
 *               no waiter has used yet; each waiter that has the mutex again uses one
 * Mutations, each must be caught:
 *   CLEARFIRST  the epoch is cleared before the wake
 *   NOEPOCH     a bare bit
 *   SEQLATE     s is read after the number has been taken
 *   XLAST       x is queued after sequence has been looked at
 *   WAKESEQ     wakes go through sequence
 *   NOPEND      no pending at all
 *   NOPASS      a waiter that must wait for the mutex does not wake another first
 *   NOTIMEPASS  a waiter that gives up does not wake another
 *   GIVEBACK    pending is given back when the lock is in hand, and the stronger property is
 *               checked
 * and with PI:
 *   NOHAND      a woken waiter wakes no other before it locks
 * and with STOP:
 *   NORECHECK   no recheck: the stopped one had received the notification
 *   SEQONLY     the recheck is of seq, and not of the items: the stopped one had not yet notified
 */
#ifndef D
#define D 1
#endif
#ifndef NW
#define NW 2
#endif
#ifndef RW
#define RW 1
#endif
#ifndef NN
#define NN 1
#endif
#ifndef RN
#define RN 2
#endif
#define N (NW+NN)
#define LAST N                  /* who comes last, and never dies */
#define NOBODY 255

byte lo = NOBODY; bool dead[N+1], killed[N+1];
byte seq, slp;
bool qx[NW], woken[NW], pend[NW];
#ifdef WAKESEQ
bool qs[NW];
#endif
bool asleep[NW];                /* ghost */
byte items, unsig;
#ifdef PI
byte unused;
#endif
bool mine[N+1];                 /* ghost: it brought an item and has not yet finished its notify */
byte budget;

#define HELD (lo!=NOBODY && !dead[lo])
#ifdef STOP
bool stopped[N+1]; byte bs;
#define ENDS (killed[me] || stopped[me])
#define RUNS(i) (!killed[i] && !stopped[i])
#ifdef SEQONLY
#define FINDS (seq!=s)
#else
#define FINDS (items>0)
#endif
#else
#define ENDS killed[me]
#endif
#define PICK(i) :: (i<NW && qx[i]) -> qx[i]=0; woken[i]=1; w=1
#define WAKE1 w=0; if PICK(0) PICK(1) PICK(2) :: else fi
#define ALL1(i) if :: (i<NW && qx[i]) -> qx[i]=0; woken[i]=1 :: else fi
#if NW == 1
#undef WAKE1
#define WAKE1 w=0; if PICK(0) :: else fi
#define WAKEALL ALL1(0)
#elif NW == 2
#undef WAKE1
#define WAKE1 w=0; if PICK(0) PICK(1) :: else fi
#define WAKEALL ALL1(0); ALL1(1)
#else
#define WAKEALL ALL1(0); ALL1(1); ALL1(2)
#endif
#ifdef WAKESEQ
#define SPICK(i) :: (qs[i]) -> qs[i]=0; woken[i]=1; w=1
#define SWAKE1 w=0; if SPICK(0) SPICK(1) SPICK(2) :: else fi
#endif

inline wake1() { atomic {
#ifdef WAKESEQ
	SWAKE1
#else
	WAKE1
#endif
} }

inline clear() { atomic { if :: slp==f ->
#ifdef NOEPOCH
	slp=0
#else
	slp=f+1
#endif
	:: else fi } }

inline notify(all) {
	f=slp;
	if
	:: (f&1)==0
	:: else ->
#ifdef CLEARFIRST
		clear();
#endif
#ifdef PI
		if :: all || unused>3 :: else -> unused++ fi;
#endif
#ifdef STOP
		if
		:: all -> d_step { seq++; WAKEALL }; w=0
		:: else -> atomic { seq++; WAKE1 }
		fi;
#else
		seq++;
		if
		:: all -> d_step { WAKEALL }; w=0
		:: else -> wake1()
		fi;
#endif
#ifndef CLEARFIRST
		if :: !w -> clear() :: else fi
#endif
	fi;
	atomic { if :: all -> unsig=0 :: else fi; mine[me]=0; f=0; w=0 }
}

/* told: a dead one had it */
inline lock() {
#ifdef STOP
	told=0;
end_l:
#endif
	atomic { !HELD -> told=(lo!=NOBODY); lo=me };
	if :: told -> notify(1); told=0 :: else fi
}

#ifdef GIVEBACK
#define LEAVE
#endif
#ifdef LEAVE
inline unlock() { lo=NOBODY }
#elif defined(PI)
inline put_aside() {
	if :: pend[me] -> wake1(); w=0 :: else fi;
	pend[me]=0
}
inline unlock() { put_aside(); lo=NOBODY }
#else
inline unlock() { lo=NOBODY; pend[me]=0 }
#endif

#define UNQUEUE qx[me]=0; woken[me]=0; asleep[me]=0

inline wait() {
#ifdef PI
	put_aside();
#endif
#ifdef SEQLATE
	atomic { if :: (slp&1) -> slp=slp+2 :: else -> slp=slp+1 fi };
	s=seq;
#else
	s=seq;
#ifdef NOEPOCH
	slp=1;
#else
	atomic { if :: (slp&1) -> slp=slp+2 :: else -> slp=slp+1 fi };
#endif
#endif
#if !defined(NOPEND) && !defined(PI)
	pend[me]=1;
#endif
	lo=NOBODY;
#ifdef PI
	pend[me]=1;
#endif
#ifndef XLAST
	qx[me]=1;
#endif
	atomic { if :: seq==s -> ok=1 :: else -> UNQUEUE; ok=0 fi;
#ifdef WAKESEQ
	 if :: ok -> qs[me]=1 :: else fi
#endif
	};
	if
	:: ok ->
#ifdef XLAST
		qx[me]=1;
#endif
		asleep[me]=1;
end_w:		if
		:: atomic { woken[me] -> UNQUEUE }
#if defined(STOP) && !defined(NORECHECK)
		:: atomic { FINDS -> UNQUEUE }
#endif
#ifdef TIMEOUT
		:: atomic { me==0 -> UNQUEUE; gone=1 }
#endif
		fi;
#ifdef WAKESEQ
		qs[me]=0
#endif
	:: else
	fi;
	ok=0;
#ifdef PI
	if
	:: gone -> wake1(); w=0
#ifndef NOHAND
	:: !gone && seq!=s && unused>0 -> wake1(); w=0
	:: lo!=NOBODY && dead[lo] -> wake1(); w=0
#endif
	:: else
	fi;
	pend[me]=0;
	s=0;
#ifdef STOP
end_p:
#endif
	atomic { !HELD -> told=(lo!=NOBODY); lo=me };
	pend[me]=1;
	atomic { if :: unused>0 -> unused--; ok=1 :: else fi };
	if :: !ok && !told -> pend[me]=0 :: else fi;
	ok=0;
	if :: told -> notify(1); told=0 :: else fi
#else
	s=0;
#ifndef NOTIMEPASS
	if :: gone -> wake1(); w=0 :: else fi;
#endif
	atomic { if :: !HELD -> told=(lo!=NOBODY); lo=me; ok=1 :: else fi };
	if
	:: ok
	:: else ->
#ifndef NOPASS
		wake1(); w=0;
#endif
		pend[me]=0;     /* list_op_pending goes to the mutex's own protocol */
#ifdef STOP
end_m:
#endif
		atomic { !HELD -> told=(lo!=NOBODY); lo=me };
#if !defined(LEAVE) && !defined(NOPEND)
		pend[me]=1;
#endif
	fi;
	ok=0;
#ifdef LEAVE
	pend[me]=0;
#endif
	if :: told -> notify(1); told=0 :: else fi
#endif
}

proctype W(byte me) {
	byte s, f, r; bool told, ok, w, gone;
	{
		do
		:: r<RW ->
			lock();
			do
			:: items==0 && !gone -> wait()
			:: else -> break
			od;
			atomic { if :: items>0 && !gone -> items--; if :: unsig>items -> unsig=items :: else fi :: else fi };
			unlock();
			if :: gone -> break :: else fi;
			r++
		:: else -> break
		od;
		atomic { r=0; gone=0 };
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { if :: qx[me]=0; woken[me]=0 :: skip fi; asleep[me]=0; s=0; f=0; r=0; told=0; ok=0; w=0; gone=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic { UNQUEUE; dead[me]=1;
#ifdef WAKESEQ
			qs[me]=0;
#endif
			s=0; f=0; r=0; told=0; ok=0; gone=0 };
		if :: pend[me] -> atomic { pend[me]=0; WAKE1; w=0 } :: else fi
	}
}

#define SLEEPS(i) (i>=NW || asleep[i] || dead[i])
#if NW == 2
#define ALL_ASLEEP (SLEEPS(0) && SLEEPS(1))
#elif NW == 3
#define ALL_ASLEEP (SLEEPS(0) && SLEEPS(1) && SLEEPS(2))
#endif

proctype Notifier(byte me) {
	byte f, r; bool told, w, inside;
	{
#ifdef ASLEEP
		ALL_ASLEEP;
#endif
		do
		:: r<RN ->
			lock();
			atomic { items++; mine[me]=1; if :: inside=1 :: inside=0 fi };
			if :: inside -> notify(0) :: else fi;
			lo=NOBODY;
			if :: !inside -> notify(0) :: else fi;
			inside=0;
			r++
		:: else -> break
		od;
		r=0;
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { f=0; r=0; told=0; w=0; inside=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic { dead[me]=1; if :: mine[me] -> unsig++; mine[me]=0 :: else fi; f=0; r=0; told=0; w=0; inside=0 }
	}
}

#ifdef STOP
#define WELL(i) !(i<NW && asleep[i] && !woken[i] && RUNS(i) && items>0)
#else
#define WELL(i) !(i<NW && asleep[i] && !woken[i] && !dead[i] && items>unsig)
#endif
#if NW == 1
#define ALL_WELL WELL(0)
#elif NW == 2
#define ALL_WELL (WELL(0) && WELL(1))
#else
#define ALL_WELL (WELL(0) && WELL(1) && WELL(2))
#endif
#ifdef LEAVE
#define EXCUSED (lo!=NOBODY)
#else
#define EXCUSED (lo!=NOBODY && lo>=NW)
#endif
#ifdef STOP
#undef EXCUSED
#define EXCUSED (HELD && stopped[lo])
#endif
#ifdef GIVEBACK
#undef EXCUSED
#define EXCUSED (lo!=NOBODY && lo>=NW)
#endif

active proctype killer() {
	byte me=LAST; byte f; bool told, w;
	atomic {
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
		fi;
		do :: f<NW -> run W(f); f++ :: else -> break od;
		do :: f<N -> run Notifier(f); f++ :: else -> break od;
		f=0
	};
	do
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
#if N > 2
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
#endif
#if N > 3
	:: atomic { budget>0 && !killed[3] -> killed[3]=1; budget-- }
#endif
#ifdef STOP
	:: atomic { bs>0 && RUNS(0) -> stopped[0]=1; bs-- }
	:: atomic { bs>0 && RUNS(1) -> stopped[1]=1; bs-- }
#if N > 2
	:: atomic { bs>0 && RUNS(2) -> stopped[2]=1; bs-- }
#endif
#if N > 3
	:: atomic { bs>0 && RUNS(3) -> stopped[3]=1; bs-- }
#endif
	:: budget==0 && bs==0 -> break
#else
	:: budget==0 -> break
#endif
	od;
	/* all has come to rest */
	timeout -> assert(EXCUSED || ALL_WELL);
#ifdef STOP
	assert(!HELD || EXCUSED);
	if
	:: HELD
	:: else ->
#endif
	lock();
	items++;
	lo=NOBODY;
	notify(0);
	timeout -> assert(EXCUSED || ALL_WELL)
#ifdef STOP
	fi
#endif
}
