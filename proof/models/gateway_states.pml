/* gateway_states.pml - a state of doc/protocols/gateway_states.md: one writer's versions 1 to N, a sender, a
 * copy elsewhere and its receiver; both gateways killed at any step, links that lose what is under way, single
 * messages lost.
 *
 *   ver wr               the state's version; its writer: 1 lives, 2 has died
 *   sup start            the sender acts, with its token; which start of it
 *   turn wof[t]          the number of its last word about the writer, and what each of them says
 *   put                  the version that it has put last
 *   rtok ackv ackt       sender: it sees the receiver's token, and what that has acknowledged
 *   link                 there is one. What is under way, in any order, over the deaths of both: m at am ab, for
 *                        each version a bit for each word: a value, `state-at`, an answer, one without the
 *                        value; q, a bit for each version that a question has; ack, as m
 *   rup rsees            the receiver acts; which start's token it has seen (0: none)
 *   next                 the journal's: one more than the last version that it has begun to set
 *   copy cw              the copy's value; its writer: 0 none has come, 1 lives, 2 has died
 *   fresh rt rw          private: the copy is as this receiver has left it; the last word
 *
 * writer   set: ver + 1; dies, or not
 * sender   start: the writer is looked at, then the token. A change of the writer is another word, and goes
 *          as `state-at`; then another version is put; a question is answered with the version that is there
 *   at     when nothing has come for a second, and a receiver with a token has not acknowledged put and turn
 *          (the process Clock: when no other step is possible)
 * receiver a value of version >= next, or = next - 1 while not fresh: next, then set. Then the word
 *   ask    when a token appears that it has not seen; when `state-at` names a version that it has not
 *   gone   no token: the copy's writer has died
 *
 * Checked: no value of the copy is older than the one before it. When everything has come to rest, the
 * copy has the last value, and its writer lives or has died as the state's.
 * Switches: -DN=versions -DDS=deaths of the sender -DDR=of the receiver -DC=cuts -DL=single losses
 *   -DRM=how often the copy is removed, and made anew
 *   -DSTAYS      the writer does not die
 * Mutations, each must be caught:
 *   SETFIRST     (DR) set, then next
 *   NOJOURNAL    (DR) a receiver begins with next = 0
 *   NOAT         (L) no `state-at` that repeats
 *   ATONCE       (L=2) `state-at` is repeated once, not until it is acknowledged
 *   OLDWORD      a word counts whichever number it has
 *   NOFRESH      (RM, DR) the last version is not set again
 *   ANYVERSION   a value counts whichever version it has
 */
#ifndef N
#define N 2
#endif
#ifndef DS
#define DS 0
#endif
#ifndef DR
#define DR 0
#endif
#ifndef C
#define C 0
#endif
#ifndef L
#define L 0
#endif
#ifndef RM
#define RM 0
#endif
#define HAS(s,n) (((s)>>(n))&1)
#define BIT(n) (1<<(n))
#define T (DS+4)

byte ver = 1, wr = 1;
bool sup;
byte start, turn, put;
byte wof[T];
bool rtok;
byte ackv, ackt;
bool link = 1;
byte m[N+1], at[N+1], am[N+1], ab[N+1], ack[N+1];
byte q;
bool rup, fresh;
bool me;		/* it is setting a value */
byte rsees, next, copy, cw, rt, rw;
byte reminded;

#define LACKS (sup && link && rtok && (ackv < put || ackt < turn))

inline nothing_under_way() {
	d_step {
		m[1] = 0; at[1] = 0; am[1] = 0; ab[1] = 0; ack[1] = 0; q = 0;
		m[2] = 0; at[2] = 0; am[2] = 0; ab[2] = 0; ack[2] = 0;
#if N > 2
		m[3] = 0; at[3] = 0; am[3] = 0; ab[3] = 0; ack[3] = 0;
#endif
	}
}

active proctype Writer() {
	do
	:: atomic { ver < N && wr == 1 -> ver++ }
	:: atomic { ver == N -> break }
	od;
#ifndef STAYS
	if
	:: wr = 2
	:: skip
	fi
#endif
}

active proctype Sender() {
	byte v;
end:	do
	:: atomic { !sup -> sup = 1; start++; turn++; wof[turn] = wr; put = 0; rtok = 0; ackv = 0; ackt = 0 }
	:: atomic { sup && wof[turn] != wr ->
		turn++; wof[turn] = wr;
		if :: link -> at[put] = at[put] | BIT(turn) :: else fi }
	:: atomic { sup && put != ver && wof[turn] == wr ->
		put = ver;
		if :: link -> m[put] = m[put] | BIT(turn) :: else fi }
	:: atomic { sup && link && q != 0 ->
		if
		:: HAS(q, 0) -> q = q & ~BIT(0); v = 0
		:: HAS(q, 1) -> q = q & ~BIT(1); v = 1
		:: HAS(q, 2) -> q = q & ~BIT(2); v = 2
		:: HAS(q, 3) -> q = q & ~BIT(3); v = 3
		fi;
		if
		:: v == ver -> ab[ver] = ab[ver] | BIT(turn)
		:: else -> am[ver] = am[ver] | BIT(turn)
		fi;
		v = 0 }
	:: atomic { sup && link && (ack[1] != 0 || ack[2] != 0 || ack[N] != 0) ->
		if
		:: ack[1] != 0 -> v = 1
		:: ack[2] != 0 -> v = 2
#if N > 2
		:: ack[3] != 0 -> v = 3
#endif
		fi;
		/* The highest of its words: others say less. */
		if
		:: HAS(ack[v], turn) -> ackt = turn
		:: else
		fi;
		ack[v] = 0;
		if :: v > ackv -> ackv = v :: else fi;
		v = 0 }
	od
}

inline ask() {
	if
	:: link && fresh && next > 0 -> q = q | BIT(next - 1)
	:: link && !(fresh && next > 0) -> q = q | BIT(0)
	:: else
	fi
}

/* The word, behind the value. */
inline hear() {
#ifdef OLDWORD
	if :: t != 0 -> rt = t; rw = wof[t] :: else fi;
#else
	if :: t >= rt && t != 0 -> rt = t; rw = wof[t] :: else fi;
#endif
	if
	:: rw == 1 && rsees != 0 && (cw == 1 || fresh) -> cw = 1
	:: cw == 1 && (rw == 2 || rsees == 0) -> cw = 2
	:: else
	fi
}

#define PICK(from) \
	if \
	:: from[1] != 0 -> v = 1 \
	:: from[2] != 0 -> v = 2 \
	:: from[N] != 0 -> v = N \
	fi; \
	if \
	:: HAS(from[v], 1) -> t = 1 \
	:: HAS(from[v], 2) -> t = 2 \
	:: HAS(from[v], 3) -> t = 3 \
	:: HAS(from[v], 4) -> t = 4 \
	fi; \
	from[v] = from[v] & ~BIT(t)

#define ANY(s) (s[1] != 0 || s[2] != 0 || s[N] != 0)

active proctype Receiver() {
	byte v, t;
end:	do
	:: atomic { !rup ->
		rup = 1; fresh = 0; rt = 0; rw = 0; rsees = 0
#ifdef NOJOURNAL
		; next = 0
#endif
	   }
	/* A token that it has not seen. */
	:: atomic { rup && link && sup && rsees != start ->
		rsees = start; rtok = 1; ackv = 0; ackt = 0;
		ask()
	   }
	:: atomic { rup && rsees != 0 && (!link || !sup) ->
		rsees = 0;
		if :: cw == 1 -> cw = 2 :: else fi }
	/* A value. */
	:: atomic { rup && link && (ANY(m) || ANY(am)) ->
		if
		:: ANY(m) -> PICK(m)
		:: ANY(am) -> PICK(am)
		fi;
#ifdef ANYVERSION
		if :: true
#elif defined(NOFRESH)
		if :: v >= next
#else
		if :: v >= next || (v + 1 == next && !fresh)
#endif
			->
#ifdef SETFIRST
			assert(v >= copy); copy = v; cw = 1;
#else
			next = v + 1;
#endif
			me = 1
		:: else -> me = 0
		fi }
		/* Killed here, the successor takes that version, and none before it. */
		atomic {
			if
			:: rup && me == 1 ->
#ifdef SETFIRST
				next = v + 1;
#else
				assert(v >= copy); copy = v; cw = 1;
#endif
				fresh = 1
			:: else
			fi;
			if :: rup -> hear() :: else fi;
			me = 0; v = 0; t = 0 }
	/* The word that it has it. */
	:: atomic { rup && link && ANY(ab) ->
		PICK(ab);
		hear(); v = 0; t = 0 }
	:: atomic { rup && link && (ANY(at) || at[0] != 0) ->
		if
		:: at[0] != 0 -> v = 0; t = 1; at[0] = 0
		:: ANY(at) -> PICK(at)
		fi;
		hear();
		if
		:: v < next && fresh -> ack[next - 1] = ack[next - 1] | BIT(rt)
		:: else -> ask()
		fi;
		v = 0; t = 0 }
	od
}

/* When nothing else is possible: a second has passed. */
active proctype Clock() {
	do
	:: timeout ->
		if
#if !defined(NOAT)
#ifdef ATONCE
		:: LACKS && reminded == 0
#else
		:: LACKS
#endif
			-> atomic { reminded++; assert(reminded < 12); at[put] = at[put] | BIT(turn) }
#endif
		:: else -> break
		fi
	od;
	assert(copy == ver);
	assert(cw == wr)
}

active proctype Faults() {
	byte ds, dr, c, l, rm;
end:	do
	:: atomic { ds < DS && sup -> ds++; sup = 0 }
	:: atomic { dr < DR && rup ->
		dr++; rup = 0; rtok = 0;
		if :: cw == 1 -> cw = 2 :: else fi }
	:: atomic { c < C -> c++; link = 0; nothing_under_way() };
		atomic { rtok = 0; rsees = 0;
			if :: cw == 1 -> cw = 2 :: else fi };
		link = 1
	:: atomic { rm < RM && next > 0 && rup && !me -> rm++; copy = 0; fresh = 0; cw = 0;
		/* Its gateway opens it anew when it looks. */
		ask() }
	:: atomic { l < L && ANY(m) -> l++;
		if :: m[1] = 0 :: m[2] = 0 :: m[N] = 0 fi }
	:: atomic { l < L && ANY(at) -> l++; at[1] = 0; at[2] = 0; at[N] = 0 }
	:: atomic { l < L && (ANY(am) || ANY(ab)) -> l++;
		am[1] = 0; am[2] = 0; am[N] = 0; ab[1] = 0; ab[2] = 0; ab[N] = 0 }
	:: atomic { l < L && ANY(ack) -> l++; ack[1] = 0; ack[2] = 0; ack[N] = 0 }
	:: atomic { l < L && q != 0 -> l++; q = 0 }
	/* No more of them; single losses go on. */
	:: atomic { ds < DS || dr < DR || c < C || rm < RM -> ds = DS; dr = DR; c = C; rm = RM }
	od
}
