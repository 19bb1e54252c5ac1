/* span.pml - one span of a pool goes from class to class while threads allocate from it, extend it, take it apart and die.
 *
 *   word     {use: FREE, class A (two objects), class B (one, over both), taking(t); life}: every change is a compare-exchange
 *            from the exact word that was seen; taking begins the next life
 *   front    {life, shut, count}: how many objects exist in that life
 *   tag[i]   0, or who has object i. Tags have a place of their own, whatever the span is for
 *
 * alloc     word FREE -> taking -> front (life, 0) -> class                             (prepare)
 *           word is my class: front of that life, not shut, not all -> one more         (extend)
 *           an object that exists by word and front, of my class: tag 0 -> me, then word and front are looked at again: still
 *           there and as large -> mine; else tag me -> 0                                (take)
 * dissolve  word, front of that life; all tags 0 (a mere look); take all objects; shut the front; word -> taking; pages away;
 *           tags me -> 0; word -> FREE
 * collect   by anybody: taking(dead) -> FREE; tag of a dead one -> 0
 *
 * A thread may be stopped for any time between any two steps, or die there. Checked: memory is never two owners', has pages,
 * and is not punched while somebody has it; an object in use is of the class that its owner asked for.
 * Switches: -DNT=threads -DROUNDS=operations of each -DD=deaths
 *   STOP       One thread may stop for ever. The others come to their ends, and then the span and
 *              its objects are free, or the stopped thread's, or a dead thread's, which any thread
 *              collects.
 * Mutations, each must be caught:
 *   NOLIFE     a word is its use only: one who was stopped takes a later life apart
 *   NOFRONT    the front's life is not looked at: one who was stopped extends a later life, or sees objects of another
 *   NOVERIFY   no second look after the tag
 *   NOCLASS    the look for a free object forgets that the class may have changed since it chose the span
 *   NOSHUT     dissolve does not shut the front: an object is made behind its back
 */
#ifndef NT
#define NT 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef D
#define D 1
#endif
#define FREE 0
#define A 1
#define B 2
#define TAKING(t) (3+(t))
#define COUNT(c) (3-(c))        /* A: 2, B: 1 */
#define WORD(u,l) ((l)*16+(u))
#define USE(w) ((w)%16)
#define LIFE(w) ((w)/16)
#ifdef NOLIFE
#define SAME(a,b) (USE(a)==USE(b))
#else
#define SAME(a,b) ((a)==(b))
#endif
#define FRONT(l,s,n) ((l)*16+(s)*8+(n))
#define FLIFE(f) ((f)/16)
#define SHUT(f) (((f)/8)%2)
#define N(f) ((f)%8)
#ifdef NOFRONT
#define OF(f,w) true
#define FSAME(a,b) ((a)%16==(b)%16)
#else
#define OF(f,w) (FLIFE(f)==LIFE(w))
#define FSAME(a,b) ((a)==(b))
#endif

byte word, front, tag[2];
bool dead[NT];
byte deaths;
#ifdef STOP
bool stopped[NT], stop=1;
#endif
byte mem[2];                    /* ghost: who has these bytes, t + 1 */
bool page[2];                   /* they have pages */

/* the object i as seen now, of which class; 0 when there is none */
inline object(i, c) {
	w2=word;
	f2=front;
	if
	:: (USE(w2)==A || USE(w2)==B) && OF(f2,w2) && i<N(f2) && i<COUNT(USE(w2)) -> c=USE(w2)
	:: else -> c=0
	fi
}
/* c: the class that the object was seen to have; ok: it is ours and still of that class */
inline take(i, c) {
	atomic { if :: tag[i]==0 -> tag[i]=me+1; ok=1 :: else -> ok=0 fi };
	if
	:: ok ->
#ifndef NOVERIFY
		object(i, c2);
		if
		:: c2!=c -> atomic { ok=0; if :: tag[i]==me+1 -> tag[i]=0 :: else fi }
		:: else
		fi
#endif
	:: else
	fi
}
inline alloc(want) {
	w=word;
	if
	:: USE(w)==FREE ->
		atomic { if :: SAME(word,w) -> word=WORD(TAKING(me), LIFE(word)+1); w=word; ok=1 :: else -> ok=0 fi };
		if
		:: ok -> front=FRONT(LIFE(w),0,0); atomic { if :: SAME(word,w) -> word=WORD(want, LIFE(word)) :: else fi }
		:: else
		fi
	:: USE(w)>=3 && dead[USE(w)-3] -> atomic { if :: SAME(word,w) -> word=WORD(FREE, LIFE(word)) :: else fi }
	:: USE(w)==want ->
		f=front;
		if
		:: OF(f,w) && !SHUT(f) && N(f)<COUNT(want) ->
			/* pages first; punched before the next step, the front says so */
			atomic { if :: want==A -> page[N(f)]=1 :: else -> page[0]=1; page[1]=1 fi };
			atomic { if :: FSAME(front,f) -> front=front+1 :: else fi }
		:: else
		fi;
		i=0;
		do
		:: i<2 && i<COUNT(want) ->
			object(i, c1);
#ifndef NOCLASS
			if :: c1!=want -> break :: else fi;
#else
			if :: c1==0 -> break :: else fi;
#endif
			take(i, c1);
			if
			:: ok ->
				/* the bytes are ours, as many as we asked for */
				atomic {
					assert(USE(word)==want);
					if
					:: want==A -> assert(mem[i]==0 && page[i]); mem[i]=me+1
					:: else -> assert(mem[0]==0 && mem[1]==0 && page[0] && page[1]); mem[0]=me+1; mem[1]=me+1
					fi
				};
				atomic {
					if :: mem[0]==me+1 -> mem[0]=0 :: else fi;
					if :: mem[1]==me+1 -> mem[1]=0 :: else fi
				};
				atomic { assert(tag[i]==me+1); tag[i]=0 };
				break
			:: else -> i++
			fi
		:: else -> break
		od
	:: else
	fi
}
inline dissolve() {
	w=word;
	f=front;
	if
	:: (USE(w)==A || USE(w)==B) && OF(f,w) ->
		n=N(f);
		if :: n>COUNT(USE(w)) -> n=COUNT(USE(w)) :: else fi;
		i=0;
		do
		:: i<n ->
			object(i, c1);
			if :: c1==0 -> break :: else fi;
			take(i, c1);
			if :: ok -> i++ :: else -> break fi
		:: else -> break
		od;
		ok=(i==n);
#ifndef NOSHUT
		if
		:: ok -> atomic { if :: FSAME(front,f) -> front=FRONT(FLIFE(front),1,N(f)) :: else -> ok=0 fi }
		:: else
		fi;
#endif
		if
		:: ok -> atomic { if :: SAME(word,w) -> word=WORD(TAKING(me), LIFE(word)+1); w=word :: else -> ok=0 fi }
		:: else
		fi;
		if
		:: ok -> atomic { assert(mem[0]==0 && mem[1]==0); page[0]=0; page[1]=0 }     /* punch */
		:: else
		fi;
		do
		:: i>0 -> i--; atomic { if :: tag[i]==me+1 -> tag[i]=0 :: else fi }
		:: else -> break
		od;
		if
		:: ok -> atomic { if :: SAME(word,w) -> word=WORD(FREE, LIFE(word)) :: else fi }
		:: else
		fi
	:: else
	fi
}
inline collect() {
	i=0;
	do
	:: i<2 ->
		c1=tag[i];
		if
		:: c1!=0 && dead[c1-1] -> atomic { if :: tag[i]==c1 -> tag[i]=0 :: else fi }
		:: else
		fi;
		i++
	:: else -> break
	od
}

proctype T(byte me) {
	byte w, f, w2, f2, i, n, c1, c2, rounds;
	bool ok;
	{
		do
		:: rounds<ROUNDS ->
			rounds++;
			if
			:: alloc(A)
			:: alloc(B)
			:: dissolve()
#if D>0
			:: deaths>0 -> collect()
#endif
			fi;
			atomic { w=0; f=0; w2=0; f2=0; i=0; n=0; c1=0; c2=0; ok=0 }
		:: else -> break
		od
#ifdef STOP
	} unless { (dead[me] || stopped[me]) };
#else
	} unless { dead[me] };
#endif
	atomic { w=0; f=0; w2=0; f2=0; i=0; n=0; c1=0; c2=0; ok=0 }
}

active proctype K() {
	byte i;
	atomic { for (i : 0 .. NT-1) { run T(i) }; i=0 };
	do
	:: deaths<D -> atomic { i=0; do :: i+1<NT -> i++ :: break od; if :: !dead[i] -> dead[i]=1; deaths++ :: else fi;
		if :: mem[0]==i+1 -> mem[0]=0 :: else fi; if :: mem[1]==i+1 -> mem[1]=0 :: else fi; i=0 }
#ifdef STOP
	:: atomic { stop -> stop=0; i=0; do :: i+1<NT -> i++ :: break od; if :: !dead[i] -> stopped[i]=1 :: else fi; i=0 }
#endif
	:: break
	od
#ifdef STOP
	;
	timeout -> atomic {
		assert(USE(word)<3 || dead[USE(word)-3] || stopped[USE(word)-3]);
		for (i : 0 .. 1) { assert(tag[i]==0 || dead[tag[i]-1] || stopped[tag[i]-1]) } }
#endif
}
