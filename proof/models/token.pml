/* token.pml - one registry slot: claimed, ended, retired, claimed again; and threads that wait for
 * an end.
 *
 *   word = (tid, died, w)   libc's robust lock word: owner's TID, OWNER_DIED, WAITERS
 *   gen                     odd: in use under id `gen`; even: retired. Only ever counts up (the
 *                           wrap is not modelled)
 *   rtid                    the TID recorded for the id in use
 *
 * claim    1. g = gen; the word is held -> go on to another slot
 *          2. g odd -> compare-exchange gen g -> g+1 (retire), failed -> go on
 *          3. trylock (takes 0 or a dead word, keeps W); busy -> go on
 *          4. gen is not the even value any more -> unlock (and wake all), go on
 *          5. rtid = my TID   6. gen+1: the id is out   7. wake all on the word, W is never cleared
 * alive(g) word held and not died; then its TID is rtid; then gen is g: in this order
 * wait(g)  pending = X; alive? W set by compare-exchange; waitv {X, word, gen}; on the way out wake
 *          all on the word
 * release  libc's unlock (wakes one if W was set), then wake all
 * Each is one step here, and a thread may be killed between any two; the kernel then marks the
 * word, wakes one waiter there and one on its pending X. A thread that is stopped is one that takes
 * its next step much later.
 *
 * Two scenes:
 *  waiting  (default) H1 holds, ends (by release with -DGRACE), then H2 claims in the steps above.
 *           Waiters 0 and 1 wait for the end of H1's id, waiter 2 for that of H2's, so that W
 *           stands on the successor's word too. H2 may live for ever, or never come. -DSAMETID: H2
 *           has H1's TID (the same thread claims again).
 *           Checked: no waiter calls a live holder dead; none sleeps for ever after the end it
 *           waits for; a free slot never refuses a claimer.
 *  racing   -DRACE: NC claimers, each ROUNDS times, all at once on the one slot; two observers ask
 *           alive(g) of any id that has been given out. Checked: an id that had ended before the
 *           question never reads alive (so none is revived), one that lives until after the answer
 *           never reads dead; a holder's rtid and gen stay what it wrote. -DSAMETID: two claimers
 *           share a TID, as two pid namespaces would: this must FAIL, and is why a slot is bound to
 *           a namespace before its first trylock.
 * Switches: -DD=deaths -DNC=claimers -DROUNDS=claims each -DPAIR (waiting, without waiter 2)
 *  -DSTOP   (waiting) one of the waiters, H2 or (GRACE) H1 is stopped at any step, takes no further
 *           step and is not dead. A wake-up that a waiter received is used up; it leaves the
 *           kernel's queues (SIGSTOP) or stays there and swallows wakes (the freezer of version 1).
 *           It may be killed later (D counts that). A waiter rechecks whether the holder lives, as
 *           once a second in the code. At rest a running waiter may sleep only while the holder
 *           lives: a release that is stopped after it has given the word back delays no waiter. In
 *           the racing scene nothing waits, so a stop is a thread that is slow.
 * Mutations, each must be caught:
 *   NOGENWAIT   gen is left out of the wait set
 *   NOPEND      pending does not point at X
 *   NOWAKEALL   a woken waiter does not wake the others
 *   CLEARW      a claimer clears W before it wakes all
 *   NOCLAIMWAKE a claimer does not wake all
 *   FETCHOR     W is set by OR: on a released word it stays for ever
 *   LATEGEN     nothing is retired: gen counts up after the trylock only
 *   WORDFIRST   retire looks at the word before it reads gen
 *   NORECHECK   step 4 left out
 *   NORTID      alive does not compare the TID
 *   GENFIRST    alive reads gen before rtid                  RTIDLATE    rtid is written after gen
 * and with STOP:
 *   NOLOOK      a waiter makes no recheck: the stopped one had received the notice
 *   FIRSTNOT    waiter 0 does not
 */
#ifndef D
#define D 1
#endif
#ifndef NC
#define NC 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
byte tid, rtid, gen; bool died, w;
byte qW[3], qG[3], qX[3]; bool woken[3]; byte pend[3];  /* kernel queues of the waiters, list_op_pending of each */
byte budget;            /* deaths still to come; drawn first, so that a hang after fewer deaths is a real end state */
#define MAXG 12
byte lives[MAXG];       /* ghost: 0 not given out, 1 lives, 2 has ended */
byte holds;             /* ghost: which claimer + 1 has the word */

#define PICK(i,q) :: q[i]==1 -> q[i]=0; woken[i]=1
#define wake1(q) atomic { if PICK(0,q) PICK(1,q) PICK(2,q) :: else fi }
#define A1(i,q) if :: q[i]==1 -> q[i]=0; woken[i]=1 :: else fi
#ifdef RACE
#define wakeall(q) skip
#else
#define wakeall(q) d_step { A1(0,q); A1(1,q); A1(2,q) }
#endif
#define HELD (tid!=0 && !died)

/* libc's unlock, then ours */
inline unlock() {
	atomic { fnd=w; tid=0; died=0; w=0; holds=0; if :: id -> lives[id]=2 :: else fi; id=0 };
#ifndef RACE
	if :: fnd -> wake1(qW) :: else fi;
#endif
	wakeall(qW);
	fnd=0
}
/* id = the generation claimed, or 0 */
inline claim(who, mytid) {
	atomic { g=0; id=0;
#ifdef WORDFIRST
		fnd=HELD
#else
		g=gen
#endif
	};
#ifdef WORDFIRST
	g=gen;
#else
	fnd=HELD;
#endif
	if
	:: fnd -> g=0
	:: else ->
#ifdef LATEGEN
		atomic { if :: tid==0 && (died || !w) -> tid=mytid; died=0; holds=who :: else -> g=99 fi };
		if :: g!=99 -> g=gen; g=g+(g%2) :: else fi;
#else
		if :: g%2 -> atomic { if :: gen==g -> gen=g+1; g=g+1 :: else -> g=99 fi } :: else fi;
		if
		:: g!=99 -> atomic { if :: tid==0 && (died || !w) -> tid=mytid; died=0; holds=who :: else -> assert(tid!=0); g=99 fi }
		:: else
		fi;
#ifndef NORECHECK
		if :: g!=99 && gen!=g -> unlock(); g=99 :: else fi;
#endif
#endif
		if
		:: g!=99 ->
#ifndef RTIDLATE
			rtid=mytid;
#endif
			atomic { gen=g+1; id=g+1; assert(id<MAXG && lives[id]==0); lives[id]=1 };
#ifdef RTIDLATE
			rtid=mytid;
#endif
#ifdef CLEARW
			w=0;
#endif
#ifndef NOCLAIMWAKE
			wakeall(qW);
#endif
			assert(holds==who && gen==id && rtid==mytid)
		:: else
		fi;
		g=0; fnd=0
	fi
}
/* the kernel's walk: at = who + 1 */
inline exit_walk(who) {
	atomic { fnd=0; if :: id -> lives[id]=2 :: else fi;
		if :: holds==who -> fnd=w; tid=0; died=1; holds=0 :: else fi };
#ifndef RACE
	if :: fnd -> wake1(qW) :: else fi;
#endif
	atomic { fnd=0; id=0; g=0 }
}

#ifndef RACE
/* ------------------------------------------------------------------------------------------------------------- waiting */
#ifdef SAMETID
#define TID2 1
#else
#define TID2 2
#endif
bool killed1, killed2, killedW[3]; bool came;
#ifdef STOP
bool stopped1, stopped2, stoppedW[3];
byte bs;                /* stops still to come; drawn first, too */
byte waits[3];          /* ghost: for the end of which id it sleeps */
#define WELL(i) (killedW[i] || stoppedW[i] || waits[i]==0 || lives[waits[i]]==1)
#define ENDS1 (killed1 || stopped1); end_s1: killed1
#define ENDS2 (killed2 || stopped2); end_s2: killed2
#define STAND atomic { if :: unqueue() :: skip fi; waits[me]=0; vt=0; vr=0; vg=0; vd=0; vw=0; ok=0 }
#define AFTER1 skip; end_b: lives[1]==2                 /* never, if H1 is stopped before its release */
#define ENDSW (killedW[me] || stoppedW[me]); if :: killedW[me] :: else -> STAND; end_st: killedW[me] fi; waits[me]=0
#ifdef FIRSTNOT
#define LOOKS (me!=0 && !(tid!=0 && !died && rtid==tid && gen==g))
#else
#define LOOKS (!(tid!=0 && !died && rtid==tid && gen==g))
#endif
#else
#define ENDS1 killed1
#define ENDS2 killed2
#define ENDSW killedW[me]
#define AFTER1 lives[1]==2
#endif
bool sleeps;            /* ghost: waiter 2 is asleep: lawful while H2 lives */
proctype H1() { byte g, id; bool fnd;
	{ atomic { claim(1,1); came=1 };     /* nobody else is there yet */
#ifdef GRACE
	  unlock();
#endif
end_l:	  (false)
	} unless { ENDS1; exit_walk(1) }
}
proctype H2() { byte g, id; bool fnd;
	{ AFTER1; claim(2,TID2);
end_l:	  (false)
	} unless { ENDS2; exit_walk(2) }
}
inline unqueue() { d_step { qW[me]=0; qG[me]=0; qX[me]=0; woken[me]=0 } }
inline load_word() { atomic { vt=tid; vd=died; vw=w } }
proctype W(byte me; byte g) {
	byte vt, vr, vg; bool vd, vw, ok;
end_p:	{ lives[g]!=0;                  /* never, if H2 does not come */
#ifndef NOPEND
	  pend[me]=1;
#endif
	  do
	  ::	load_word(); vr=rtid; vg=gen;
		if
		:: vt==0 || vd || vr!=vt || vg!=g -> break       /* dead */
		:: else
		fi;
		ok=1;
#ifdef FETCHOR
		w=1; vw=1;
#else
		if :: !vw -> atomic { if :: tid==vt && died==vd && !w -> w=1 :: else -> ok=0 fi } :: else fi;
#endif
		if
		:: ok ->
#ifndef NOPEND
			qX[me]=1;
#endif
			atomic { if :: tid==vt && died==vd && w -> qW[me]=1 :: else -> ok=0; unqueue() fi };
#ifndef NOGENWAIT
			if :: ok -> atomic { if :: gen==g -> qG[me]=1 :: else -> ok=0; unqueue() fi } :: else fi;
#endif
			if
#ifdef STOP
			:: ok -> waits[me]=g;
end_t:				if
				:: atomic { woken[me] -> unqueue(); waits[me]=0 }
#ifndef NOLOOK
				:: atomic { LOOKS -> unqueue(); waits[me]=0 }
#endif
				fi
#else
			:: ok && g==1 -> atomic { woken[me] -> unqueue() }
			:: ok && g==3 -> sleeps=1;
end_s:				atomic { woken[me] -> unqueue(); sleeps=0 }
#endif
			:: else
			fi
		:: else
		fi
	  od;
	  assert(lives[g]==2);
#ifndef NOWAKEALL
	  wakeall(qW);
#endif
	  pend[me]=0;
	  atomic { vt=0; vr=0; vg=0; vd=0; vw=0; ok=0 }
	} unless { ENDSW; atomic { unqueue(); if :: g==3 -> sleeps=0 :: else fi };
	  if :: pend[me] -> wake1(qX); pend[me]=0 :: else fi;
	  atomic { vt=0; vr=0; vg=0; vd=0; vw=0; ok=0 } }
}
active proctype killer() {
	atomic { if :: budget=D
#if D > 0
		 :: budget=D-1
#endif
#ifdef STOP
		 fi;
		 if :: bs=1 :: bs=0
#endif
#ifdef PAIR
		 fi; run H1(); if :: run H2() :: skip fi; run W(0,1); run W(1,1) };
#else
		 fi; run H1(); if :: run H2() :: skip fi; run W(0,1); run W(1,1); run W(2,3) };
#endif
#ifndef GRACE
	came; killed1=1;                  /* H1 always ends; further deaths are counted */
#endif
end_k:	do
	:: atomic { budget>0 && !killedW[0] -> killedW[0]=1; budget-- }
	:: atomic { budget>0 && !killedW[1] -> killedW[1]=1; budget-- }
	:: atomic { budget>0 && !killed2 -> killed2=1; budget-- }
#ifdef STOP
	:: atomic { bs>0 && !killedW[0] -> stoppedW[0]=1; bs-- }
	:: atomic { bs>0 && !killedW[1] -> stoppedW[1]=1; bs-- }
	:: atomic { bs>0 && !killedW[2] -> stoppedW[2]=1; bs-- }
	:: atomic { bs>0 && !killed2 -> stopped2=1; bs-- }
#ifdef GRACE
	:: atomic { bs>0 -> stopped1=1; bs-- }
#endif
	:: budget==0 && bs==0 -> break
#else
	:: budget==0 -> break
#endif
	od;
#ifdef STOP
	timeout;
	assert(WELL(0) && WELL(1) && WELL(2));
#endif
	timeout -> assert(!sleeps || lives[3]==1)
}
#else
/* -------------------------------------------------------------------------------------------------------------- racing */
bool killed[NC];
#ifdef SAMETID
#define TIDOF(me) 1
#else
#define TIDOF(me) (me+1)
#endif
proctype C(byte me) { byte g, id, r; bool fnd;
	{ do
	  :: r<ROUNDS -> r++;
		claim(me+1, TIDOF(me));
		if :: id -> if :: unlock() :: end_l: (false) fi :: else fi
	  :: else -> break
	  od
	} unless { killed[me]; exit_walk(me+1) }
}
/* asks alive(g) of any id given out; `was` and the assertions are ghosts */
proctype O() { byte g, was, vt, vr, vg; bool vd;
end_o:	do
	:: atomic { gen>0 -> g=1; do :: g+2<MAXG && lives[g+2]!=0 -> g=g+2 :: break od; lives[g]!=0; was=lives[g] };
		atomic { vt=tid; vd=died };
#ifdef GENFIRST
		vg=gen; vr=rtid;
#else
		vr=rtid; vg=gen;
#endif
#ifdef NORTID
		vr=vt;
#endif
		atomic {
			if
			:: vt!=0 && !vd && vr==vt && vg==g -> assert(was!=2)
			:: else -> assert(lives[g]!=1)
			fi;
			g=0; was=0; vt=0; vr=0; vg=0; vd=0 }
	od
}
active proctype killer() { byte i;
	atomic { budget=D; for (i : 0 .. NC-1) { run C(i) }; run O(); i=0 };
end_k:	do
	:: atomic { budget>0 -> i=0; do :: i+1<NC -> i++ :: break od; if :: !killed[i] -> killed[i]=1; budget-- :: else fi; i=0 }
	:: break
	od
}
#endif
