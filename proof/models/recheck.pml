/* recheck.pml - retiring the token of an owner whose mark the kernel lost (liveness/enroll.rs,
 * sys/process.rs).
 *
 *   word = (tid, died)  libc's robust lock word
 *   gen                 odd: in use under id `gen`; even: retired
 *   rpid, rtid, rpst, rtst   recorded in the slot: the owner's pid and tid, and when its process
 *                       and its thread were started (0: the owner could not tell)
 *   system:  pst = start time of the pid's process, tst = of the tid's thread in it, as they are
 *            now; 0: there is none
 *            zomb: the process is a zombie, and its parent has not waited for it
 *
 * owner    claims (tid, record, gen odd). Then: it lives for ever; or ends, marked; or ends and the
 *          mark is lost (its memory was reaped first); or (-DEXEC) it is a thread other than the
 *          first that calls execve: its process lives, no thread has its number, no mark.
 *          Afterwards its numbers may be given out anew, the pid to another process, the tid to
 *          another thread.
 * asker    1. g = gen, the slot's record   2. is it alive? no -> done   3. asks the system (below)
 *          4. alive? no -> done
 *          5. gone: compare-exchange gen g -> g+1. Killed or stopped anywhere.
 *          The question has steps: (a) kill(pid,0): no process -> gone   (b) zombie -> gone
 *          (c) start time of the process
 *          (d) tgkill(pid,tid,0): no thread -> gone
 *          (e) start time of the thread. Another start time, both known -> gone. Each of b, c, e
 *          may fail (no descriptor, hidepid, an offset that is not known): unknown.
 * next     a claimer that takes the slot after it was marked, by the steps of token.pml, with other
 *          numbers.
 * Two askers: one at any time, and one after everything has come to rest and nothing fails any
 * more.
 * Checked: no living owner's generation is ever retired. In the end the registry does not call an
 * owner alive that is gone, unless its numbers are in use again and it could not tell when it was
 * started.
 * STOP: the next claimer of the slot may stop for ever, also between its number and its generation,
 * and the first asker anywhere (as if killed: no process waits for it, and what it had found out is
 * asked again). No process blocks: only the slot stays out of use.
 * Switches: -DBLIND every look into /proc fails, for ever   -DEXEC
 * -DPROC the token is a process's: steps a to c alone
 * Mutations, each must be caught:
 *   UNKNOWNGONE  what cannot be learned counts as gone (as it was)
 *   ZEROKNOWN    a start time of 0 is compared like any other
 *   NOTHREAD     a thread's token asks after the process only
 *   NOTSTART     a thread's start time is not compared
 *   NOSTART      a process's start time is not compared
 *   NOZOMBIE     a zombie counts as a process
 *   LATEGEN      gen is read after the system was asked, and 4 left out (4 alone may be left out:
 *                NOSECOND passes)
 */
byte tid, gen; bool died;
byte rtid, rpst, rtst;
byte pst, tst; bool zomb;
byte living;                          /* ghost: the id whose owner lives; 0: nobody's */
bool rest, gone, kill_a;              /* ghost: nothing fails any more; the first owner is gone; the first asker is killed */
#define TID 2
#define ALIVE(g) (tid!=0 && !died && tid==rtid && gen==g)

proctype Owner() {
	atomic { tid=TID; pst=1; tst=1; rtid=TID;
		if :: rpst=1; rtst=1 :: rpst=0; rtst=0 fi;
		gen=1; living=1 };
#ifdef EXEC
	atomic { tst=0; living=0; gone=1 };
	if :: tst=2 :: true fi
#else
	if
	:: true
	:: atomic { tid=0; died=1; tst=0; living=0; gone=1; if :: zomb=1 :: pst=0 fi }
	:: atomic { tst=0; living=0; gone=1; if :: zomb=1 :: pst=0 fi };
		if :: atomic { !zomb -> pst=3; if :: tst=3 :: true fi } :: true fi
	fi
#endif
}

/* res: 0 alive, 1 gone, 2 unknown */
#ifdef BLIND
#define FAILS blind=1
#else
#define FAILS if :: !rest -> blind=1 :: blind=0 fi
#endif
#ifdef UNKNOWNGONE
#define UNKNOWN 1
#else
#define UNKNOWN 2
#endif
#ifdef ZEROKNOWN
#define KNOWN(a) true
#else
#define KNOWN(a) (a!=0)
#endif
inline ask() {
	res=0;
	if
	:: pst==0 -> res=1
	:: else ->
		FAILS;
		atomic {
			st=pst;
			if
			:: blind -> res=UNKNOWN
#ifndef NOZOMBIE
			:: !blind && zomb -> res=1
			:: !blind && !zomb && st==0 -> res=UNKNOWN   /* it has ended since */
#else
			:: !blind && st==0 -> res=UNKNOWN
#endif
#ifndef NOSTART
			:: !blind && st!=0 && !zomb && KNOWN(a_pst) && st!=a_pst -> res=1
			:: else -> if :: a_pst==0 -> res=2 :: else fi
#else
			:: else
#endif
			fi
		}
	fi;
#if !defined(NOTHREAD) && !defined(PROC)
	if
	:: res==1
	:: else ->
		if
		:: tst==0 -> res=1
		:: else ->
			FAILS;
			atomic {
				st=tst;
				if
				:: blind || st==0 -> res=UNKNOWN
#ifndef NOTSTART
				:: !blind && st!=0 && KNOWN(a_tst) && st!=a_tst -> res=1
#endif
				:: else
				fi
			}
		fi
	fi;
#endif
	st=0; blind=0
}
#ifdef LATEGEN
#define NOSECOND
#endif
proctype Asker() {
	byte g, a_pst, a_tst, res, st; bool blind;
	{ gen!=0;
#ifndef LATEGEN
		g=gen;
#endif
		atomic { a_pst=rpst; a_tst=rtst };
		if
		:: ALIVE(1) ->
			ask();
#ifdef LATEGEN
			g=gen;
#endif
			if
#ifdef NOSECOND
			:: res==1 ->
#else
			:: res==1 && ALIVE(1) ->
#endif
				atomic { if :: gen==g && g%2 -> assert(living!=g); gen=g+1 :: else fi }
			:: else
			fi
		:: else
		fi
	} unless { kill_a && !rest };
	atomic { g=0; a_pst=0; a_tst=0; res=0; st=0; blind=0 }
}
/* retires what is marked, and claims */
#ifdef STOP
bool stop_n;
#endif
proctype Next() {
	byte g;
#ifdef STOP
	{ skip;
#endif
end_n:	atomic { gen!=0 && (tid==0 || died) -> g=gen };
	if :: g%2 -> atomic { if :: gen==g -> gen=g+1; g=g+1 :: else -> g=99 fi } :: else fi;
	if
	:: g!=99 ->
		atomic { if :: (tid==0 || died) && gen==g -> tid=7; died=0 :: else -> g=99 fi };
		if
		:: g!=99 -> rtid=7; rpst=5; rtst=5; atomic { gen=g+1; living=g+1 }
		:: else
		fi
	:: else
	fi
#ifdef STOP
	} unless { stop_n }
#endif
}
active proctype world() {
	atomic { run Owner(); run Asker(); run Next() };
#ifdef STOP
	if :: stop_n=1 :: true fi;
#endif
	if :: kill_a=1 :: true fi;
	timeout;
	rest=1; run Asker();
	timeout;
#ifndef BLIND
	if
	:: gone && ALIVE(1) ->
#ifdef PROC
		assert(rpst==0 && pst!=0 && !zomb)
#else
		assert(rtst==0 && tst!=0)
#endif
	:: else
	fi
#endif
}
