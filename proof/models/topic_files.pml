/* topic_files.pml - making, opening, removing and sweeping the two files of a topic, while makers
 * race, and processes stop and die between any two steps.
 *
 *   T          the topic's name: 0, or which thing has it
 *   control[n] the control file of thing n has its name
 *   lock[n]    which process has the control file locked; a death ends the lock
 *   mode[n]    both files of thing n have the mode that their maker chose
 *   unread[n]  a sweep may not read the thing's own file (another member's, mode 0600; damaged): it
 *              sees by the file's identity alone, which the control file names, which one it is
 *
 * make    both files without names, and their modes; lock; control[n]; T by linkat: 0 -> n, else
 *         another maker's: control[n] away; unlock; open
 * open    T, then control[T]: not there: T again
 * remove  T: the thing; T = 0, whatever has the name by then; control away, of the thing that was read
 * sweep   which controls there are; which things have names; lock each control that is none's, or
 *         pass it over; which things have names; the controls that are none's: away; unlock
 *
 * Checked: whatever has the name, has its control file (so a process that opens the name, and finds
 * no control file, was overtaken by a removal); no process opens a file with another mode than its
 * maker's; when all has come to rest, a sweep leaves no control file without a thing, but one that a
 * stopped process has locked.
 * Switches: -DNP=makers -DNR=removers -DD=deaths
 *   STOP        One maker, or a sweep, may stop for ever. The others come to their ends.
 * Mutations, each must be caught:
 *   NOLOCK      a maker does not lock its control file
 *   UNLOCKFIRST it unlocks before the topic has its name
 *   LOOKONCE    a sweep does not look at the names again behind the locks
 *   NOID        a sweep takes a thing that it cannot read for none
 *   GIVEUP      a sweep that cannot read one thing removes nothing
 *   NAMEFIRST   a maker names the topic, and then the control file
 *   CONTROLFIRST a process that removes takes the control file first
 *   MODELATE    a maker sets the modes once the files have their names
 *   WAITLOCK    (STOP) a sweep waits for a lock
 */
#ifndef NP
#define NP 2
#endif
#ifndef NR
#define NR 1
#endif
#ifndef D
#define D 1
#endif
#define S (NP+NR+1)                     /* the sweep's number */
byte T, lock[NP+1], ended;
bool control[NP+1], mode[NP+1], unread[NP+1], dead[S+2];
#ifdef STOP
bool stopped[S+2], stop=1;
#endif
#define FREE(n) (lock[n]==0 || dead[lock[n]])
#define PAIRED assert(T==0 || control[T])

inline open() {
	do
	:: atomic { n=T; if :: n==0 -> break :: else -> assert(mode[n]) fi };
	   atomic { if :: control[n] -> assert(mode[n]); n=0; break :: else -> assert(T!=n); n=0 fi }
	od
}
proctype Make(byte me) {                /* makes thing me */
	byte n; bool mine;
	{
#ifndef MODELATE
	mode[me]=1;
#endif
#ifndef NOLOCK
	lock[me]=me;
#endif
#ifndef NAMEFIRST
	control[me]=1;
#endif
#ifdef UNLOCKFIRST
	atomic { if :: lock[me]==me -> lock[me]=0 :: else fi };
#endif
	atomic { if :: T==0 -> T=me; mine=1; PAIRED :: else fi };
#ifdef NAMEFIRST
	control[me]=1;
#endif
#ifdef MODELATE
	mode[me]=1;
#endif
	if
	:: mine
	:: else -> control[me]=0
	fi;
	atomic { if :: lock[me]==me -> lock[me]=0 :: else fi };
	open();
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	atomic { n=0; mine=0; ended++ }
}
proctype Remove(byte me) {
	byte n;
	{
	n=T;
	if
	:: n!=0 ->
#ifdef CONTROLFIRST
		atomic { control[n]=0; PAIRED };
#endif
		T=0;
		control[n]=0
	:: else
	fi;
	} unless { dead[me] };
	atomic { n=0; ended++ }
}
/* Which thing has a name, as a sweep learns it. */
inline names(it) {
	atomic {
		it=T; giveup=0;
		if
		:: it!=0 && unread[it] ->
#ifdef NOID
			it=0
#elif defined(GIVEUP)
			giveup=1
#else
			skip
#endif
		:: else
		fi
	}
}
inline sweep() {
	atomic { for (n : 1 .. NP) { there[n]=control[n] }; n=0 };
	names(named);
	if
	:: !giveup ->
		n=1;
		do
		:: n<=NP && there[n] && n!=named ->
#ifdef WAITLOCK
			FREE(n);
#endif
			atomic { if :: FREE(n) && control[n] -> lock[n]=me :: else -> there[n]=0 fi; n++ }
		:: n<=NP && (!there[n] || n==named) -> atomic { there[n]=0; n++ }
		:: n>NP -> break
		od;
#ifndef LOOKONCE
		names(named);
#endif
		n=1;
		do
		:: n<=NP ->
			atomic {
				if
				:: there[n] && n!=named && !giveup -> control[n]=0; PAIRED
				:: else
				fi;
				n++
			}
		:: n>NP -> break
		od;
		atomic { for (n : 1 .. NP) { if :: lock[n]==me -> lock[n]=0 :: else fi }; n=0 }
	:: else
	fi;
	atomic { for (n : 1 .. NP) { there[n]=0 }; n=0; named=0; giveup=0 }
}
proctype Sweep(byte me) {
	byte n, named; bool there[NP+1], giveup;
	{
	sweep();
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	atomic { for (n : 1 .. NP) { there[n]=0 }; n=0; named=0; giveup=0; ended++ }
}
/* When all has come to rest: a sweep by a process that lives. */
proctype Last(byte me) {
	byte n, named; bool there[NP+1], giveup;
	(ended==S);
	sweep();
	atomic {
		for (n : 1 .. NP) {
#ifdef STOP
			if
			:: control[n] && T!=n -> assert(lock[n]!=0 && stopped[lock[n]] && !dead[lock[n]])
			:: else
			fi
#else
			assert(!control[n] || T==n)
#endif
		}
		PAIRED
	}
}
active proctype K() {
	byte d, i;
	atomic {
		for (i : 1 .. NP) { if :: unread[i]=1 :: skip fi; run Make(i) };
		for (i : 1 .. NR) { run Remove(NP+i) };
		run Sweep(S); run Last(S+1); i=0
	};
	do
	:: d<D -> atomic { i=1; do :: i<S -> i++ :: break od; if :: !dead[i] && ended<S -> dead[i]=1; d++ :: else -> d++ fi; i=0 }
#ifdef STOP
	:: atomic { stop -> stop=0; i=1; do :: i<S -> i++ :: break od; if :: !dead[i] && (i<=NP || i==S) -> stopped[i]=1 :: else fi; i=0 }
#endif
	:: break
	od
}
