/* state_tap.pml - a tap beside a state: it reads each value that its buffers still have, whole, and counts the
 * others; also where a writer dies between a value's stamp and `latest`.
 *
 *   lv lb         latest: version and buffer, one word
 *   st[b]         stamp: the version in the buffer, 0 while it is written
 *   da[b] db[b]   its two halves
 *   pin[b]        a reader has pinned the buffer, which was the latest then
 *
 * begin  of a writer: stamps beyond lv -> 0
 * set    1. b = the next after lb that is not pinned   2. st[b] = 0   3. da, db   4. st[b] = version
 *        5. latest.  Dead anywhere: the next writer begins.
 * tap    1. l = latest   2. the stamps, one by one: the lowest from `next` on, below l's; else l itself
 *        3. copy   4. the stamp: the same: read, lost += version - next; another: from 1
 *
 * Checked: what is read is the value that was set with that version, and no version is read twice; at the end
 * what was read and what was lost are all that was set; a version that counts as lost has been overwritten.
 * Switches: -DNB=buffers -DM=sets -DD=deaths of writers -DPINS=readers
 * Mutations, each must be caught:
 *   NOCHECK     4 is left out
 *   BEYOND      2 takes stamps beyond l's
 *   STAMPSFIRST 2 before 1
 *   KEEPSTAMP   a writer that begins takes no stamp out
 */
#ifndef NB
#define NB 3
#endif
#ifndef M
#define M 4
#endif
#ifndef D
#define D 1
#endif
byte lv, lb, st[NB], da[NB], db[NB];
bool pin[NB], over;
/* By version: the value, and whether its buffer was written again. */
byte val[M+2];
bool gone[M+2];
byte deaths, fresh;

proctype Writer() {
	byte b, v, k;
again:
#ifndef KEEPSTAMP
	b=0;
	do
	:: b<NB ->
		atomic { if :: st[b]>lv -> st[b]=0 :: else fi; b++ };
		if :: atomic { deaths>0 -> deaths--; goto again } :: true fi
	:: else -> break
	od;
#endif
	do
	:: lv<M ->
		atomic {
			b=lb; k=0;
			do
			:: b=(b+1)%NB; k++; if :: b!=lb && !pin[b] -> break :: else fi
			od;
			v=lv+1; fresh++
		};
		atomic { if :: st[b]!=0 && st[b]<=lv && val[st[b]]==da[b] -> gone[st[b]]=1 :: else fi; st[b]=0 };
		if :: atomic { deaths>0 -> deaths--; goto again } :: true fi;
		da[b]=fresh;
		db[b]=fresh;
		if :: atomic { deaths>0 -> deaths--; goto again } :: true fi;
		st[b]=v;
		if :: atomic { deaths>0 -> deaths--; goto again } :: true fi;
		atomic { lv=v; lb=b; val[v]=da[b] }
	:: lv==M -> break
	od;
	over=1
}

/* Readers that were overtaken: PINS buffers at most stay pinned, so that a set finds one. */
proctype Pinner(byte b) {
	pin[b]=0;
	do
	:: over -> break
	:: atomic { !over -> b=lb; pin[b]=1 }; pin[b]=0
	od
}

proctype Tap() {
	byte next, l, lbuf, low, buf, i, a, c, found, lost, k;
	next=1;
	do
	:: next<=M ->
retry:
#ifdef STAMPSFIRST
		low=255; i=0;
		do :: i<NB -> atomic { c=st[i]; if :: c>=next && c<low -> low=c; buf=i :: else fi; i++ } :: else -> break od;
		atomic { l=lv; lbuf=lb };
		if :: l<next -> goto wait :: else fi;
		if :: low>l -> low=l; buf=lbuf :: else fi;
#else
		atomic { l=lv; lbuf=lb };
#ifdef BEYOND
		low=255; i=0;
#else
		if :: l<next -> goto wait :: else fi;
		low=l; buf=lbuf; i=0;
#endif
		do
		:: i<NB -> atomic { c=st[i]; if :: c>=next && c<low -> low=c; buf=i :: else fi; i++ }
		:: else -> break
		od;
#ifdef BEYOND
		if :: low==255 -> goto wait :: else fi;
#endif
#endif
		a=da[buf];
		c=db[buf];
#ifndef NOCHECK
		if :: st[buf]!=low -> goto retry :: else fi;
#endif
		atomic {
			assert(low<=M && val[low]==a && a==c);
			k=next;
			do :: k<low -> assert(gone[k]); k++ :: else -> break od;
			lost=lost+(low-next); found++; next=low+1;
			k=0; a=0; c=0; i=0; l=0
		};
		goto on;
wait:		atomic { lv>=next };
on:		skip
	:: next>M -> break
	od;
	assert(found+lost==M)
}

init {
	byte i;
	atomic {
		if :: deaths=0 :: D>0 -> deaths=1 :: D>1 -> deaths=2 fi;
		run Writer();
#ifdef PINS
		do :: lb<NB-1 -> lb++ :: break od;
		do :: i<PINS -> i++; pin[(lb+i)%NB]=1; run Pinner((lb+i)%NB) :: else -> break od;
#endif
		run Tap()
	}
}
