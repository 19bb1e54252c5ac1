/* gateway.pml - a stream of doc/protocols/gateway.md: one publisher's messages 0 to N-1 through a
 * sender, links that lose what is under way, and receivers; both gateways killed at any step.
 *
 *   published oldest     the publisher's ring of K slots: messages oldest to published-1 are
 *                      there
 *   pend                 the publisher has died, or left
 *   sup                  the sender: 0 none, 1 its keeper has joined, 2 its reader too, 3 its
 *                      token is there
 *   kc rc aq[r]          sender: keeper's cursor, reader's, and where its answer to r is (+1; 0
 *                      none)
 *   tok hold acked [r]   sender: it sees r's token; the keeper holds messages for r; r's last ack
 *   rsees fresh [r]      r sees the sender's token; a new start's has not been seen yet
 *   link[r]              there is one. What is under way, in any order: msg, a bit for each
 *                      number; at; e (`ended`); q (a query); ack; each + 1. An answer's parts
 *                      come in order: am, its messages; af, which of them say that nothing older
 *                      is there; al and ae, its list at the end
 *   next lost done [r]   the journal's entry: the number to publish next, the stream has ended;
 *                      and how many were told as lost
 *   itag iw lap [r]      the intent: the number + 1 that it is for; what its place in the local
 *                      ring has (0 nothing, 1 that message, 2 a stranger's), how many came there
 *                      since
 *   ahead known floor endk want asked noroom [r]  private to a receiver: messages that wait; how
 *                      far the stream is known to go; the lowest number that the ring may still
 *                      have; `ended` has come; since it asked, a message had no room
 *
 * publish  a full ring: while a keeper is there, its cursor > oldest; oldest += 1; published += 1
 * sender   the keeper joins at oldest; the reader joins at published; the token. It holds for all
 *        receivers
 *   put    msg to all that have a link; the reader's cursor
 *   pass   the keeper's cursor moves over n when each receiver that it holds for has acknowledged
 *        n
 *   hold   from the sender's start, or from when r's token is seen, until a lease after it is
 *        gone
 *   answer to a query from n: it notes how far the reader is; then each message of the ring, the
 *        first and each that does not follow with "nothing older"; then the list {the noted
 *        number; whether the stream has ended}
 *   ended  when the reader has put the last one
 *   at     when nothing has come for a second and a receiver with a token lacks something (the
 *        process Clock: when no other step is possible)
 * receiver next: the intent's fields; its tag; publish; next + 1. Less: dropped. More: it waits
 *        ahead
 *   jump   below "nothing older", and below a list's number (unless a message had no room): to
 *        the lowest that waits ahead, or to that number. What it jumps over is told as lost, then
 *        next moves
 *   ask    after the sender's token has appeared; when a number that is known to be there is
 *        missing; when the publisher's token is missing and `ended` has not come; when an answer
 *        came without its list
 *   ack    after next has moved, and after each `at`
 *   end    at `ended`'s number
 *   start  the intent is for next: found: next + 1; overwritten since: uncertain
 * A gateway that is stopped is one that is slow, with or without its link cut: no switch of its
 * own.
 *
 * Checked: each local subscriber gets the numbers in order, none twice but one that is told as
 * uncertain, and what it does not get has been counted as lost before. While rings hold (a
 * publisher overwrites nothing that a receiver lacks while no sender is there, and no receiver is
 * away for longer than a lease), nothing is lost. When everything has come to rest, all is
 * published, received or counted (twice only after a death between telling and moving), and the
 * end is told.
 * Switches: -DN=messages -DK=slots -DNR=receivers -DAH=messages that wait ahead
 *   -DDS=deaths of the sender -DDR=deaths of receivers -DC=cuts -DL=single losses -DSG=a
 *              stranger's messages
 *   -DLONG=absences of receivers for more than a lease
 *   -DLIVES      the publisher does not end
 *   -DFREE       the ring does not hold: the publisher goes on while no sender is there
 *   -DBEST       not reliable: the publisher never waits
 *   -DTAKE       the ring's next publisher overwrites all
 *   -DLATE       a receiver that was killed may still publish until it has exited
 * Mutations, each must be caught:
 *   NOINTENT     no intent
 *   NEXTFIRST    next + 1 before publishing
 *   TAGFIRST     the intent's tag before its fields
 *   GUESS        the intent's message was overwritten since: it is taken as published
 *   NOEXIT       (LATE) the successor does not wait until its predecessor has exited
 *   JUMPFIRST    next moves before the loss is told
 *   GAPJUMP      jump to what waits ahead, without "nothing older"
 *   LISTLATE     the list's number is noted when the ring has been read
 *   LISTANY      a list's number counts although a message had no room
 *   LISTLOST     (L) a message of an answer may be lost alone
 *   PASSPUT      the keeper passes what was put
 *   PASSGONE     the keeper holds for receivers with a token only: not for a lease more
 *   PASSSTART    the keeper does not hold before it has seen tokens
 *   KEEPNEW      a successor's keeper joins at published
 *   ONEACK       (NR=2) the keeper passes what one receiver has acknowledged
 *   ACKAHEAD     an ack counts what waits ahead
 *   SAMEKEY      (ATOWN) a successor's token has the same key: it is not seen to come while its
 *              predecessor's is there
 *   NORESUME     (ATOWN) no query when the token appears
 *   NOAT         no `at`
 *   ATOWN        a sender sends `at` only after a put of its own
 *   READLATE     (ATOWN) the reader joins after the token
 *   ATQUIET      an `at` that says nothing new makes no ack
 *   BEGINLIST    a stream of which nothing has been published begins at its first list's number
 *   FIRSTONLY    a list's number says nothing of what is left: only messages do
 *   ENDONCE      an answer does not say that the stream has ended
 *   NOTOKEN      a missing publisher's token makes no query
 *   EARLYEND     the stream ends when `ended` comes
 *   FORGET       the entry of a stream that has ended is forgotten
 */
#ifndef N
#define N 3
#endif
#ifndef K
#define K 2
#endif
#ifndef NR
#define NR 1
#endif
#ifndef AH
#define AH 1
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
#ifndef SG
#define SG 0
#endif
#ifndef LONG
#define LONG 0
#endif
#ifndef KL
#define KL 2		/* slots of the local ring */
#endif
#ifndef TRIES
#define TRIES (3+L)	/* queries, and `at`s, without any progress between them: more is a livelock */
#endif
#define HAS(s,n) (((s)>>(n))&1)
#define BIT(n) (1<<(n))

byte published, oldest, sup, kc, rc;
bool pend, put1, excused;
byte aq[NR], acked[NR];
bool tok[NR], hold[NR], link[NR]=1;
byte msg[NR], am[NR], af[NR], al[NR], at[NR], q[NR], ack[NR], an[NR];
bool ae[NR], e[NR], fresh[NR], follows[NR], whole[NR], noroom[NR];
byte next[NR], lost[NR], itag[NR], iw[NR], lap[NR];
bool done[NR];
byte up[NR], rpc[NR], ahead[NR], known[NR], floor[NR];
bool endk[NR], want[NR], asked[NR], toack[NR], rsees[NR], late[NR];
byte told[NR], missed[NR], doubt[NR];	/* ghosts: the subscriber's next number; what it did not get; told as uncertain, + 1 */
byte tries[NR], atries;
byte ds=DS, dr=DR, cuts=C, loss=L, sg=SG, lng=LONG;
byte jump[NR], twice[NR];		/* where it jumps to; ghost: told twice, after a death */

#define WAITSAHEAD(r) (HAS(ahead[r],0)+HAS(ahead[r],1)+HAS(ahead[r],2)+HAS(ahead[r],3))
#define PROGRESS { tries[r]=0; atries=0 }
#define FORGETWIRES { msg[r]=0; am[r]=0; af[r]=0; al[r]=0; ae[r]=0; an[r]=0; follows[r]=0; at[r]=0; e[r]=0; q[r]=0; aq[r]=0 }
#define ENDSEEN (pend && sup==3 && rc==published)

#define LACKS(r) (tok[r] && acked[r]<published)
#ifdef LIVES
#define PUBDONE (published==N)
#elif defined(TAKE)
#define PUBDONE (pend && oldest==N)
#else
#define PUBDONE pend
#endif
#define ANSWERED (q[r]==0 && aq[r]==0 && am[r]==0 && al[r]==0)
#ifdef NOEXIT
#define EXITED true
#else
#define EXITED (!late[r])
#endif
#ifdef NOTOKEN
#define NOPUBLISHER false
#else
#define NOPUBLISHER (!endk[r] && ENDSEEN)
#endif
#ifdef EARLYEND
#define ATEND true
#else
#define ATEND (next[r]==N)
#endif
#ifdef ATOWN
#define OWN put1
#else
#define OWN true
#endif
#if NR > 1
#define ANYLACKS (LACKS(0) || LACKS(1))
#else
#define ANYLACKS LACKS(0)
#endif

/* some receiver has not published the oldest message, and has not counted it as lost */
#if NR > 1
#define LACKED (next[0]<=oldest || next[1]<=oldest)
#ifdef ONEACK
#define PASSED (KEEP(0) || KEEP(1))
#else
#define PASSED (KEEP(0) && KEEP(1))
#endif
#else
#define LACKED (next[0]<=oldest)
#define PASSED (KEEP(0))
#endif
#define KEEP(r) (!hold[r] || acked[r]>kc)

#ifdef BEST
#define MAYWRITE true
#elif defined(FREE)
#define MAYWRITE (sup==0 || kc>oldest)
#else
#define MAYWRITE ((sup==0 && !LACKED) || (sup>0 && kc>oldest))
#endif

active proctype Pub() {
	do
	:: d_step { published<N && published-oldest<K -> published++; tries[0]=0;
#if NR > 1
		tries[1]=0
#endif
		}
	:: d_step { published<N && published-oldest==K && MAYWRITE ->
#if defined(BEST) || defined(FREE)
		if :: LACKED -> excused=1 :: else fi;
#endif
		oldest++ }
#ifndef LIVES
	:: d_step { published==N && !pend -> pend=1 }
#endif
#ifdef TAKE
	:: d_step { pend && oldest<N && MAYWRITE ->
#if defined(BEST) || defined(FREE)
		if :: LACKED -> excused=1 :: else fi;
#endif
		oldest++ }
#endif
	:: PUBDONE -> break
	od;
end_p:	(false)
}

/* the token of each start is another one */
#ifdef SAMEKEY
#define TOKENS skip
#elif NR > 1
#define TOKENS fresh[0]=1; fresh[1]=1
#else
#define TOKENS fresh[0]=1
#endif

active proctype Sender() {
	byte r, n;
end_s:	do
	:: d_step { sup==0 -> sup=1; put1=0; r=0;
#ifdef KEEPNEW
		kc=published;
#else
		kc=oldest;
#endif
		do :: r<NR ->
#ifndef PASSSTART
			hold[r]=1;
#endif
			PROGRESS; r++ :: else -> break od; r=0 }
#ifdef READLATE
	:: d_step { sup==1 -> rc=published+1; sup=3; TOKENS }
	:: d_step { sup==3 && rc>published -> rc=published }
#else
	:: d_step { sup==1 -> rc=published; sup=2 }
	:: d_step { sup==2 -> sup=3; TOKENS }
#endif
	/* put */
	:: d_step { sup>=2 && rc<published ->
		if
		:: rc<oldest -> rc=oldest
		:: else ->
			r=0; put1=1;
			do :: r<NR -> if :: link[r] && up[r]==2 -> msg[r]=msg[r]|BIT(rc) :: else fi; r++ :: else -> break od;
			r=0; rc++;
			if :: pend && rc==published ->
				do :: r<NR -> if :: link[r] && up[r]==2 -> e[r]=1 :: else fi; r++ :: else -> break od; r=0
			:: else fi
		fi }
	/* pass */
#ifdef PASSPUT
	:: d_step { sup>=2 && kc<rc -> kc++ }
#else
	:: d_step { sup>=1 && kc<published && (PASSED || kc<oldest) -> kc++ }
#endif
	od
}

/* the sender's part for receiver r */
proctype Serve(byte r) {
end_s:	do
	/* r's token appears, vanishes, has been gone for a lease */
	:: d_step { sup==3 && link[r] && up[r]==2 && !tok[r] -> tok[r]=1; hold[r]=1 }
	:: d_step { tok[r] && (!link[r] || up[r]!=2) -> tok[r]=0;
#ifdef PASSGONE
		hold[r]=0
#endif
		}
	:: d_step { sup==3 && lng>0 && hold[r] && !tok[r] -> lng--; hold[r]=0; excused=1 }
	:: d_step { sup>0 && ack[r]>0 -> if :: ack[r]-1>acked[r] -> acked[r]=ack[r]-1; atries=0 :: else fi; ack[r]=0 }
	/* answer */
	:: d_step { sup==3 && q[r]>0 && aq[r]==0 && link[r] ->
		aq[r]=q[r]; q[r]=0; follows[r]=0;
		an[r]=(rc<=published -> rc : published)+1;
		if :: aq[r]-1>acked[r] -> acked[r]=aq[r]-1 :: else fi }
	:: d_step { aq[r]>0 && aq[r]-1<oldest && oldest<published -> aq[r]=oldest+1; follows[r]=0 }
	:: d_step { aq[r]>0 && aq[r]-1>=oldest && aq[r]-1<published ->
		am[r]=am[r]|BIT(aq[r]-1);
		if :: !follows[r] -> af[r]=af[r]|BIT(aq[r]-1) :: else fi;
		follows[r]=1; aq[r]++ }
#ifdef LISTLATE
	:: d_step { aq[r]>0 && aq[r]<90 && (aq[r]-1>=published || oldest==published) -> aq[r]=90 }
	:: d_step { aq[r]==90 -> an[r]=rc+1;
#else
	:: d_step { aq[r]>0 && (aq[r]-1>=published || oldest==published) ->
#endif
		al[r]=an[r];
#ifndef ENDONCE
		ae[r]=ENDSEEN;
#endif
		an[r]=0; follows[r]=0; aq[r]=0 }
	od
}

#ifdef FORGET
#define OPENANEW(n) if :: n==0 && done[r] -> done[r]=0; endk[r]=0; next[r]=0; ahead[r]=1 :: else fi
#else
#define OPENANEW(n) skip
#endif

#define TAKE1(n) \
		if \
		:: done[r] || n<next[r] -> OPENANEW(n) \
		:: !(done[r] || n<next[r]) -> \
			if :: known[r]<n+1 -> known[r]=n+1 :: else fi; \
			if :: n==next[r] || WAITSAHEAD(r)<AH -> ahead[r]=ahead[r]|BIT(n) \
			:: else -> noroom[r]=1 fi \
		fi
#define TAKEMSG(n) d_step { n<N && up[r]==2 && rpc[r]==0 && HAS(msg[r],n) -> msg[r]=msg[r]&~BIT(n); TAKE1(n) }
#define TAKEANS(n) d_step { n<N && up[r]==2 && rpc[r]==0 && HAS(am[r],n) && (am[r]&(BIT(n)-1))==0 -> \
		am[r]=am[r]&~BIT(n); \
		if :: HAS(af[r],n) -> af[r]=af[r]&~BIT(n); if :: n>floor[r] -> floor[r]=n :: else fi :: else fi; TAKE1(n) }

#define DELIVER(n) \
	assert(n>=told[r] || (doubt[r]==n+1 && n+1==told[r])); \
	if :: n>=told[r] -> missed[r]=missed[r]+(n-told[r]); told[r]=n+1 :: else fi; \
	assert(missed[r]<=lost[r]); \
	assert(missed[r]==0 || excused)

proctype Receiver(byte r) {
	byte n;
end_r:	do
	/* it starts */
	:: d_step { up[r]==0 && EXITED -> up[r]=1 }
	:: d_step { up[r]==1 -> up[r]=2; PROGRESS;
		if
		:: itag[r]!=next[r]+1 || iw[r]==0
#ifdef GUESS
		:: itag[r]==next[r]+1 && iw[r]!=0 && lap[r]>=KL -> next[r]++
#else
		:: itag[r]==next[r]+1 && iw[r]!=0 && lap[r]>=KL -> doubt[r]=next[r]+1
#endif
		:: itag[r]==next[r]+1 && iw[r]==1 && lap[r]<KL -> next[r]++
		:: itag[r]==next[r]+1 && iw[r]==2 && lap[r]<KL
		fi }
	/* the sender's token, and the publisher's */
	:: d_step { up[r]==2 && link[r] && sup==3 && (!rsees[r] || fresh[r]) -> rsees[r]=1; fresh[r]=0;
#ifndef NORESUME
		want[r]=1
#endif
		}
	:: d_step { rsees[r] && (!link[r] || sup!=3) -> rsees[r]=0 }
	/* what comes */
	:: TAKEMSG(0)
	:: TAKEMSG(1)
	:: TAKEMSG(2)
	:: TAKEMSG(3)
	:: TAKEANS(0)
	:: TAKEANS(1)
	:: TAKEANS(2)
	:: TAKEANS(3)
	:: d_step { up[r]==2 && rpc[r]==0 && al[r]>0 && am[r]==0 ->
#ifdef BEGINLIST
		if :: itag[r]==0 && lost[r]==0 -> next[r]=al[r]-1; ahead[r]=ahead[r]&~(BIT(next[r])-1) :: else fi;
#endif
#ifndef FIRSTONLY
#ifdef LISTANY
		if :: al[r]-1>floor[r] -> floor[r]=al[r]-1 :: else fi;
#else
		if :: al[r]-1>floor[r] && !noroom[r] -> floor[r]=al[r]-1 :: else fi;
#endif
#endif
		if :: ae[r] -> endk[r]=1; known[r]=N :: else fi;
		whole[r]=1; al[r]=0; ae[r]=0 }
	:: d_step { up[r]==2 && rpc[r]==0 && at[r]>0 ->
		if :: at[r]-1>known[r] -> known[r]=at[r]-1 :: else fi;
#ifndef ATQUIET
		toack[r]=1;
#endif
		tries[r]=0; at[r]=0 }
	:: d_step { up[r]==2 && rpc[r]==0 && e[r] -> e[r]=0; endk[r]=1; known[r]=N }
	/* publish */
	:: d_step { up[r]==2 && rpc[r]==0 && HAS(ahead[r],next[r]) && !done[r] ->
#ifdef NEXTFIRST
		n=next[r]; next[r]++;
#endif
#ifdef TAGFIRST
		itag[r]=next[r]+1;
#elif !defined(NOINTENT)
		iw[r]=0; lap[r]=0;
#endif
		rpc[r]=1 }
	:: d_step { rpc[r]==1 ->
#ifdef TAGFIRST
		iw[r]=0; lap[r]=0;
#elif !defined(NOINTENT)
		itag[r]=next[r]+1;
#endif
		rpc[r]=2 }
	:: d_step { rpc[r]==2 -> iw[r]=1;
#ifdef NEXTFIRST
		DELIVER(n);
#else
		DELIVER(next[r]);
#endif
		rpc[r]=3 }
	:: d_step { late[r] -> iw[r]=1; DELIVER(next[r]); late[r]=0 }
	:: d_step { late[r] -> late[r]=0 }
	:: d_step { rpc[r]==3 ->
#ifdef NEXTFIRST
		ahead[r]=ahead[r]&~BIT(n); n=0;
#else
		ahead[r]=ahead[r]&~BIT(next[r]); next[r]++;
#endif
		rpc[r]=0; toack[r]=1; PROGRESS }
	/* jump */
#ifdef GAPJUMP
	:: d_step { up[r]==2 && rpc[r]==0 && !done[r] && !HAS(ahead[r],next[r]) && (floor[r]>next[r] || WAITSAHEAD(r)==AH) ->
		if :: floor[r]<=next[r] -> floor[r]=N :: else fi;
#else
	:: d_step { up[r]==2 && rpc[r]==0 && !done[r] && !HAS(ahead[r],next[r]) && floor[r]>next[r] ->
#endif
		n=next[r];
		do :: n<floor[r] && !HAS(ahead[r],n) -> n++ :: else -> break od;
		assert(excused);
		rpc[r]=4;
#ifdef JUMPFIRST
		jump[r]=n-next[r]; next[r]=n; n=0 }
	:: d_step { rpc[r]==4 -> lost[r]=lost[r]+jump[r]; jump[r]=0; rpc[r]=0; toack[r]=1; PROGRESS }
#else
		jump[r]=n; lost[r]=lost[r]+(n-next[r]); n=0 }
	:: d_step { rpc[r]==4 -> next[r]=jump[r]; jump[r]=0; rpc[r]=0; toack[r]=1; PROGRESS }
#endif
	/* ask */
	:: d_step { up[r]==2 && rpc[r]==0 && link[r] && rsees[r] && !asked[r] && !done[r] && tries[r]<TRIES &&
		!HAS(ahead[r],next[r]) && floor[r]<=next[r] && (want[r] || known[r]>next[r] || NOPUBLISHER) -> want[r]=0; asked[r]=1; whole[r]=0; noroom[r]=0; q[r]=next[r]+1; tries[r]++ }
	/* the query has ended, in whatever way */
	:: d_step { up[r]==2 && asked[r] && ANSWERED -> asked[r]=0;
		if :: !whole[r] -> want[r]=1 :: else fi;
		whole[r]=0 }
	:: d_step { up[r]==2 && rpc[r]==0 && toack[r] && link[r] && rsees[r] -> toack[r]=0;
#ifdef ACKAHEAD
		ack[r]=known[r]+1
#else
		ack[r]=next[r]+1
#endif
		}
	/* the end */
	:: d_step { up[r]==2 && rpc[r]==0 && endk[r] && !done[r] && ATEND -> assert(missed[r]+(N-told[r])<=lost[r]);
		done[r]=1; ahead[r]=0 }
	od
}

inline died(r) {
	up[r]=0; rpc[r]=0; ahead[r]=0; known[r]=0; floor[r]=0; endk[r]=0; want[r]=0; asked[r]=0; toack[r]=0; rsees[r]=0;
	jump[r]=0; whole[r]=0; noroom[r]=0;
	FORGETWIRES
}

/* deaths, cuts and losses of receiver r's side */
proctype Fate(byte r) {
end_f:	do
	:: d_step { dr>0 && up[r]>0 -> dr--;
#ifdef LATE
		late[r]=(rpc[r]==2);
#endif
#ifndef JUMPFIRST
		if :: rpc[r]==4 -> twice[r]=twice[r]+(jump[r]-next[r]) :: else fi;
#endif
		died(r) }
	/* a stranger has the local ring */
	:: d_step { sg>0 && up[r]<2 && !late[r] && itag[r]>0 -> sg--;
		if :: iw[r]==0 -> iw[r]=2 :: iw[r]!=0 && lap[r]<KL -> lap[r]++ :: else fi }
	:: d_step { cuts>0 && link[r] -> cuts--; link[r]=0; ack[r]=0; FORGETWIRES }
	:: d_step { !link[r] -> link[r]=1; PROGRESS }
	:: d_step { loss>0 && HAS(msg[r],0) -> loss--; msg[r]=msg[r]&~BIT(0) }
	:: d_step { loss>0 && HAS(msg[r],1) -> loss--; msg[r]=msg[r]&~BIT(1) }
	:: d_step { loss>0 && HAS(msg[r],2) -> loss--; msg[r]=msg[r]&~BIT(2) }
	:: d_step { loss>0 && HAS(msg[r],3) -> loss--; msg[r]=msg[r]&~BIT(3) }
#ifdef LISTLOST
	:: d_step { loss>0 && HAS(am[r],0) -> loss--; am[r]=am[r]&~BIT(0); af[r]=af[r]&~BIT(0) }
	:: d_step { loss>0 && HAS(am[r],1) -> loss--; am[r]=am[r]&~BIT(1); af[r]=af[r]&~BIT(1) }
#endif
	:: d_step { loss>0 && am[r]+al[r]>0 -> loss--; am[r]=0; af[r]=0; al[r]=0; ae[r]=0; an[r]=0; follows[r]=0; aq[r]=0 }
	:: d_step { loss>0 && at[r]>0 -> loss--; at[r]=0 }
	:: d_step { loss>0 && e[r] -> loss--; e[r]=0 }
	:: d_step { loss>0 && q[r]>0 -> loss--; q[r]=0 }
	:: d_step { loss>0 && ack[r]>0 -> loss--; ack[r]=0 }
	od
}


inline rest(r) {
	assert(next[r]==N && published==N);
	assert(missed[r]+(N-told[r])<=lost[r]);
	assert(lost[r]<=missed[r]+(N-told[r])+(doubt[r]>0)+twice[r]);
	assert(lost[r]==0 || excused);
#ifndef LIVES
	assert(done[r])
#endif
}

active proctype Clock() {
	byte r; bool over;
	atomic { run Serve(0); run Receiver(0); run Fate(0);
#if NR > 1
		run Serve(1); run Receiver(1); run Fate(1)
#endif
	};
end_c:	do
	/* the sender dies. What it has sent comes, or does not */
	:: d_step { ds>0 && sup>0 -> ds--; sup=0; kc=0; rc=0; put1=0; r=0;
		do :: r<NR -> aq[r]=0; an[r]=0; follows[r]=0; tok[r]=0; hold[r]=0; acked[r]=0; q[r]=0; r++ :: else -> break od; r=0 }
	:: d_step { ds>0 && sup>0 -> ds--; sup=0; kc=0; rc=0; put1=0; r=0;
		do :: r<NR -> tok[r]=0; hold[r]=0; acked[r]=0; FORGETWIRES; r++ :: else -> break od; r=0 }
	:: d_step { ds+dr+cuts+loss+sg+lng>0 -> ds=0; dr=0; cuts=0; loss=0; sg=0; lng=0 }
	:: timeout -> d_step {
		if
#ifndef NOAT
		:: sup==3 && atries<TRIES && OWN && ANYLACKS -> atries++; r=0;
			do :: r<NR -> if :: LACKS(r) && link[r] -> at[r]=published+1 :: else fi; r++ :: else -> break od; r=0
#endif
		:: else ->
			rest(0);
#if NR > 1
			rest(1);
#endif
			over=1
		fi };
		if :: over -> break :: else fi
	od
}
