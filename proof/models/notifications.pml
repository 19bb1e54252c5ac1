/* notifications.pml - each notification of a condition variable ends one wait, though a wake-up may
 * reach many waiters.
 *
 *   epoch somebody  the eventcount's other word
 *   count           how many waiters there are
 *   number unused   the word: how many notifications, and which of them no waiter has used (bit k:
 *                   notification k)
 *   seq, q, qw[i]   `sequence`, and who is in the kernel's queue of `relay`, in that order
 *   mutex           who has it: 0, or a waiter's number + 1
 *
 * notify   1. no waiter has prepared, and there is none: done. Else number+1, and its bit
 *          2. no waiter has prepared: done. ONE step: seq+1, and wake one
 *          3. none was woken: somebody=0, if epoch is as in 2
 * wait     1. with the mutex: t = number
 *          2. prepare: s = seq; use the oldest notification later than t, if any: return
 *          3. unlock. 4. sleep while seq == s
 *          5. the mutex is held: wake one, and queue for it. Lock
 *          6. use the oldest notification later than t: return. None: if seq != s and one is
 *             unused, wake one; from 2
 * A waiter that dies with a wake-up in hand, or with the mutex: the kernel wakes one. One that dies
 * with the mutex: the next locker is told, and returns; it notifies all, which is left out here: so
 * after such a death no waiter need return.
 *
 * Checked: no more waits end than there were notifications; at rest, no living waiter sleeps, with
 * the mutex free, while a notification later than its t is unused.
 * Switches: -DNS=waiters -DNW=notifications, each by a thread of its own -DF=deaths of waiters
 * Mutations: NOPASS (6 wakes no waiter), LATE (notify 1 after 2), NOQUEUE (5 does not wake; needs a
 *   death), EARLY (2 looks for no notification), NOCOUNT (1 does not ask how many waiters there are)
 */
#ifndef NS
#define NS 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef F
#define F 0
#endif
#if NS == 3
#define ALL(f) f(0) f(1) f(2)
#else
#define ALL(f) f(0) f(1)
#endif
byte number, unused, seq, mutex, ended, bf, told, epoch, count;
bool somebody, waits[NS], qw[NS], hand[NS], asleep[NS], gone[NS];
byte t[NS], s[NS];
/* The kernel wakes the first in the queue; the dead have left it. */
chan q = [8] of { byte };
#define WAKEONE do :: q?x -> if :: qw[x] -> qw[x]=0; hand[x]=1; x=0; break :: else x=0 fi :: empty(q) -> break od
/* notification k, from 1 on, has bit k-1 */
#define LATER(i) (unused >> t[i])

/* A notifier that notes nothing leaves no waiter behind that has unlocked. */
#define HERE(i) assert(gone[i] || !waits[i]);
#define UNSEEN ALL(HERE)

proctype Notifier() {
	byte x, f; bool none;
	if
#ifdef NOCOUNT
	:: atomic { !somebody -> UNSEEN }
	:: atomic { somebody ->
#else
	:: atomic { !somebody && count==0 -> UNSEEN }
	:: atomic { somebody || count!=0 ->
#endif
#ifndef LATE
		number++; unused = unused | (1 << (number-1))
#endif
		};
		if
		:: atomic { somebody -> f=epoch };
			atomic { none=(len(q)==0); seq++; WAKEONE };
			atomic { if :: none && epoch==f -> somebody=0 :: else fi }
		:: !somebody
		fi;
#ifdef LATE
		atomic { number++; unused = unused | (1 << (number-1)) }
#endif
	fi
}

#define FIND k=t[me]; do :: !(unused >> k & 1) -> k++ :: else -> break od

proctype Waiter(byte me) {
	byte k, x;
	{
		skip;
end_b:		atomic { mutex==0 && !told -> mutex=me+1 };
		count++;
		t[me]=number;
		do
		:: atomic { s[me]=seq; somebody=1; epoch=(epoch+1)%32; hand[me]=0 };
			atomic {
#ifndef EARLY
				if :: LATER(me)!=0 -> FIND;
					unused = unused & ~(1 << k); ended++; count--; waits[me]=0; mutex=0; k=0; break
				:: else fi;
#endif
				mutex=0; waits[me]=1
			};
			if
			:: atomic { seq==s[me] -> qw[me]=1; asleep[me]=1; q!me };
end_s:				atomic { hand[me] || told -> asleep[me]=0; qw[me]=0 }
			:: seq!=s[me]
			fi;
			if
			:: atomic { mutex==0 -> mutex=me+1 }
			:: atomic { mutex!=0 ->
#ifndef NOQUEUE
				WAKEONE;
#endif
				hand[me]=0 };
				atomic { mutex==0 -> mutex=me+1 }
			fi;
			atomic {
				if :: told -> mutex=0; waits[me]=0; hand[me]=0; break :: else fi;
				if :: LATER(me)!=0 -> FIND;
					unused = unused & ~(1 << k); ended++; count--; waits[me]=0; mutex=0; hand[me]=0; k=0; break
				:: else ->
#ifndef NOPASS
					if :: seq!=s[me] && unused!=0 -> WAKEONE :: else fi
#endif
				fi
			}
		od;
end_w:		(false)
	} unless { gone[me];
		atomic { k=0; qw[me]=0; asleep[me]=0;
			if :: mutex==me+1 -> mutex=0; told=1; WAKEONE
			:: mutex!=me+1 && hand[me] -> WAKEONE
			:: else fi; hand[me]=0 } }
}

active proctype killer() {
	byte i;
	atomic {
		if :: bf=F
#if F > 0
		:: bf=F-1
#endif
		fi;
		do :: i<NS -> run Waiter(i); i++ :: else -> break od;
		i=0; do :: i<NW -> run Notifier(); i++ :: else -> break od; i=0
	};
end_k:	do
	:: atomic { bf>0 && !gone[0] -> gone[0]=1; bf-- }
	:: atomic { bf>0 && !gone[1] -> gone[1]=1; bf-- }
	:: bf==0 -> break
	od;
	timeout;
	assert(ended<=number);
#define REST(i) assert(told || mutex!=0 || !(asleep[i] && !gone[i] && LATER(i)!=0));
	ALL(REST)
}
