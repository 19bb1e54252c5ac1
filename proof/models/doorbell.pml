/* doorbell.pml - a large set's doorbell: one word on which it sleeps for many sources, and a bit for
 * each that says which has notified (wake/doorbell.rs, wait/rung_list.rs): death between any two
 * steps.
 *
 * Two queues (sources 0 and 1). Notifier 2 sends to 0, notifier 3 to 1 and to 0. Set 0 waits for
 * both, with TWO set 1 for both as well: whichever registers first with a source has its doorbell
 * there, the other sleeps on the source's own word (mode 0).
 *   msg[q]        messages that are there, a bit for each notifier; acked[q]: whose send has
 *                 returned; told: that a set has told of
 *   num[q] seq[q] the eventcount: sleepers' number (odd: a set may sleep), sequence
 *   reg[q]        whose doorbell the eventcount names: 0 none, 1 and 2 of sets 0 and 1
 *   count[w]      the doorbell's word, on which set w sleeps; bits[w]: which sources have notified
 *   qC[w] qS      kernel queues: on a doorbell's word, on the sequences
 *
 * set       0. for each source: reg = w+1, if it is 0 or the other set is dead   1. c = count
 *           2. bits := 0; what was there is new (at first: all)   3. look at the new; tell
 *           4. for each new: s := seq; num := the next odd number   5. look at the new again
 *           6. sleep on {count == c, of mode 0: seq == s}   7. of mode 0: seq changed -> new.
 *           A recheck makes all new.
 * notifier  publish; n := num; odd: d := reg; its bit; count[d]++; in one step: seq++, wake on seq and
 *           on count[d]; num: n -> n+1
 *
 * Checked: when all has come to rest, no living set sleeps beside a message that was acknowledged.
 * Switches: -DD=deaths, of notifiers, and with TWO of set 0   -DTWO   -DSHORT: 3 sends to 1 alone
 *   SETDIES     Deaths are of set 0 alone (TWO).
 *   ONE         Queue 0 alone, to which both notifiers send; with SHORT, 2 alone.
 *   DENIED      The kernel denies the fence: a notifier may read num before its message is in sight.
 *               A set looks at all sources that it has prepared once more, after 10 ms: its timer.
 *   STOP        One process, a notifier or a set, may stop for ever. A set makes the recheck. Then no
 *               set that runs sleeps beside a message, acknowledged or not.
 * Mutations, each must be caught:
 *   LATECOUNT   1 behind 2
 *   REGLATE     0 behind the first 4
 *   OLDTICKET   no number is written again for a source that was new
 *   SAMENUMBER  no number is written again if seq is as it was: the notifier may not have come so far
 *   COUNTFIRST  the notifier raises the count before it sets the bit
 *   CLEARFIRST  the notifier clears num before the bit (and is killed in between; another, live,
 *               then finds it even)
 *   STEAL       (TWO) the second set registers in place of a living one
 *   NOTIMER     (STOP, DENIED) a set makes no recheck, and has no timer
 *   FORGETNEW   (DENIED) a source that was prepared without a fence is not new after the sleep
 */
#ifndef D
#define D 1
#endif
#ifdef TWO
#define SETS 2
#else
#define SETS 1
#endif
byte msg[2], acked[2], num[2], seq[2], reg[2], count[2], bits[2];
byte told[4];		/* of queue q to set w: told[2*w+q] */
bool dead[4], killed[4], qC[2], qS[4], woken[2], asleep[2];
byte budget, done;
#ifdef STOP
bool stopped[4], stop;
#endif

inline wakeseq(q) {
	d_step {
		if :: qS[q] -> qS[q]=0; woken[0]=1 :: else fi;
		if :: qS[2+q] -> qS[2+q]=0; woken[1]=1 :: else fi
	}
}
inline wakebell(d) {
	d_step {
		if :: d==1 && qC[0] -> qC[0]=0; woken[0]=1 :: else fi;
		if :: d==2 && qC[1] -> qC[1]=0; woken[1]=1 :: else fi
	}
}
#define CLEAR(q,n) atomic { if :: num[q]==n -> num[q]=n+1 :: else fi }

/* publishes, and notifies */
inline notify(q,mark) {
#ifdef DENIED
	if
	:: n = num[q]; msg[q]=msg[q]|mark
	:: msg[q]=msg[q]|mark; n = num[q]
	fi;
#else
	msg[q]=msg[q]|mark;
	n = num[q];
#endif
	if
	:: n&1 ->
		d = reg[q];
#ifdef CLEARFIRST
		CLEAR(q,n);
#endif
		if
		:: d>0 ->
#ifdef COUNTFIRST
			count[d-1]=(count[d-1]+1)%16;
			bits[d-1]=bits[d-1]|(1<<q)
#else
			bits[d-1]=bits[d-1]|(1<<q);
			count[d-1]=(count[d-1]+1)%16
#endif
		:: else
		fi;
		atomic { seq[q]=(seq[q]+1)%16; wakeseq(q); wakebell(d) };
#ifndef CLEARFIRST
		CLEAR(q,n)
#endif
	:: else
	fi
}

proctype R(byte me) {
	byte n, d;
	{
#ifndef ONE
		if :: me==3 -> notify(1,1); acked[1]=1 :: else fi;
#endif
#ifdef SHORT
		if :: me==2 -> notify(0,1); acked[0]=1 :: else fi;
#else
		notify(0,(me-1));
		acked[0]=acked[0]|(me-1);
#endif
		atomic { n=0; d=0; done++ }
#ifdef STOP
	} unless { (killed[me] || stopped[me]);
		atomic { n=0; d=0; done++ };
end_stop:	killed[me];
		dead[me]=1
	}
#else
	} unless { killed[me]; atomic { dead[me]=1; n=0; d=0; done++ } }
#endif
}

#define NEW(q,w) (msg[q] & (7-told[2*w+q]))
#define NEWS(w) (NEW(0,w) || NEW(1,w))
#define SEES(w) (((new&1) && NEW(0,w)) || ((new&2) && NEW(1,w)))
#ifdef ONE
#define ALL 1
#define REG1 skip
#else
#define ALL 3
#define REG1 register(1)
#endif
#if defined(DENIED) && !defined(FORGETNEW)
#define STILLNEW ALL
#else
#define STILLNEW 0
#endif
#define KEPT(q,w) ((acked[q] & (7-told[2*w+q]))==0)

inline register(q) {
	atomic {
		if
#ifdef STEAL
		:: reg[q]!=me+1 -> reg[q]=me+1; mode=mode|(1<<q)
#else
		:: reg[q]==0 || (reg[q]==2-me && dead[1-me]) -> reg[q]=me+1; mode=mode|(1<<q)
#endif
		:: else
		fi
	}
}
inline prepare(q,s) {
	if
#ifdef SAMENUMBER
	:: (new&(1<<q)) && !first && seq[q]==s
	:: (new&(1<<q)) && (first || seq[q]!=s) -> s=seq[q]; num[q]=num[q]+1+(num[q]&1)
#elif defined(OLDTICKET)
	:: (new&(1<<q)) && !first -> s=seq[q]
	:: (new&(1<<q)) && first -> s=seq[q]; num[q]=num[q]+1+(num[q]&1)
#else
	:: (new&(1<<q)) -> s=seq[q]; num[q]=num[q]+1+(num[q]&1)
#endif
	:: else
	fi
}

proctype W(byte me) {
	byte c, s0, s1, new, mode; bool ok, first;
	{
#ifndef REGLATE
	register(0);
#ifndef ONE
	register(1);
#endif
#endif
	new=ALL; first=1;
	do
	::
#ifdef LATECOUNT
		atomic { new=new|bits[me]; bits[me]=0 };
		c=count[me];
#else
		c=count[me];
		atomic { new=new|bits[me]; bits[me]=0 };
#endif
		d_step {
			if :: (new&1) -> told[2*me]=told[2*me]|msg[0] :: else fi;
			if :: (new&2) -> told[2*me+1]=told[2*me+1]|msg[1] :: else fi
		};
		prepare(0,s0);
#ifndef ONE
		prepare(1,s1);
#endif
#ifdef REGLATE
		if :: first -> register(0); REG1 :: else fi;
#endif
		first=0;
		ok=1;
		atomic { if :: SEES(me) -> goto again :: else -> new=STILLNEW fi };
		atomic { if :: count[me]==c -> qC[me]=1 :: else -> ok=0 fi };
		if
		:: ok && !(mode&1) -> atomic { if :: seq[0]==s0 -> qS[2*me]=1 :: else -> ok=0 fi }
		:: else
		fi;
#ifndef ONE
		if
		:: ok && !(mode&2) -> atomic { if :: seq[1]==s1 -> qS[2*me+1]=1 :: else -> ok=0 fi }
		:: else
		fi;
#endif
		if
		:: ok -> asleep[me]=1;
#if defined(STOP) && !defined(NOTIMER)
end_asleep:		atomic { (woken[me] || NEWS(me)) -> if :: !woken[me] -> new=ALL :: else fi;
#elif defined(DENIED) && !defined(NOTIMER)
end_asleep:		atomic { (woken[me] || SEES(me)) ->
#else
end_asleep:		atomic { woken[me] ->
#endif
				asleep[me]=0; woken[me]=0; qC[me]=0; qS[2*me]=0; qS[2*me+1]=0 }
		:: else -> atomic { woken[me]=0; qC[me]=0; qS[2*me]=0; qS[2*me+1]=0 }
		fi;
		atomic { if :: !(mode&1) && seq[0]!=s0 -> new=new|1 :: else fi };
#ifndef ONE
		atomic { if :: !(mode&2) && seq[1]!=s1 -> new=new|2 :: else fi };
#endif
again:		ok=0; c=0
	od
#ifdef STOP
	} unless { (killed[me] || stopped[me]);
#else
	} unless { killed[me];
#endif
		atomic { dead[me]=killed[me]; c=0; s0=0; s1=0; new=0; mode=0; ok=0; first=0;
			asleep[me]=0; woken[me]=0; qC[me]=0; qS[2*me]=0; qS[2*me+1]=0 };
end_gone:	(false)
	}
}

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
#ifdef TWO
		run W(1)
#endif
	}
	do
#ifndef SETDIES
	:: atomic { budget>0 && !killed[2] && done<2 -> killed[2]=1; budget-- }
	:: atomic { budget>0 && !killed[3] && done<2 -> killed[3]=1; budget-- }
#endif
#ifdef TWO
	:: atomic { budget>0 && !killed[0] -> killed[0]=1; budget-- }
#endif
#ifdef STOP
	:: atomic { stop && !killed[2] && done<2 -> stopped[2]=1; stop=0 }
	:: atomic { stop && !killed[3] && done<2 -> stopped[3]=1; stop=0 }
	:: atomic { stop && !killed[0] -> stopped[0]=1; stop=0 }
	:: atomic { timeout ->
		assert(killed[0] || stopped[0] || !NEWS(0));
#ifdef TWO
		assert(!NEWS(1));
#endif
		break }
#elif defined(DENIED)
	:: atomic { timeout -> assert(KEPT(0,0) && KEPT(1,0)); break }
#else
	:: atomic { done==2 && (killed[0] || (asleep[0] && !woken[0])) && (SETS==1 || (asleep[1] && !woken[1])) ->
		assert(killed[0] || (KEPT(0,0) && KEPT(1,0)));
#ifdef TWO
		assert(KEPT(0,1) && KEPT(1,1));
#endif
		break }
#endif
	od
end_k:	(false)
}
