/* fill.pml - marks of the pool's mode `integrity`: a free object that is marked as filled consists
 * of its pattern alone, whenever a thread sees a change of the modes; death between any two steps.
 *
 *   word      how often the modes were changed; odd: integrity is on, even: no mode is
 *   tag       0 free, else the thread that has the object: in its cache, or in use. A release of it
 *             carries what the releaser has seen of `word` (came), and a thread that takes the
 *             object has seen that then: it reads that from `word`, or something later
 *   note      0, or the change at which the object was filled
 *   whole      its bytes are the pattern
 *
 * alloc  1. read word; even: an object in the cache is a hit, its note is not looked at. Odd: in
 *           the cache, note = the change: compare
 *        2. not in the cache: tag 0 -> me; read word again: a note that is not of that change := 0
 *           an additional one for the cache: it goes into the cache; else word was even:
 *           note := 0, odd: compare
 *        3. taken when word was odd: note := 0, and only then the first byte is written
 * free   taken when word was odd: read word; odd: fill, then note := the change; even: note := 0.
 *        Else: nothing
 *        then into the cache, or tag := 0
 * collect  tag of a dead thread := 0
 *
 * Checked: what is compared is whole.
 * Switches: -DP=processes -DN=changes -DD=deaths -DR=rounds
 *   STOP         One process may stop for ever between any two steps: its object stays its own, and
 *                the others come to their ends.
 * Mutations, each must be caught:
 *   NONUMBER     a mark does not say of which change it is
 *   NOCLEAR      a mark is left when a thread that does not look takes the object out of a list
 *   EARLY        whether a mark is left is decided by the word as it was read before the tag was
 *                taken
 *   KEEP         a thread that takes it out of a list, and read an even word before, leaves a mark
 *                of a change that it sees only then
 *   MARKFIRST    marked before it is filled
 *   CLEARLATE    written before the mark is cleared
 */
#ifndef P
#define P 2
#endif
#ifndef N
#define N 3
#endif
#ifndef D
#define D 1
#endif
#ifndef R
#define R 2
#endif
byte word;
byte tag, note, came;
bool whole;
byte budget = D;
#ifdef STOP
bool stop = true;
#endif

#define ODD(x) ((x) & 1)
#ifdef NONUMBER
#define OF(x) (note != 0)
#else
#define OF(x) (note == (x))
#endif

/* any value that was there since what was seen last */
inline look(x) {
	x = seen;
	do
	:: x < word -> x++
	:: break
	od;
	seen = x
}

inline compare(x) {
	if
	:: ODD(x) && OF(x) -> assert(whole)
	:: else
	fi
}

/* between any two steps */
inline may_die() {
	if
	:: budget > 0 -> budget--; goto dead
#ifdef STOP
	:: stop -> stop = false; goto out
#endif
	:: true
	fi
}

proctype user(byte me) {
	byte seen, v, w, rounds;
	bool cached, listed, plain;

	do
	:: rounds < R ->
		rounds++;
		d_step { v = 0; w = 0 };
		atomic { look(v) };
		if
		:: cached -> listed = false
		:: !cached ->
			listed = true;
			if
			:: atomic { tag == 0 -> tag = me; if :: came > seen -> seen = came :: else fi }
			:: tag != 0 -> goto next
			fi;
			may_die();
#ifdef EARLY
			w = v;
#else
			atomic { look(w) };
#endif
			if
#ifndef NOCLEAR
			:: note != 0 && !(ODD(w) && OF(w)) -> note = 0
			:: else
#else
			:: note != 0 && ODD(w) && !OF(w) -> note = 0
			:: else
#endif
			fi;
			may_die();
			/* one of the additional ones for the cache: the user has not asked for it yet */
			if
			:: cached = true; goto next
			:: true
			fi
		fi;
		cached = false;
		may_die();
		plain = !ODD(v);
		if
		:: plain ->
#ifndef KEEP
			if
			:: listed -> note = 0; may_die()
			:: else
			fi;
#endif
			whole = false
		:: else ->
			compare(v);
			may_die();
#ifdef CLEARLATE
			whole = false; may_die(); note = 0
#else
			note = 0; may_die(); whole = false
#endif
		fi;
		may_die();
		/* in use; and freed */
		if
		:: plain -> skip
		:: else ->
			atomic { look(v) };
			if
			:: ODD(v) ->
#ifdef MARKFIRST
				note = v; may_die(); whole = true
#else
				whole = true; may_die(); note = v
#endif
			:: else -> note = 0
			fi
		fi;
		may_die();
		if
		:: cached = true
		:: atomic { tag = 0; came = (seen > came -> seen : came) }
		fi;
next:		true
	:: cached ->
		/* evicted */
		atomic { cached = false; tag = 0; came = (seen > came -> seen : came) }
	:: rounds == R && !cached -> break
	od;
	goto out;
dead:	/* collected: the collecting thread has seen what the dead had */
	atomic {
		if
		:: tag == me -> tag = 0; came = (seen > came -> seen : came)
		:: else
		fi;
		/* the next one begins anew, and has seen nothing */
		run user(me)
	}
out:	skip
}

active proctype setter() {
	do
	:: word < N -> word++
	:: break
	od
}

init {
	byte i;
	atomic {
		for (i : 1 .. P) { run user(i) }
	}
}
