/* pthread_holds.pml - which threads hold which of the shim's reader-writer locks: a table under a
 * mutex, and waiting for one holder.
 *
 * N threads each take the lock once, to read or to write, and may try for it while it is held (the
 * wait is the core's: mutex.pml and condvar.pml have its steps). The table's mutex is one word
 * here: free or a dead owner's -> mine. NE entries; the last one begins as what another lock's
 * holder left, killed: its key is another, its mode WRITE.
 *   tok[e]      0, a thread's number + 1, or DEAD
 *   md[e]       1 = reads, 2 = writes      key[e]   1 = this lock's
 *   w[i]        sleeper i watches that thread; woken[i] by a change
 *
 * take     1. mutex   2. look: a dead reader's entry -> 0, a dead writer's -> DEAD
 *          3. held by a living one whose mode does not go together with it -> watch that one, give
 *             the mutex back and sleep (one step: the condition variable's), until woken or it has
 *             ended
 *          4. an entry DEAD: tok = me, then md; else a free one: key, md, then tok
 *          5. give the mutex back
 * leave    1. mutex   2. tok = 0   3. give the mutex back   4. wake all
 *
 * Checked: never a writer beside another living holder; a thread that gets the lock after a writer
 * has died inside is told, and otherwise none is; when everything has come to rest, no living
 * sleeper is left.
 * Switches: -DD=deaths -DN= -DREADERS=so many only read
 *   STOP        one thread is stopped at any step, takes no further step and is not dead. A wake-up
 *               that it received is used up; the notice of a death is not told to the others once
 *               it is stopped: it may have received it. It may be killed later (D counts that). A
 *               sleeper makes the recheck, as once a second in the code. At rest a running thread
 *               may sleep only behind the stopped one, which an entry names; and while the stopped
 *               one has the table's mutex, every thread waits whose lock is of that table: for the
 *               mutex, or for a thread that waits for the mutex in order to leave
 * Mutations, each must be caught:
 *   TOKENFIRST  a new entry's token before its mode and key
 *   FREEDEAD    a dead writer's entry is made free like a reader's
 *   FREEFIRST   a dead writer's entry is made free, and then another one taken
 *   NOWAKE      a thread that leaves wakes none
 *   NOWATCH     sleepers are woken by changes only
 *   WATCHANY    a sleeper watches any living thread that holds the lock or not
 * and with STOP:
 *   NORECHECK   no recheck: the stopped one had left, and not yet woken the others
 */
#ifndef D
#define D 1
#endif
#ifndef N
#define N 3
#endif
#ifndef READERS
#define READERS 0
#endif
#define NE 3
#define NOBODY 255
#define DEAD 99

byte lo = NOBODY; bool dead[N], killed[N];
byte tok[NE], md[NE], key[NE];
byte w[N] = NOBODY; bool woken[N], asleep[N];
byte in[N];                     /* ghost: 1 reads, 2 writes */
bool torn;                      /* ghost: a writer died inside, and nobody has been told */
byte budget;

#define FREE (lo==NOBODY || dead[lo])
#define OWNER(e) (tok[e]-1)
#ifdef STOP
bool stopped[N]; byte bs;
#define ENDS (killed[me] || stopped[me])
#define RUNS(i) (!killed[i] && !stopped[i])
#define HAS(e,i) (tok[e]==(i)+1 && key[e]==1)
#define HOLDS(i) (HAS(0,i) || HAS(1,i) || HAS(2,i))
#define HELDUP(i) (stopped[w[i]] && !dead[w[i]] && HOLDS(w[i]))
#if N > 2
#define TOLD(i) (dead[i] && !stopped[0] && !stopped[1] && !stopped[2])
#else
#define TOLD(i) (dead[i] && !stopped[0] && !stopped[1])
#endif
#else
#define ENDS killed[me]
#define TOLD(i) dead[i]
#endif

/* what one look finds: the holder that is in the way, what a dead writer left, a free entry */
inline look() { d_step {
	by=NOBODY; left=NOBODY; fr=NOBODY; e=0;
	do
	:: e<NE ->
		if
		:: tok[e]!=0 && tok[e]!=DEAD && dead[OWNER(e)] ->
#ifdef FREEDEAD
			tok[e]=0
#else
			if :: md[e]==2 -> tok[e]=DEAD :: else -> tok[e]=0 fi
#endif
		:: else
		fi;
		if
		:: tok[e]==0 -> fr=e
		:: tok[e]!=0 && key[e]==1 ->
			if
			:: tok[e]==DEAD -> left=e
			:: tok[e]!=DEAD && (want==2 || md[e]==2) -> by=OWNER(e)
			:: else
			fi
		:: else
		fi;
		e++
	:: else -> break
	od;
	e=0
} }

proctype T(byte me) {
	byte want, by, left, fr, e; bool told;
	{
		if :: want=1 :: me>=READERS -> want=2 fi;
#ifdef STOP
end_l:
#endif
		atomic { FREE -> lo=me };
again:		look();
		if
		:: by!=NOBODY ->
#ifdef WATCHANY
			if :: by=(me+1)%N :: by=(me+2)%N fi;
#endif
			atomic { lo=NOBODY; w[me]=by; woken[me]=0; asleep[me]=1 };
end_asleep:		if
			:: woken[me]
#ifndef NOWATCH
			:: TOLD(w[me])
#endif
#if defined(STOP) && !defined(NORECHECK)
			:: dead[w[me]] || !HOLDS(w[me])
#endif
			fi;
			atomic { asleep[me]=0; w[me]=NOBODY; woken[me]=0 };
#ifdef STOP
end_m:
#endif
			atomic { FREE -> lo=me };
			goto again
		:: by==NOBODY && left!=NOBODY ->
#ifdef FREEFIRST
			tok[left]=0; told=1;
			goto enter;
#endif
			tok[left]=me+1;
			/* killed from here on the thread counts as a writer, and was told */
			atomic { md[left]=want; assert(torn); torn=0; in[me]=want; by=left }
		:: else ->
enter:			
#ifdef TOKENFIRST
			tok[fr]=me+1;
#endif
			key[fr]=1;
			md[fr]=want;
			/* the last store: from here on the thread is inside */
			atomic {
#ifndef TOKENFIRST
				tok[fr]=me+1;
#endif
				assert(told || !torn); torn=0; told=0; in[me]=want; by=fr }
		fi;
		/* no living thread beside a writer */
		d_step { e=0;
			do
			:: e<N -> assert(e==me || in[e]==0 || dead[e] || (in[e]==1 && want==1)); e++
			:: else -> break
			od; e=0 };
		lo=NOBODY;
		/* inside; and out again */
#ifdef STOP
end_n:
#endif
		atomic { FREE -> lo=me };
		atomic { tok[by]=0; in[me]=0 };
		lo=NOBODY;
#ifndef NOWAKE
		d_step { woken[0]=1; woken[1]=1;
#if N > 2
			woken[2]=1
#endif
		};
#endif
		atomic { want=0; by=0; left=0; fr=0 };
end_idle:	(false)
	} unless { ENDS;
#ifdef STOP
		if
		:: killed[me]
		:: else ->
			atomic { asleep[me]=0; want=0; by=0; left=0; fr=0; e=0; told=0 };
end_stop:		killed[me]
		fi;
#endif
		atomic { dead[me]=1; asleep[me]=0;
			if :: in[me]==2 -> torn=1 :: else fi; in[me]=0;
			want=0; by=0; left=0; fr=0; e=0; told=0 }
	}
}

active proctype killer() {
	byte i;
	atomic {
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
#ifdef STOP
		fi;
		if :: bs=1 :: bs=0
#endif
		fi;
		key[NE-1]=2; md[NE-1]=2;
		do :: i<N -> run T(i); i++ :: else -> break od;
		i=0
	};
	do
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
	:: atomic { budget>0 && !killed[1] -> killed[1]=1; budget-- }
#if N > 2
	:: atomic { budget>0 && !killed[2] -> killed[2]=1; budget-- }
#endif
#ifdef STOP
	:: atomic { bs>0 && RUNS(0) -> stopped[0]=1; bs-- }
	:: atomic { bs>0 && RUNS(1) -> stopped[1]=1; bs-- }
#if N > 2
	:: atomic { bs>0 && RUNS(2) -> stopped[2]=1; bs-- }
#endif
	:: budget==0 && bs==0 -> break
#else
	:: budget==0 -> break
#endif
	od;
	timeout;
#ifdef STOP
	assert(FREE || stopped[lo]);
#endif
	do
#ifdef STOP
	:: i<N -> assert(!asleep[i] || HELDUP(i) || (lo!=NOBODY && !dead[lo])); i++
#else
	:: i<N -> assert(!asleep[i]); i++
#endif
	:: else -> break
	od
}
