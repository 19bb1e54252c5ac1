/* rpc_order.pml - in which order a server takes what is asked: tickets, bits in two words, the
 * horizon.
 *
 *   tickets     drawn so far
 *   bw[w]       the bits of word w, one for each client; slots of client c are bit c of word 0 and
 *               of word 1
 *   tick[w*NC+c]   the ticket of the request in that slot; ghost no[]: the client's own count of it
 *
 * client  for each of its calls, in a word that it picks and in which it has no call: 1. draw a
 *         ticket into the slot   2. set the bit
 * server  1. the horizon: tickets
 *         2. the words, one after the other; a call whose bit is set and whose ticket is below the
 *            horizon goes into the list
 *         3. by ticket: take, clear the bit; the list empty: 1
 *         (Not in the model: if a call cannot be looked at, the rest of its client's calls leaves
 *         the list, and their bits stay set. That is as if the horizon had been lower for this
 *         client: the others' are taken as before, and the next list has that call first.)
 * sweep   (SWEEP) at any moment, changes the claim of the call before in one slot. The server takes
 *         a call by an exchange from the claim that it saw; if that fails, it looks at the claim
 *         again and repeats the exchange
 *
 * Checked: the calls of one client are taken in the order in which it made them; all are taken in
 * the end. With STOPS client 0 stops for ever at any step: all that the others asked is taken, and
 * of its own what it had set.
 * Switches: -DNC=clients -DM=calls each -DSTOPS -DSWEEP
 * Mutations, each must be caught:
 *   NOHORIZON  all that is seen goes into the list
 *   LATETICKET  2 before 1, with the ticket of the slot's call before
 *   LATEHORIZON  the horizon is read after the words
 *   NOTAGAIN   an exchange that fails is not repeated: the call is left for the next look (SWEEP)
 */
#ifndef NC
#define NC 2
#endif
#ifndef M
#define M 3
#endif
#define NSLOT (2*NC)
byte tickets;
bool bm[NSLOT], busy[NSLOT];                 /* busy: the slot has a call that is not taken */
byte tick[NSLOT], no[NSLOT];
byte last[NC];                               /* ghost: the client's last call that was taken */
byte asked[NC];                              /* ghost: how many it has asked to the end */
bool stopped[NC], over[NC];
#ifdef SWEEP
byte swept=NSLOT;                            /* the slot in which the claim of the call before has changed */
#endif

proctype Client(byte me) {
	byte k, s;
	{ skip;
	do
	:: k==M -> break
	:: k<M ->
		if
		:: !busy[me] -> s=me
		:: !busy[NC+me] -> s=NC+me
		fi;
		k++;
		busy[s]=1;
#ifdef LATETICKET
		no[s]=k;
		atomic { bm[s]=1; asked[me]=k };
		atomic { tick[s]=tickets; tickets++ }
#else
		/* 1 */
		atomic { tick[s]=tickets; tickets++; no[s]=k };
		/* 2 */
		atomic { bm[s]=1; asked[me]=k }
#endif
	od;
	over[me]=1
	} unless { atomic { stopped[me] -> over[me]=1 } }
}

proctype Server() {
	byte h, s, best;
	bool found[NSLOT];
#ifdef SWEEP
	bool seen;
#endif
end:
	do
	:: /* 1 */
		h=tickets;
		/* 2 */
		s=0;
		do
		:: s==NSLOT -> break
		:: s<NSLOT -> atomic {
#if defined(NOHORIZON) || defined(LATEHORIZON)
			found[s]=bm[s];
#else
			found[s]=(bm[s] && tick[s]<h);
#endif
			s++ }
		od;
#ifdef LATEHORIZON
		h=tickets;
		d_step { for (s : 0 .. NSLOT-1) { found[s]=(found[s] && tick[s]<h) }; s=0 };
#endif
		/* 3 */
		do
		:: atomic {
			best=NSLOT;
			for (s : 0 .. NSLOT-1) {
				if
				:: found[s] && (best==NSLOT || tick[s]<tick[best]) -> best=s
				:: else
				fi
			}; s=0 };
			if
			:: best==NSLOT -> break
			:: else
			fi;
#ifdef SWEEP
			seen=(swept==best);
again:
			atomic {
				if
				:: seen!=(swept==best) ->
#ifdef NOTAGAIN
					found[best]=0; seen=0; goto left
#else
					seen=(swept==best); goto again
#endif
				:: else -> seen=0
				fi;
				assert(no[best]==last[best%NC]+1); last[best%NC]=no[best]; found[best]=0; bm[best]=0; busy[best]=0 };
left:			skip
#else
			atomic { assert(no[best]==last[best%NC]+1); last[best%NC]=no[best]; found[best]=0; bm[best]=0; busy[best]=0 }
#endif
		od;
		atomic { h=0; best=0 }
	:: atomic { (bm[0]==0 && bm[1]==0 && bm[NSLOT-2]==0 && bm[NSLOT-1]==0) ->
		/* nothing stands there: all that was asked is taken */
		for (s : 0 .. NC-1) { assert(last[s]==asked[s]) }; s=0 };
		if
		:: atomic { over[0] && over[NC-1] && !bm[0] && !bm[1] && !bm[NSLOT-2] && !bm[NSLOT-1] -> break }
		:: atomic { bm[0] || bm[1] || bm[NSLOT-2] || bm[NSLOT-1] -> skip }
		fi
	od;
#ifndef STOPS
	for (s : 0 .. NC-1) { assert(last[s]==M) }
#else
	assert(last[NC-1]==M)
#endif
}

#ifdef SWEEP
proctype Sweep() {
	byte s;
	atomic { select (s : 0 .. NSLOT-1); swept=s }
}
#endif

init {
	byte i;
	atomic {
		for (i : 0 .. NC-1) { run Client(i) };
		run Server()
#ifdef SWEEP
		; run Sweep()
#endif
	};
#ifdef STOPS
	stopped[0]=1
#endif
}
