/* head.pml - shared lists of free objects, each behind a head that a thread locks to take from it;
 * death between any two steps.
 *
 *   tag[o]    0 free, else the thread that has it: the tag alone decides
 *   link[o]   OFF: in no list; else the next object + 1, or 0 at the end: in a list, or about to be
 *   head      the first object + 1, or 0, and beside it in the same word the thread that has locked
 *             it
 *
 * push   of objects that are mine: 1. those that are OFF: link o1 -> o2 -> ... (the others stay
 *        where they are)
 *        (of those: tag := 0, then its link again: OFF now, a thread popped it and then could not
 *        take its tag: take it, and push it after all)
 *        2. each tag := 0
 *        3. head unlocked, or locked by a dead thread: last link := first; compare-exchange head ->
 *           o1
 *        locked by a living thread: each link := OFF, and they are in no list
 * pop    1. head unlocked, or locked by a dead thread: compare-exchange -> locked by me, the list
 *           as it was
 *        2. follow K links   3. head := what comes next, unlocked
 *        4. each: link := OFF, then compare-exchange tag 0 -> me
 * look   compare-exchange tag 0 -> me of any object
 * collect  tag of a dead thread := 0, by compare-exchange
 *
 * Checked: an object is in the list once; a thread that writes a link may do so (OFF and the tag is
 * its own, or it is about to push the object, or it has popped it); what is popped is in the list;
 * when all is quiet after the runs, each object's tag is 0 and, if no thread died, gave up or
 * raised the epoch, each is in the list.
 * Switches: -DP=threads -DR=rounds -DD=deaths
 *   STOP         One thread may stop for ever, also with a head locked, and be killed then. The
 *                others come to their ends. What is neither free nor collected is the stopped
 *                thread's, and so is a head that stays locked.
 * Mutations, each must be caught:
 *   NOLOCK       pop by compare-exchange of the head from o to link[o], unlocked: the next object
 *                may be a stale one
 *   OFFFIRST     link := OFF before the head has left the object
 *   STORETAKE    a dead thread's lock is taken over by a store
 *   NOMARK       push does not ask whether the object is in a list already
 *   NOLOOK       nor whether it was popped since
 *   TAGFIRST     tags := 0 before the links
 *   WAITLOCK     (STOP) push waits for a living thread to unlock the head
 *   LASTLATE     the last link is written after the head
 */
#ifndef P
#define P 2
#endif
#ifndef R
#define R 2
#endif
#ifndef D
#define D 1
#endif
#define N 3
#define K 2
#define OFF 9
#define NONE 15
byte tag[N], link[N];
byte head, lock;		/* one word: every step on both is atomic */
bool dead[P+1], killed[P+1];	/* by id, from 1 */
bool in[N], by[N];		/* ghosts: in the list; about to be pushed by byw */
byte byw[N];
bool disturbed;			/* somebody died, or gave a push up */
byte budget;
bool fin[P+1];
#ifdef STOP
bool stopped[P+1], stop=1;
#define DONE(i) (fin[i] || stopped[i])
#if P > 2
#define ALL (DONE(1) && DONE(2) && DONE(3))
#else
#define ALL (DONE(1) && DONE(2))
#endif
#elif P > 2
#define ALL (fin[1] && fin[2] && fin[3])
#else
#define ALL (fin[1] && fin[2])
#endif

#define NEXT(x) (link[x]==OFF -> 0 : link[x])

/* x is in a list, and stays there; popped meanwhile by a thread that could not take its tag: it is
 * mine again, and in no list */
#ifdef NOLOOK
#define marked(x) tag[x]=0; x=NONE
#else
#define marked(x) tag[x]=0; if :: link[x]==OFF -> atomic { if :: tag[x]==0 -> tag[x]=me :: else -> x=NONE fi } :: else -> x=NONE fi
#endif

proctype T(byte me) {
	byte h, n, a, b, c, r, i; bool ok;
	{
		do
		:: r<R ->
			atomic { a=NONE; b=NONE };
			if
			:: true ->	/* pop */
#ifdef NOLOCK
				atomic { h=head };
				if
				:: h!=0 ->
					n=NEXT(h-1);
					atomic { if :: head==h -> head=n; assert(in[h-1]); in[h-1]=0; a=h-1 :: else fi }
				:: else
				fi
#else
				atomic { h=head; c=lock; ok=0 };
				if
				:: c==0 || dead[c] ->
#ifdef STORETAKE
					if
					:: c!=0 -> lock=me; ok=1
					:: else -> atomic { if :: head==h && lock==c -> lock=me; ok=1 :: else fi }
					fi;
#else
					atomic { if :: head==h && lock==c -> lock=me; ok=1 :: else fi };
#endif
					if
					:: ok && h!=0 ->
						atomic { a=h-1; n=NEXT(a) };
						if
						:: n!=0 -> atomic { b=n-1; n=NEXT(b) }
						:: else
						fi;
#ifdef OFFFIRST
						link[a]=OFF;
#endif
						atomic { assert(lock==me); head=n; lock=0; assert(in[a]); in[a]=0;
							if :: b!=NONE -> assert(in[b]); in[b]=0 :: else fi }
					:: ok && h==0 -> atomic { assert(lock==me); lock=0 }
					:: else
					fi
				:: else
				fi;
#endif
				if
				:: a!=NONE ->
#ifndef OFFFIRST
					atomic { assert(!in[a]); link[a]=OFF };
#endif
					atomic { if :: tag[a]==0 -> tag[a]=me :: else -> a=NONE fi }
				:: else
				fi;
				if
				:: b!=NONE ->
					atomic { assert(!in[b]); link[b]=OFF };
					atomic { if :: tag[b]==0 -> tag[b]=me :: else -> b=NONE fi }
				:: else
				fi
			:: true ->	/* look */
				i=0;
				do
				:: i<N && a==NONE -> atomic { if :: tag[i]==0 -> tag[i]=me; a=i :: else fi; i++ }
				:: else -> break
				od
			fi;
			atomic { h=0; n=0; c=0; i=0; ok=0 };
			/* push what I have */
			if :: a==NONE && b!=NONE -> a=b; b=NONE :: else fi;
			if
			:: a!=NONE ->
#ifdef TAGFIRST
				tag[a]=0; if :: b!=NONE -> tag[b]=0 :: else fi;
#endif
#ifndef NOMARK
				do
				:: b!=NONE && link[b]!=OFF -> marked(b)
				:: else -> break
				od;
				do
				:: a!=NONE && link[a]!=OFF -> marked(a)
				:: else -> break
				od;
				if :: a==NONE -> a=b; b=NONE :: else fi;
#endif
				if
				:: a!=NONE ->
					c=(b!=NONE -> b : a);		/* the last */
					atomic { assert(!in[a] && !by[a]); by[a]=1; byw[a]=me; link[a]=(b!=NONE -> b+1 : 0) };
					if
					:: b!=NONE -> atomic { assert(!in[b] && !by[b]); by[b]=1; byw[b]=me; link[b]=0 }
					:: else
					fi;
#ifndef TAGFIRST
					tag[a]=0; if :: b!=NONE -> tag[b]=0 :: else fi;
#endif
					do
					:: atomic { h=head; n=lock };
						if
						:: n==0 || dead[n] ->
#ifndef LASTLATE
							atomic { assert(by[c] && byw[c]==me && !in[c]); link[c]=h };
#endif
							atomic { if :: head==h && lock==n -> head=a+1; lock=0; ok=1;
									in[a]=1; by[a]=0; if :: b!=NONE -> in[b]=1; by[b]=0 :: else fi
								:: else fi };
#ifdef LASTLATE
							if :: ok -> link[c]=h :: else fi;
#endif
							if :: ok -> break :: else fi
						:: else ->
							/* locked by a living one: given up */
#ifdef WAITLOCK
							(lock!=n);
#endif
							atomic { assert(by[a] && byw[a]==me); by[a]=0; link[a]=OFF; disturbed=1 };
							if :: b!=NONE -> atomic { assert(by[b] && byw[b]==me); by[b]=0; link[b]=OFF } :: else fi;
							break
						fi
					od
				:: else
				fi
			:: else
			fi;
			atomic { h=0; n=0; c=0; ok=0; a=0; b=0; r++ }
		:: else -> break
		od;
		atomic { r=0; fin[me]=1 }
end_idle:	(false)
#ifdef STOP
	} unless { (killed[me] || stopped[me]) && !fin[me];
		disturbed=1;
end_stop:	killed[me];
#else
	} unless { killed[me] && !fin[me];
#endif
		atomic { dead[me]=1; disturbed=1; fin[me]=1; h=0; n=0; a=0; b=0; c=0; r=0; i=0; ok=0;
			i=0; do :: i<N -> if :: by[i] && byw[i]==me -> by[i]=0 :: else fi; i++ :: else -> break od; i=0 }
	}
}

active proctype others() {
	byte i, n;
	atomic {
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
		fi;
		/* all are in the list */
		link[0]=2; link[1]=3; link[2]=0; in[0]=1; in[1]=1; in[2]=1; head=1;
		i=1; do :: i<=P -> run T(i); i++ :: else -> break od; i=0 };
	do
	:: atomic { budget>0 && !fin[1] && !killed[1] -> killed[1]=1; budget-- }
	:: atomic { budget>0 && !fin[2] && !killed[2] -> killed[2]=1; budget-- }
#if P > 2
	:: atomic { budget>0 && !fin[3] && !killed[3] -> killed[3]=1; budget-- }
#endif
	/* collect, at any time */
	:: atomic { tag[0]!=0 && dead[tag[0]] -> tag[0]=0 }
	:: atomic { tag[1]!=0 && dead[tag[1]] -> tag[1]=0 }
	:: atomic { tag[2]!=0 && dead[tag[2]] -> tag[2]=0 }
#ifdef STOP
	:: atomic { stop && !fin[1] && !killed[1] -> stopped[1]=1; stop=0 }
	:: atomic { stop && !fin[2] && !killed[2] -> stopped[2]=1; stop=0 }
#endif
	:: ALL -> break
	od;
#ifdef STOP
	atomic {
		disturbed=1;
		i=0; do :: i<N -> if :: tag[i]!=0 && dead[tag[i]] -> tag[i]=0 :: else fi; assert(tag[i]==0 || stopped[tag[i]]); i++ :: else -> break od;
		assert(lock==0 || dead[lock] || stopped[lock]);
		i=0; n=head;
		do :: n!=0 -> assert(in[n-1] && link[n-1]!=OFF); i++; assert(i<=N); n=link[n-1] :: else -> break od;
		n=in[0]+in[1]+in[2]; assert(i==n); i=0; n=0 }
#else
	/* all is quiet: collect, and look at what is left */
	atomic {
		i=0; do :: i<N -> if :: tag[i]!=0 && dead[tag[i]] -> tag[i]=0 :: else fi; assert(tag[i]==0); i++ :: else -> break od;
		assert(lock==0 || dead[lock]);
		i=0; n=head;
		do :: n!=0 -> assert(in[n-1] && link[n-1]!=OFF); i++; assert(i<=N); n=link[n-1] :: else -> break od;
		assert(disturbed || i==N);
		n=in[0]+in[1]+in[2]; assert(i==n); i=0; n=0 }
#endif
}
