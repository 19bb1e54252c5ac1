/* state_wait.pml - waiting for another value, or for the writer's end; death between any two steps.
 *
 *   lv            the latest version          h hw    holder: 0, or the writer + 1; its WAITERS bit
 *   sl seq        the eventcount: sleepers (odd: a waiter may sleep), sequence
 *   px[i]         list_op_pending of process i points to x
 *
 * write  1. px; h 0 or dead -> me, by compare-exchange; it had WAITERS: wake all on h; px off
 *        2. lv+1   3. sl odd: seq+1, wake all on seq, compare-exchange sl -> + 1   (2, 3: S times)
 *        4. leave (or not): h -> 0, wake all on h
 * wait   1. t = seq; sl := a new odd number (heavy fence)
 *        2. h, does it live?; then lv: another -> told; dead, not told -> told
 *        3. living: sleep on {seq == t, h as it was, its end}
 *        4. none lives: px; h changed -> wake all on h; WAITERS not in h: wake all on h (a waiter
 *           that sleeps there slept on another h), then compare-exchange it in; sleep on
 *           {x, seq == t, h}; woken, and h changed -> wake all on h
 *
 * in a set (the first SET waiters; another thread does what is to be told, so that a look may find
 * it told just now)
 *        1. as above
 *        2. words: h, does it live? living: {seq == t, h as it was}; else as in 4, without px: {x,
 *           seq == t, h with WAITERS}
 *        3. h, does it live?; then lv; what is to be told is told, perhaps by the other thread
 *        4. living: its end, too; dead and no WAITERS: again from 1   5. sleep on those
 *        6. as the end of 4
 *
 * several.pml shows that a writer's end wakes all its sleepers: here they simply run again.
 * endpoint.pml has which process may write. Writers come one after the other: the next when the one
 * before is dead or has left.
 * Checked: when all has come to rest, every living waiter has been told of the last version, and of
 * the death of a writer that has no successor; a writer's last value is told before its death.
 * Switches: -DNW=writers -DS=sets of each -DNR=waiters -DD=deaths -DSET=waiters in sets
 *   STOP        One process, a writer or a waiter, may stop for ever, and be killed then. A waiter
 *               makes the recheck. No waiter is excused: it is told of a value that the
 *               stopped writer has made the latest, and of a death whose wake-up by x was given to
 *               a waiter that has stopped. The next writer is refused (end_q): the role is what the
 *               stopped writer holds.
 *   HALF        (STOP) only writers die, and only waiters stop
 * Mutations, each must be caught:
 *   NOLOOK      the waiter does not look again after 1
 *   CLEARFIRST  the notifier clears `sl` before it wakes
 *   NOWATCH     3 without the writer's end
 *   LVFIRST     lv is read before h
 *   NOHOLDER    4 on seq alone
 *   NOX         a process that comes does not point px to x
 *   NOTURN      a waiter that was woken through x does not wake the others
 *   LATEBIT     WAITERS goes in without a wake before: the kernel's wake for a writer that came and
 *               died goes to a waiter that slept after that
 *   QUIETLEAVE  4 of write wakes no waiter
 *   NOTIMER     (STOP) a waiter makes no recheck
 *   STALE       a set that saw a writer live, and then dead and told, sleeps on without asking for
 *               the next
 */
#ifndef NW
#define NW 2
#endif
#ifndef S
#define S 1
#endif
#ifndef NR
#define NR 2
#endif
#ifndef D
#define D 1
#endif
#ifndef SET
#define SET 0
#endif
byte lv=1, h, sl, seq; bool hw;
bool wdead[NW], wout[NW], rdead[NR];
bool pw[NW], px[NR];
bool qs[NR], qh[NR], qx[NR], woken[NR];
byte watch[NR];
byte last[NW];			/* ghost: the latest version when that writer died */
byte seen[NR]; bool told[NR], left[NR];	/* left: told of a death, it waits no more */
byte deaths;
#ifdef STOP
bool wstop[NW], rstop[NR], stopped;
#endif

#define RUN(i) woken[i]=1; qs[i]=0; qh[i]=0; qx[i]=0
#define wakeall(q) d_step { k=0; do :: k<NR -> if :: q[k] -> RUN(k) :: else fi; k++ :: else -> break od; k=0 }
#define wake1(q) atomic { k=0; do :: k<NR && !q[k] -> k++ :: else -> break od; if :: k<NR -> RUN(k) :: else fi; k=0 }

proctype Writer(byte me) {
	byte e, n, f, k; bool b;
	{
		k=0;
end_q:		(me==0 || wdead[me-1] || wout[me-1]);
#ifndef NOX
		pw[me]=1;
#endif
		do
		:: atomic { e=h; b=hw }; assert(e==0 || wdead[e-1]);
			atomic { if :: h==e && hw==b -> h=me+1; hw=0; f=1 :: else fi };
			if :: f -> break :: else fi
		od;
		f=0;
		if :: b -> wakeall(qh) :: else fi;
		pw[me]=0;
		do
		:: n<S -> n++;
			lv++;
			f=sl;
			if
			:: f&1 ->
#ifdef CLEARFIRST
				atomic { if :: sl==f -> sl=(f+1)%32 :: else fi };
#endif
				seq=(seq+1)%32;
				wakeall(qs);
#ifndef CLEARFIRST
				atomic { if :: sl==f -> sl=(f+1)%32 :: else fi }
#endif
			:: else
			fi; f=0
		:: else -> break
		od;
		if
		:: true -> h=0;
#ifndef QUIETLEAVE
			wakeall(qh)
#endif
		:: true ->		/* it stays, and lives */
end_w:			(false)
		fi;
		wout[me]=1
#ifdef STOP
	} unless { (wdead[me] || wstop[me]) };
	atomic { e=0; b=0; n=0; f=0; k=0 };
end_stop: wdead[me];
#else
	} unless { wdead[me] };
#endif
	atomic { e=0; b=0; n=0; f=0; if :: pw[me] -> pw[me]=0; wake1(qx) :: else fi }
}

proctype Waiter(byte me) {
	byte t, e, v, k; bool b, living;
	{
		v=0;
again:		t=seq;
		atomic { sl=(sl&1 -> (sl+2)%32 : (sl+1)%32) };
look:
#ifdef LVFIRST
		v=lv;
#endif
		atomic { e=h; b=hw; living=(e!=0 && !wdead[e-1]) };
#ifndef LVFIRST
		v=lv;
#endif
#ifndef NOLOOK
		if
		:: v!=seen[me] -> atomic { seen[me]=v; told[me]=0; v=0; e=0; b=0; living=0 }; goto again
		:: v==seen[me] && e!=0 && !living && !told[me] -> atomic { assert(seen[me]>=last[e-1]); told[me]=1; v=0; e=0; b=0 }; if :: goto again :: left[me]=1; goto done fi
		:: else
		fi;
#endif
		if
		:: living ->
			px[me]=0;
			atomic { living=0; if :: seq==t && h==e && hw==b && !wdead[e-1] -> qs[me]=1; qh[me]=1; woken[me]=0
#ifndef NOWATCH
				watch[me]=e
#endif
				:: else -> woken[me]=1 fi }
		:: else ->
#ifdef NOHOLDER
			atomic { if :: seq==t -> qs[me]=1; woken[me]=0 :: else -> woken[me]=1 fi }
#else
			px[me]=1;
			if
			:: h!=e -> wakeall(qh); woken[me]=1
			:: else ->
#ifndef LATEBIT
				if :: !hw -> wakeall(qh) :: else fi;
#endif
				atomic { if :: h==e -> hw=1; b=1 :: else -> b=0 fi };
				atomic { if :: b && seq==t && h==e && hw -> qs[me]=1; qh[me]=1; qx[me]=1; woken[me]=0 :: else -> woken[me]=1 fi }
			fi
#endif
		fi;
#if defined(STOP) && !defined(NOTIMER)
end_s:		atomic { (woken[me] || (watch[me]!=0 && wdead[watch[me]-1]) || lv!=seen[me] || h!=e) ->
			woken[me]=0; qs[me]=0; qh[me]=0; qx[me]=0; watch[me]=0 };
#else
end_s:		atomic { (woken[me] || (watch[me]!=0 && wdead[watch[me]-1])) -> woken[me]=0; qs[me]=0; qh[me]=0; qx[me]=0; watch[me]=0 };
#endif
#ifndef NOTURN
		if :: px[me] && h!=e -> wakeall(qh) :: else fi;
#endif
		atomic { t=0; e=0; b=0; v=0 };
#ifdef NOLOOK
		if :: lv!=seen[me] -> seen[me]=lv; told[me]=0 :: else fi;
		if :: h!=0 && wdead[h-1] -> told[me]=1 :: else fi;
#endif
		goto again;
done:		skip
#ifdef STOP
	} unless { (rdead[me] || rstop[me]) };
	atomic { qs[me]=0; qh[me]=0; qx[me]=0; watch[me]=0; woken[me]=0; t=0; e=0; v=0; k=0; b=0; living=0 };
end_stop: rdead[me];
#else
	} unless { rdead[me] };
#endif
	atomic { qs[me]=0; qh[me]=0; qx[me]=0; watch[me]=0; if :: px[me] && rdead[me] -> px[me]=0; wake1(qx) :: else -> px[me]=0 fi }
}

proctype InSet(byte me) {
	byte t, e, f, v, k; bool b, living, l;
	{
		v=0;
again:		t=seq;
		atomic { sl=(sl&1 -> (sl+2)%32 : (sl+1)%32) };
		atomic { e=h; b=hw; living=(e!=0 && !wdead[e-1]) };
		if
		:: living
		:: else ->
			b=1;
			if
			:: h!=e -> wakeall(qh)
			:: else ->
				if :: !hw -> wakeall(qh) :: else fi;
				atomic { if :: h==e -> hw=1 :: else fi }
			fi
		fi;
		atomic { f=h; l=(f!=0 && !wdead[f-1]); k=hw };
		v=lv;
		if
		:: v!=seen[me] -> atomic { seen[me]=v; told[me]=0 }
		:: else
		fi;
		if
		:: f!=0 && !l && !told[me] -> atomic { assert(seen[me]>=last[f-1]); told[me]=1; v=0 }
		:: else -> v=0
		fi;
		if
#ifndef STALE
		:: f!=0 && !l && !k -> atomic { k=0; f=0; e=0; b=0; living=0; t=0 }; goto again
		:: else
#else
		:: true
#endif
		fi;
		atomic { k=0; if :: seq==t && h==e && hw==b && (!l || !wdead[f-1]) -> qs[me]=1; qh[me]=1; qx[me]=!living; woken[me]=0; watch[me]=(l -> f : 0)
			:: else -> woken[me]=1 fi; f=0; l=0 };
#if defined(STOP) && !defined(NOTIMER)
end_s:		atomic { (woken[me] || (watch[me]!=0 && wdead[watch[me]-1]) || lv!=seen[me] || h!=e) ->
			woken[me]=0; qs[me]=0; qh[me]=0; qx[me]=0; watch[me]=0 };
#else
end_s:		atomic { (woken[me] || (watch[me]!=0 && wdead[watch[me]-1])) -> woken[me]=0; qs[me]=0; qh[me]=0; qx[me]=0; watch[me]=0 };
#endif
		if :: !living && h!=e -> wakeall(qh) :: else fi;
		atomic { t=0; e=0; b=0; living=0 };
		goto again
#ifdef STOP
	} unless { (rdead[me] || rstop[me]) };
#else
	} unless { rdead[me] };
#endif
	atomic { qs[me]=0; qh[me]=0; qx[me]=0; watch[me]=0 }
}

active proctype K() {
	byte i;
	atomic {
		for (i : 0 .. NR-1) { seen[i]=1; if :: i<SET -> run InSet(i) :: else -> run Waiter(i) fi };
		for (i : 0 .. NW-1) { run Writer(i) };
		i=0
	};
	do
	:: deaths<D -> atomic { i=0; do :: i+1<NW -> i++ :: break od; if :: !wdead[i] -> wdead[i]=1; last[i]=(h==i+1 -> lv : 0); deaths++ :: else fi; i=0 }
#ifndef HALF
	:: deaths<D -> atomic { i=0; do :: i+1<NR -> i++ :: break od; if :: !rdead[i] -> rdead[i]=1; deaths++ :: else fi; i=0 }
#endif
#ifdef STOP
#ifndef HALF
	:: !stopped -> atomic { stopped=1; i=0; do :: i+1<NW -> i++ :: break od; if :: !wdead[i] -> wstop[i]=1 :: else fi; i=0 }
#endif
	:: !stopped -> atomic { stopped=1; i=0; do :: i+1<NR -> i++ :: break od; if :: !rdead[i] -> rstop[i]=1 :: else fi; i=0 }
#endif
	:: break
	od;
	timeout -> atomic {
#ifdef STOP
		for (i : 0 .. NR-1) {
			assert(rdead[i] || rstop[i] || left[i] || seen[i]==lv);
			assert(rdead[i] || rstop[i] || left[i] || h==0 || !wdead[h-1] || told[i])
		} }
#else
		for (i : 0 .. NR-1) {
			assert(rdead[i] || left[i] || seen[i]==lv);
			assert(rdead[i] || left[i] || h==0 || !wdead[h-1] || told[i])
		} }
#endif
}
