/* barrier_abort.pml - a barrier that is aborted by any process, and by a participant whose time ran
 * out; death and stop between any two steps.
 *
 * As barrier.pml: P participants, two or three, seated from the beginning, R phases each. `phase` has two bits
 * that say "broken", one for even numbers and one for odd ones; a new phase clears both.
 *
 * wait      as in barrier.pml
 * abort     A bystander, once: 1. p = phase   2. broken: done; else ONE step of the kernel's: set the
 *           bit of p's parity, wake all   3. again from 1
 * give up   A participant that sleeps in phase p, and whose time has run out: 1. phase is p still, not
 *           broken   2. ONE step: set the bit of p's parity, wake all   3. what phase says: broken, or
 *           passed   the phase is over at 1: wake all, then 3
 *
 * Checked: what barrier.pml checks, and: a participant is told "broken" only for a death, an abort, or
 * one that gave up in that very phase; an abort that is over has broken some phase; of the
 * participants of one phase none passes if another one is told that it is broken.
 * Switches: -DP=participants -DD=deaths -DR=phases -DA=aborts -DG=participants that may give up
 *   -DSTOP  one process is stopped at any step, as in barrier.pml, the bystander too
 * Mutations, each must be caught:
 *   TWOSTEPS    the bit is set, and then all are woken
 *   ONEBIT      one bit for all phases
 *   QUIETEND    a participant out of time that finds the phase over wakes none
 *   NOCLEAR     a new phase clears neither bit
 */
#ifndef D
#define D 1
#endif
#ifndef R
#define R 2
#endif
#ifndef A
#define A 0
#endif
#ifndef G
#define G 0
#endif
#ifndef P
#define P 3
#endif
#define N 3
byte phase; bool bk[2];
bool mk[N];
bool dead[N], killed[N], inq[N], woken[N];
bool bdead;			/* the bystander is killed */
byte watch[N];
byte budget, aborts=A, givers=G;
byte came[N];			/* ghost: phases in which it has arrived */
byte serials[R+1];		/* ghost */
bool anydeath, aborted;		/* ghost */
bool gave[R+1];			/* ghost: a participant gave up in that phase */
bool passed[R+1], told[R+1];	/* ghost: a participant passed it, was told that it is broken */

#ifdef ONEBIT
#define BIT(p) 0
#else
#define BIT(p) ((p)&1)
#endif
#define BROKEN bk[BIT(phase)]
#ifdef STOP
bool stopped[N]; byte bs; bool bstopped;
byte slept[N];			/* ghost: the phase in which it has gone to sleep */
#define ENDS (killed[me] || stopped[me])
#define RUNS(i) (!killed[i] && !stopped[i])
#define ABSENT(i,p) (i<P && mk[i]!=MARK(p))
#define HOLDSUP(i,p) (stopped[i] && !dead[i] && ABSENT(i,p))
#define WELL(i) (!inq[i] || !RUNS(i) || (phase==slept[i] && !BROKEN && (HOLDSUP(0,phase) || HOLDSUP(1,phase) || HOLDSUP(2,phase))))
#define TOLD(i) (dead[i] && !stopped[0] && !stopped[1] && !stopped[2])
#define GONE(i) (i<P && ABSENT(i,p) && dead[i])
#define FINDS (phase!=p || BROKEN || GONE(0) || GONE(1) || GONE(2) || !(ABSENT(0,p) || ABSENT(1,p) || ABSENT(2,p)))
#else
#define ENDS killed[me]
#define TOLD(i) dead[i]
#endif
#define MARK(p) (1-((p)&1))
#define A1(i) if :: inq[i] -> inq[i]=0; woken[i]=1 :: else fi
#define wake() d_step { A1(0); A1(1); A1(2) }
#ifdef TWOSTEPS
#define setbit(p) bk[BIT(p)]=1; wake()
#else
#define setbit(p) d_step { bk[BIT(p)]=1; A1(0); A1(1); A1(2) }
#endif
#ifdef NOCLEAR
#define NEXT phase=p+1
#else
#define NEXT phase=p+1; bk[0]=0; bk[1]=0
#endif
#ifdef ONEBIT
#undef NEXT
#define NEXT phase=p+1
#endif
#define PASSED(p) (came[0]>(p) || dead[0]) && (came[1]>(p) || dead[1]) && (came[2]>(p) || dead[2])

/* all: 1 all have arrived, 0 one is absent, 2 broken by what was found */
inline look() {
	all=1; i=0; watch[me]=0;
	do
	:: i<P && all!=2 ->
		m=mk[i];
		if
		:: m==MARK(p) -> i++
		:: else ->
			if
			:: dead[i] ->
				if
				:: mk[i]!=m		/* it had arrived before: again */
				:: else ->
					atomic { if :: phase==p && !BROKEN -> assert(came[i]<=p); bk[BIT(p)]=1 :: else fi }; wake(); all=2
				fi
			:: else -> all=0; watch[me]=watch[me]|(1<<i); i++
			fi
		fi
	:: else -> break
	od;
	atomic { i=0; m=0 }
}

proctype T(byte me) {
	byte p, all, i, r; bool m, done, quits;
	{
		do
		:: r<R && !done ->
			atomic { p=phase; done=BROKEN };
			if
			:: done -> assert(anydeath || aborted || gave[p])
			:: else ->
				atomic { mk[me]=MARK(p); came[me]=p+1 };
				do
				:: phase!=p || BROKEN -> wake(); break
				:: else ->
					look();
					if
					:: all==1 ->
						atomic { if :: phase==p && !BROKEN -> NEXT; serials[p]++; assert(serials[p]==1) :: else -> all=0 fi };
						if :: all==1 -> wake(); break :: else fi
					:: all==0 ->
						atomic { if :: phase==p && !BROKEN -> inq[me]=1 :: else fi };
						if
						:: inq[me] || woken[me] ->
#ifdef STOP
							slept[me]=p;
end_s:							if
							:: atomic { FINDS -> inq[me]=0; woken[me]=0 }
							::
#else
							if
							::
#endif
							atomic { (woken[me] || (watch[me]&1 && TOLD(0)) || (watch[me]&2 && TOLD(1)) || (watch[me]&4 && TOLD(2))) ->
								inq[me]=0; woken[me]=0 }
							:: atomic { givers>0 && inq[me] -> givers--; inq[me]=0; quits=1 }
							fi
						:: else
						fi
					:: else
					fi;
					if
					:: quits ->
						quits=0;
						if
						:: phase==p && !BROKEN ->
							gave[p]=1;
							setbit(p)
						:: else ->
#ifdef QUIETEND
							skip
#else
							wake()
#endif
						fi;
						break
					:: else
					fi
				od;
				atomic {
					if
					:: phase==p+1 || phase>p -> assert(PASSED(p)); assert(!told[p]); passed[p]=1
					:: else -> assert(BROKEN && (anydeath || aborted || gave[p])); assert(!passed[p]); told[p]=1; done=1
					fi;
					watch[me]=0; all=0; r++ }
			fi
		:: else -> break
		od;
		atomic { p=0; r=0; done=0 };
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { if :: inq[me]=0; woken[me]=0 :: skip fi;
				watch[me]=0; p=0; all=0; i=0; r=0; m=0; done=0; quits=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic { inq[me]=0; woken[me]=0; watch[me]=0; dead[me]=1; anydeath=1; p=0; all=0; i=0; r=0; m=0; done=0; quits=0 }
	}
}

proctype Aborter() {
	byte p;
	{
		do
		:: aborts>0 ->
			p=phase;
			if
			:: atomic { BROKEN -> aborts--; assert(anydeath || aborted || gave[phase]) }
			:: else ->
				aborted=1;
				setbit(p)
			fi
		:: else -> break
		od;
		p=0;
end_idle:	(false)
	} unless {
#ifdef STOP
		bdead || bstopped;
#else
		bdead;
#endif
		p=0
	}
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
		fi; run T(0); run T(1);
#if P > 2
		run T(2);
#else
		dead[2]=1;
#endif
		if :: aborts>0 -> run Aborter() :: else fi };
end_k:	do
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
#if P > 2
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
#endif
#if A > 0
	:: atomic { budget>0 && !bdead -> bdead=1; budget-- }
#endif
#ifdef STOP
	:: atomic { bs>0 && RUNS(0) -> stopped[0]=1; bs-- }
	:: atomic { bs>0 && RUNS(1) -> stopped[1]=1; bs-- }
#if P > 2
	:: atomic { bs>0 && RUNS(2) -> stopped[2]=1; bs-- }
#endif
#if A > 0
	:: atomic { bs>0 && !bdead && !bstopped -> bstopped=1; bs-- }
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
