/* growth.pml - the registry grows (liveness/registry.rs): the file's length says how many slots
 * exist.
 *
 *   size    the file's length, in runs of slots         pages[n]   run n has its pages
 *   known   of each process: runs that it has seen to exist
 *
 * grower   1. n = length
 *          2. fallocate (run n): the kernel makes the pages, then lengthens the file if that makes
 *             it longer; it may fail (no space): then the file is as long as before
 *          3. claims a slot in the last run that it finds, and shows its id
 *          Each may be killed anywhere; a slower one asks for what is there.
 * reader   meets an id: its run is below known -> looks at the slot; else known = max(known,
 *          length) and again; still not: the owner is dead
 * Checked: no id of a living owner is called dead; no slot is looked at whose pages are not there.
 * STOP: a grower may stop for ever at any step, also between pages and length, and is alive. No
 * process blocks here: the other grower goes on from the length that it finds.
 * Mutations, each must be caught:
 *   WAITGROWN (STOP) a grower that finds a run with pages beyond the length waits for its maker
 *   WORD      a shared word says how many there are, stored after fallocate: a slower grower takes
 *             slots away (as in the first draft)
 *   WILD      that word is written over by a stray write (as it was, though it grew by maximum)
 *   LENFIRST  the file is lengthened before its pages are there (ftruncate, then fallocate)
 *   NOASK     beyond what it knows the reader does not ask
 *   SMALL     a reader has mapped less than the largest size (RLIMIT_AS), and calls an owner
 *             whose slot lies behind that dead
 */
#ifndef NG
#define NG 2
#endif
#define RUNS 4
byte size=1, word=1; bool pages[RUNS];
byte shown[NG];                 /* run of the slot that each has claimed, + 1; 0: none yet */
bool killed[NG];
#ifdef STOP
bool stopped[NG];
#endif
#ifdef WORD
#define LENGTH word
#else
#ifdef WILD
#define LENGTH word
#else
#define LENGTH size
#endif
#endif

proctype Grower(byte me) {
	byte n, r;
	{
		do
		:: r<2 -> r++;
			n=LENGTH;
			if
			:: n<RUNS ->
				if
				:: true                          /* no space: as before */
				:: true ->
#ifdef WAITGROWN
					if :: pages[n] -> (size>n) :: else fi;
#endif
#ifdef LENFIRST
					atomic { if :: size<n+1 -> size=n+1 :: else fi };
					pages[n]=1
#else
					pages[n]=1;
					atomic { if :: size<n+1 -> size=n+1 :: else fi }
#endif
					;
#ifdef WORD
					word=n+1
#else
					atomic { if :: word<n+1 -> word=n+1 :: else fi }
#endif
				fi
			:: else
			fi;
			/* lives for ever with a slot in the last run, or goes on */
			n=LENGTH;
			if :: n>0 && shown[me]==0 -> assert(pages[n-1]); shown[me]=n :: true fi
		:: else -> break
		od;
		n=0; r=0;
end_g:		(false)
#ifdef STOP
	} unless { (killed[me] || stopped[me]) }
#else
	} unless { killed[me] }
#endif
}
proctype Reader() {
	byte known=1, i, id;
end_r:	do
	:: atomic { shown[0]!=0 -> i=0; id=shown[0] };
		goto look
	:: atomic { NG>1 && shown[NG-1]!=0 -> i=NG-1; id=shown[NG-1] };
		goto look
	od;
look:
#ifndef NOASK
	if :: id>known -> atomic { if :: LENGTH>known -> known=LENGTH :: else fi } :: else fi;
#endif
#ifdef SMALL
	if :: known>2 -> known=2 :: else fi;
#endif
	if
	:: id<=known -> assert(pages[id-1])
	:: else -> assert(killed[i])
	fi;
	atomic { id=0; i=0 };
	goto end_r
}
active proctype world() {
	atomic { pages[0]=1; run Grower(0);
#if NG > 1
		run Grower(1);
#endif
		run Reader() };
#ifdef WILD
	if :: word=0 :: word=RUNS :: true fi;
#endif
#ifdef STOP
	if :: stopped[0]=1 :: stopped[NG-1]=1 :: true fi;
#endif
	if :: killed[0]=1 :: true fi
}
