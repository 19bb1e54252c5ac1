/* topic_reliable.pml - a publisher that waits for the slowest reliable subscriber; death of
 * subscribers between any two steps.
 *
 *   published ready[i]   as in topic.pml; slot i = p mod K
 *   cp[l] cs[l]          subscriber slot l's claim, one word: its owner, and JOINING, RELIABLE,
 *                        LAGGING or LEAVING; 0: free
 *   cursor[l]            the next message that it has not taken
 *   sl seq               the eventcount `space`: sleepers (odd: the publisher may sleep), sequence
 *   awaited              the subscriber slot whose taking the publisher is notified of, by number +
 *                        1; 0: every slot's
 *   limit                private to the publisher: up to which position no subscriber needs to be
 *                        asked
 *
 * publish  p < limit: ready := 0; ready := p + 1; published := p + 1
 *          else look: of each subscriber that is RELIABLE and whose owner is not dead: its cursor;
 *          limit := min(lowest, p) + K.
 *          (FEW) It notes the slowest, and rest := min(the lowest of the others, p) + K. While
 *          p < rest, a look looks at the noted slot alone, and limit := min(its cursor, p) + K, and
 *          rest at most.
 *          Still p >= limit: awaited := the slowest one's slot; s := seq; sl := a new odd number
 *          (heavy fence); look again; another is the slowest now: again; sleep on {seq is s, the
 *          end of the slowest one's owner}; look; again
 * give up  the oldest message q that is in place and not the last, if q < limit - K: ready := 0
 * join     slot 0 or dead's -> (me, JOINING); cursor := published; claim := (me, RELIABLE)
 * take     published; ready is cursor + 1: taken; cursor += 1; notify
 * notify   sl odd, and awaited this slot or 0 (a leaving one does not ask): seq += 1; wake;
 *          compare-exchange sl -> + 1
 * leave    claim := (me, LEAVING); notify; claim := 0
 * mark     (MARK) the publisher has waited for as long as it may: compare-exchange of the slowest
 *          one's claim, (its owner, RELIABLE) -> (its owner, LAGGING); look; again
 * return   (MARK) a subscriber that has moved its cursor finds itself LAGGING: claim := (me,
 *          RELIABLE). What is published after that is promised to it again
 *
 * Subscriber 1 is reliable from the start, 2 joins at any time, takes L messages at most and
 * leaves. A dead process's end (over, see topic.pml) comes at once here: it matters for hazard
 * pointers only.
 *
 * Checked: no message that was published after a reliable subscriber had joined is overwritten or
 * given up before that subscriber has taken it or is dead; and the publisher does not sleep for
 * ever while no living reliable subscriber has anything left to take (an invalid end state).
 * Switches: -DK=slots -DM=messages -DL=takes of 2 -DD=deaths -DTIMEOUT (the publisher may give up
 * waiting) -DGIVEUP -DHISTORY (2 begins at published - K)
 *   -DALONE (no subscriber 1)
 *   STOP         The publisher or a subscriber may stop for ever, and a subscriber may be killed
 *                then. A publisher that waits makes the recheck. It may stay asleep only beside a
 *                stopped subscriber that is RELIABLE and whose cursor is in the way. A subscriber
 *                that is stopped while it joins or leaves, or has moved its cursor and not notified
 *                yet, delays no process. Beside a stopped publisher a subscriber has taken all that
 *                is there.
 *   MARK         The publisher marks a subscriber that it has waited for; then it waits for no
 *                process for ever: beside a stopped subscriber, too, it publishes all.
 * Mutations, each must be caught:
 *   MARKANY      (MARK) mark by a plain store, whichever claim is in the slot by then
 *   MARKONE      (MARK) mark without another look: another subscriber is in the way, too
 *   RETURNALL    (MARK) return: promised from the subscriber's cursor on
 *   CLEARFIRST   notify: sl is made even before the wake
 *   BAREBIT      sl is 0 or 1
 *   SEQLATE      the sleeper reads seq after it has taken its number
 *   NOLOOK       the sleeper does not look again
 *   NOWATCH      the sleeper watches no subscriber's end
 *   NAMEOLD      it sleeps though another is the slowest by now
 *   NAMELATE     it names the slowest after its second look
 *   ANYLINE      it watches some reliable subscriber that is not the slowest
 *   RINGFIRST    take: the notification before the cursor
 *   LIMITALL     limit := lowest + K; without reliable subscribers there is none
 *   CURSORLATE   join: the claim says RELIABLE before the cursor is written
 *   STALECLAIM   join: a slot that is taken over keeps the dead one's mark, and its cursor
 *   LEAVESILENT  leave: the publisher is not notified
 *   NOTIMER      (STOP) the publisher makes no recheck
 *   STOPJOIN     (STOP) the publisher waits for a subscriber that is still joining, too
 *   RESTALL      (FEW) without others that are reliable there is no rest: always the noted slot alone
 *   RESTLOW      (FEW) limit: not bounded by rest
 *   SKIPONE      take: what was lost is passed over, and one more
 *   GIVEANY      give up: also if a reliable subscriber has not taken it
 */
#ifndef K
#define K 1
#endif
#ifndef M
#define M 3
#endif
#ifndef L
#define L 2
#endif
#ifndef D
#define D 1
#endif
#define JOINING 1
#define RELIABLE 2
#define LEAVING 3
#define LAGGING 4
#define NONE 99

byte published, ready[K];
byte cp[2], cs[2], cursor[2];
byte awaited;
bool sl, seq;				/* sl is odd; seq is no more what the sleeper has read */
byte num[3];				/* what a notifier has read from sl: 0 even, 1 the number that is there, 2 an older one */
bool inq, woken;
bool dead[3], killed[3], fin[3];
bool relying[3];			/* ghosts: has joined; since; the next that it has not taken */
byte base[3], next[3];
byte budget;
#ifdef STOP
bool stopped[3], stop=1;
#define INWAY(l) (cs[l]==RELIABLE && !dead[cp[l]] && stopped[cp[l]] && cursor[l]+K<=published)
#ifdef STOPJOIN
#define COUNTS(l) (cs[l]==RELIABLE || cs[l]==JOINING)
#else
#define COUNTS(l) (cs[l]==RELIABLE)
#endif
#endif

inline wake() { d_step { if :: inq -> inq=0; woken=1 :: else fi } }

#define CLEAR atomic { if :: num[me]==1 -> sl=0 :: else fi }

inline ring(whose) {
	num[me]=sl;
	if
	:: num[me] && !(whose==0 || awaited==0 || awaited==whose) -> num[me]=0
	:: num[me] && (whose==0 || awaited==0 || awaited==whose) ->
#ifdef CLEARFIRST
		CLEAR;
#endif
		seq=1;
		wake();
#ifdef BAREBIT
		sl=0;
#elif !defined(CLEARFIRST)
		CLEAR;
#endif
		num[me]=0
	:: !num[me]
	fi
}

inline number() {
	d_step { sl=1; if :: num[1] -> num[1]=2 :: else fi; if :: num[2] -> num[2]=2 :: else fi }
}

/* limit, and whose end to watch */
inline look() {
#ifdef FEW
	atomic { low=NONE; slow=0; line=0; l=0; few=(p<rest);
		if :: !few -> rest=NONE; noted=0 :: else fi };
#else
	atomic { low=NONE; slow=0; line=0; l=0 };
#endif
	do
#ifdef FEW
	:: l<2 && few && noted!=l+1 -> l++
	:: l<2 && !(few && noted!=l+1) ->
#else
	:: l<2 ->
#endif
#ifdef STOP
		w=(COUNTS(l) -> cp[l] : 0);
#else
		w=(cs[l]==RELIABLE -> cp[l] : 0);
#endif
		if
		:: w!=0 && !dead[w] ->
			atomic { c=cursor[l];
#ifdef ANYLINE
				if :: slow==0 || c>=low -> slow=w; line=l+1 :: else fi;
				if :: c<low -> low=c :: else fi;
#else
#ifdef FEW
				if
				:: c<low -> if :: !few -> rest=low; noted=l+1 :: else fi; low=c; slow=w; line=l+1
				:: c>=low -> if :: !few && c<rest -> rest=c :: else fi
				fi;
#else
				if :: c<low -> low=c; slow=w; line=l+1 :: else fi;
#endif
#endif
				c=0 }
		:: else
		fi;
		atomic { w=0; l++ }
	:: else -> break
	od;
	atomic {
		l=0;
#ifdef FEW
		if
#ifdef RESTALL
		:: !few -> rest=(rest==NONE -> NONE : rest+K)
#else
		:: !few -> rest=(rest<p -> rest : p)+K
#endif
		:: else
		fi;
#ifdef RESTLOW
		limit=(low<p -> low : p)+K;
#else
		limit=(low<p -> low : p)+K; if :: limit>rest -> limit=rest :: else fi;
#endif
		few=0;
#elif defined(LIMITALL)
		limit=(low==NONE -> NONE : low+K);
#else
		limit=(low<p -> low : p)+K;
#endif
		low=0 }
}

/* message q is overwritten, or given up */
inline gone(q) {
	assert(!(relying[1] && !dead[1] && (q)>=base[1] && (q)>=next[1]));
	assert(!(relying[2] && !dead[2] && (q)>=base[2] && (q)>=next[2]))
}

proctype Pub() {
	byte p, limit, low, slow, line, l, w, c, q;
#ifdef FEW
	byte rest, noted; bool few;
#endif
	bool timedout;
#ifdef STOP
	{
#endif
	do
	:: p<M ->
#ifdef GIVEUP
		if
		:: p>1 ->
			atomic { q=(p>K -> p-K : 0); do :: q+1<p && ready[q%K]!=q+1 -> q++ :: else -> break od;
				if
#ifdef GIVEANY
				:: q+1<p -> gone(q); ready[q%K]=0
#else
				:: q+1<p && q+K<limit -> gone(q); ready[q%K]=0
#endif
				:: else fi; q=0 }
		:: true
		fi;
#endif
		if
		:: p>=limit ->
			look();
			do
			:: p>=limit ->
#ifndef NAMELATE
				awaited=line;
#endif
#ifdef SEQLATE
				number();
				seq=0;
#else
				seq=0;
				number();
#endif
#ifndef NOLOOK
				look();
#endif
#ifdef NAMELATE
				awaited=line;
#endif
				if
				:: p<limit -> break
#ifndef NAMEOLD
				:: p>=limit && line!=awaited -> skip
				:: p>=limit && line==awaited ->
#else
				:: p>=limit ->
#endif
#ifdef NOWATCH
					slow=0;
#endif
#ifdef MARK
					/* max_blocking has passed, or has not */
					if
					:: atomic {
						skip;	/* so that no option hides an `else` */
#ifdef MARKANY
						if :: cp[line-1]==slow && cs[line-1]==RELIABLE -> relying[slow]=0; base[slow]=0; next[slow]=0 :: else fi;
						cs[line-1]=LAGGING
#else
						if :: cp[line-1]==slow && cs[line-1]==RELIABLE ->
							cs[line-1]=LAGGING; relying[slow]=0; base[slow]=0; next[slow]=0
						:: else fi
#endif
						};
#ifdef MARKONE
						limit=p+K
#endif
					:: true
					fi;
#endif
					atomic { if :: !seq && !dead[slow] -> inq=1 :: else fi };
					if
					:: inq || woken ->
#ifdef TIMEOUT
						atomic { if :: woken || dead[slow] :: timedout=1 fi; inq=0; woken=0 }
#elif defined(MARK)
						atomic { inq=0; woken=0 }	/* a wake, or the time has passed */
#elif defined(STOP)
#ifdef NOTIMER
end_p:						atomic { (woken || dead[slow]) -> inq=0; woken=0 }
#else
end_p:						atomic { (woken || dead[slow] || cp[line-1]!=slow || !COUNTS(line-1) || cursor[line-1]+K>p) -> inq=0; woken=0 }
#endif
#else
						atomic { (woken || dead[slow]) -> inq=0; woken=0 }
#endif
					:: else
					fi;
#ifdef MARKONE
					if :: p>=limit -> look() :: else fi;
#else
					look();
#endif
					if :: timedout -> break :: else fi
				fi
			:: else -> break
			od;
			atomic { slow=0; line=0 }
		:: else
		fi;
		if
		:: p<limit ->
			atomic { if :: p>=K && ready[p%K]==p-K+1 -> gone(p-K) :: else fi; ready[p%K]=0 };
			atomic { ready[p%K]=p+1; p++; published=p }
		:: else -> break	/* the deadline has passed: this one publishes no more */
		fi
	:: else -> break
	od;
	atomic { fin[0]=1; p=0; limit=0; timedout=0 }
#ifdef STOP
	} unless { stopped[0] && !fin[0];
		atomic { inq=0; woken=0; p=0; limit=0; low=0; slow=0; line=0; l=0; w=0; c=0; q=0; timedout=0 } }
#endif
}

proctype Sub(byte me) {
	byte cur, v, l, r; bool got;
	{
		if
		:: me==2 ->
			do
			:: l<2 && !got ->
				atomic {
					if
					:: cp[l]==0 || dead[cp[l]] -> cp[l]=me; got=1;
#ifndef STALECLAIM
						cs[l]=JOINING
#endif
					:: else
					fi };
				if :: !got -> l++ :: else fi
			:: else -> break
			od;
			if
			:: got ->
#ifdef CURSORLATE
				atomic { cs[l]=RELIABLE; relying[me]=1; base[me]=published; next[me]=base[me] };
#endif
				cur=published;
#ifdef HISTORY
				cur=(cur>K -> cur-K : 0);
#endif
				cursor[l]=cur;
#ifdef CURSORLATE
				next[me]=cur
#else
				atomic { cs[l]=RELIABLE; relying[me]=1; base[me]=published; next[me]=cur }
#endif
			:: else
			fi
		:: else -> atomic { l=0; got=1 }
		fi;
		do
		:: got && r<L ->
			/* asleep at `notifications`, see event_count.md, until something is there. Two looks in
			 * one step: see topic.pml */
#ifdef STOP
end_sub:
#endif
			atomic { (ready[cur%K]==cur+1 || published>cur || fin[0]);
				v=ready[cur%K];
				if
				:: v==cur+1 -> cur++; next[me]=cur; v=1
				:: v!=cur+1 && published>cur ->	/* lost: it was there before we joined */
					v=cur+1; cur=(published>K -> published-K : 0);
#ifdef SKIPONE
					cur++;
#endif
					if :: cur<v -> cur=v :: else fi;
					assert(!relying[me] || cur<=base[me]); next[me]=cur; v=1
				:: else -> v=0
				fi };
			if :: !v -> break :: else fi;
			if
			:: v ->
#ifdef RINGFIRST
				ring(l+1);
				cursor[l]=cur;
#else
				cursor[l]=cur;
				ring(l+1);
#endif
#ifdef MARK
				atomic { if :: cs[l]==LAGGING -> cs[l]=RELIABLE; relying[me]=1; next[me]=cur;
#ifdef RETURNALL
						base[me]=cur
#else
						base[me]=published
#endif
					:: else fi }
#endif
			:: else
			fi;
			atomic { v=0; if :: me==2 -> r++ :: else fi }
		:: else -> break
		od;
		if
		:: got ->
			atomic { assert(cp[l]==me); cs[l]=LEAVING; relying[me]=0; base[me]=0; next[me]=0 };
#ifndef LEAVESILENT
			ring(0);
#endif
			atomic { cp[l]=0; cs[l]=0 }
		:: else
		fi;
		atomic { fin[me]=1; cur=0; v=0; l=0; r=0; got=0 };
end_idle:	(false)
#ifdef STOP
	} unless { (killed[me] || stopped[me]) && !fin[me];
end_stop:	killed[me];
#else
	} unless { killed[me] && !fin[me];
#endif
		atomic { dead[me]=1; fin[me]=1; relying[me]=0; base[me]=0; next[me]=0; cur=0; v=0; l=0; r=0; got=0; num[me]=0 } }
}

active proctype killer() {
	atomic {
		cp[0]=1; cs[0]=RELIABLE; relying[1]=1;
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
#if D > 1
		:: budget=D-2
#endif
		fi;
#ifdef ALONE
		cp[0]=0; cs[0]=0; relying[1]=0; fin[1]=1;
#else
		run Sub(1);
#endif
		run Pub(); run Sub(2) };
end_k:	do
	:: atomic { budget>0 && !fin[1] && !killed[1] -> killed[1]=1; budget-- }
	:: atomic { budget>0 && !fin[2] && !killed[2] -> killed[2]=1; budget-- }
#ifdef STOP
	:: atomic { stop && !fin[0] -> stopped[0]=1; stop=0 }
	:: atomic { stop && !fin[1] && !killed[1] -> stopped[1]=1; stop=0 }
	:: atomic { stop && !fin[2] && !killed[2] -> stopped[2]=1; stop=0 }
	:: stop -> stop=0
	:: budget==0 && !stop -> break
	od;
	timeout;
#ifdef MARK
	assert(fin[0] || stopped[0]);
#endif
	assert(!inq || INWAY(0) || INWAY(1))
#else
	:: budget==0 -> break
	od
#endif
}
