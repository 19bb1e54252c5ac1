/* keeper.pml - a process token: two words, main's and a keeper's, handed over while others watch
 *              (sys/keeper.rs, liveness/process_token.rs, liveness/slot.rs).
 *
 *   w1   main's libc mutex
 *   w2   the keeper's word   0 free, 1 main, 2 and 3 keepers, 9 died; b1, b2: their WAITERS bits
 *
 * main     holds w1. It may leave by pthread_exit: 1. starts a keeper, 2. waits until that one
 *          holds w2, 3. ends. -DKEPT: another thread asked first: w1 is free, keeper 2 takes w2
 *          before any other thread is there.
 * keeper   1. pending = w2   2. exchange w2 := own number with WAITERS set   3. linked; pending = 0
 *          4. tells its starter. A second one (number 3) takes w2 from the first, which then ends:
 *             the process has given up rights, and a keeper keeps those of its start.
 * kernel   at a thread's end: the word that is linked or pending and holds its number becomes 9,
 *          and one sleeper is woken if WAITERS was set. The process may be killed at any step: each
 *          of its threads ends at a time of its own.
 * alive    w1 is held, or (read after it) w2 is held
 * watcher  1. reads w1, w2; neither is held -> dead, 4
 *          2. sets WAITERS by compare-exchange in each that is held
 *          3. sleeps while both have the values seen, w2 also when it is not held
 *          4. dead: wakes all on both words
 *          One of them may give up at its deadline, also when it has just been woken.
 * Scenes: main may leave (default); -DKEPT: another keeper takes the place of the first. Two
 * watchers; -DOBS: one process that asks whether it is alive, instead of them.
 * Checked: alive is never denied while the process has not been killed; no watcher sleeps for ever
 * when all its threads have ended.
 * STOP: a watcher may stop for ever, also with the kernel's only wake-up of a word in its hands.
 * Each watcher makes the recheck, and the other one is not kept asleep. A process that is
 * stopped as a whole is one whose threads take no step until it is killed: that it is watched
 * till then, and never called dead, is part of every run.
 * (The kernel relays the wake-up of a killed watcher through X: token.pml.)
 * Mutations, each must be caught:
 *   SECONDFIRST  alive reads w2 before w1
 *   EARLY        main ends before the keeper holds w2
 *   NOPENDING    the keeper takes w2 without pending
 *   NOBIT        the keeper leaves the WAITERS bit as it was
 *   ONLYHELD     a word that is not held is not watched (as it was)
 *   NOTIMER      (STOP) a watcher makes no recheck
 *   FORMERFIRST  the former keeper ends before the new one holds w2
 */
byte w1, w2; bool b1, b2;
bool killed, ended1, ended[4], pend[4], linked[4], holds[4], stop2, quit;
bool q1[2], q2[2], woken[2], over[2];  /* watchers asleep on w1, w2; woken; gone home */
#ifdef STOP
bool wstop[2];
active proctype Stopper() { if :: wstop[0]=1 :: wstop[1]=1 :: true fi }
#endif
#define HELD(w) (w!=0 && w!=9)

#define OUT(i) woken[i]=1; q1[i]=0; q2[i]=0
#define wake1on(q, b) if :: b && q[0] -> OUT(0) :: b && q[1] -> OUT(1) :: else fi
#define wakeall(q) d_step { if :: q[0] -> OUT(0) :: else fi; if :: q[1] -> OUT(1) :: else fi }
inline end_keeper(n) {
	atomic { if :: (pend[n] || linked[n]) && w2==n -> w2=9; wake1on(q2, b2) :: else fi; ended[n]=1 }
}
proctype Keeper(byte n; byte former) {
	{
#ifndef NOPENDING
		pend[n]=1;
#endif
#ifdef FORMERFIRST
		if :: former -> stop2=1; ended[former] :: else fi;
#endif
#ifdef NOBIT
		w2=n;
#else
		atomic { w2=n; b2=1 };
#endif
		linked[n]=1; pend[n]=0;
		holds[n]=1;
		if :: former -> stop2=1 :: else fi;
end_k:		(n==2 && stop2)
	} unless { killed };
	end_keeper(n)
}
proctype Main() {
	{
		if
#ifndef KEPT
		:: run Keeper(2,0);
#ifndef EARLY
			holds[2];
#endif
			atomic { if :: w1==1 -> w1=9; wake1on(q1, b1) :: else fi; ended1=1 };
end_m:			(killed)
#endif
		:: true -> 
end_n:			(killed)
		fi
	} unless { killed };
	atomic { if :: w1==1 -> w1=9; wake1on(q1, b1) :: else fi; ended1=1 }
}
/* a thread that replaces the keeper, if there is one */
proctype Renew() {
end_r:	if
	:: holds[2] -> if :: !killed -> run Keeper(3,2) :: else fi
	fi
}
proctype Watcher(byte me) {
	byte v1, v2; bool ok;
#ifdef STOP
	{
#endif
	do
	:: v1=w1; v2=w2;
		if
		:: !HELD(v1) && !HELD(v2) -> assert(killed); break
		:: else
		fi;
		ok=1;
		if :: HELD(v1) -> atomic { if :: w1==v1 -> b1=1 :: else -> ok=0 fi } :: else fi;
		if :: ok && HELD(v2) -> atomic { if :: w2==v2 -> b2=1 :: else -> ok=0 fi } :: else fi;
		if
		:: ok ->
			woken[me]=0;
#ifdef ONLYHELD
			if :: HELD(v1) -> atomic { if :: w1==v1 -> q1[me]=1 :: else -> ok=0 fi } :: else fi;
			if :: ok && HELD(v2) -> atomic { if :: woken[me] :: !woken[me] && w2==v2 -> q2[me]=1 :: else -> ok=0; q1[me]=0 fi } :: else fi;
#else
			atomic { if :: w1==v1 -> q1[me]=1 :: else -> ok=0 fi };
			if :: ok -> atomic { if :: woken[me] :: !woken[me] && w2==v2 -> q2[me]=1 :: else -> ok=0; q1[me]=0; q2[me]=0 fi } :: else fi;
#endif
			if
			:: ok ->
#if defined(STOP) && !defined(NOTIMER)
end_w:				atomic { (woken[me] || (me==0 && quit) || w1!=v1 || w2!=v2) -> q1[me]=0; q2[me]=0 };
#else
end_w:				atomic { (woken[me] || (me==0 && quit)) -> q1[me]=0; q2[me]=0 };
#endif
				if :: me==0 && quit -> break :: else fi
			:: else
			fi
		:: else
		fi
	od;
	if :: !HELD(w1) && !HELD(w2) -> wakeall(q1); wakeall(q2) :: else fi;
	over[me]=1
#ifdef STOP
	} unless { wstop[me] };
	atomic { q1[me]=0; q2[me]=0; woken[me]=0; over[me]=1; v1=0; v2=0; ok=0 }
#endif
}
proctype Observer() {
	byte v1, v2;
#ifdef SECONDFIRST
	v2=w2; v1=w1;
#else
	v1=w1; v2=w2;
#endif
	atomic { if :: !HELD(v1) && !HELD(v2) -> assert(killed) :: else fi; v1=0; v2=0 }
}
active proctype world() {
	atomic {
#ifdef KEPT
		run Keeper(2,0); holds[2] -> run Renew();
#else
		w1=1;
#endif
		run Main();
#ifdef OBS
		over[0]=1; over[1]=1; run Observer()
#else
		run Watcher(0); run Watcher(1)
#endif
	};
#ifndef OBS
	if :: quit=1 :: true fi;
#endif
	if :: killed=1 :: true fi;
	timeout;
	killed=1;
	timeout;
	assert(over[0] && over[1])
}
