/* wait_set.pml - a set that sleeps on many sources, each with an eventcount, and on a peer's end:
 * death between any two steps.
 *
 * Two queues (sources 0 and 1). Notifier 2 sends to 0, notifier 3 to 1 and to 0 (with -DBEHIND: to
 * 0, behind a slot that 2 is still writing). Sets 0 and 1 wait for both queues; each is at its
 * allowed end when it has told what it can.
 *   msg[q]        messages that are there, a bit for each notifier; acked[q]: whose send has
 *                 returned; told: that a set has told of
 *   writing       BEHIND: notifier 2 has claimed the slot at the head of queue 0 and has not
 *                 published
 *   num[q] seq[q] the eventcount: sleepers' number (odd: a set may sleep), sequence
 *   dead[r]       a notifier has ended; its token's word
 *   qS0, qS1, qT  kernel queues: on the sequences, on the token of notifier 2
 *
 * set     1. look at those that are new (at first: all): all ready are told, and taken away (so that
 *            they are ready once)
 *         2. for each new: s := seq; num := the next odd number   3. look at those again; those that
 *            are not ready are idle from now on, and stand on s and on the writer's end
 *         4. sleep on {seq[0] == s0, seq[1] == s1, the writer's token}, word by word: the kernel
 *            compares each as it is queued
 *         5. on any return compare: a source whose seq is no longer s, or whose writer is dead, is
 *            new; if there is none, all are. From 1. The kernel's index is one of those woken; it is
 *            not used.
 * notifier  publish; n := num; odd: seq++, wake all, num: n -> n + 1
 *
 * Checked: when all has come to rest, no living set sleeps beside a message that was acknowledged
 * (its sender came to the end of its send), or that lies behind a dead writer's slot (BEHIND).
 * Switches: -DD=deaths among notifiers -DSETS=1 or 2 -DBEHIND -DONE: queue 0 alone
 *   STOP        One process, a notifier or a set, may stop for ever (and a notifier may be killed
 *               then). The kernel tells one set of an end, and that set wakes the others, unless it
 *               has been stopped. A set makes the recheck. Then no set that runs sleeps
 *               beside a message that is ready, acknowledged or not. BEHIND: what lies behind a
 *               stopped writer's slot is not ready, and no other message stays.
 *   HALF        (STOP) only sets stop
 * Mutations, each must be caught:
 *   NOAGAIN     no look between step 2 and the sleep
 *   SEQLATE     the sequence is read after the number
 *   BAREBIT     a number is a bare bit
 *   TAKEBACK    a set that wakes takes its number back
 *   CLEARFIRST  the notifier clears before it wakes (and is killed in between; another, live, then
 *               finds it even)
 *   VALUELATE   the value to compare with is read behind the look of step 3
 *   OLDTICKET   for a source that is new after a sleep no number is written again
 *   NOALL       (STOP) a wake that no change explains makes no source new
 *   NOTIMER     (STOP) a set makes no recheck
 *   NOTOKEN     the writer's token is not in the set
 */
#ifndef D
#define D 1
#endif
#ifndef SETS
#define SETS 2
#endif
#define N 4
byte msg[2], acked[2], num[2], seq[2];
byte told[4];		/* of queue q to set w: told[2*w+q] */
bool dead[N], killed[N], writing, tw;
bool qS0[2], qS1[2], qT[2], woken[2], asleep[2]; byte hint[2];
byte budget, done;
#ifdef STOP
bool stopped[N], stop;	/* sets 0 and 1, notifiers 2 and 3; one is still to come */
#endif

/* BEHIND: a message in queue 0 is ready when no living notifier writes in front of it */
#define HEADFREE (!writing || dead[2])
#define READY(q) (msg[q]!=0 && (q==1 || HEADFREE))

inline wakeseq(q) {
	d_step {
		if :: q==0 && qS0[0] -> qS0[0]=0; woken[0]=1; hint[0]=0 :: else fi;
		if :: q==0 && qS0[1] -> qS0[1]=0; woken[1]=1; hint[1]=0 :: else fi;
		if :: q==1 && qS1[0] -> qS1[0]=0; woken[0]=1; hint[0]=1 :: else fi;
		if :: q==1 && qS1[1] -> qS1[1]=0; woken[1]=1; hint[1]=1 :: else fi
	}
}
/* the kernel's walk wakes one; the woken one wakes all (token.md): here both at once */
#ifdef STOP
inline wakeone() {
	if
	:: qT[0] -> qT[0]=0; woken[0]=1; hint[0]=0
	:: qT[1] -> qT[1]=0; woken[1]=1; hint[1]=0
	:: else
	fi
}
#endif
inline waketoken() {
	d_step {
		if :: qT[0] -> qT[0]=0; woken[0]=1; hint[0]=0 :: else fi;
		if :: qT[1] -> qT[1]=0; woken[1]=1; hint[1]=0 :: else fi
	}
}

#ifdef BAREBIT
#define NEXT(q) num[q]=1
#define CLEAR(q,n) num[q]=0
#else
#define NEXT(q) num[q]=num[q]+1+(num[q]&1)
#define CLEAR(q,n) if :: num[q]==n -> num[q]=n+1 :: else fi
#endif

inline ring(q) {
	n = num[q];
	if
	:: n&1 ->
#ifdef CLEARFIRST
		atomic { CLEAR(q,n) };
		seq[q]++;
		wakeseq(q)
#else
		seq[q]++;
		wakeseq(q);
		atomic { CLEAR(q,n) }
#endif
	:: else
	fi
}

proctype R(byte me) {
	byte n;
	{
#ifdef BEHIND
		if
		:: me==2 -> writing=1;			/* claims the slot at the head of queue 0 */
			atomic { writing=0; msg[0]=msg[0]|1 };
			ring(0); acked[0]=acked[0]|1
#ifdef STOP
		:: me==3 -> (writing || msg[0] || dead[2] || stopped[2]); msg[0]=msg[0]|2;
#else
		:: me==3 -> (writing || msg[0] || dead[2]); msg[0]=msg[0]|2;	/* behind it */
#endif
			ring(0); acked[0]=acked[0]|2
		fi;
#else
		/* 3 to queue 1, then both to queue 0: a dead notifier's leavings meet a living one */
#ifndef ONE
		if :: me==3 -> msg[1]=1; ring(1); acked[1]=1 :: else fi;
#endif
		msg[0]=msg[0]|(me-1);
		ring(0);
		acked[0]=acked[0]|(me-1);
#endif
		n=0; done++
#ifdef STOP
	} unless { (killed[me] || stopped[me]);
		atomic { n=0; done++ };
end_stop:	killed[me];
		atomic { dead[me]=1; if :: me==2 && tw -> wakeone() :: else fi }
	}
#else
	} unless { killed[me];
		atomic { dead[me]=1; n=0; done++; if :: me==2 && tw -> waketoken() :: else fi }
	}
#endif
}

#define NEW(q,w) (READY(q) && (msg[q] & (7-told[2*w+q])))
#define NEWS(me) (NEW(0,me) || NEW(1,me))
#define KEPT(q,w) ((acked[q] & (7-told[2*w+q]))==0)

#define SEES(me) ((!i0 && NEW(0,me)) || (!i1 && NEW(1,me)))

inline look(me) {
	d_step {
#ifdef STOP
		if :: SEES(me) -> spent=0 :: else fi;
#endif
		if :: !i0 && READY(0) -> told[2*me]=told[2*me]|msg[0] :: else fi;
		if :: !i1 && READY(1) -> told[2*me+1]=1 :: else fi
	}
}

inline announce(q,s) {
#ifdef SEQLATE
	NEXT(q);
	s = seq[q]
#else
	s = seq[q];
	NEXT(q)
#endif
}

inline prepare(q,i,s) {
	if
#ifdef OLDTICKET
	:: !i && !first -> s=seq[q]
	:: !i && first -> announce(q,s)
#else
	:: !i -> announce(q,s)
#endif
	:: else
	fi
}

/* step 5: a load for each source. What has changed once has changed later, too. */
inline compare(me) {
	atomic { if :: seq[0]!=s0 || (t && dead[2]) -> i0=0 :: else fi };
#ifndef ONE
	atomic { if :: seq[1]!=s1 -> i1=0 :: else fi };
#endif
#ifndef NOALL
	atomic { if :: i0 && i1 -> i0=0; i1=0 :: else fi };
#endif
#ifdef OLDTICKET
	first=0;
#endif
	ok=0
}

proctype W(byte me) {
	byte s0, s1; bool ok, t, first, i0, i1;
#ifdef STOP
	bool spent;	/* a recheck that told nothing is not made again: it would find no more */
#endif
#ifdef OLDTICKET
	first=1;
#endif
#ifdef STOP
	{
#endif
	do
	:: look(me);
		prepare(0,i0,s0);
#ifndef ONE
		prepare(1,i1,s1);
#endif
		/* what the look finds: news, or a notifier that writes there at this moment */
		ok=1;
		atomic {
			if
#ifndef NOAGAIN
			:: SEES(me) -> ok=0; goto again
#endif
			:: else -> t = (i0 -> t : writing && !dead[2]); i0=1; i1=1
			fi
		};
#ifdef VALUELATE
		s0=seq[0]; s1=seq[1];
#endif
#ifndef NOTOKEN
		if :: t -> atomic { if :: dead[2] -> ok=0 :: else -> tw=1 fi } :: else fi;
#endif
		/* queued word by word */
		atomic { if :: ok && seq[0]==s0 -> qS0[me]=1 :: else -> ok=0 fi };
#ifndef ONE
		atomic { if :: ok && seq[1]==s1 -> qS1[me]=1 :: else -> ok=0 fi };
#endif
#ifndef NOTOKEN
		if :: ok && t -> atomic { if :: !dead[2] -> qT[me]=1 :: else -> ok=0 fi } :: else fi;
#endif
		if
		:: ok -> asleep[me]=1;
#ifdef STOP
#ifndef NOTIMER
end_asleep:	atomic { (woken[me] || (NEWS(me) && !spent) || (t && dead[2])) ->
				spent=!woken[me];
#else
end_asleep:	atomic { woken[me] ->
#endif
				asleep[me]=0; woken[me]=0; qS0[me]=0; qS1[me]=0; qT[me]=0 };
			if :: t && dead[2] -> waketoken() :: else fi
#else
end_asleep:	atomic { woken[me] -> asleep[me]=0; woken[me]=0; qS0[me]=0; qS1[me]=0; qT[me]=0 }
#endif
		:: else -> atomic { woken[me]=0; qS0[me]=0; qS1[me]=0; qT[me]=0 }
		fi;
#ifdef TAKEBACK
		atomic { if :: num[0]&1 && me==0 -> num[0]++ :: else fi };
		atomic { if :: num[1]&1 && me==0 -> num[1]++ :: else fi };
#endif
		compare(me);
again:		skip
	od
#ifdef STOP
	} unless { stopped[me];
		atomic { s0=0; s1=0; ok=0; t=0; first=0; spent=0; i0=0; i1=0; asleep[me]=0; woken[me]=0; qS0[me]=0; qS1[me]=0; qT[me]=0 };
end_stop:	(false)
	}
#endif
}

/* all has come to rest: both notifiers done, the sets asleep with no thread to wake them */
active proctype killer() {
	atomic {
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
		fi;
#ifdef STOP
		stop=1;
#endif
		run R(2); run R(3); run W(0);
#if SETS > 1
		run W(1)
#endif
	}
	do
#ifdef STOP
	:: atomic { budget>0 && !killed[2] && (stopped[2] || done<2) -> killed[2]=1; budget-- }
	:: atomic { budget>0 && !killed[3] && (stopped[3] || done<2) -> killed[3]=1; budget-- }
#ifndef HALF
	:: atomic { stop && !killed[2] && done<2 -> stopped[2]=1; stop=0 }
	:: atomic { stop && !killed[3] && done<2 -> stopped[3]=1; stop=0 }
#endif
	:: atomic { stop -> stopped[0]=1; stop=0 }
#if SETS > 1
	:: atomic { stop -> stopped[1]=1; stop=0 }
#endif
	:: atomic { timeout ->
		assert(stopped[0] || !(NEW(0,0) || NEW(1,0)));
#if SETS > 1
		assert(stopped[1] || !(NEW(0,1) || NEW(1,1)));
#endif
		break }
#else
	:: atomic { budget>0 && !killed[2] && !dead[2] && done<2 -> killed[2]=1; budget-- }
	:: atomic { budget>0 && !killed[3] && !dead[3] && done<2 -> killed[3]=1; budget-- }
	:: atomic { done==2 && asleep[0] && !woken[0] && (SETS==1 || (asleep[1] && !woken[1])) ->
		/* what was acknowledged is told; BEHIND: what is ready behind a dead writer as well */
		assert(KEPT(0,0) && KEPT(1,0) && !(writing && dead[2] && NEW(0,0)));
#if SETS > 1
		assert(KEPT(0,1) && KEPT(1,1) && !(writing && dead[2] && NEW(0,1)));
#endif
		break }
#endif
	od
end_k:	(false)
}
