/* several.pml - sleeping on the ends of several owners at once, beside sleepers on one owner: death
 * between any two steps.
 *
 * Owners 0 and 1 do nothing but die, sooner or later. Sleepers 2, 3, 4 sleep until an owner that
 * they wait for is dead: each waits for owner 0, or for owner 1, or for either (WHO2, WHO3, WHO4:
 * bit masks; 0: is not there).
 *   tdead tw      the token word of an owner: OWNER_DIED and WAITERS; told: all sleepers have been
 *                 woken since it died
 *   x[k]          the X word of owner k's slot: 0 not shared, 1 the change is under way, 2 it uses
 *                 the shared relay
 *   pend[i]       list_op_pending of thread i: 0 none, k + 1 the X of owner k, G the registry's X
 * A sleeper is in up to four kernel queues: qT (token words), qX (X of its one owner's slot), qG
 * (the registry's X). A wake takes one entry out of one queue, in any order; the other entries stay
 * until the sleeper runs.
 *
 * one owner  1. x[k] 0: pend := X of k; 1: help, see below; 2: pend := G
 *            2. set W; sleep on {G if x[k] is 2, X of k as seen, the token of k}
 *            3. on any return from a dead owner wake all on its token; slept on G: wake all on
 *               every dead token with the shared relay that is not noted as told, and then note it
 * several    1. each owner with x[k] != 2: x[k] := 1, wake all on X of k, x[k] := 2;  pend := G
 *            2. set all W; sleep on {G, all their X, all their tokens}      3. as above
 * The reason for all that: when a sleeper on several owners dies after the kernel has woken it for
 * one of them, the kernel relays the wake through one X word only. So slots that are ever watched
 * together with others share one.
 *
 * Checked: no sleeper sleeps for ever on an owner that is dead (an invalid end state).
 * Switches: -DD=deaths of sleepers (both owners die in any case) -DWHO2=.. -DWHO3=.. -DWHO4=..
 * (default 3, 1, 1)
 *   -DONE          owner 1 lives on
 *   -DSTOP         one sleeper is stopped at any step, takes no further step and is not dead. A
 *                  wake-up that it received is used up; it leaves the kernel's queues (SIGSTOP) or
 *                  stays there and swallows wakes (the freezer of version 1). It may be killed
 *                  later (D counts that). A sleeper rechecks its owners, as once a second in the
 *                  code. At rest no sleeper that runs may be asleep: none waits for anything that a
 *                  sleeper holds
 *   -DOLDKERNEL    list_op_pending wakes only on a word that is 0 altogether (kernels before about
 *                  6.2)
 * Mutations, each must be caught:
 *   NOGROUP     several: pend points to the X of the first owner alone
 *   NODUTY      a sleeper that slept on G wakes the sleepers of its own owners only
 *   NOWAKEX     the change to the shared relay does not wake the sleepers on the slot's own X
 *   NOXTOO      a sleeper on G does not sleep on the slot's own X as well: a wake through a late
 *               pointer there is lost
 *   GLAST       G is last in the wait vector
 *   TOLDFIRST   a dead token is noted as told before its sleepers are woken
 * and with STOP:
 *   NORECHECK   no recheck: the stopped one had received the notice of the owner's death
 *   NOHELP      a sleeper that finds a slot's change to the shared relay under way waits until that
 *               is done
 */
#ifndef D
#define D 2
#endif
#ifndef WHO2
#define WHO2 3
#endif
#ifndef WHO3
#define WHO3 1
#endif
#ifndef WHO4
#define WHO4 1
#endif
#define N 5
#define G 3
bool tdead[2], tw[2], told[2]; byte x[2];
bool qT0[N], qT1[N], qX0[N], qX1[N], qG[N], woken[N];
byte pend[N]; bool killed[N];
byte budget;

#ifdef STOP
bool stopped[N]; byte bs;
#define ENDS (killed[me] || stopped[me])
#define RUNS(i) (!killed[i] && !stopped[i])
#else
#define ENDS killed[me]
#endif
#define P1(i,q) :: q[i] -> q[i]=0; woken[i]=1
#define wake1(q) atomic { if P1(2,q) P1(3,q) P1(4,q) :: else fi }
#define A1(i,q) if :: q[i] -> q[i]=0; woken[i]=1 :: else fi
#define wakeall(q) d_step { A1(2,q); A1(3,q); A1(4,q) }
inline unqueue() { qT0[me]=0; qT1[me]=0; qX0[me]=0; qX1[me]=0; qG[me]=0; woken[me]=0 }

#ifdef OLDKERNEL
#define PASSES(k) (x[k]==0)
#else
#define PASSES(k) true
#endif

#ifdef NOWAKEX
#define group(k,q) x[k]=1; x[k]=2
#else
#define group(k,q) x[k]=1; wakeall(q); x[k]=2
#endif

/* looking and waking are one step: dead stays dead, and a sleeper that dies between the two might
 * as well have died before; the note that it has been done is another step, and is made only for
 * slots that use the shared relay */
#ifdef NODUTY
#define MINE(k) (who&(k+1) && tdead[k])
#else
#define MINE(k) (tdead[k] && ((x[k]==2 && !told[k]) || who&(k+1)))
#endif
#ifdef TOLDFIRST
#define AFTER(k,q) atomic { if :: MINE(k) -> t=1; if :: x[k]==2 -> told[k]=1 :: else fi :: else fi }; \
	if :: t -> atomic { t=0; A1(2,q); A1(3,q); A1(4,q) } :: else fi
#else
#define AFTER(k,q) atomic { if :: MINE(k) -> A1(2,q); A1(3,q); A1(4,q); t=(x[k]==2) :: else fi }; \
	if :: t -> atomic { t=0; told[k]=1 } :: else fi
#endif
#define duty() AFTER(0,qT0); AFTER(1,qT1)

/* futex_waitv, word by word: a word that is not as expected ends it */
#ifdef NOXTOO
#define QX(k,q) atomic { if :: !ok || g || !(who&(k+1)) :: else -> if :: x[k]==0 -> q[me]=1 :: else -> ok=0; unqueue() fi fi }
#else
#define QX(k,q) atomic { if :: !ok || !(who&(k+1)) :: else -> if :: x[k]==(g -> 2 : 0) -> q[me]=1 :: else -> ok=0; unqueue() fi fi }
#endif
#define QT(k,q) atomic { if :: !ok || !(who&(k+1)) :: else -> if :: !tdead[k] && tw[k] -> q[me]=1 :: else -> ok=0; unqueue() fi fi }
#define DONE ((who&1 && tdead[0]) || (who&2 && tdead[1]))
#define SET(k) atomic { if :: !ok || !(who&(k+1)) :: else -> if :: !tdead[k] -> tw[k]=1 :: else -> ok=0 fi fi }

/* without the help no sleeper would ever get past a slot whose change to the shared relay a dead
 * one began: no end state, but no end either */
#ifdef NOHELP
#define HELP(k,q) x[k]==2; pend[me]=G
#else
#define HELP(k,q) group(k,q); pend[me]=G
#endif
#define ALONE(k,q) if :: atomic { x[k]==0 -> g=0; pend[me]=k+1 } :: x[k]==1 -> HELP(k,q) :: atomic { x[k]==2 -> pend[me]=G } fi

proctype S(byte me; byte who) {
	bool ok, g, t;
	{
		do
		:: DONE || who==0 -> break
		:: else ->
			atomic { ok=1; g=1 };
			if
			:: who==3 ->
				if :: x[0]!=2 -> group(0, qX0) :: else fi;
				if :: x[1]!=2 -> group(1, qX1) :: else fi;
#ifdef NOGROUP
				pend[me]=1
#else
				pend[me]=G
#endif
			:: who==1 -> ALONE(0, qX0)
			:: who==2 -> ALONE(1, qX1)
			fi;
			SET(0);			/* compare-exchange of W into a living token */
			SET(1);
			if
			:: ok ->
#ifdef NOGROUP
				if :: who!=3 && g -> qG[me]=1 :: else fi;
#elif !defined(GLAST)
				if :: g -> qG[me]=1 :: else fi;
#endif
				QX(0,qX0);
				QX(1,qX1);
				QT(0,qT0);
				QT(1,qT1);
#ifdef GLAST
				if :: ok && g -> qG[me]=1 :: else fi;
#endif
#if defined(STOP) && !defined(NORECHECK)
				if :: ok -> if :: atomic { woken[me] -> unqueue() } :: atomic { DONE -> unqueue() } fi :: else fi
#else
				if :: ok -> atomic { woken[me] -> unqueue() } :: else fi
#endif
			:: else
			fi;
			duty()
		od;
		/* also a sleeper that never slept: it may have been woken in an earlier round for another one */
		duty();
		pend[me]=0;
		atomic { ok=0; g=0 };
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { if :: unqueue() :: skip fi; ok=0; g=0; t=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic { unqueue(); ok=0; g=0; t=0 };
		if
		:: pend[me]==1 -> if :: PASSES(0) -> wake1(qX0) :: else fi
		:: pend[me]==2 -> if :: PASSES(1) -> wake1(qX1) :: else fi
		:: pend[me]==G -> wake1(qG)
		:: else
		fi;
		pend[me]=0
	}
}

/* an owner's end: at any time, but sooner or later */
proctype O(byte me) {
	atomic { tdead[me]=1 };
	if :: tw[me] && me==0 -> wake1(qT0) :: tw[me] && me==1 -> wake1(qT1) :: else fi
}

active proctype killer() {
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
		fi; run O(0);
#ifndef ONE
		run O(1);
#endif
		 run S(2,WHO2); run S(3,WHO3); run S(4,WHO4) };
end_k:	do
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
	:: atomic { budget>0 && !killed[3] -> killed[3]=1; budget-- }
	:: atomic { budget>0 && !killed[4] -> killed[4]=1; budget-- }
#ifdef STOP
	:: atomic { bs>0 && RUNS(2) -> stopped[2]=1; bs-- }
	:: atomic { bs>0 && RUNS(3) -> stopped[3]=1; bs-- }
	:: atomic { bs>0 && RUNS(4) -> stopped[4]=1; bs-- }
	:: budget==0 && bs==0 -> break
#else
	:: budget==0 -> break
#endif
	od
}
