/* gateway_call.pml - a call of doc/protocols/gateway_services.md: a client, the stand-in that its
 * request reaches, the offering gateway, and the server there; each killed anywhere, the link cut.
 *
 *   claim      the client's call slot: ASKED, TAKEN by the stand-in, OVER (answered), CANCELLED,
 *              UNDONE (given back)
 *   req late   the request is under way to that start of the offering gateway, so often; or to its
 *              successor (only with NOEPOCH)
 *   word       the word that the client waits no more is under way
 *   ans        what comes back, in order: its kind, and how many replies came before it
 *   over       the question has ended: the offering gateway let go of it, or died, or the link did
 *   call       the offering gateway's own call: NOT, ASKED, TAKEN (by the server), OVER, CANCELLED;
 *              replies sent[] of it lie in its slot
 *   seen       the offering gateway knows the number; gone: it has seen that the caller's token is
 *              not there any more
 *
 * client   waits; a death of the stand-in, a claim that says how it ended, a last reply tell it; it
 *          may let go at any moment (a deadline, its death)
 * stand-in takes; asks once, or gives back if it knows of no server; hands replies on in order; ends
 *          the call when the question has; sends the word when the client lets go
 * offering of a request: a number that is known: silence. Notes it. Too many calls, or no server:
 *          "not begun". A caller that has gone: silence. Asks its server. Its server dies: "not
 *          begun" if it had not begun, else "died". The word, or the token's end: cancels
 * server   begins what is asked; one part, or none; the last reply. Once the client has ended it
 *          goes on until it sees the call cancelled
 * A process that is stopped is one that is slow, with or without its link cut.
 *
 * Checked: a call is begun once at most; one that was told as not begun has not been begun, and never
 * is; replies come in order; the client is told in the end; and no server works for a client that is
 * gone, once everything has come to rest.
 * Switches: -DNF=faults (deaths of the three, a cut; two) -DDUP the request comes twice -DLOSE a
 *   message of the answer may be lost -DPATIENT the client does not let go: it is told in the end
 * Mutations, each must be caught:
 *   NONOTE     numbers are not noted (DUP)
 *   REFUSEFIRST a call for which there is no room is refused before its number is noted (DUP)
 *   REPEATSAYS a repeat is answered with "not begun" (DUP)
 *   NOEPOCH    a request that is late reaches the successor of the offering gateway (DUP)
 *   LOSTISNOT  a question that ends without an answer is told as not begun
 *   DIEDISNOT  the server's death is told as not begun, whatever it had begun
 *   NOLOOK     the offering gateway goes by the server's token, not by its call, to say "not begun"
 *   ASKAGAIN   the stand-in asks again, with another number, when the question has ended
 *   NOOVER     the end of the question is not looked at (PATIENT)
 *   NOTOKEN    the caller's token is not looked at
 *   NOGONE     a request is carried out though its caller's token has gone before it came
 *   WORDLATE   a word that is faster than its request is forgotten
 *   NOGAP      a reply that is missing is not seen (LOSE)
 */
#ifndef NF
#define NF 2
#endif
mtype = { NOT, ASKED, TAKEN, OVER, CANCELLED, UNDONE };        /* claim, call */
mtype = { PART, LAST, NOTBEGUN, DIED };                        /* ans */
mtype = { WAITS, ANSWERED, BEGUN, NOTBEGUN_TOLD, LETGO };      /* told */

mtype claim = ASKED, call = NOT, told = WAITS;
byte req, late, begun, faults, handed;
bool word, over, seen, gone, closed, cancel, again, epoch2;
bool b_lives = 1, a_lives = 1, s_lives = 1, link = 1;
byte replies;                    /* of the server's call: so many */
bool last;                       /* and the last one is among them */
chan ans = [4] of { mtype, byte };

#define reachable (b_lives && link)
#ifdef NOGONE
#define caller_gone false
#else
#define caller_gone gone
#endif
#define begins { assert(told != NOTBEGUN_TOLD && claim != UNDONE); begun++; assert(begun <= 1); }

proctype Client() {
	do
	:: atomic { claim == OVER -> told = ANSWERED; break }
	:: atomic { claim == CANCELLED -> told = BEGUN; break }
	:: atomic { claim == UNDONE -> assert(begun == 0); told = NOTBEGUN_TOLD; break }
	:: atomic { !b_lives && claim == ASKED -> claim = CANCELLED; assert(begun == 0); told = NOTBEGUN_TOLD; break }
	:: atomic { !b_lives && claim == TAKEN -> claim = CANCELLED; told = BEGUN; break }
#ifndef PATIENT
	:: atomic { claim == ASKED -> claim = CANCELLED; assert(begun == 0); told = LETGO; break }
	:: atomic { claim == TAKEN -> claim = CANCELLED; told = LETGO; break }
#endif
	od
}

inline say(kind, n) {
	if
	:: link && b_lives && len(ans) < 4 -> ans!kind,n
#ifdef LOSE
	:: link && b_lives && faults < NF -> faults++
#endif
	:: !link || !b_lives || len(ans) == 4
	fi
}

proctype StandIn() {
	byte next, n;
	bool open;
	{ skip;
end:	atomic { claim == ASKED -> claim = TAKEN };
	if
	/* it knows of no server any more */
	:: atomic { !link -> if :: claim == TAKEN -> claim = UNDONE :: else fi; goto done }
	:: atomic { link ->
		req++;
#ifdef DUP
		if :: req++ :: skip fi;
#endif
		open = 1 }
	:: atomic { link -> over = 1; open = 1 }      /* nothing is there that could be asked */
	fi;
more:	do
	:: atomic { ans?PART,n ->
		if
		:: n < next
#ifndef NOGAP
		:: n > next -> goto broken
#endif
		:: else -> assert(n == next); next++; if :: claim == TAKEN -> handed++ :: else fi
		fi }
	:: atomic { ans?LAST,n ->
#ifndef NOGAP
		if :: n != next -> goto broken :: else fi;
#endif
		assert(n == next);
		if :: claim == TAKEN -> claim = OVER :: else fi; goto done }
	:: atomic { ans?NOTBEGUN,n ->
		if
		:: claim == TAKEN && next == 0 && n == 0 -> claim = UNDONE
		:: claim == TAKEN && !(next == 0 && n == 0) -> claim = CANCELLED
		:: else
		fi; goto done }
	:: atomic { ans?DIED,n -> if :: claim == TAKEN -> claim = CANCELLED :: else fi; goto done }
#ifndef NOOVER
	:: atomic { over && empty(ans) ->
#ifdef ASKAGAIN
		if
		/* by another link, with another number */
		:: a_lives && !again -> again = 1; link = 1; gone = 0; seen = 0; over = 0; closed = 0; req++; goto more
		:: else
		fi;
#endif
#ifdef LOSTISNOT
		if :: claim == TAKEN -> claim = UNDONE :: else fi;
#else
		if :: claim == TAKEN -> claim = CANCELLED :: else fi;
#endif
		goto done }
#endif
	:: atomic { claim == CANCELLED && told == LETGO -> if :: link -> word = 1 :: else fi; goto done }
	od;
broken:	atomic { if :: claim == TAKEN -> claim = CANCELLED :: else fi; if :: link -> word = 1 :: else fi };
done:	skip
	} unless { !b_lives }
}

inline end_of_call() {
	/* its replies first */
	closed = 1; over = 1
}

proctype Offering() {
	byte n;                       /* replies that were sent on */
	{ skip;
end:	do
	:: atomic { req > 0 -> req--;
		if
		:: seen ->
#ifdef REPEATSAYS
			say(NOTBEGUN, 0)
#else
			skip
#endif
		:: !seen ->
			if
			/* no room, no server, other types */
#ifdef REFUSEFIRST
			:: say(NOTBEGUN, 0); over = 1
#else
			:: seen = 1; say(NOTBEGUN, 0); over = 1
#endif
			::
#ifdef NONOTE
				skip;
#else
				seen = 1;
#endif
				if
				:: !s_lives -> say(NOTBEGUN, 0); over = 1
				:: s_lives && caller_gone -> over = 1
				:: s_lives && !caller_gone ->
				   if
				   :: call == NOT || call == OVER || call == CANCELLED ->
					call = ASKED; cancel = 0; n = 0; replies = 0; last = 0
				   :: else
				   fi
				fi
			fi
		fi }
	:: atomic { word -> word = 0;
		if
		:: call == ASKED -> call = CANCELLED; end_of_call()
		:: call == TAKEN -> cancel = 1; end_of_call()
#ifdef WORDLATE
		:: else
#else
		:: else -> seen = 1
#endif
		fi }
	:: atomic { !reachable && !gone -> gone = 1;
#ifndef NOTOKEN
		if
		:: call == ASKED -> call = CANCELLED; end_of_call()
		:: call == TAKEN -> cancel = 1; end_of_call()
		:: else
		fi
#endif
		}
	:: atomic { !closed && n < replies && !(last && n + 1 == replies) -> say(PART, n); n++ }
	:: atomic { !closed && last && n + 1 == replies -> say(LAST, n); n++; end_of_call() }
	/* the core tells of its server's death, once the replies are there */
#ifdef NOLOOK
	:: atomic { !closed && !s_lives && (call == ASKED || call == TAKEN) && n == replies && !last ->
		call = CANCELLED; if :: n == 0 -> say(NOTBEGUN, 0) :: else -> say(DIED, n) fi; end_of_call() }
#else
	:: atomic { !closed && !s_lives && call == ASKED -> call = CANCELLED; say(NOTBEGUN, 0); end_of_call() }
	:: atomic { !closed && !s_lives && call == TAKEN && n == replies && !last -> call = CANCELLED;
#ifdef DIEDISNOT
		say(NOTBEGUN, 0);
#else
		say(DIED, n);
#endif
		end_of_call() }
#endif
	od
	} unless { atomic { !a_lives ->
		over = 1;
		if :: call == ASKED -> call = CANCELLED :: call == TAKEN -> cancel = 1 :: else fi;
#ifdef NOEPOCH
		/* its successor, which knows no numbers, takes what is late */
		if
		:: req > 0 && !epoch2 -> epoch2 = 1; seen = 0;
			begins
		:: else
		fi;
#endif
		req = 0 } }
}

proctype Server() {
	{ skip;
end:	do
	:: atomic { call == ASKED -> call = TAKEN; begins };
		if
		:: atomic { call == TAKEN && !cancel -> replies++ }
		:: skip
		fi;
		if
		:: atomic { cancel -> call = OVER }
		:: atomic { told == WAITS && !cancel -> replies++; last = 1; call = OVER }
		fi
	od
	} unless { !s_lives }
}

active proctype Faults() {
	do
	:: atomic { faults < NF && b_lives -> faults++; b_lives = 0 }
	:: atomic { faults < NF && a_lives -> faults++; a_lives = 0 }
	:: atomic { faults < NF && s_lives -> faults++; s_lives = 0 }
	:: atomic { faults < NF && link -> faults++; link = 0; over = 1; word = 0;
		/* what is under way is lost, or was there already */
		if :: req = 0 :: skip fi;
		do :: nempty(ans) -> ans?_,_ :: break od }
	:: break
	od
}

init { atomic { run Client(); run StandIn(); run Offering(); run Server() } }
