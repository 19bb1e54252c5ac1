/* barrier.pml - a barrier whose seats name the participants; death between any two steps.
 *
 * Three participants, seated from the beginning, R phases each.
 *   phase         counts; BROKEN beside it
 *   seat[i]       marked or not: arrived in a phase p if the mark is that of p (it flips with each
 *                 phase); out: counted out
 * Sleeping on the ends of several owners is several.pml's: here a sleeper simply runs again when a
 * participant that it watches is dead, or when it is woken from the queue of `phase`.
 *
 * wait   1. p = phase; broken: say so    2. seat := mark(p) (a fence)
 *        3. look at all: arrived, out -> next; absent and dead -> break, or count out; absent and
 *           alive -> 5
 *        4. all arrived: compare-exchange phase p -> p+1, then wake all: the serial participant
 *           the phase is over by another: wake all, too
 *        5. sleep on {phase == p, the ends of the absent participants}; while phase is p, again
 *           from 3
 *
 * Checked: no participant passes a phase before all the living have arrived in it; one serial
 * participant a phase; no participant sleeps for ever (an invalid end state); without a death none
 * is told "broken"; a participant that dies after it has arrived breaks nothing.
 * Switches: -DD=deaths -DR=phases -DOUT (count out)
 *   -DSTOP  one participant is stopped at any step, takes no further step and is not dead. A
 *           wake-up that it received is used up; it leaves the kernel's queue (SIGSTOP) or stays
 *           there and swallows wakes (the freezer of version 1). The notice of a death is not told
 *           to the others once one is stopped: the stopped one may have received it. It may be
 *           killed later (D counts that). A sleeper rechecks the phase and all seats, as once a
 *           second in the code.
 *           At rest a running participant may sleep only in a phase in which the stopped one has
 *           not arrived.
 * Mutations, each must be caught:
 *   NOMARK      the mark does not flip: a participant that has arrived once has arrived for ever
 *   NOWATCH     a sleeper watches no participant
 *   NORELOAD    a participant found dead is not asked again whether it had arrived
 *   STALEOPEN   the next phase is opened by a store
 *   NOPASS      a participant that finds the phase over leaves the wake-up to the one that opened
 *               the next phase
 *   LASTONLY    the same, unless it has not slept
 *   WAKEONE     the serial participant wakes one
 * and with STOP:
 *   NORECHECK   no recheck: the stopped one had opened the next phase, and not yet woken the others
 *   PHASEONLY   the recheck is of the phase alone, not of the seats: the stopped one was the last
 *               to arrive
 */
#ifndef D
#define D 1
#endif
#ifndef R
#define R 2
#endif
#define N 3
byte phase; bool broken;
bool mk[N], out[N];
bool dead[N], killed[N], inq[N], woken[N];
byte watch[N];
byte budget;
byte came[N];			/* ghost: phases in which it has arrived */
byte serials[R];		/* ghost */
bool anydeath;

#ifdef STOP
bool stopped[N]; byte bs;
byte slept[N];			/* ghost: the phase in which it has gone to sleep */
#define ENDS (killed[me] || stopped[me])
#define RUNS(i) (!killed[i] && !stopped[i])
#define ABSENT(i,p) (!out[i] && mk[i]!=MARK(p))
#define HOLDSUP(i,p) (stopped[i] && !dead[i] && ABSENT(i,p))
#define WELL(i) (!inq[i] || !RUNS(i) || (phase==slept[i] && !broken && (HOLDSUP(0,phase) || HOLDSUP(1,phase) || HOLDSUP(2,phase))))
#define TOLD(i) (dead[i] && !stopped[0] && !stopped[1] && !stopped[2])
#define GONE(i) (ABSENT(i,p) && dead[i])
#ifdef PHASEONLY
#define FINDS (phase!=p || broken)
#else
#define FINDS (phase!=p || broken || GONE(0) || GONE(1) || GONE(2) || !(ABSENT(0,p) || ABSENT(1,p) || ABSENT(2,p)))
#endif
#else
#define ENDS killed[me]
#define TOLD(i) dead[i]
#endif
#ifdef NOMARK
#define MARK(p) 1
#else
#define MARK(p) (1-((p)&1))
#endif
#define A1(i) if :: inq[i] -> inq[i]=0; woken[i]=1 :: else fi
#ifdef WAKEONE
#define wake() atomic { if :: inq[0] -> inq[0]=0; woken[0]=1 :: inq[1] -> inq[1]=0; woken[1]=1 :: inq[2] -> inq[2]=0; woken[2]=1 :: else fi }
#else
#define wake() d_step { A1(0); A1(1); A1(2) }
#endif
#define PASSED(p) (came[0]>(p) || dead[0]) && (came[1]>(p) || dead[1]) && (came[2]>(p) || dead[2])

/* all: 1 all have arrived, 0 one is absent, 2 broken by what was found */
inline look() {
	all=1; i=0; watch[me]=0;
	do
	:: i<N && all!=2 ->
		atomic { m=mk[i]; o=out[i] };
		if
		:: o || m==MARK(p) -> i++
		:: else ->
			if
			:: dead[i] ->
#ifndef NORELOAD
				if
				:: mk[i]!=m || out[i]!=o		/* it had arrived before: again */
				:: else ->
#endif
#ifdef OUT
					atomic { if :: mk[i]==m && !out[i] -> out[i]=1 :: else fi }
#else
					atomic { if :: phase==p && !broken -> assert(came[i]<=p); broken=1 :: else fi }; wake(); all=2
#endif
#ifndef NORELOAD
				fi
#endif
			:: else -> all=0; watch[me]=watch[me]|(1<<i); i++
			fi
		fi
	:: else -> break
	od;
	atomic { i=0; m=0; o=0 }
}

proctype T(byte me) {
	byte p, all, i, r; bool m, o, done, first;
	{
		do
		:: r<R && !done ->
			atomic { p=phase; done=broken };
			if
			:: done
			:: else ->
				atomic { mk[me]=MARK(p); came[me]=p+1; first=1 };
				do
				:: phase!=p || broken ->
#ifdef LASTONLY
					if :: first -> wake() :: else fi;
#elif !defined(NOPASS)
					wake();
#endif
					break
				:: else ->
					look();
					if
					:: all==1 ->
#ifdef STALEOPEN
						atomic { phase=p+1; serials[p]++; assert(serials[p]==1) }; wake(); break
#else
						atomic { if :: phase==p && !broken -> phase=p+1; serials[p]++; assert(serials[p]==1) :: else -> all=0 fi };
						if :: all==1 -> wake(); break :: else fi
#endif
					:: all==0 ->
#ifdef NOWATCH
						watch[me]=0;
#endif
						atomic { if :: phase==p && !broken -> inq[me]=1 :: else fi };
						if
						:: inq[me] || woken[me] ->
							first=0;
#ifdef STOP
							slept[me]=p;
end_s:							if
#ifndef NORECHECK
							:: atomic { FINDS -> inq[me]=0; woken[me]=0 }
#endif
							::
#endif
							atomic { (woken[me] || (watch[me]&1 && TOLD(0)) || (watch[me]&2 && TOLD(1)) || (watch[me]&4 && TOLD(2))) ->
								inq[me]=0; woken[me]=0 }
#ifdef STOP
							fi
#endif
						:: else
						fi
					:: else
					fi
				od;
				atomic {
					if
					:: phase==p+1 || phase>p -> assert(PASSED(p))
					:: else -> assert(broken && anydeath); done=1
					fi;
					watch[me]=0; all=0; first=0; r++ }
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
				watch[me]=0; p=0; all=0; i=0; r=0; m=0; o=0; done=0; first=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic { inq[me]=0; woken[me]=0; watch[me]=0; dead[me]=1; anydeath=1; p=0; all=0; i=0; r=0; m=0; o=0; done=0; first=0 }
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
