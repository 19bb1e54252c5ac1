/* sections.pml - a large wait set, cut into sections with a thread each (wait/sections.rs).
 *
 *   ready[k] seq[k]  section k's source: messages that are there, and the word that each raises
 *   armed[k]         1: the section's thread waits for the source, the user's thread does not look
 *   control[k]       raised when the section is armed or changed; its thread sleeps on it, too
 *   bell             raised when a section has something; the user's thread sleeps on it
 *
 * send     1. ready+1   2. seq+1, wake   (a sender that dies between the two: wait_set.pml)
 * section  1. c = control   2. not armed: sleep while control == c, again
 *          3. s = seq   4. nothing ready: sleep while control == c and seq == s
 *          5. something ready: armed = 0   6. bell+1, wake
 * user     1. b = bell   2. each section that is not armed: something ready -> takes one, again
 *          from 1; nothing -> armed = 1   3. control+1, wake   4. sleep while bell == b
 *          Before any wait it may change a section (C times): armed = 0, control+1, wake; or take a
 *          message without a wait.
 *
 * All but the senders is one process: it dies or stops as a whole, and has no word in shared memory.
 * A sleep ends when a word has changed, because each change is followed by its wake.
 * Checked: when all has come to rest, all M messages have been taken.
 * Switches: -DM=messages -DC=changes of a section
 * Mutations, each must be caught:
 *   BELLFIRST   6 before 5
 *   LATEBELL    1 of user behind 2
 *   NOCONTROL   3 of user is left out
 *   LATECONTROL 1 of section behind the look at `armed`
 */
#ifndef M
#define M 2
#endif
#ifndef C
#define C 1
#endif
#define K 2
byte ready[K], seq[K], control[K], bell, taken, changes;
bool armed[K];

proctype Sender(byte k; byte n) {
	do
	:: n>0 -> ready[k]++; seq[k]=(seq[k]+1)%16; n--
	:: else -> break
	od
}

proctype Section(byte k) {
	byte c, s; bool a;
	do
	::
#ifdef LATECONTROL
		a=armed[k]; c=control[k];
#else
		c=control[k]; a=armed[k];
#endif
		if
		:: !a ->
end_rest:		(control[k]!=c)
		:: else ->
			s=seq[k];
			if
			:: ready[k]==0 ->
end_sleep:			(control[k]!=c || seq[k]!=s)
			:: else
			fi;
			if
			:: ready[k]>0 ->
#ifdef BELLFIRST
				bell=(bell+1)%16; armed[k]=0
#else
				armed[k]=0;
				bell=(bell+1)%16
#endif
			:: else
			fi
		fi;
		c=0; s=0; a=0
	od
}

#define look(k) \
	if \
	:: !armed[k] -> \
		if \
		:: ready[k]>0 -> ready[k]--; taken++; found=1 \
		:: else -> armed[k]=1; RAISE(k) \
		fi \
	:: else \
	fi

#ifdef NOCONTROL
#define RAISE(k) skip
#else
#define RAISE(k) control[k]=(control[k]+1)%16
#endif

proctype User() {
	byte b, k; bool found;
	do
	:: taken==M -> break
	:: taken<M ->
		if
		:: changes<C -> changes++; select(k: 0..1); armed[k]=0; control[k]=(control[k]+1)%16; k=0
		:: true -> k=0; do
			:: k<K && ready[k]>0 -> ready[k]--; taken++; k=K
			:: k<K && ready[k]==0 -> k++
			:: else -> break
			od; k=0
		:: true
		fi;
		if :: taken==M -> break :: else fi;
#ifndef LATEBELL
		b=bell;
#endif
		found=0;
		look(0);
		look(1);
#ifdef LATEBELL
		b=bell;
#endif
		if
		:: found
		:: else -> (bell!=b)
		fi;
		b=0; found=0
	od
}

init { atomic {
	run Sender(0, M-1); run Sender(1, 1);
	run Section(0); run Section(1);
	run User()
} }
