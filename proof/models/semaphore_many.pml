/* semaphore_many.pml - threads that want several permits of a semaphore at once; death between any
 * two steps.
 *
 * Threads 0..N-1; 0 and 1 want WANT of NP permits, the others one; all do it R times.
 *   rec[p]   0 free, id + 1 held
 *   turn     0, or the thread + 1 that takes several permits: a claim word (mutex.pml), which
 *            another takes over from a dead one
 * Sleeping is mutex.pml's and semaphore.pml's: here a thread that waits goes on as soon as there is
 * what it waits for.
 *
 * several  1. turn 0, or a dead thread's -> me   2. WANT times: a free record, or a dead holder's ->
 *          me; none: wait with what it has   3. turn := 0
 *          over, and the deadline passed: all that it has is given back, then turn := 0
 *
 * Checked: a thread holds all that it wanted, or none; never two live threads in their turn; at rest,
 * no thread that lives waits (an invalid end state), though others have part of what they want.
 * Switches: -DN=threads -DNP=permits -DWANT=n -DR=rounds -DD=deaths -DTIMEOUT
 *   -DSTOP   thread 0 may be stopped at any step and takes no further one. At rest it is killed if
 *            it has the turn or a permit, and then all others must go on
 * Mutations, each must be caught:
 *   NOTURN    no turn: two threads wait for each other's part
 *   KEEPS     a thread whose deadline passed keeps what it has
 *   NOTAKE    no thread takes the turn over from a dead one
 *   STALE     the turn is taken over by a store, not by compare-exchange
 */
#ifndef N
#define N 3
#endif
#ifndef NP
#define NP 2
#endif
#ifndef WANT
#define WANT 2
#endif
#ifndef R
#define R 1
#endif
#ifndef D
#define D 1
#endif
byte rec[NP], turn;
bool dead[N], killed[N];
byte has[N];			/* ghost: permits that it holds */
byte inturn;			/* ghost: live threads in their turn */
byte budget;
#ifdef STOP
bool stopped;
#define ENDS (killed[me] || (me==0 && stopped))
#else
#define ENDS killed[me]
#endif
#define FREE(w) (w==0 || dead[w-1])
#ifdef NOTAKE
#define OPEN (turn==0)
#else
#define OPEN FREE(turn)
#endif
#define TAKE(p) :: atomic { FREE(rec[p]) -> rec[p]=me+1; has[me]++ }
#define GIVE(p) atomic { if :: rec[p]==me+1 -> rec[p]=0; has[me]-- :: else fi }

inline give_back() {
	GIVE(0);
	GIVE(1);
#if NP > 2
	GIVE(2);
#endif
	assert(has[me]==0)
}

inline take_one() {
	if
	TAKE(0)
	TAKE(1)
#if NP > 2
	TAKE(2)
#endif
#ifdef TIMEOUT
	:: gave_up=1
#endif
	fi
}

proctype T(byte me) {
	byte r, n; bool gave_up;
	{
		do
		:: r==R -> break
		:: r<R ->
			n=(me<2 -> WANT : 1);
#ifndef NOTURN
			if
			:: me<2 ->
#ifdef STALE
				OPEN; atomic { turn=me+1; inturn++ };
#else
				atomic { OPEN -> turn=me+1; inturn++ };
#endif
				assert(inturn==1)
			:: else
			fi;
#endif
			do
			:: has[me]<n && !gave_up -> take_one()
			:: else -> break
			od;
			if
			:: gave_up ->
#ifndef KEEPS
				give_back()
#endif
			:: else
			fi;
#ifndef NOTURN
			if :: me<2 -> atomic { assert(turn==me+1); turn=0; inturn-- } :: else fi;
#endif
			assert(has[me]==(gave_up -> 0 : n));
			give_back();
			atomic { gave_up=0; n=0; r++ }
		od;
		r=0;
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
end_stop:		killed[me]
		fi;
#endif
		atomic {
			if :: turn==me+1 -> inturn-- :: else fi;
			has[me]=0; dead[me]=1; r=0; n=0; gave_up=0 }
	}
}

#ifdef STOP
#define OF0 (!dead[0] && (turn==1 || rec[0]==1 || rec[1]==1))
#endif

active proctype killer() {
	atomic {
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
#if D > 1
		:: budget=D-2
#endif
		fi;
		run T(0); run T(1); run T(2);
#if N == 4
		run T(3)
#endif
	};
end_k:	do
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
#if N == 4
	:: atomic { budget>0 && !killed[3] -> killed[3]=1; budget-- }
#endif
#ifdef STOP
	:: atomic { !stopped && !killed[0] -> stopped=1 }
	/* the stopped one holds something: it is killed in the end, and then all others must go on */
	:: atomic { timeout && stopped && !killed[0] && OF0 -> killed[0]=1 }
#endif
	:: budget==0 -> break
	od
#ifdef STOP
	;
	do
	:: atomic { timeout && stopped && !killed[0] && OF0 -> killed[0]=1 }
	:: atomic { timeout && !(stopped && !killed[0] && OF0) -> break }
	od
#endif
}
