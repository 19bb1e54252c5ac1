/* event_cleared.pml - bits of an event that are set and cleared again: every waiter that waits at
 * the set goes on, and none goes on for a bit that was set only before it began.
 *
 *   fl wb n       the word: the bit, WAITERS, and the number of clearings. ONE word, but for the
 *                 kernel, which changes {fl, wb} alone
 *   note          `cleared[bit]`
 *   qw[i]         waiter i is in the kernel's queue of the lower half
 *
 * set      v = the word. WAITERS is not set: compare-exchange fl=1. Else ONE step: fl=1 and wake
 *          all; ONE step: WAITERS cleared and wake all
 * clear    1. (fl,n) = the word; the bit is clear: done
 *          2. note = n+1, if that is more
 *          3. compare-exchange (fl,wb,n) -> (0,wb,n+1); it fails: from 1
 * wait     1. b = n (the wait begins)
 *          2. compare-exchange WAITERS in, unless the bit is set; the word was (v,m) then
 *          3. look: the bit is set, or b < note <= n+1: done. b = m
 *          4. sleep on {lower half == WAITERS without the bit, n == m}; from 2
 *
 * Checked: a waiter that goes on has seen the bit set since it began (was[i]); at rest, no waiter
 * sleeps that lives and for which the bit was set since it began.
 * Switches: -DNS=waiters -DNW=setters -DNC=processes that clear -DF=threads stopped or killed
 * Mutations: NONOTE (a waiter looks at the bit only), LATENOTE (2 after 3), PLAINNOTE (2 is a
 *   store), PLAINCLEAR2 (3 clears the bit whatever n is, and n is raised by a step of its own
 *   before), ONEHALF (4 sleeps on the lower half only)
 */
#ifndef NS
#define NS 2
#endif
#ifndef NW
#define NW 1
#endif
#ifndef NC
#define NC 1
#endif
#ifndef F
#define F 1
#endif
bool fl, wb; byte n, note;
bool qw[NS], woken[NS], asleep[NS], began[NS], was[NS], gone[NS+NW+NC]; byte bf;
#define A(i) if :: qw[i] -> qw[i]=0; woken[i]=1 :: else fi
#define S(i) if :: began[i] -> was[i]=1 :: else fi
#if NS == 1
#define WAKEALL A(0)
#define SEEN S(0)
#else
#define WAKEALL A(0); A(1)
#define SEEN S(0); S(1)
#endif

proctype Setter(byte me) {
	bool vw;
	{
		do
		:: atomic { vw=wb };
			if
			:: atomic { !vw && !wb -> fl=1; SEEN; break }
			:: atomic { !vw && wb -> skip }
			:: atomic { vw -> fl=1; SEEN; WAKEALL; vw=0 };
				atomic { wb=0; WAKEALL; break }
			fi
		od;
		atomic { vw=0 };
end_n:		(false)
	} unless { gone[NS+me]; d_step { vw=0 } }
}

proctype Clearer(byte me) {
	bool vw; byte vn;
	{
		do
		:: atomic { !fl -> vn=0; vw=0; break }
		:: atomic { fl -> vn=n; vw=wb };
#ifndef LATENOTE
#ifdef PLAINNOTE
			note=vn+1;
#else
			atomic { if :: note<vn+1 -> note=vn+1 :: else fi };
#endif
#endif
			if
#ifdef PLAINCLEAR2
			:: atomic { if :: n==vn -> n=vn+1 :: else fi };
				atomic { fl=0; vn=0; vw=0; break }
#else
			:: atomic { fl && wb==vw && n==vn -> fl=0; n=vn+1;
#ifdef LATENOTE
				};
				atomic { note=vn+1; vn=0; vw=0; break }
#else
				vn=0; vw=0; break }
#endif
			:: atomic { !fl || wb!=vw || n!=vn -> vn=0; vw=0 }
#endif
			fi
		od;
end_c:		(false)
	} unless { gone[NS+NW+me]; d_step { vw=0; vn=0 } }
}

proctype Waiter(byte me) {
	byte b, m, k;
	{
		atomic { b=n; began[me]=1; if :: fl -> was[me]=1 :: else fi };
		do
		:: atomic { m=n; if :: !fl -> wb=1 :: else fi };
			if
			:: atomic { fl -> break }
#ifndef NONOTE
			:: atomic { !fl -> k=n };
				if
				:: atomic { k>b && note>b && note<=k+1 -> break }
				:: atomic { !(k>b && note>b && note<=k+1) -> b=m; k=0 }
				fi;
#else
			:: atomic { !fl -> b=m };
#endif
				if
#ifdef ONEHALF
				:: atomic { !fl && wb -> qw[me]=1; asleep[me]=1 };
#else
				:: atomic { !fl && wb && n==m -> qw[me]=1; asleep[me]=1 };
#endif
end_s:					d_step { woken[me] -> woken[me]=0; asleep[me]=0; m=0 }
#ifdef ONEHALF
				:: fl || !wb -> m=0
#else
				:: fl || !wb || n!=m -> m=0
#endif
				fi
			fi
		od;
		atomic { assert(was[me]); began[me]=0; was[me]=0; b=0; m=0; k=0 };
end_w:		(false)
	} unless { gone[me]; d_step { qw[me]=0; woken[me]=0; asleep[me]=0; began[me]=0; was[me]=0; b=0; m=0; k=0 } }
}

active proctype killer() {
	byte i;
	atomic {
		if :: bf=F
#if F > 0
		:: bf=F-1
#endif
		fi;
		do :: i<NW -> run Setter(i); i++ :: else -> break od;
		i=0; do :: i<NC -> run Clearer(i); i++ :: else -> break od;
		i=0; do :: i<NS -> run Waiter(i); i++ :: else -> break od; i=0
	};
end_k:	do
	:: atomic { bf>0 && !gone[0] -> gone[0]=1; bf-- }
	:: atomic { bf>0 && !gone[1] -> gone[1]=1; bf-- }
	:: atomic { bf>0 && !gone[2] -> gone[2]=1; bf-- }
#if NS+NW+NC > 3
	:: atomic { bf>0 && !gone[3] -> gone[3]=1; bf-- }
#endif
#if NS+NW+NC > 4
	:: atomic { bf>0 && !gone[4] -> gone[4]=1; bf-- }
#endif
#if NS+NW+NC > 5
	:: atomic { bf>0 && !gone[5] -> gone[5]=1; bf-- }
#endif
	:: bf==0 -> break
	od;
	timeout;
	assert(!(asleep[0] && was[0]));
#if NS > 1
	assert(!(asleep[1] && was[1]))
#endif
}
