/* barrier.pml - a barrier whose seats name the participants; death between any two steps.
 *
 * Three participants, seated from the beginning, R phases each.
 *   phase         counts; BROKEN beside it
 *   seat[i]       marked or not: arrived in a phase p if the mark is that of p (it flips with each phase); out: counted out
 * Sleeping on the ends of several owners is several.pml's: here a sleeper simply runs again when one whom it watches is
 * dead, or when it is woken from the queue of `phase`.
 *
 * wait   1. p = phase; broken: say so    2. seat := mark(p) (a fence)
 *        3. look at all: arrived, out -> next; absent and dead -> break, or count out; absent and alive -> 5
 *        4. all arrived: compare-exchange phase p -> p+1, then wake all: the serial participant
 *           the phase is over by another: wake all, too
 *        5. sleep on {phase == p, the ends of those who are absent}; again from 3 while phase is p
 *
 * Checked: nobody passes a phase before all the living have arrived in it; one serial participant a phase; nobody sleeps
 * for ever (an invalid end state); without a death nobody is told "broken"; who has arrived and dies breaks nothing.
 * Switches: -DD=deaths -DR=phases -DOUT (count out)
 * Mutations, each must be caught:
 *   NOMARK      the mark does not flip: who has arrived once has arrived for ever
 *   NOWATCH     a sleeper watches nobody
 *   NORELOAD    a participant found dead is not asked again whether it had arrived
 *   STALEOPEN   the next phase is opened by a store
 *   NOPASS      who finds the phase over leaves the wake-up to whoever opened the next
 *   LASTONLY    the same, unless it has not slept
 *   WAKEONE     the serial participant wakes one
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

/* all: 1 everybody has arrived, 0 somebody is absent, 2 broken by what was found */
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
							atomic { (woken[me] || (watch[me]&1 && dead[0]) || (watch[me]&2 && dead[1]) || (watch[me]&4 && dead[2])) ->
								inq[me]=0; woken[me]=0 }
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
	} unless { killed[me];
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
		fi; run T(0); run T(1); run T(2) };
end_k:	do
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
	:: budget==0 -> break
	od
}
