/* state.pml - the latest value: buffers, stamps, and the cells of readers that were overtaken;
 * death between any two steps.
 *
 *   lv lb         latest: version and buffer, one word
 *   st[b]         stamp: the version in the buffer, 0 while it is written
 *   da[b] db[b]   its two halves
 *   cs[c]         a cell: 0, ASK, or PIN + buffer
 *   co[c]         its owner (reader + 1); both one word
 *
 * set    1. each cell: a dead reader's -> 0; ASK -> compare-exchange PIN + lb, failed -> read
 *           again, once; PIN + b: busy
 *        2. b = the next after lb that is neither lb nor busy   3. st[b] = 0   4. da, db
 *        5. st[b] = version   6. latest
 * get    1. l = latest; copy; st still l's version -> done; TRIES times
 *        2. a cell, 0 or a dead reader's -> {me, ASK} by compare-exchange; none -> 1
 *        3. l = latest; compare-exchange ASK -> PIN + l's buffer; failed: the writer has pinned
 *           for this reader
 *        4. s = st[b]; copy; st[b] == s   5. cell = 0
 *
 * Writers come one after the other: the next when the one before is dead or done (endpoint.pml has
 * the steps).
 * Checked: no get returns halves of two values, or a value older than the latest when it began; a
 * pinned copy is never overtaken (so a get with a cell ends after so many steps); the writer always
 * finds a buffer.
 * Switches: -DNR=readers -DNC=cells -DNB=buffers -DW=writers -DS=sets of each -DG=gets of each
 * -DDW=deaths of writers -DDR=deaths of readers -DTRIES
 *   STOP       One writer or reader may stop for ever. The others come to their ends; the next
 *              writer is refused, because the role is what the stopped writer holds. A copy that
 *              must be tried again has been overtaken by a later version, which is there in whole:
 *              no reader tries again because of a step that does not come.
 * Mutations, each must be caught:
 *   NOASK      the reader writes PIN at once, after reading latest
 *   NOHELP     the writer ignores ASK
 *   NOPINS     the writer ignores pins
 *   HELPSTORE  the writer helps by a store
 *   FEWER      a buffer less than cells + 2
 *   PUBFIRST   latest before the bytes
 *   NOSTAMP    the stamp is not set to 0 before the bytes
 *   NOCHECK    the optimistic copy is not checked
 *   STAMPLATE  (STOP) latest names a buffer whose stamp is written a step later
 *   STEALLIVE  the reader takes any cell
 *   UNPINEARLY the reader clears its cell before the copy
 */
#ifndef NR
#define NR 2
#endif
#ifndef NC
#define NC NR
#endif
#ifdef FEWER
#define NB (NC+1)
#endif
#ifndef NB
#define NB (NC+2)
#endif
#ifndef W
#define W 1
#endif
#ifndef S
#define S 3
#endif
#ifndef G
#define G 1
#endif
#ifndef DW
#define DW 0
#endif
#ifndef DR
#define DR 0
#endif
#ifndef TRIES
#define TRIES 1
#endif
#define ASK 1
#define PIN 2
byte lv=1, lb=0;
byte st[NB], da[NB], db[NB];
byte cs[NC], co[NC];
bool rdead[NR], wdead[W], wfin[W];
byte dw, dr;
#ifdef STOP
bool wstop[W], rstop[NR], stop=1;
#endif

proctype Writer(byte me) {
	byte c, b, n, s, o, v, busy;
	{
#ifdef STOP
		/* refused, while the one before lives and does not end */
		if :: me>0 -> if :: wdead[me-1] || (wfin[me-1] && !wstop[me-1]) :: wstop[me-1] && !wdead[me-1] -> goto refused fi :: else fi;
#else
		if :: me>0 -> (wdead[me-1] || wfin[me-1]) :: else fi;
#endif
		do
		:: n<S ->
			n++;
			/* 1 */
			c=0; busy=0;
			do
			:: c<NC ->
				atomic { s=cs[c]; o=co[c] };
				if
				:: o!=0 && rdead[o-1] -> atomic { if :: cs[c]==s && co[c]==o -> cs[c]=0; co[c]=0 :: else fi; s=0 }
#ifndef NOHELP
				:: s==ASK && !rdead[o-1] ->
#ifdef HELPSTORE
					atomic { cs[c]=PIN+lb; co[c]=o; s=PIN+lb };
#else
					atomic { if :: cs[c]==ASK && co[c]==o -> cs[c]=PIN+lb; s=PIN+lb :: else -> s=0 fi };
					if :: s==0 -> s=cs[c] :: else fi
#endif
#endif
				:: else
				fi;
#ifndef NOPINS
				if :: s>=PIN -> busy=busy|(1<<(s-PIN)) :: else fi;
#endif
				c++
			:: else -> break
			od;
			/* 2 */
			atomic {
				b=(lb+1)%NB; s=0;
				do
				:: s<NB && (b==lb || (busy&(1<<b))) -> b=(b+1)%NB; s++
				:: else -> break
				od;
				assert(s<NB);
				v=lv+1; s=0; o=0; c=0; busy=0
			};
#ifdef PUBFIRST
			atomic { lv=v; lb=b };
#endif
#ifndef NOSTAMP
			st[b]=0;
#endif
			da[b]=v;
			db[b]=v;
#ifndef STAMPLATE
			st[b]=v;
#endif
#ifndef PUBFIRST
			atomic { lv=v; lb=b };
#endif
#ifdef STAMPLATE
			st[b]=v;
#endif
			atomic { b=0; v=0 }
		:: else -> break
		od
#ifdef STOP
		;
refused:	skip
	} unless { (wdead[me] || wstop[me]) };
#else
	} unless { wdead[me] };
#endif
	atomic { wfin[me]=1; c=0; b=0; n=0; s=0; o=0; v=0; busy=0 }
}

proctype Reader(byte me) {
	byte g, v, b, x, y, c, t, old, o, from;
	{
		do
		:: g<G ->
			atomic { g++; from=lv; t=0 };
again:			do
			:: t<TRIES ->
				atomic { t++; v=lv; b=lb };
				x=da[b];
				y=db[b];
#ifdef NOCHECK
				goto got;
#else
#ifdef STOP
				if :: atomic { st[b]==v -> goto got } :: atomic { st[b]!=v -> assert(lv>v) } fi
#else
				if :: st[b]==v -> goto got :: else fi
#endif
#endif
			:: else -> break
			od;
			/* 2 */
			c=0;
			do
			:: c<NC ->
				atomic { old=cs[c]; o=co[c] };
				if
#ifdef STEALLIVE
				:: true ->
#else
				:: o==0 || rdead[o-1] ->
#endif
					atomic { if :: cs[c]==old && co[c]==o -> cs[c]=ASK; co[c]=me+1; old=99 :: else fi };
					if :: old==99 -> break :: else -> c++ fi
#ifndef STEALLIVE
				:: else -> c++
#endif
				fi
			:: else -> break
			od;
			old=0; o=0;
			if :: c==NC -> c=0; t=TRIES-1; goto again :: else fi;
			/* 3 */
			b=lb;
#ifdef NOASK
			cs[c]=PIN+b;
#else
			atomic { if :: cs[c]==ASK -> cs[c]=PIN+b :: else -> b=cs[c]-PIN fi };
#endif
#ifdef UNPINEARLY
			cs[c]=0;
#endif
			v=st[b];
			assert(v!=0);
			x=da[b];
			y=db[b];
			assert(st[b]==v);
			atomic { cs[c]=0; co[c]=0; c=0 };
got:			atomic { assert(x==y); assert(x==v); assert(v>=from); v=0; b=0; x=0; y=0; from=0; t=0 }
		:: else -> break
		od
#ifdef STOP
	} unless { (rdead[me] || rstop[me]) };
#else
	} unless { rdead[me] };
#endif
	atomic { g=0; v=0; b=0; x=0; y=0; c=0; t=0; old=0; o=0; from=0 }
}

active proctype K() {
	byte i;
	atomic {
		st[0]=1; da[0]=1; db[0]=1;
		for (i : 0 .. NR-1) { run Reader(i) };
		for (i : 0 .. W-1) { run Writer(i) };
		i=0
	};
	do
	:: dw<DW -> atomic { i=0; do :: i+1<W -> i++ :: break od; if :: !wdead[i] && !wfin[i] -> wdead[i]=1; dw++ :: else fi; i=0 }
	:: dr<DR -> atomic { i=0; do :: i+1<NR -> i++ :: break od; if :: !rdead[i] -> rdead[i]=1; dr++ :: else fi; i=0 }
#ifdef STOP
	:: atomic { stop -> stop=0; i=0; do :: i+1<W -> i++ :: break od; if :: !wdead[i] && !wfin[i] -> wstop[i]=1 :: else fi; i=0 }
	:: atomic { stop -> stop=0; i=0; do :: i+1<NR -> i++ :: break od; if :: !rdead[i] -> rstop[i]=1 :: else fi; i=0 }
#endif
	:: break
	od
}
