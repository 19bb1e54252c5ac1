/* run.pml - spans in a row become one large object (a run), are taken, freed and taken apart, while
 * threads stop and die.
 *
 *   word[i]   {use: FREE, taking(t), run(f): part of the run that begins at f; generation}: every
 *             change is a compare-exchange from the exact word that was seen; taking begins the
 *             next generation
 *   size[i]    how many spans the run has that begins at i; written by the thread that has all of
 *              them as taking(me)
 *   tag[i]    the thread that has the object of the run that begins at i: 0 or t. Tags have a place
 *             of their own, whatever the spans are for
 *
 * take      run(i) of my length: tag 0 -> me, then word and length are looked at again, and *then
 *           the tag*: still mine?
 *           Else let go, by compare-exchange
 * gather    free spans in a row: each FREE -> taking(me), all or none; len, tag[first] = me (a
 *           plain store: no thread owns the tag while the span says taking(me); a thread with a
 *           stale reference may have put its name there); words -> run(first), the last one first,
 *           the first one last
 * reclaim   take; head: run(i) -> taking(me); pages away; the others: run(i) -> FREE; tag me -> 0;
 *           head -> FREE
 * repair    by any thread, whenever it meets one: taking(dead), and run(f) where f does not begin a
 *           run, or one that is too short to reach here, unless f says taking(living): ->
 *           taking(me), pages away, -> FREE; tag of a dead thread -> 0
 *
 * A thread may be slow for any time between any two steps, die there (D), or stop there for ever
 * (S: its token lives).
 * Checked: no span's bytes have two owners, none is punched while a thread has it; when all has
 * come to rest, one repair leaves nothing lost but what a stopped thread has in its hand, and each
 * run has all of its spans.
 * Switches: -DNSP=spans -DNT=threads -DROUNDS=operations of each -DD=deaths -DS=stops
 * Mutations, each must be caught:
 *   NOTAG      the second look does not ask whether the tag is still ours
 *   NOVERIFY   there is no second look at all
 *   NOLIFE     a word is its use only
 *   TAGLATE    gather sets the tag after the words
 *   HEADFIRST  gather makes the first span a run first
 *   HEADLAST   reclaim frees the other spans before the head changes
 *   PUNCHLATE  reclaim gives the pages back after the spans are free
 *   NOREREAD   repair does not look at the head again after it has seen its taker dead
 *   FREEFIRST  repair gives the pages back after the span is free
 *   SHORT      repair does not ask how long the run is that a span names
 */
#ifndef NSP
#define NSP 3
#endif
#ifndef NT
#define NT 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif
#ifndef D
#define D 1
#endif
#ifndef S
#define S 0
#endif
#define FREE 0
#define TAKING(t) (1+(t))
#define RUN(f) (8+(f))
#define IST(w) (USE(w)>0 && USE(w)<8)
#define ISR(w) (USE(w)>=8)
#define WORD(u,l) ((l)*16+(u))
#define USE(w) ((w)%16)
#define LIFE(w) ((w)/16)
#ifdef NOLIFE
#define SAME(a,b) (USE(a)==USE(b))
#else
#define SAME(a,b) ((a)==(b))
#endif

byte word[NSP], size[NSP], tag[NSP];
byte mem[NSP];                  /* ghost: the thread that has these bytes, t + 1 */
bool dead[NT+1], stopped[NT+1], done[NT];

/* ok: the object of the run that begins at i, seen as w with n spans, is ours */
inline take(i) {
	atomic { if :: tag[i]==0 -> tag[i]=me+1; ok=1 :: else -> ok=0 fi };
#ifndef NOVERIFY
	if
	:: ok ->
		w2=word[i];
		atomic { if :: USE(w2)!=RUN(i) || size[i]!=n -> ok=0 :: else fi };
#ifndef NOTAG
		if :: ok -> atomic { if :: tag[i]!=me+1 -> ok=0 :: else fi } :: else fi;
#endif
		if :: !ok -> atomic { if :: tag[i]==me+1 -> tag[i]=0 :: else fi } :: else fi
	:: else
	fi
#endif
}
/* the bytes are ours; then free */
inline use(i) {
	d_step { j=0; do :: j<n -> assert(mem[i+j]==0); mem[i+j]=me+1; j++ :: else -> break od; j=0 };
	d_step { do :: j<n -> if :: mem[i+j]==me+1 -> mem[i+j]=0 :: else fi; j++ :: else -> break od; j=0 };
	atomic { if :: tag[i]==me+1 -> tag[i]=0 :: else assert(false) fi }
}
/* span i, seen as w: taken, its pages away, then free; ok: it is */
inline free_lost(i) {
#ifdef FREEFIRST
	atomic { if :: SAME(word[i],w) -> word[i]=WORD(FREE,LIFE(word[i])); ok=1 :: else -> ok=0 fi };
	if :: ok -> assert(mem[i]==0) :: else fi
#else
	atomic { if :: SAME(word[i],w) -> word[i]=WORD(TAKING(me),LIFE(word[i])+1); w=word[i]; ok=1 :: else -> ok=0 fi };
	if
	:: ok ->
		assert(mem[i]==0);                      /* punch */
		atomic { if :: SAME(word[i],w) -> word[i]=WORD(FREE,LIFE(word[i])) :: else -> ok=0 fi }
	:: else
	fi
#endif
}
/* at span i, what no thread owns is free from now on */
inline repair(i) {
	w=word[i];
	if
	:: IST(w) && dead[USE(w)-1] -> free_lost(i)
	:: ISR(w) && USE(w)!=RUN(i) ->
		w2=word[USE(w)-8];
		if
		:: USE(w2)==USE(w) ->
			/* length and word of one generation: the head's word is read again after the length */
#ifdef SHORT
			ok=0;
#else
			n=size[USE(w)-8];
			atomic { ok=(SAME(word[USE(w)-8],w2) && i>=USE(w)-8+n); n=0 };
#endif
		:: IST(w2) ->
			ok=dead[USE(w2)-1];
#ifndef NOREREAD
			/* until it died it may have gone on, and made the run */
			atomic { if :: ok && !SAME(word[USE(w)-8],w2) -> ok=0 :: else fi }
#endif
		:: else -> ok=1
		fi;
		if
		:: ok -> free_lost(i)
		:: else
		fi
	:: USE(w)==RUN(i) ->
		n=tag[i];
		if :: n>0 && dead[n-1] -> atomic { if :: tag[i]==n -> tag[i]=0 :: else fi } :: else fi
	:: else
	fi;
	atomic { w=0; w2=0; n=0; ok=0 }
}
inline alloc(want) {
	i=0;
	do
	:: i<NSP ->
		w=word[i];
		if
		:: USE(w)==RUN(i) && size[i]==want ->
			n=want;
			take(i);
			if :: ok -> use(i); goto next :: else fi
		:: else
		fi;
		i++
	:: else -> break
	od;
	/* gather: all seen free before one is taken */
	i=0; k=0;
	do
	:: i<NSP && k<want ->
		w=word[i];
		if
		:: USE(w)==FREE -> k++
		:: IST(w) && dead[USE(w)-1] -> free_lost(i); if :: ok -> k++ :: else -> k=0 fi
		:: else -> k=0
		fi;
		i++
	:: else -> break
	od;
	if
	:: k==want ->
		i=i-want; k=0;
		do
		:: k<want ->
			w=word[i+k];
			if
			:: USE(w)!=FREE -> break
			:: else -> atomic { if :: SAME(word[i+k],w) -> word[i+k]=WORD(TAKING(me),LIFE(word[i+k])+1); k++ :: else -> break fi }
			fi
		:: else -> break
		od;
		if
		:: k==want ->
			n=want;
			size[i]=want;
#ifdef HEADFIRST
			tag[i]=me+1;
			k=0;
			do
			:: k<want -> atomic { word[i+k]=WORD(RUN(i),LIFE(word[i+k])); k++ }
			:: else -> break
			od;
#else
#ifndef TAGLATE
			tag[i]=me+1;
#endif
			do
			:: k>0 -> atomic { k--; if :: USE(word[i+k])==TAKING(me) -> word[i+k]=WORD(RUN(i),LIFE(word[i+k])) :: else fi }
			:: else -> break
			od;
#ifdef TAGLATE
			tag[i]=me+1;
#endif
#endif
			use(i)
		:: else ->
			do
			:: k>0 -> atomic { k--;
if :: USE(word[i+k])==TAKING(me) -> word[i+k]=WORD(FREE,LIFE(word[i+k])) :: else fi }
			:: else -> break
			od
		fi
	:: else
	fi
}
inline punch(i) {
	d_step { j=0; do :: j<n -> assert(mem[i+j]==0); j++ :: else -> break od; j=0 }
}
inline dissolve(i) {
	w=word[i];
	if
	:: USE(w)==RUN(i) && tag[i]==0 ->
		n=size[i];
		take(i);
		if
		:: ok ->
			n=size[i];
#ifdef HEADLAST
			k=1;
			do
			:: k<n -> atomic { if :: USE(word[i+k])==RUN(i) -> word[i+k]=WORD(FREE,LIFE(word[i+k])) :: else fi; k++ }
			:: else -> break
			od;
#endif
			atomic { if :: SAME(word[i],w) -> word[i]=WORD(TAKING(me),LIFE(word[i])+1); w=word[i] :: else -> ok=0 fi };
			if
			:: ok ->
#ifndef PUNCHLATE
				punch(i);
#endif
				k=n;
				do
				:: k>1 -> atomic { k--; if :: USE(word[i+k])==RUN(i) -> word[i+k]=WORD(FREE,LIFE(word[i+k])) :: else fi }
				:: else -> break
				od;
#ifdef PUNCHLATE
				punch(i);
#endif
			:: else
			fi;
			atomic { if :: tag[i]==me+1 -> tag[i]=0 :: else fi };
			if
			:: ok -> atomic { if :: SAME(word[i],w) -> word[i]=WORD(FREE,LIFE(word[i])) :: else fi }
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

proctype T(byte me) {
	byte w, w2, i, j, k, n, rounds;
	bool ok;
	{
		skip;
next:		atomic { w=0; w2=0; i=0; j=0; k=0; n=0; ok=0 };
		do
		:: rounds<ROUNDS ->
			rounds++;
			if
			:: alloc(1)
			:: alloc(2)
			:: dissolve(0)
			:: dissolve(1)
			:: i=0; do :: i<NSP -> repair(i); i++ :: else -> break od
			fi;
			goto next
		:: else -> break
		od
	} unless { dead[me] || stopped[me] };
	atomic { w=0; w2=0; i=0; j=0; k=0; n=0; ok=0; rounds=0; done[me]=1 }
}

active proctype K() {
	byte d, s, i, me=NT, w, w2, n;
	bool ok;
	atomic { for (i : 0 .. NT-1) { run T(i) }; i=0 };
	do
	:: d<D -> atomic { i=0; do :: i+1<NT -> i++ :: break od; if :: !dead[i] && !stopped[i] && !done[i] -> dead[i]=1; d++ :: else fi;
		me=i; for (i : 0 .. NSP-1) { if :: mem[i]==me+1 -> mem[i]=0 :: else fi }; i=0 }
	:: s<S -> atomic { i=0; do :: i+1<NT -> i++ :: break od; if :: !dead[i] && !stopped[i] && !done[i] -> stopped[i]=1; s++ :: else fi; i=0 }
	:: break
	od;
	timeout -> atomic {
		for (i : 0 .. NSP-1) { repair(i) };
		/* a head that was repaired just now may have had others behind it */
		for (i : 0 .. NSP-1) { repair(i) };
		for (i : 0 .. NSP-1) {
			w=word[i];
			if
			:: IST(w) -> assert(stopped[USE(w)-1])
			:: USE(w)==RUN(i) ->
				assert(tag[i]==0 || stopped[tag[i]-1]);
				for (n : 1 .. NSP-1) { assert(n>=size[i] || USE(word[i+n])==RUN(i)) }
			:: ISR(w) && USE(w)!=RUN(i) ->
				w2=word[USE(w)-8];
				assert((USE(w2)==USE(w) && i<USE(w)-8+size[USE(w)-8]) || (IST(w2) && stopped[USE(w2)-1]))
			:: else
			fi
		}
	}
}
